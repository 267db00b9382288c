"""What `sundae train` does, composed from its parts; here torch may be imported."""

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, get_args

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from torch import Tensor

from sundae.baselines.autoregressive import BEGIN
from sundae.baselines.kinds import build_loss, build_network
from sundae.cli.writing import use_threads
from sundae.config import RunConfig, read_config
from sundae.core.network import Transformer
from sundae.core.noise import Noise
from sundae.errors import CapabilityError, UsageError
from sundae.files import write_whole
from sundae.folder import model_card
from sundae.machine import keep_memory, probe_bfloat16
from sundae.measure.bleu import corpus_bleu
from sundae.model import AutoregressiveTwin, Sundae, as_model, load_model, save_model
from sundae.text.corpus import Corpus, SplitName
from sundae.text.tokenizer import Tokenizer
from sundae.training.batches import Batch, plan_for
from sundae.training.checkpoint import locked
from sundae.training.loop import Trainer, Validation, final_weights, resume, train
from sundae.training.losses import validate
from sundae.training.metrics import JsonLog, Log, TensorBoardLog

if TYPE_CHECKING:
    from sundae.cli.train import Command

_OURS = {"lock", "config.json", "corpus.sha256", "metrics.jsonl", "checkpoints", "model", "tensorboard"}

VALIDATION_TOKENS = 16_384
"""Canvas positions in the fixed validation batches: enough for a loss to about 1%, cheap enough to repeat."""


class ProgressLog:
    """A bar on a terminal, a line now and then elsewhere; both on standard error."""

    def __init__(self, *, steps: int, step: int, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.steps, self.last_line = steps, 0.0
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        if self.console.is_terminal and not quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
            self.bar = Progress(*columns, TimeRemainingColumn(), console=self.console)
            self.task = self.bar.add_task(f"step {step}", total=steps, completed=step, figures="")
            self.bar.start()

    def say(self, line: str) -> None:
        """A message, above the bar if there is one."""
        self.console.print(line, markup=False, soft_wrap=True)

    def record(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        """Show the newest training figures; print validation figures and samples."""
        if kind == "train":
            text = f"loss {figures['loss']:.3f}  {figures['tokens_per_second']:,.0f} tokens/s"
            if self.bar is not None and self.task is not None:
                self.bar.update(self.task, completed=step, description=f"step {step}", figures=text)
            elif time.monotonic() - self.last_line > 30:
                self.last_line = time.monotonic()
                self.say(f"step {step}/{self.steps}  {text}")
        elif "samples" in figures:
            for sample in figures["samples"]:
                self.say(f"  | {sample}")
        else:
            shown = "  ".join(f"{name} {_short(value)}" for name, value in figures.items())
            self.say(f"step {step}  {kind}: {shown}")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self.bar is not None:
            self.bar.stop()


def _short(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


class Logs:
    """Several logs as one."""

    def __init__(self, *logs: Log) -> None:
        self.logs = logs

    def record(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        """Tell them all."""
        for log in self.logs:
            log.record(kind, step, figures)


def run_training(command: "Command") -> None:
    """Prepare, resume, train, export."""
    keep_memory()
    use_threads(command.threads)
    corpus = Corpus.open(command.data)
    sizes: dict[str, object] = {"vocabulary_size": corpus.vocabulary_size}
    if corpus.kind != "crops":  # crops are cut here, to the preset's canvas
        sizes["canvas"] = corpus.canvas
    if corpus.kind == "parallel":
        sizes["source_positions"] = corpus.canvas
    data = {"kind": corpus.kind, "tokenizer": corpus.tokenizer.kind, **corpus.about}
    config = command.resolve({"network": sizes, "data": data})
    _check_fit(config, corpus)
    _check_bleu(command, config, corpus)
    _check_machine(config)
    if command.out.exists() and not command.out.is_dir():
        raise UsageError(f"{command.out} is a file", why="a run needs a folder")
    network = _network(command, config, corpus)
    with locked(command.out):
        _claim(command, config, corpus)
        _train(command, config, corpus, network)


def _check_fit(config: RunConfig, corpus: Corpus) -> None:
    if config.network.vocabulary_size != corpus.vocabulary_size:
        raise UsageError(
            f"network.vocabulary_size={config.network.vocabulary_size}",
            why=f"the corpus was prepared with {corpus.vocabulary_size} tokens",
        )
    if config.data.kind != corpus.kind:
        raise UsageError(f"data.kind={config.data.kind}", why=f"the corpus was prepared as {corpus.kind}")
    if config.data.kind != "crops" and config.network.canvas < corpus.canvas:
        raise UsageError(
            f"network.canvas={config.network.canvas}", why=f"the corpus has texts of {corpus.canvas} tokens"
        )
    if corpus.kind == "parallel":
        longest = max(int(corpus.split(name).lengths("source").max(initial=0)) for name in get_args(SplitName))
        if config.network.source_positions < longest:
            raise UsageError(
                f"network.source_positions={config.network.source_positions}",
                why=f"the corpus has sources of {longest} tokens",
            )


def _check_bleu(command: "Command", config: RunConfig, corpus: Corpus) -> None:
    if command.bleu < 0:
        raise UsageError(f"--bleu {command.bleu}", why="must not be negative")
    if command.bleu and not config.network.translates:
        raise UsageError(f"--bleu {command.bleu}", why="only translations have references; this corpus has no sources")
    if command.bleu and not len(corpus.split("validation")):
        raise UsageError(f"--bleu {command.bleu}", why=f"{command.data} has no validation pairs")


def _check_machine(config: RunConfig) -> None:
    if config.training.precision == "bfloat16":
        finding = probe_bfloat16()
        if not finding.fine:
            raise CapabilityError("training.precision=bfloat16", why=finding.reason, hint="training.precision=float32")
    if config.training.compile and shutil.which("g++") is None and shutil.which("clang++") is None:
        raise CapabilityError("training.compile=true", why="torch.compile needs a C++ compiler", hint="install g++")


def _claim(command: "Command", config: RunConfig, corpus: Corpus) -> None:
    """Refuse a folder that holds something else; with --force, empty it."""
    run, described, trained_on = command.out, command.out / "config.json", command.out / "corpus.sha256"
    # What begins with a dot was being written when a run was killed.
    strangers = sorted(entry.name for entry in run.iterdir() if entry.name not in _OURS and entry.name[0] != ".")
    if strangers:
        raise UsageError(f"{run} is not a run", why=f"it holds {strangers[0]}", hint="another --out")
    if command.force:
        for entry in run.iterdir():
            if entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    if described.exists():
        before = read_config(described)
        difference = _difference(before, config, corpus)
        if trained_on.exists() and trained_on.read_text(encoding="utf-8").strip() != corpus.fingerprint:
            difference = difference or f"{command.data} is not the corpus that it was trained on"
        if difference:
            raise UsageError(
                f"{run} holds another run",
                why=difference,
                hint="another --out, or --force to remove it and start anew",
            )
    else:
        write_whole(described, config.to_json())
    write_whole(trained_on, corpus.fingerprint + "\n")


def _difference(before: RunConfig, now: RunConfig, corpus: Corpus) -> str:
    """What would make another run of it; how the corpus is described would not."""
    old, new = before.to_dict(), now.to_dict()
    changed = [
        (s, k) for s in new for k in new[s] if new[s][k] != old[s][k] and not (s == "data" and k in corpus.about)
    ]
    return ", ".join(f"{s}.{k} was {old[s][k]} and is now {new[s][k]}" for s, k in changed)


def _network(command: "Command", config: RunConfig, corpus: Corpus) -> Transformer:
    torch.manual_seed(config.training.seed)
    network = build_network(config.network)
    if command.init is not None:
        _start_from(network, command.init, config, corpus)
    return network


def _train(command: "Command", config: RunConfig, corpus: Corpus, network: Transformer) -> None:
    run, checkpoints = command.out, command.out / "checkpoints"
    trainer = Trainer(build_loss(network, config.objective), config.training)
    progress = ProgressLog(steps=config.training.steps, step=0, quiet=command.quiet)
    try:
        resume(trainer, checkpoints, say=progress.say)
        if config.training.compile:
            network.compile()
        logs: list[Log] = [JsonLog(run / "metrics.jsonl", resumed_at=trainer.step), progress]
        if command.tensorboard:
            logs.append(TensorBoardLog(run / "tensorboard", resumed_at=trainer.step))
        outcome = train(
            trainer,
            plan_for(config, corpus.split("train")),
            folder=checkpoints,
            log=Logs(*logs),
            validations=_validations(command, config, corpus, trainer),
            say=progress.say,
        )
    finally:
        progress.close()
    if outcome.interrupted is not None:
        sys.exit(128 + outcome.interrupted)
    weights, made = final_weights(trainer, checkpoints)
    network.load_state_dict(weights)
    notes = f"Weights: {made}, after {outcome.step} updates.\n"
    model = as_model(network, corpus.tokenizer, config)
    save_model(model, run / "model", card=model_card(config, notes=notes), force=True)
    sys.stdout.write(f"{run / 'model'}\n")


def _start_from(network: Transformer, name: str, config: RunConfig, corpus: Corpus) -> None:
    """Take over the weights of a model; of one of another kind those that both have."""
    model = load_model(name)
    tokenizer = corpus.tokenizer
    if tokenizer.kind != model.tokenizer.kind or _token_texts(tokenizer) != _token_texts(model.tokenizer):
        raise UsageError(
            f"--init {name}",
            why="the corpus was prepared with another tokenizer",
            hint=f"sundae prepare ... --tokenizer-from {name}",
        )
    theirs, other_kind = model.network.state_dict(), model.config.network.kind != config.network.kind
    try:
        network.load_state_dict(_in_common(network.state_dict(), theirs) if other_kind else theirs)
    except RuntimeError as error:
        raise UsageError(f"--init {name}", why=f"its network differs from the preset's: {error}") from None


def _in_common(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights with theirs in their places: kinds of networks differ in lengths, marks and positions, not in blocks.

    Slot i of a twin, which sees the token before, predicts token i, and so does slot i of a canvas.
    """
    shared = {key: value for key, value in theirs.items() if key in ours and not key.startswith("length_")}
    if "begin_row" in ours and "marks.weight" in theirs:
        shared["begin_row"] = theirs["marks.weight"][BEGIN]
    for key in ("positions.weight", "source_positions.weight"):
        if key in shared:
            common = min(len(ours[key]), len(theirs[key]))
            shared[key] = torch.cat([theirs[key][:common], ours[key][common:]])
    return ours | shared


def _token_texts(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token_text(token) for token in range(tokenizer.vocabulary_size)]


def _validations(command: "Command", config: RunConfig, corpus: Corpus, trainer: Trainer) -> dict[str, Validation]:
    validations: dict[str, Validation] = {}
    held_out = corpus.split("validation")
    if len(held_out):
        batches = _fixed_batches(config, held_out)
        noise = Noise(config.training.seed).fold("validation")
        validations["validation"] = lambda: validate(trainer.module, batches, noise=noise)
    model = as_model(trainer.network, corpus.tokenizer, config)
    if command.samples and not config.network.translates and isinstance(model, Sundae | AutoregressiveTwin):
        validations["samples"] = lambda: {"samples": [each.text for each in model.generate(command.samples)]}
    if command.bleu:
        validations["bleu"] = _bleu_validation(command, config, corpus, trainer)
    return validations


def _bleu_validation(command: "Command", config: RunConfig, corpus: Corpus, trainer: Trainer) -> Validation:
    held_out, tokenizer = corpus.split("validation"), corpus.tokenizer
    # Spread over all of them: files are often sorted, and the first ones are then the easiest.
    some = min(command.bleu, len(held_out))
    rows = [number * len(held_out) // some for number in range(some)]
    sources = [tokenizer.decode(held_out.source(row).tolist()) for row in rows]
    references = [tokenizer.decode(held_out.text(row).tolist()) for row in rows]
    model = as_model(trainer.network, tokenizer, config)

    def validate_bleu() -> dict[str, Any]:
        bleu = corpus_bleu([each.text for each in model.translate(sources)], references, quiet=True)
        return {"bleu": bleu.score, "signature": bleu.signature, "sentences": len(sources)}

    corpus_bleu(references, references, quiet=True)  # is it installed?  Better asked now than after an hour
    return validate_bleu


def _fixed_batches(config: RunConfig, held_out: Any) -> list[Batch]:
    plan = plan_for(config, held_out)
    batches: list[Batch] = []
    for rows in plan.epoch(0):
        batches.append(plan.load(rows))
        if sum(batch.tokens for batch in batches) >= VALIDATION_TOKENS:
            break
    return batches
