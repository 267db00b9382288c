"""The CPU guard and the bfloat16 probe."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sundae import machine
from sundae.machine import ISA_VARIABLE, ISA_WITHOUT_AMX, Finding, advertises_broken_amx, guard_cpu, probe_bfloat16

PROCESSOR = """processor\t: {number}
vendor_id\t: GenuineIntel
fpu\t\t: yes
cpuid level\t: {level}
wp\t\t: yes
flags\t\t: fpu sse2 avx512f avx512_bf16 {flags}
bogomips\t: 4000.00
"""


def cpuinfo(level: int, flags: str = "amx_bf16 amx_tile amx_int8") -> str:
    return "\n".join(PROCESSOR.format(number=number, level=level, flags=flags) for number in range(2))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process in which neither the user nor anything else has acted yet; all is undone afterwards."""
    monkeypatch.setenv(ISA_VARIABLE, "")  # setting it first makes monkeypatch restore it whatever the guard does
    monkeypatch.delenv(ISA_VARIABLE)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return monkeypatch


def written(tmp_path: Path, content: str) -> Path:
    file = tmp_path / "cpuinfo"
    file.write_text(content, encoding="utf-8")
    return file


def test_amx_without_its_cpuid_leaf_is_capped(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    finding = guard_cpu(written(tmp_path, cpuinfo(13)))
    assert os.environ[ISA_VARIABLE] == ISA_WITHOUT_AMX
    assert finding == Finding(True, f"AMX is advertised but not granted; set {ISA_VARIABLE}={ISA_WITHOUT_AMX}")


@pytest.mark.parametrize(
    "content",
    [
        cpuinfo(31),
        cpuinfo(29),
        cpuinfo(13, flags=""),
        cpuinfo(13, flags="amx_tiles not_amx_tile"),
        cpuinfo(13).replace("cpuid level", "other level"),
        "Processor : AArch64\n",
        "",
    ],
    ids=["whole", "just enough", "no AMX", "only alike", "no level", "another architecture", "empty"],
)
def test_a_cpu_that_keeps_its_word_is_left_alone(fresh: pytest.MonkeyPatch, tmp_path: Path, content: str) -> None:
    finding = guard_cpu(written(tmp_path, content))
    assert ISA_VARIABLE not in os.environ
    assert finding == Finding(True, "AMX is absent or described as it should be")


@pytest.mark.parametrize(("level", "broken"), [(0, True), (13, True), (28, True), (29, False), (31, False)])
def test_the_leaf_decides_whether_amx_is_broken(level: int, broken: bool) -> None:
    assert advertises_broken_amx(cpuinfo(level)) is broken
    assert not advertises_broken_amx(cpuinfo(level, flags=""))


@pytest.mark.parametrize("chosen", ["AVX2", "DEFAULT", ""])
def test_what_the_user_has_set_stands(fresh: pytest.MonkeyPatch, tmp_path: Path, chosen: str) -> None:
    fresh.setenv(ISA_VARIABLE, chosen)
    finding = guard_cpu(written(tmp_path, cpuinfo(13)))
    assert os.environ[ISA_VARIABLE] == chosen
    assert finding == Finding(True, f"AMX is advertised but not granted; {ISA_VARIABLE}={chosen} is set")


def test_when_torch_came_first_the_finding_says_so_and_how_to_mend_it(
    fresh: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fresh.setitem(sys.modules, "torch", machine)  # any module will do
    finding = guard_cpu(written(tmp_path, cpuinfo(13)))
    assert ISA_VARIABLE not in os.environ
    assert not finding.fine
    assert "torch was imported before sundae" in finding.reason
    assert f"{ISA_VARIABLE}={ISA_WITHOUT_AMX}" in finding.reason


def test_when_torch_came_first_a_sound_cpu_is_still_fine(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh.setitem(sys.modules, "torch", machine)
    assert guard_cpu(written(tmp_path, cpuinfo(31))).fine


@pytest.mark.parametrize("name", ["missing", "."])
def test_without_a_readable_cpuinfo_there_is_nothing_to_guard(
    fresh: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    finding = guard_cpu(tmp_path / name)
    assert ISA_VARIABLE not in os.environ
    assert finding == Finding(True, "no /proc/cpuinfo, nothing to guard against")


def test_cpuinfo_may_hold_any_bytes(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_bytes(b"model name : \xff\xfe\n" + cpuinfo(13).encode())
    guard_cpu(file)
    assert os.environ[ISA_VARIABLE] == ISA_WITHOUT_AMX


def test_the_guard_has_run_once_sundae_is_imported(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
read = Path.open
Path.open = lambda self, *args, **kwargs: read(Path({str(written(tmp_path, cpuinfo(13)))!r}), *args, **kwargs)
import sundae, os
print(os.environ[{ISA_VARIABLE!r}])
"""
    environment = {name: value for name, value in os.environ.items() if name != ISA_VARIABLE}
    child = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert child.stdout.strip() == ISA_WITHOUT_AMX


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "died with signal 4"),
        ("raise RuntimeError('no such type')", "failed: RuntimeError: no such type"),
        ("import sys; sys.exit(3)", "failed: no message"),
        ("import time; time.sleep(60)", "took longer than 0.5 s"),
    ],
    ids=["signal", "error", "silent", "hang"],
)
def test_a_probe_that_does_not_come_back_whole_is_a_limit_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    monkeypatch.setattr(machine, "_BF16_PROBE", program)
    finding = probe_bfloat16(timeout=0.5 if "sleep" in program else 60)
    assert finding == Finding(False, f"a 64 x 64 bfloat16 product {reason}")


def test_the_real_probe_gives_a_verdict_and_spares_this_process() -> None:
    finding = probe_bfloat16()
    assert finding.fine == (finding.reason == "a 64 x 64 bfloat16 product and attention work")
    assert finding.fine or "died" in finding.reason or "failed" in finding.reason
