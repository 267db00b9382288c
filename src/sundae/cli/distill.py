"""`sundae distill CORPUS --teacher MODEL --out DIR`."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated
from zlib import crc32

from tyro.conf import Positional, arg

from sundae.cli.writing import say, use_threads
from sundae.errors import DataError, UsageError

if TYPE_CHECKING:
    from sundae.model import Model
    from sundae.text.corpus import Corpus, Side, SplitName

CHUNK = 256
"""Sources that are translated between two savings."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Make a corpus whose targets are a teacher's translations; the same command again goes on where it stopped.

    Sequence-level distillation (Kim and Rush, 2016).  Paper: app. F, the AR-distilled rows.  The teacher may have any
    size and tokenizer; the validation pairs stay as they are.
    """

    corpus: Annotated[Positional[Path], arg(metavar="CORPUS")]
    """A corpus of pairs that `sundae prepare parallel` has made."""
    teacher: Annotated[str, arg(metavar="NAME|DIR|HUB-ID")]
    """A model that translates in the same direction, such as an autoregressive twin."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Where the new corpus goes."""
    beam: Annotated[int | None, arg(metavar="N")] = None
    """Beam width of an autoregressive teacher; as its settings say."""
    threads: Annotated[int, arg(metavar="N")] = 0
    """CPU threads; 0 is OMP_NUM_THREADS, or as many as there are cores."""
    force: bool = False
    """Replace an earlier corpus."""
    quiet: Annotated[bool, arg(aliases=["-q"])] = False
    """No progress."""

    def run(self) -> None:
        """Translate all sources, then prepare the corpus."""
        from sundae.cli.partial import fingerprint
        from sundae.model import load_model
        from sundae.text.corpus import Corpus
        from sundae.text.writer import require_free

        use_threads(self.threads)
        require_free(self.out, force=self.force)
        if self.out.resolve() == self.corpus.resolve():
            raise UsageError(f"--out {self.out}", why="that is the corpus to be distilled", hint="another --out")
        corpus = Corpus.open(self.corpus)
        if corpus.kind != "parallel":
            raise UsageError(f"{self.corpus} is a corpus of {corpus.kind}", why="only pairs can be distilled")
        teacher = load_model(self.teacher)
        if not teacher.config.network.translates:
            raise UsageError(f"--teacher {self.teacher}", why="it does not translate")
        place = self.out.resolve()
        done = place.with_name(f"{place.name}.translations")
        sources = _texts(corpus, "train", "source")
        if corpus.tokenizer.token_text(1) == "<unk>":
            holes = sum("<unk>" in source for source in sources)
            say(f"{holes} of {len(sources)} sources have words without a token: the teacher sees <unk> for them")
        translations = self._translate(teacher, sources, done)
        self._prepare(corpus, translations, teacher=fingerprint(teacher))
        done.unlink()
        sys.stdout.write(f"{self.out}\n")

    def _translate(self, teacher: "Model", sources: list[str], done: Path) -> list[str]:
        """The teacher's translations, kept line by line in a file beside the corpus."""
        from sundae.cli.partial import fingerprint
        from sundae.model import Sundae

        settings = teacher.config.baseline
        if self.beam is not None:
            if isinstance(teacher, Sundae):
                raise UsageError(f"--beam {self.beam}", why="a SUNDAE teacher has no beam")
            settings = replace(settings, beam=self.beam)
        done.parent.mkdir(parents=True, exist_ok=True)
        facts = {"teacher": fingerprint(teacher), "beam": self.beam, "sources": crc32("\n".join(sources).encode())}
        made_of = json.dumps(facts)
        kept = done.read_bytes() if done.exists() else b""
        kept = kept[: kept.rfind(b"\n") + 1]  # a torn last line goes
        try:
            head, *whole = kept.decode().split("\n")[:-1] if kept else [made_of]
        except UnicodeDecodeError as error:
            raise DataError(f"{done} is damaged", why=f"byte {error.start} is no UTF-8", hint="remove it") from None
        if head != made_of or len(whole) > len(sources):
            why = "of another corpus, teacher or beam"
            raise DataError(f"{done} holds other translations", why=why, hint="remove it")
        with done.open("ab") as file:
            file.truncate(len(kept))
            if not kept:
                file.write(f"{made_of}\n".encode())
            for begin in range(len(whole), len(sources), CHUNK):
                some = sources[begin : begin + CHUNK]
                if isinstance(teacher, Sundae):
                    found = teacher.translate(some)
                else:
                    found = teacher.translate(some, baseline=settings)
                lines = [" ".join(each.text.split()) for each in found]
                file.write("".join(f"{line}\n" for line in lines).encode())
                file.flush()
                whole += lines
                if not self.quiet:
                    sys.stderr.write(f"translated {len(whole)}/{len(sources)}\n")
        return whole

    def _prepare(self, corpus: "Corpus", translations: list[str], *, teacher: int) -> None:
        from sundae.text.prepare import prepare
        from sundae.text.recipe import Recipe

        real = _texts(corpus, "train", "text")
        empty = sum(not line for line in translations)
        if empty:
            sys.stderr.write(f"sundae: {empty} translations are empty; their targets stay as they were\n")
        languages = corpus.about["source_language"], corpus.about["target_language"]
        was = corpus.about["description"] or self.corpus.resolve().name
        with TemporaryDirectory() as folder:
            files = {
                "source.txt": _texts(corpus, "train", "source"),
                "target.txt": [new or old for new, old in zip(translations, real, strict=True)],
                "held-out.source.txt": _texts(corpus, "validation", "source"),
                "held-out.target.txt": _texts(corpus, "validation", "text"),
            }
            paths = [Path(folder, name) for name in files]
            for path, lines in zip(paths, files.values(), strict=True):
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            recipe = Recipe(
                kind="parallel",
                inputs=tuple(paths[:2]),
                validation="" if files["held-out.source.txt"] else "0",
                validation_from=tuple(paths[2:]) if files["held-out.source.txt"] else (),
                out=self.out,
                tokenizer=corpus.tokenizer.kind,
                tokenizer_from=self.corpus,
                canvas=corpus.canvas,
                long="crop",
                force=self.force,
                description=f"{was}, translated by {Path(self.teacher).name}",
                languages=",".join(languages) if all(languages) else "",
                origin={
                    "made by": "sundae distill",
                    "corpus": str(self.corpus),
                    "teacher": str(self.teacher),
                    "teacher_crc32": teacher,
                    "beam": self.beam,
                },
            )
            prepare(recipe)


def _texts(corpus: "Corpus", split: "SplitName", side: "Side") -> list[str]:
    part = corpus.split(split)
    read = part.source if side == "source" else part.text
    return [corpus.tokenizer.decode(read(row).tolist()).replace("\n", " ") for row in range(len(part))]
