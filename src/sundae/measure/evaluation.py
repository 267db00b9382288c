"""What `sundae evaluate` measures: a model's translations, any texts as samples, a model's filling of blanks."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sundae.decoding.written import Written
from sundae.errors import DataError, UsageError
from sundae.measure.blanks import score_blanks
from sundae.measure.bleu import bleu_interval, corpus_chrf
from sundae.measure.bootstrap import bootstrap_mean
from sundae.measure.diversity import diversity
from sundae.measure.judge import Judge, perplexity
from sundae.measure.memorisation import memorisation
from sundae.measure.ngram_bleu import ORDERS, bleu_against, self_bleu
from sundae.measure.report import Cell, Table
from sundae.model import Sundae
from sundae.text.template import escape


def translation_table(hypotheses: Sequence[Written], *, references: Sequence[str], tokenised: bool = False) -> Table:
    """BLEU with its interval, chrF, length ratio, repetition and cost; of `tokenised` text, lower-cased BLEU."""
    texts = [each.text for each in hypotheses]
    bleu = bleu_interval(texts, references=references, tokenised=tokenised)
    name = "BLEU, lower-cased, tokenised" if tokenised else "BLEU"
    rows: list[dict[str, Cell]] = [{"measure": name, "value": bleu.score, "signature": bleu.signature}]
    chrf = corpus_chrf(texts, references)
    rows.append({"measure": "chrF", "value": chrf.score, "signature": chrf.signature})
    spread = diversity(texts, orders=(1, 2))
    own, theirs = sum(len(text.split()) for text in texts), sum(len(text.split()) for text in references)
    figures: dict[str, Cell] = {
        "length ratio (words)": own / max(1, theirs),
        "repeated tokens": spread.repeated_tokens,
        "network calls of the best chain": sum(each.network_calls for each in hypotheses) / max(1, len(hypotheses)),
        "sentences": len(texts),
    }
    rows += [{"measure": name, "value": value} for name, value in figures.items()]
    return Table("Translation", rows)


def length_accuracy(model: Sundae, sources: Sequence[str], references: Sequence[str]) -> dict[str, Cell]:
    """How often the predicted (halved) length is that of the reference, in as far as the canvas holds it.

    Blank lines do not count: nobody translates them.
    """
    pairs = [pair for pair in zip(sources, references, strict=True) if pair[0].strip()]
    largest = model.config.network.canvas
    lengths = [min(largest, len(model.tokenizer.encode(reference))) for _, reference in pairs]
    right = [
        predicted == max(1, (length + 1) // 2)
        for predicted, length in zip(model.predicted_halves([source for source, _ in pairs]), lengths, strict=True)
    ]
    return {"measure": "length accuracy (halved lengths)", "value": bootstrap_mean(right)}


def sweep_table(
    written: Mapping[str, Sequence[Written]], *, references: Sequence[str], tokenised: bool = False
) -> Table:
    """BLEU and cost of several settings; the best is marked."""
    scores = {
        name: bleu_interval([each.text for each in some], references=references, tokenised=tokenised)
        for name, some in written.items()
    }
    best = max(scores, key=lambda name: scores[name].score.value)
    rows: list[dict[str, Cell]] = [
        {
            "settings": name,
            "BLEU": scores[name].score,
            "network calls of the best chain": sum(each.network_calls for each in some) / len(some),
            "best": "*" if name == best else "",
        }
        for name, some in written.items()
    ]
    return Table("Sweep", rows, f"signature {scores[best].signature}")


def samples_tables(
    samples: Sequence[str],
    *,
    references: Sequence[str] = (),
    training: Sequence[str] = (),
    judge: Judge | None = None,
    seed: int = 0,
) -> list[Table]:
    """Variety always; quality against references, memorisation and a judge's perplexity where they are given."""
    if len(samples) < 2:
        raise DataError(f"{len(samples)} samples", why="self-BLEU compares each sample with the others")
    own = self_bleu(samples)
    against = bleu_against(samples, references=references) if references else None
    orders: list[dict[str, Cell]] = []
    spread = diversity(samples, orders=(1, *ORDERS))
    for order in (1, *ORDERS):
        row: dict[str, Cell] = {"n": order}
        if order > 1:
            if against is not None:
                row["BLEU-n"] = against.mean(order)
            row["self-BLEU-n"] = own.mean(order)
        row |= {
            "distinct-n": spread.distinct[order],
            "entropy (bits)": spread.entropy[order],
            "repeated n-grams": spread.repeated_ngrams[order],
        }
        orders.append(row)
    note = f"Self-BLEU against the {own.references:,} other samples"
    if against is not None:
        note += f", BLEU against {against.references:,} references"
    rows: list[dict[str, Cell]] = [
        {"measure": "samples", "value": spread.samples},
        {"measure": "tokens", "value": spread.tokens},
        {"measure": "mean length", "value": spread.lengths.mean},
        {"measure": "standard deviation of the length", "value": spread.lengths.deviation},
        {"measure": "tokens equal to the one before", "value": spread.repeated_tokens},
    ]
    if training:
        found = memorisation(samples, training=training)
        rows.append({"measure": "samples that are training texts", "value": found.verbatim})
        rows.append({"measure": f"{found.order}-grams found in training texts", "value": found.ngrams})
    if judge is not None:
        judged = perplexity(samples, judge=judge, seed=seed)
        rows.append({"measure": "judge's perplexity per word", "value": judged.per_word})
        rows.append({"measure": "judge's perplexity per token", "value": judged.per_token})
    return [Table("N-grams", orders, note + "; tokens are what white space separates."), Table("Samples", rows)]


@dataclass(frozen=True)
class BlankItem:
    """A text with some of its words taken out."""

    before: str
    answer: str
    after: str

    def template(self, blank: str) -> str:
        """The text with `blank`, such as [[1w]], where the words stood; one space belongs to the blank."""
        return escape(self.before) + blank + escape(self.after)

    def filled_in(self, text: str) -> str:
        """What a filled text has where the words stood."""
        return text[len(self.before) : len(text) - len(self.after)]


def choose_blanks(texts: Sequence[str], *, words: int = 1, count: int = 0, seed: int = 0) -> list[BlankItem]:
    """One blank of `words` neighbouring words in each text (of letters and digits, not the first word of the text).

    Texts in which there is no such place are left out; `count` (0: all) takes that many of the others at random.
    """
    if words < 1:
        raise UsageError(f"a blank of {words} words", why="must be at least 1")
    chooser = random.Random(seed)  # noqa: S311 - which words are taken out is no secret
    items: list[BlankItem] = []
    word = r"[^\W_]+(?:['-][^\W_]+)*"
    neighbours = re.compile(rf"(?<=\S ){word}(?: {word}){{{words - 1}}}(?!\w)")
    for text in texts:
        found = list(neighbours.finditer(text))
        if found:
            place = chooser.choice(found)
            items.append(BlankItem(text[: place.start()], place[0], text[place.end() :]))
    if count and count < len(items):
        items = [items[index] for index in sorted(chooser.sample(range(len(items)), count))]
    if not items:
        raise DataError("no blank can be made", why=f"no text has {words} words after its first one")
    return items


def blanks_table(fills: Sequence[Sequence[str]], *, items: Sequence[BlankItem], at: Sequence[int] = ()) -> Table:
    """Exact match and edit similarity of filled texts (for each item its candidates, best first)."""
    candidates = [[(item.filled_in(text).strip(),) for text in texts] for item, texts in zip(items, fills, strict=True)]
    scores = score_blanks(candidates, answers=[(item.answer,) for item in items], at=at)
    rows: list[dict[str, Cell]] = [
        {"measure": "exact match", "value": scores.exact},
        {"measure": "edit similarity", "value": scores.similarity},
        *({"measure": f"exact match among {k}", "value": value} for k, value in scores.exact_at.items()),
        {"measure": "blanks", "value": scores.items},
    ]
    return Table("Blanks", rows)
