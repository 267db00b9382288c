"""Shapes of the heart are checked in every test; small real networks, and real corpora if any, serve them all."""

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

import sundae  # noqa: F401 - first, so that its CPU guard runs before torch is imported

# Before anything imports it: from here on a wrong shape or dtype in core/ is an error.
install_import_hook("sundae.core", "beartype.beartype")

import torch  # noqa: E402

from networks import build  # noqa: E402
from sundae.core.network import Transformer  # noqa: E402

# A busy machine is slow, not wrong; the same examples every time, so that a failure can be seen again.
settings.register_profile("sundae", deadline=None, derandomize=True)
settings.load_profile("sundae")
torch.set_num_threads(1)  # small tensors: a second thread waits more than it works


@pytest.fixture(scope="session")
def network() -> Transformer:
    return build()


@pytest.fixture(scope="session")
def translator() -> Transformer:
    return build(encoder_layers=2, source_positions=9, rotary=True)


@pytest.fixture(scope="session")
def real_data(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A corpus out of the folder that SUNDAE_DATA names, unpacked."""

    def get(name: str) -> Path:
        folder = os.environ.get("SUNDAE_DATA")
        if not folder:
            pytest.skip("SUNDAE_DATA does not name a folder of corpora")
        archive = Path(folder, f"{name}.tar.xz")
        if not archive.exists():
            pytest.skip(f"{archive} is not there")
        target = tmp_path_factory.getbasetemp() / "real"
        if not (target / name).exists():
            with tarfile.open(archive) as packed:
                packed.extractall(target, filter="data")
        return target / name

    return get
