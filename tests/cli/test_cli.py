"""The command line as a user meets it: what it prints where, how fast, and the exit code."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sundae
from sundae import cli
from sundae.cli import doctor, info, main
from sundae.errors import CapabilityError, DataError, SundaeError, UsageError
from sundae.machine import Finding
from sundae.presets import PRESETS, preset

Capture = pytest.CaptureFixture[str]


def run(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sundae", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60)


def modules_after(*arguments: str) -> set[str]:
    """What a command has imported by its end."""
    program = f"""
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from sundae.cli import main
sys.exit(main({list(arguments)!r}))
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(child.stderr.split())


# Help.


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_verb_and_goes_to_stdout(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert all(verb in said.out and summary in said.out for verb, summary in cli.VERBS.items())
    assert said.err == ""


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version_is_one_line_on_stdout(flag: str, capsys: Capture) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr() == (f"sundae {sundae.__version__}\n", "")


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_explains_itself(verb: str, capsys: Capture) -> None:
    assert main([verb, "--help"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"usage: sundae {verb}")
    assert "--help" in said.out
    assert said.err == ""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["info", "--help"], ["doctor", "--help"], ["info"]])
def test_help_does_not_import_torch(arguments: list[str]) -> None:
    assert modules_after(*arguments) & {"torch", "numpy", "sundae.core"} == set()


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_take_less_than_three_tenths_of_a_second(flag: str) -> None:
    def seconds() -> float:
        """Of the processor: what else the machine does must not count."""
        before = os.times()
        assert run(flag).returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(5)) < 0.3


def test_the_console_script_is_main() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="sundae")
    assert script.load() is main


# Errors.

WRONG = {
    "verb": (["inof"], "unknown verb 'inof': did you mean 'info'? (try: sundae --help)"),
    "flag before the verb": (["--verbose", "info"], "unknown verb '--verbose'"),
    "preset": (["info", "paper-c4-33"], "unknown preset 'paper-c4-33': did you mean 'paper-c4-32'?"),
    "section": (["info", "paper-c4-32", "netwrk.width=1"], "unknown section 'netwrk': did you mean 'network'?"),
    "key": (["info", "paper-c4-32", "network.widht=1"], "unknown key network.widht: did you mean 'width'?"),
    "value": (["info", "paper-c4-32", "network.width=wide"], "network.width=wide: must be a whole number"),
    "range": (["info", "paper-c4-32", "network.heads=7"], "network.heads=7: must divide network.width=1024 (try: 8)"),
    "huge": (["info", "paper-c4-32", f"network.width={10**6 * 16}"], "network.width=16000000: must be at most"),
    "override": (["info", "paper-c4-32", "width"], "cannot read 'width': an override is SECTION.KEY=VALUE"),
    "flag": (["info", "--jsn"], "Unrecognized options: --jsn"),
    "flag of doctor": (["doctor", "--all"], "Unrecognized options: --all (try: sundae doctor --help)"),
    "argument": (["doctor", "me"], "Unrecognized options: me"),
    "missing value": (["info", "--config"], "Missing value for argument '--config'"),
    "empty": ([""], "unknown verb ''"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(arguments: list[str], message: str, capsys: Capture) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"sundae: {message}")
    assert said.err.count("\n") == 1
    assert said.err.endswith("\n")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("arguments", [["inof"], ["info", "--jsn"], ["info", "--config"]])
def test_a_mistake_looks_the_same_from_outside_in_any_encoding(
    arguments: list[str], encoding: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    child = run(*arguments)
    assert main(arguments) == child.returncode == 2
    assert (child.stdout, child.stderr) == capsys.readouterr()


def test_bytes_that_are_no_text_are_a_mistake_like_any_other() -> None:
    child = subprocess.run(
        [sys.executable, "-m", "sundae", "info", b"paper-\xff"], capture_output=True, check=False, timeout=60
    )
    assert (child.returncode, child.stdout, child.stderr.count(b"\n")) == (2, b"", 1)


def test_a_missing_file_is_one_line_and_exit_code_3(tmp_path: Path, capsys: Capture) -> None:
    assert main(["info", "paper-c4-32", "--config", str(tmp_path / "none.toml")]) == 3
    said = capsys.readouterr()
    assert said == ("", f"sundae: cannot read {tmp_path / 'none.toml'}: No such file or directory\n")


def test_a_file_with_a_wrong_key_is_a_mistake_too(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[training]\nstep = 3\n", encoding="utf-8")
    assert main(["info", "paper-c4-32", "--config", str(file)]) == 2
    assert capsys.readouterr() == ("", "sundae: unknown key training.step: did you mean 'steps'?\n")


@pytest.mark.parametrize("kind", [SundaeError, UsageError, DataError, CapabilityError])
def test_each_error_ends_in_its_own_exit_code(
    kind: type[SundaeError], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(_: object) -> None:
        raise kind("broken", hint="mend it")

    monkeypatch.setattr(info.Command, "run", fail)
    assert main(["info"]) == kind.exit_code
    assert capsys.readouterr() == ("", "sundae: broken (try: mend it)\n")


def test_an_interrupt_is_one_line_and_exit_code_130(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(info.Command, "run", interrupt)
    assert main(["info"]) == 130
    assert capsys.readouterr() == ("", "sundae: interrupted\n")


def test_our_own_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(info.Command, "run", stumble)
    with pytest.raises(ZeroDivisionError):
        main(["info"])


@pytest.mark.parametrize("arguments", [["--debug", "inof"], ["inof", "--debug"], ["info", "--debug", "none"]])
def test_debug_raises_the_error_instead(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(UsageError):
        main(arguments)
    assert capsys.readouterr() == ("", "")


def test_debug_changes_nothing_when_all_is_well(capsys: Capture) -> None:
    assert main(["--version", "--debug"]) == 0
    assert capsys.readouterr().out == f"sundae {sundae.__version__}\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes break in another way there")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", [["--help"], ["info"], ["info", "--help"]])
def test_a_reader_that_has_enough_is_no_error(
    arguments: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        child = run(*arguments, stdout=writer)
    finally:
        os.close(writer)
    assert (child.returncode, child.stderr) == (0, "")


# info.


def test_info_alone_lists_every_preset(capsys: Capture) -> None:
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [[name, entry.summary] for name, entry in PRESETS.items()]


def test_the_list_as_json_is_names_and_summaries(capsys: Capture) -> None:
    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {name: entry.summary for name, entry in PRESETS.items()}


@pytest.mark.parametrize("name", ["paper-wmt14-ende", "paper-c4-32"])
def test_a_preset_is_shown_whole(name: str, capsys: Capture) -> None:
    assert main(["info", name]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == f"{name}: {PRESETS[name].summary}"
    assert lines[1] == f"parameters: {info.count_parameters(preset(name).network)['total']:,}"
    for section, keys in preset(name).to_dict().items():
        assert f"[{section}]" in lines
        assert all(f"{key} = {json.dumps(value)}" in lines for key, value in keys.items())
    assert said.err == ""


def test_a_preset_as_json_carries_its_configuration_and_parameters(capsys: Capture) -> None:
    assert main(["info", "paper-wmt14-ende", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    config = sundae.RunConfig.from_dict(content["config"])
    assert (content["preset"], config) == ("paper-wmt14-ende", preset("paper-wmt14-ende"))
    assert content["parameters"] == info.count_parameters(config.network)


def test_the_preset_yields_to_the_file_and_the_file_to_the_override(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[network]\nwidth = 48\nhidden = 96\ndecoder_layers = 2\n", encoding="utf-8")
    arguments = ["info", "paper-c4-32", "network.hidden=100", "network.heads=3", "--config", str(file), "--json"]
    assert main(arguments) == 0
    network = json.loads(capsys.readouterr().out)["config"]["network"]
    assert (network["vocabulary_size"], network["decoder_layers"]) == (32_000, 2)
    assert (network["width"], network["heads"], network["hidden"]) == (48, 3, 100)


def test_counting_parameters_allocates_none() -> None:
    large = sundae.NetworkConfig(vocabulary_size=1 << 20, width=1 << 20, heads=1, hidden=1 << 20, decoder_layers=2)
    assert info.count_parameters(large)["total"] > 10**12


# doctor.


def test_doctor_reports_each_finding_on_a_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(doctor, "probe_bfloat16", lambda: Finding(False, "it died"))
    assert main(["doctor"]) == 0
    said = capsys.readouterr()
    assert "--  bfloat16      it died" in said.out.splitlines()
    assert all(line.startswith(("ok  ", "--  ")) for line in said.out.splitlines())
    assert said.err == ""


def test_doctor_as_json_gives_a_verdict_and_a_reason_for_each(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(doctor, "probe_bfloat16", lambda: Finding(True, "it works"))
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    assert main(["doctor", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert {"sundae", "torch", "cpu", "cpu guard", "bfloat16", "cuda", "compile", "tyro"} <= set(content)
    assert all(set(entry) == {"fine", "reason"} for entry in content.values())
    assert content["bfloat16"] == {"fine": True, "reason": "it works"}
    assert content["compile"] == {"fine": False, "reason": "torch.compile needs a C++ compiler, such as g++"}


def test_doctor_notices_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "probe_bfloat16", lambda: Finding(True, ""))

    def version(package: str) -> str:
        if package == "rich":
            raise importlib.metadata.PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    findings = doctor.examine()
    assert findings["rich"] == Finding(False, "not installed")
    assert findings["tyro"] == Finding(True, "1.0")


def test_output_that_cannot_be_written_is_one_line_and_exit_code_3():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sundae", "info"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "space" in done.stderr


def test_overrides_may_stand_anywhere(capsys: Capture) -> None:
    assert main(["info", "paper-c4-32", "network.width=512", "--json", "training.steps=7"]) == 0
    config = json.loads(capsys.readouterr().out)["config"]
    assert (config["network"]["width"], config["training"]["steps"]) == (512, 7)
