import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sundae.errors import DataError, UsageError
from sundae.training.checkpoint import (
    Checkpoint,
    checkpoints_in,
    locked,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)


def made(step: int) -> Checkpoint:
    return Checkpoint(step, {"w": torch.full((3,), float(step))}, {"m": torch.arange(4.0)}, {"cursor": [step]})


def test_what_is_written_is_read_back(tmp_path: Path):
    path = write_checkpoint(tmp_path, made(7), keep=2)
    back = read_checkpoint(path)
    assert back.step == 7
    assert back.weights["w"].tolist() == [7, 7, 7]
    assert back.optimiser["m"].tolist() == [0, 1, 2, 3]
    assert back.state == {"cursor": [7]}


def test_only_the_newest_are_kept(tmp_path: Path):
    for step in range(1, 6):
        write_checkpoint(tmp_path, made(step), keep=2)
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-000000004", "step-000000005"]


def test_what_is_saved_in_between_pushes_no_regular_one_out(tmp_path: Path):
    for step in (4, 8, 12, 13, 16, 17):
        write_checkpoint(tmp_path, made(step), keep=3, every=4)
    assert [int(path.name[5:]) for path in checkpoints_in(tmp_path)] == [8, 12, 16, 17]
    assert [int(path.name[5:]) for path in checkpoints_in(tmp_path, every=4)] == [8, 12, 16]


def test_there_is_none_before_the_first(tmp_path: Path):
    assert newest_checkpoint(tmp_path) is None


def damage(path: Path, generator: np.random.Generator) -> None:
    """One flipped bit, or a cut, in one of the files."""
    file = sorted(path.iterdir())[generator.integers(len(list(path.iterdir())))]
    content = bytearray(file.read_bytes())
    place = int(generator.integers(len(content)))
    if generator.random() < 0.7:
        content[place] ^= 1 << int(generator.integers(8))
        file.write_bytes(bytes(content))
    else:
        file.write_bytes(bytes(content[:place]))


@pytest.mark.parametrize("times", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_flipped_bit_and_cut_is_noticed_and_the_one_before_is_taken(tmp_path: Path, times: int):
    generator = np.random.default_rng(0)
    for trial in range(times):
        folder = tmp_path / str(trial)
        write_checkpoint(folder, made(1), keep=2)
        damage(write_checkpoint(folder, made(2), keep=2), generator)
        found = newest_checkpoint(folder)
        assert found is not None
        if found.checkpoint.step == 2:
            # Damage to the manifest alone may leave it telling the truth, for example a space that became another.
            assert found.checkpoint.weights["w"].tolist() == [2, 2, 2]
        else:
            assert found.damaged
            assert "step-000000002" in found.damaged[0]
            assert found.checkpoint.weights["w"].tolist() == [1, 1, 1]


def test_if_all_are_damaged_the_error_says_so(tmp_path: Path):
    path = write_checkpoint(tmp_path, made(1), keep=2)
    (path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(DataError, match=r"no checkpoint in .* can be read"):
        newest_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["MANIFEST.json", "state.json", "model.safetensors", "optim.safetensors"])
def test_a_missing_file_is_noticed(tmp_path: Path, name: str):
    path = write_checkpoint(tmp_path, made(1), keep=2)
    (path / name).unlink()
    with pytest.raises(DataError, match="incomplete"):
        read_checkpoint(path)


def test_a_full_disk_loses_nothing(tmp_path: Path):
    # Real ENOSPC, from a small file system of our own; needs the right to mount one.
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        write_checkpoint(small, made(1), keep=2)
        big = Checkpoint(2, {"w": torch.zeros(200_000)}, {}, {})
        with pytest.raises(DataError, match="No space left"):
            write_checkpoint(small, big, keep=2)
        found = newest_checkpoint(small)
        assert found is not None
        assert found.checkpoint.step == 1
        assert [path.name for path in small.iterdir()] == ["step-000000001"]
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_second_trainer_is_refused_and_told_who_is_first(tmp_path: Path):
    program = f"""
import sys
from pathlib import Path
from sundae.training.checkpoint import locked
with locked(Path({str(tmp_path)!r})):
    print("mine", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "mine\n"
    with pytest.raises(UsageError, match=f"process {holder.pid} holds its lock"), locked(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with locked(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())
