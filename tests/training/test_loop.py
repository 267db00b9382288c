import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from sundae.config import RunConfig
from sundae.core.network import Transformer
from sundae.core.noise import Noise
from sundae.errors import DataError
from sundae.text.corpus import Corpus
from sundae.training.batches import Batch, plan_for
from sundae.training.loop import Outcome, Trainer, final_weights, resume, train
from sundae.training.losses import DenoisingLoss, Losses, validate
from sundae.training.metrics import JsonLog
from training.corpora import parallel_corpus, sentence_corpus


class Memory:
    """A log that keeps what it hears."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int, dict[str, Any]]] = []

    def record(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        self.records.append((kind, step, figures))

    def losses(self) -> dict[int, float]:
        return {step: figures["loss"] for kind, step, figures in self.records if kind == "train"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return sentence_corpus(tmp_path_factory.mktemp("corpus"))


def configured(corpus: Corpus, **training: object) -> RunConfig:
    usual = {"steps": 30, "batch_size": 8, "warmup_steps": 5, "log_every": 3, "validate_every": 10, "clip": 1.0}
    network = {
        "vocabulary_size": corpus.vocabulary_size,
        "canvas": corpus.canvas,
        "width": 16,
        "hidden": 32,
        "heads": 2,
        "decoder_layers": 1,
        "encoder_layers": int(corpus.kind == "parallel"),
        "dropout": 0.1,
    }
    return RunConfig().updated(
        {"network": network, "data": {"kind": corpus.kind}, "training": usual | {"checkpoint_every": 4} | training}
    )


def trainer_for(config: RunConfig) -> Trainer:
    torch.manual_seed(config.training.seed)
    return Trainer(DenoisingLoss(Transformer(config.network), config.objective), config.training)


def run(config: RunConfig, corpus: Corpus, folder: Path, *, log=None, validations=None) -> tuple[Trainer, Outcome]:
    trainer = trainer_for(config)
    resume(trainer, folder, say=lambda _: None)
    outcome = train(
        trainer,
        plan_for(config, corpus.split("train")),
        folder=folder,
        log=log or Memory(),
        validations=validations or {},
        say=lambda _: None,
    )
    return trainer, outcome


def same_weights(one: Trainer, other: Trainer) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.network.parameters(), other.network.parameters(), strict=True))


@pytest.mark.parametrize("settings", [{}, {"ema_decay": 0.9, "accumulate": 2}, {"optimiser": "muon"}])
def test_an_interrupted_run_ends_with_the_same_weights_and_losses(tmp_path: Path, corpus: Corpus, settings):
    config = configured(corpus, **settings)
    whole_log = Memory()
    whole, _ = run(config, corpus, tmp_path / "whole", log=whole_log)

    class Stop(Exception):  # noqa: N818
        pass

    class Fuse(Memory):
        limit = 0

        def record(self, kind: str, step: int, figures: dict[str, Any]) -> None:
            super().record(kind, step, figures)
            if kind == "train" and step == self.limit:
                raise Stop

    losses: dict[int, float] = {}
    for limit in (6, 15, 21):
        fuse = Fuse()
        fuse.limit = limit
        with pytest.raises(Stop):
            run(config, corpus, tmp_path / "broken", log=fuse)
        losses |= fuse.losses()
    rest = Memory()
    broken, _ = run(config, corpus, tmp_path / "broken", log=rest)
    assert same_weights(whole, broken)
    assert whole_log.losses() == losses | rest.losses()
    if whole.average is not None and broken.average is not None:
        assert all(torch.equal(a, broken.average.weights[name]) for name, a in whole.average.weights.items())


def test_a_signal_saves_the_step_and_the_same_call_goes_on(tmp_path: Path, corpus: Corpus):
    config = configured(corpus)
    whole, _ = run(config, corpus, tmp_path / "whole")
    interrupting = Memory()

    def interrupt() -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return {}

    first, outcome = run(config, corpus, tmp_path / "cut", log=interrupting, validations={"cut": interrupt})
    assert outcome.interrupted == signal.SIGTERM
    assert outcome.step == first.step == 10
    second, outcome = run(config, corpus, tmp_path / "cut")
    assert outcome.interrupted is None
    assert same_weights(whole, second)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_accumulation_equals_one_large_batch_without_dropout(corpus: Corpus):
    # The samples of the micro-batches have numbers of their own, so corruptions differ: use a loss without any.
    class Quadratic(torch.nn.Module):
        def __init__(self, network: Transformer) -> None:
            super().__init__()
            self.network = network

        def begin(self, done: float) -> None:
            del done

        def forward(self, batch: Batch, noise: Noise) -> Losses:
            del noise
            hidden = self.network(batch.clean)
            return Losses(hidden.square().mean(-1)[batch.inside].mean(), {})

    config = configured(corpus, clip=0.0).updated({"network": {"dropout": 0.0}})
    plan = plan_for(config, corpus.split("train"))
    one, two = plan.load(plan.epoch(0)[0]), plan.load(plan.epoch(0)[1][:3])
    both = Batch(torch.cat([one.clean, two.clean]), torch.cat([one.inside, two.inside]), torch.arange(11))
    results = []
    for batches in ([one, two], [both]):
        torch.manual_seed(0)
        trainer = Trainer(Quadratic(Transformer(config.network)), config.training)
        trainer.update(batches)
        results.append([weight.detach().clone() for weight in trainer.network.parameters()])
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_nothing_changes_when_a_loss_is_not_finite(tmp_path: Path, corpus: Corpus):
    config = configured(corpus)

    class Diverging(DenoisingLoss):
        def forward(self, batch: Batch, noise: Noise) -> Losses:
            losses = super().forward(batch, noise)
            return Losses(losses.total * (math.nan if trainer.step == 7 else 1.0), losses.parts)

    torch.manual_seed(0)
    trainer = Trainer(Diverging(Transformer(config.network), config.objective), config.training)
    with pytest.raises(DataError, match=r"diverged at step 7.*last good checkpoint: step 4"):
        train(
            trainer,
            plan_for(config, corpus.split("train")),
            folder=tmp_path,
            log=Memory(),
            validations={},
            say=lambda _: None,
        )
    assert all(weight.isfinite().all() for weight in trainer.network.parameters())


def test_training_learns_and_validation_sees_it(tmp_path: Path, corpus: Corpus):
    config = configured(corpus, steps=120, learning_rate=5e-3, ema_decay=0.9)
    plan = plan_for(config, corpus.split("validation"))
    batches = [plan.load(rows) for rows in plan.epoch(0)]
    trainer = trainer_for(config)
    before = validate(trainer.module, batches, noise=Noise(0))
    assert before == validate(trainer.module, batches, noise=Noise(0)), "the corruptions are fixed"
    trained, _ = run(config, corpus, tmp_path)
    after = validate(trained.module, batches, noise=Noise(0))
    assert set(after) == {"loss", "loss_1", "loss_2", "accuracy_1", "accuracy_2"}
    assert after["loss_2"] < 0.6 * before["loss_2"]


def test_translation_trains_its_length_predictor_beside_it(tmp_path: Path):
    pairs = parallel_corpus(tmp_path)
    config = configured(pairs, steps=150, learning_rate=2e-3, log_every=50)
    log = Memory()
    run(config, pairs, tmp_path / "run", log=log)
    first, last = log.records[0][2], log.records[-1][2]
    assert last["length_loss"] < first["length_loss"]
    assert last["length_accuracy"] > first["length_accuracy"]


def test_the_first_updates_may_train_plain_denoising_alone(tmp_path: Path, corpus: Corpus):
    def trained(name: str, **objective: object) -> tuple[Memory, Trainer]:
        config = configured(corpus, validate_every=15).updated({"objective": objective})
        log, batches = Memory(), [plan_for(config, corpus.split("validation")).load(torch.arange(8).numpy())]
        trainer = trainer_for(config)
        check = {"check": lambda: validate(trainer.module, batches, noise=Noise(0))}
        plan = plan_for(config, corpus.split("train"))
        train(trainer, plan, folder=tmp_path / name, log=log, validations=check, say=lambda _: None)
        return log, trainer

    (plain, plain_one), (half, half_one), (never, _) = (
        trained("plain", unroll_steps=1),
        trained("half", plain_share=0.5),
        trained("never"),
    )
    assert [plain.losses()[step] == half.losses()[step] for step in range(3, 31, 3)] == [True] * 5 + [False] * 5
    assert not any(half.losses()[step] == never.losses()[step] for step in range(3, 31, 3))
    assert [set(figures) >= {"loss_2"} for kind, _, figures in half.records if kind == "train"] == [False] * 5 + [
        True
    ] * 5
    assert all("loss_2" in figures for kind, _, figures in half.records if kind == "check")
    assert same_weights(plain_one, trained("all", plain_share=1.0)[1])
    assert not same_weights(plain_one, half_one)


def test_final_weights_are_the_mean_of_the_last_checkpoints(tmp_path: Path, corpus: Corpus):
    config = configured(corpus, average_last=3)
    trainer, _ = run(config, corpus, tmp_path)
    weights, how = final_weights(trainer, tmp_path)
    assert "3 checkpoints" in how
    assert not torch.equal(weights["norm.weight"], trainer.network.norm.weight)


def test_an_interruption_leaves_the_mean_of_the_last_checkpoints_as_it_was(tmp_path: Path, corpus: Corpus):
    config = configured(corpus, average_last=3)  # steps 24, 28 and 30
    whole, _ = run(config, corpus, tmp_path / "whole")

    def interrupt() -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return {}

    folder = tmp_path / "interrupted"
    cut = configured(corpus, average_last=3, validate_every=29)
    _, outcome = run(cut, corpus, folder, validations={"interrupt": interrupt})
    assert outcome == Outcome(29, signal.SIGTERM)
    resumed, _ = run(cut, corpus, folder)
    weights, how = final_weights(whole, tmp_path / "whole")
    again, same = final_weights(resumed, folder)
    assert how == same == "mean of the last 3 checkpoints"
    assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_the_log_drops_lines_that_will_be_written_again(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"kind": "train", "step": step, "loss": 1.0}) for step in (1, 2, 3)]
    path.write_text("\n".join(lines) + '\n{"kind": "tr', encoding="utf-8")
    JsonLog(path, resumed_at=2).record("train", 3, {"loss": 0.5})
    back = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(line["step"], line["loss"]) for line in back] == [(1, 1.0), (2, 1.0), (3, 0.5)]


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path, corpus: Corpus):
    run(configured(corpus), corpus, tmp_path)
    other = configured(corpus).updated({"network": {"width": 32}})
    with pytest.raises(DataError, match="does not fit"):
        resume(trainer_for(other), tmp_path, say=lambda _: None)
