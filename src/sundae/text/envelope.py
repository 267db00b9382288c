"""The file tokenizer.json: a small envelope that says what is inside, and the symbols that all vocabularies share."""

import json
from pathlib import Path
from typing import cast

from sundae.errors import DataError

FILE_NAME = "tokenizer.json"
FORMAT = "sundae-tokenizer"
VERSION = 1
LARGEST_FILE = 1 << 28  # far above any real vocabulary, far below what would fill the memory

PAD_ID = 0
UNKNOWN_ID = 1  # in the closed vocabularies and in SentencePiece; byte-level BPE knows every text
PAD = "<pad>"
UNKNOWN = "<unk>"


def write_envelope(path: Path, *, kind: str, content: object) -> None:
    """Write tokenizer.json."""
    envelope = {"format": FORMAT, "version": VERSION, "kind": kind, "content": content}
    text = json.dumps(envelope, ensure_ascii=False, indent=1) + "\n"
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise DataError(f"cannot write {path}", why=error.strerror or str(error)) from error


def read_envelope(path: Path) -> tuple[str, object]:
    """The kind and the content of a tokenizer.json."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise DataError(f"{path} is not a tokenizer", why=f"{size:,} bytes is more than {LARGEST_FILE:,}")
        envelope: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a tokenizer", why=f"not valid JSON: {error}") from None
    if not isinstance(envelope, dict) or envelope.get("format") != FORMAT:
        raise DataError(f"{path} is not a tokenizer", why=f'it lacks "format": "{FORMAT}"')
    fields = cast(dict[str, object], envelope)
    if fields.get("version") != VERSION:
        raise DataError(
            f"cannot read {path}", why=f"version {fields.get('version')!r} is not {VERSION}", hint="a newer sundae"
        )
    return str(fields.get("kind")), fields.get("content")


def require_unicode(text: str) -> str:
    """The text itself, or an error when it holds half of a surrogate pair and so is no Unicode text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            "the text cannot be encoded",
            why=f"character {error.start} is a lone surrogate (U+{ord(text[error.start]):04X})",
        ) from None
    return text
