"""How much memory `sundae prepare` needs for one endless line.

Makes a text file without a single line break, prepares it in a child process, and compares the peak of that process
with the peak of one that prepares a file of 1 MB.  The promise is 256 MB more at the most, for 1 GB.

    python benchmarks/prepare_memory.py                      # 1 GB of words: some minutes
    python benchmarks/prepare_memory.py --without-spaces     # the same as one endless word
"""

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PROMISE = 256_000_000
# The child reads its own peak (Linux).  Not ru_maxrss: a child inherits that of its parent, who made the text.
CHILD = r"""
import pathlib, re, sys
from sundae.cli import main
code = main()
print(re.search(r"VmHWM:\s*(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""
LETTERS = np.frombuffer(b"etaoinshrdlcumwfgypbvkjxqz", dtype=np.uint8)


@dataclass(frozen=True)
class Run:
    """Peak memory in bytes and time in seconds of one child process."""

    peak: int
    seconds: float


def make_line(path: Path, *, size: int, seed: int, spaces: bool) -> None:
    """Random words, the frequent ones as frequent as in natural text, of a lexicon of 200,000."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(2, 11, 200_000)
    lexicon = [draw.choice(LETTERS, length).tobytes().decode() for length in lengths]
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            ranks = draw.zipf(1.2, 200_000) % len(lexicon)
            block = (" " if spaces else "").join(map(lexicon.__getitem__, ranks.tolist())) + (" " if spaces else "")
            written += file.write(block[: size - written])


def run_prepare(text: Path, out: Path, *, vocabulary: int) -> Run:
    """Prepare crops in a process of its own."""
    arguments = ["prepare", "crops", str(text), "--out", str(out), "--vocabulary", str(vocabulary), "-q"]
    start = time.perf_counter()
    child = subprocess.run([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return Run(peak=int(child.stdout) * 1024, seconds=time.perf_counter() - start)


def main() -> None:
    """Print the figures; the exit code says whether the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-spaces", action="store_true")
    parser.add_argument("--folder", type=Path, help="where to put the files, which are removed at the end")
    options = parser.parse_args()

    versions = {name: importlib.metadata.version(name) for name in ("sundae", "tokenizers", "numpy")}
    print(f"machine     {platform.platform()}, {os.cpu_count()} cores")
    print(f"versions    python {platform.python_version()}, " + ", ".join(f"{k} {v}" for k, v in versions.items()))
    kind = "one word" if options.without_spaces else "words"
    print(f"text        {options.megabytes} MB in one line of {kind}, seed {options.seed}")
    print(f"tokenizer   byte-bpe, vocabulary {options.vocabulary}", flush=True)
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for megabytes in (1, options.megabytes):
            text = Path(folder, f"{megabytes}.txt")
            make_line(text, size=megabytes * 1_000_000, seed=options.seed, spaces=not options.without_spaces)
            runs.append(run_prepare(text, Path(folder, f"corpus{megabytes}"), vocabulary=options.vocabulary))
            print(f"{megabytes:>5} MB    peak {runs[-1].peak / 1e6:.0f} MB, {runs[-1].seconds:.1f} s", flush=True)
    more = runs[1].peak - runs[0].peak
    print(f"difference  {more / 1e6:.0f} MB (promise: at most {PROMISE / 1e6:.0f} MB)")
    sys.exit(more > PROMISE)


if __name__ == "__main__":
    main()
