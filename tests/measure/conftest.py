"""The real corpora, where there are any."""

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest


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
