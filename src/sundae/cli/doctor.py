"""`sundae doctor`."""

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from dataclasses import dataclass

import sundae
from sundae.machine import Finding, guard_cpu, probe_bfloat16


@dataclass(frozen=True)
class Command:
    """Say what this machine and installation can do, and what they cannot."""

    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print to standard output; a finding that is not fine is a limit, not a failure."""
        findings = examine()
        if self.json:
            content = {name: {"fine": f.fine, "reason": f.reason} for name, f in findings.items()}
            sys.stdout.write(json.dumps(content, indent=2) + "\n")
            return
        for name, finding in findings.items():
            sys.stdout.write(f"{'ok' if finding.fine else '--':<4}{name:<14}{finding.reason}\n")


def examine() -> dict[str, Finding]:
    """Everything that decides how sundae runs here."""
    guard = guard_cpu()  # before torch
    import torch

    cuda = torch.cuda.is_available()
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    return {
        "sundae": Finding(True, f"{sundae.__version__} on Python {platform.python_version()}, {platform.platform()}"),
        "torch": Finding(True, f"{torch.__version__}, {torch.get_num_threads()} threads"),
        "cpu": Finding(True, f"{torch.backends.cpu.get_cpu_capability()}, {os.cpu_count()} cores"),
        "cpu guard": guard,
        "bfloat16": probe_bfloat16(),
        "cuda": Finding(cuda, torch.cuda.get_device_name() if cuda else "no device: everything runs on the CPU"),
        "compile": Finding(
            compiler is not None,
            f"torch.compile can use {compiler}" if compiler else "torch.compile needs a C++ compiler, such as g++",
        ),
    } | {name: _installed(name) for name in ("numpy", "jaxtyping", "tyro", "rich")}


def _installed(package: str) -> Finding:
    try:
        return Finding(True, importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return Finding(False, "not installed")
