"""What `import sundae` gives, and what it does not cost."""

import importlib
import importlib.metadata
import subprocess
import sys

import pytest

import sundae


def python(program: str) -> str:
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return child.stdout


def test_importing_sundae_imports_none_of_its_dependencies() -> None:
    heavy = ("torch", "numpy", "jaxtyping", "tyro", "rich")
    assert python(f"import sundae, sys; print([m for m in {heavy} if m in sys.modules])") == "[]\n"


def test_configurations_and_presets_need_the_standard_library_only() -> None:
    program = "import sundae, sys; sundae.preset('paper-c4-32'); sundae.RunConfig(); print('torch' in sys.modules)"
    assert python(program) == "False\n"


@pytest.mark.parametrize("name", [name for name in sundae.__all__ if name != "__version__"])
def test_every_public_name_is_the_one_of_its_module(name: str) -> None:
    value = getattr(sundae, name)
    assert getattr(importlib.import_module(value.__module__), name) is value
    assert value.__module__.startswith("sundae.")
    assert value.__doc__


def test_every_public_name_is_listed() -> None:
    assert dir(sundae) == sorted(sundae.__all__)
    assert len(set(sundae.__all__)) == len(sundae.__all__)


def test_a_name_that_does_not_exist_is_named() -> None:
    with pytest.raises(AttributeError, match=r"^module 'sundae' has no attribute 'Transformr'$"):
        _ = sundae.Transformr
    assert not hasattr(sundae, "transformer")


def test_the_version_is_the_installed_one() -> None:
    assert sundae.__version__ == importlib.metadata.version("sundae")
