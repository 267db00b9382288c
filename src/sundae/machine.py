"""What this machine can do, found out before torch is imported.

Some virtual machines advertise Intel AMX but do not grant it: oneDNN believes the flag, and the first bfloat16 matrix
product kills the process with SIGILL, without a Python error.  `guard_cpu` caps oneDNN in that case.
"""

import ctypes
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
ISA_WITHOUT_AMX = "AVX512_CORE_FP16"  # the next lower cap, AVX512_CORE_BF16, makes float16 many times slower
_AMX_LEAF = 29  # the CPUID leaf that describes AMX tiles: without it the flag alone is not to be trusted
_CPUINFO = Path("/proc/cpuinfo")

# Sizes from 32 x 32 up take the path that fails.
_BF16_PROBE = """
import sundae, torch
x = torch.ones(64, 64, dtype=torch.bfloat16)
assert float((x @ x)[0, 0]) == 64
y = x.view(1, 1, 64, 64)
assert torch.nn.functional.scaled_dot_product_attention(y, y, y).shape == y.shape
"""


@dataclass(frozen=True)
class Finding:
    """A fact about this machine: whether all is well, and why."""

    fine: bool
    reason: str


def advertises_broken_amx(cpuinfo: str) -> bool:
    """Whether the text of /proc/cpuinfo names AMX tiles, but a CPUID level that cannot describe them."""
    first = cpuinfo.split("\n\n", 1)[0]
    level = re.search(r"^cpuid level\s*:\s*(\d+)", first, re.MULTILINE)
    return bool(re.search(r"\bamx_tile\b", first)) and level is not None and int(level[1]) < _AMX_LEAF


def guard_cpu(cpuinfo: Path = _CPUINFO) -> Finding:
    """Cap oneDNN below AMX where AMX is advertised but broken; what the user has set stands."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as file:
            broken = advertises_broken_amx(file.read(16384))
    except OSError:
        return Finding(True, "no /proc/cpuinfo, nothing to guard against")
    if not broken:
        return Finding(True, "AMX is absent or described as it should be")
    if ISA_VARIABLE in os.environ:
        return Finding(True, f"AMX is advertised but not granted; {ISA_VARIABLE}={os.environ[ISA_VARIABLE]} is set")
    if "torch" in sys.modules:
        return Finding(
            False,
            "AMX is advertised but not granted, and torch was imported before sundae: "
            f"set {ISA_VARIABLE}={ISA_WITHOUT_AMX}",
        )
    os.environ[ISA_VARIABLE] = ISA_WITHOUT_AMX
    return Finding(True, f"AMX is advertised but not granted; set {ISA_VARIABLE}={ISA_WITHOUT_AMX}")


def keep_memory() -> Finding:
    """Ask glibc to keep freed memory for the next step: giving it back and faulting it in again costs up to a fifth."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return Finding(False, "the C library has no mallopt: freed memory goes back to the system at every step")
    top_pad, trim_threshold, mmap_max = -2, -1, -4  # names from malloc.h
    done = [mallopt(mmap_max, 0), mallopt(trim_threshold, 2**31 - 1), mallopt(top_pad, 1 << 26)]
    return Finding(all(done), "freed memory is kept for the next step" if all(done) else "mallopt refused")


def probe_bfloat16(timeout: float = 120) -> Finding:
    """Try bfloat16 in a child process, because a CPU that cannot do it may kill the process that tries."""
    try:
        child = subprocess.run(  # noqa: S603 - our own interpreter and our own program
            [sys.executable, "-c", _BF16_PROBE], capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding(False, f"a 64 x 64 bfloat16 product took longer than {timeout:g} s")
    if child.returncode < 0:
        return Finding(False, f"a 64 x 64 bfloat16 product died with signal {-child.returncode}")
    if child.returncode > 0:
        last = child.stderr.strip().splitlines()[-1:] or ["no message"]
        return Finding(False, f"a 64 x 64 bfloat16 product failed: {last[0]}")
    return Finding(True, "a 64 x 64 bfloat16 product and attention work")
