"""The text that the shipped English model is trained on: English sides of Tatoeba, and COCO training captions.

    python benchmarks/everyday_corpus.py DATA OUT.txt

DATA holds `tatoeba_anki/*/*.txt` (two-column TSV, English first; CC BY 2.0 FR, from Tatoeba through the Anki exports of
manythings.org) and `coco_captions/image_coco.train.txt` (MS COCO captions, CC BY 4.0, as in Texygen).  One sentence a
line, each once, in a fixed order; captions get the capital letter that Tatoeba's sentences have.
"""

import argparse
import hashlib
import sys
from pathlib import Path


def sentences(data: Path) -> list[str]:
    """Every distinct sentence, in an order that depends on the sentence alone."""
    found: dict[str, None] = {}
    for table in sorted(data.glob("tatoeba_anki/*/*.txt")):
        if table.name.startswith("_"):
            continue
        for line in table.read_text(encoding="utf-8").splitlines():
            found[" ".join(line.split("\t")[0].split())] = None
    captions = data / "coco_captions" / "image_coco.train.txt"
    for line in captions.read_text(encoding="utf-8").splitlines():
        caption = " ".join(line.split())
        found[caption[:1].upper() + caption[1:]] = None
    found.pop("", None)
    return sorted(found, key=lambda text: hashlib.sha256(text.encode()).digest())


def main() -> None:
    """Write the file and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    lines = sentences(arguments.data)
    if not lines:
        sys.exit(f"no sentences under {arguments.data}")
    content = "".join(f"{line}\n" for line in lines)
    arguments.out.write_text(content, encoding="utf-8")
    print(f"{len(lines)} sentences, {len(content)} characters, sha256 {hashlib.sha256(content.encode()).hexdigest()}")


if __name__ == "__main__":
    main()
