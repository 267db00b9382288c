"""The chain x_t ~ f_theta(. | x_t-1): rules ask and return Updates; the chain answers, keeps locks, ends rows."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sundae.core.corruption import uniform_prior
from sundae.core.length import PAD, text_length
from sundae.core.network import Ask, Denoiser, Prediction
from sundae.core.noise import Noise, sample_categorical

Schedule = Callable[[int, int, Tensor], Tensor]
"""Of step t, T and the number N of a row's editable positions: how many of them the step updates."""


def update_all(_step: int, _steps: int, editable: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """Every editable position at every step.

    Paper: sec. 3.1 (Decoding); sec. 3.2 (Text In-painting, EMNLP2017 News).
    """
    return editable


def update_share(share: float) -> Schedule:
    """A random share of the positions at every step, as an exact count.

    Paper: sec. 2.2 (Updating fewer tokens); sec. 3.2 ("update only 30% of all tokens at each step").
    """
    return lambda _step, _steps, editable: _rounded_up(share, editable)


def update_triangle(step: int, steps: int, editable: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """floor(2 N min(t/T, 1 - t/T)) positions: few, then all in the middle, then few again.

    Paper: sec. 3.2 (Long-range unconditional generation).
    """
    return 2 * editable * min(step, steps - step) // steps


def _rounded_up(share: float, of: Tensor) -> Tensor:
    """ceil(share * of), where 0.1 * 30 is 3 and not a hair more."""
    return torch.ceil(share * of.double() - 1e-9).long()


@dataclass(frozen=True)
class View:
    """What a rule sees at one step: the rows that still run."""

    rows: Int[Tensor, " rows"]
    tokens: Int[Tensor, "rows width"]
    inside: Bool[Tensor, "rows width"]
    editable: Bool[Tensor, "rows width"]
    certainty: Float[Tensor, "rows width"]
    samples: Int[Tensor, " rows"]
    noise: Noise
    step: int
    steps: int

    def uniform(self, purpose: str) -> Float[Tensor, "rows width"]:
        """One number for each position, which no other row, step or purpose shares."""
        positions = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return self.noise.fold(purpose, self.step).uniform(self.samples[:, None], positions)

    def logits(self, tokens: Tensor, *, where: Tensor) -> Generator[Ask, Prediction, Tensor]:
        """Ask for f_theta(. | tokens) at `where`; rows that want nothing are not sent to the network."""
        wanting = where.any(1)
        if wanting.all():
            return (yield Ask(tokens, self.rows, self.inside, where)).logits
        return (yield Ask(tokens[wanting], self.rows[wanting], self.inside[wanting], where[wanting])).logits


@dataclass(frozen=True)
class Update:
    """What a rule did: the new tokens and the positions it looked at.

    `certainty`, the log-probability of each position's likeliest token, is handed back to the rule at the next step;
    `settled`, if given, says which rows can never change again under this rule.
    """

    tokens: Int[Tensor, "rows width"]
    seen: Bool[Tensor, "rows width"]
    certainty: Float[Tensor, "rows width"]
    settled: Bool[Tensor, " rows"] | None = None


@runtime_checkable
class Rule(Protocol):
    """One way to go from x_t-1 to x_t.

    `deterministic`: x_t depends on x_t-1 and x_t-2 alone, so that a pair seen before means a cycle.
    `runs_to_end`: a row is never stopped early.
    """

    @property
    def deterministic(self) -> bool: ...

    @property
    def runs_to_end(self) -> bool: ...

    def step(self, view: View) -> Generator[Ask, Prediction, Update]: ...


def lowest(
    order: Float[Tensor, "rows width"], *, among: Bool[Tensor, "rows width"], count: Int[Tensor, " rows"]
) -> Bool[Tensor, "rows width"]:
    """Exactly `count` positions of `among` in each row: those that come first in `order`."""
    rank = order.masked_fill(~among, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    return (rank < count[:, None]) & among


@dataclass(frozen=True)
class LowTemperature:
    """x_t ~ f^tau(. | x_t-1) at the positions that the schedule chooses; tau = 0 is argmax.

    Paper: sec. 2.2 (Low-temperature sampling, Updating fewer tokens); sec. 3.1 (Decoding); listing, sampling_fn.
    """

    temperature: float = 1.0
    schedule: Schedule = update_all

    @property
    def deterministic(self) -> bool:
        return self.temperature == 0 and self.schedule is update_all

    @property
    def runs_to_end(self) -> bool:
        return self.schedule is update_triangle

    def step(self, view: View) -> Generator[Ask, Prediction, Update]:
        chosen = view.editable
        if self.schedule is not update_all:  # then there is nothing to choose
            count = self.schedule(view.step, view.steps, view.editable.sum(1))
            chosen = lowest(view.uniform("choice"), among=view.editable, count=count)
        if not chosen.any():
            return Update(view.tokens, chosen, view.certainty)
        logits = yield from view.logits(view.tokens, where=chosen)
        drawn = sample_categorical(logits, uniform=view.uniform("token")[chosen], temperature=self.temperature)
        return Update(view.tokens.masked_scatter(chosen, drawn), chosen, view.certainty)


@dataclass(frozen=True)
class ArgmaxUnrolled:
    """Argmax everywhere; where the step before was least certain, argmax once more, given the others' new tokens.

    Paper: sec. 2.2 (Argmax-unrolled decoding); sec. 3.1 (Decoding).  `uncertain_share` is its rho or 1 - rho.
    """

    uncertain_share: float = 0.3
    deterministic: bool = field(default=True, init=False)
    runs_to_end: bool = field(default=False, init=False)

    def step(self, view: View) -> Generator[Ask, Prediction, Update]:
        logits = yield from view.logits(view.tokens, where=view.editable)  # lambda_t = f(. | y_t-1)
        best, token = torch.log_softmax(logits.float(), dim=-1).max(-1)
        certainty = view.certainty.masked_scatter(view.editable, best)
        predicted = view.tokens.masked_scatter(view.editable, token)
        # If argmax reproduces y_t-1 then the second argmax sees the same input: nothing can change any more.
        settled = (predicted == view.tokens).all(1)
        tokens = predicted
        if view.step > 1:
            count = _rounded_up(self.uncertain_share, view.editable.sum(1))
            uncertain = lowest(view.certainty, among=view.editable, count=count)  # under lambda_t-1
            if uncertain.any():
                unrolled = yield from view.logits(predicted, where=uncertain)
                tokens = predicted.masked_scatter(uncertain, unrolled.argmax(-1))
        return Update(tokens, view.editable, certainty, settled)


@dataclass(frozen=True)
class ChainState:
    """x_t of every row; `run_chain` adds how many network calls each row took part in, and how many there were."""

    step: int
    tokens: Int[Tensor, "rows width"]
    changed: Bool[Tensor, "rows width"]
    finished: Bool[Tensor, " rows"]
    certainty: Float[Tensor, "rows width"]
    calls: Int[Tensor, " rows"]
    network_calls: int = 0


def draw_start(
    template: Int[Tensor, "rows width"],
    *,
    editable: Bool[Tensor, "rows width"],
    samples: Int[Tensor, " rows"],
    vocabulary_size: int,
    noise: Noise,
) -> Int[Tensor, "rows width"]:
    """x_0: the prior where the chain may write, the prompt or template elsewhere.

    Paper: sec. 2.2 ("potentially starting with a prompt or a template"); sec. 3.2 (Text In-painting).
    """
    prior = uniform_prior(samples, width=template.shape[1], vocabulary_size=vocabulary_size, noise=noise)
    return torch.where(editable, prior, template)


def unfold_chain(
    start: Int[Tensor, "rows width"],
    *,
    rule: Rule,
    steps: int,
    noise: Noise,
    samples: Int[Tensor, " rows"],
    inside: Bool[Tensor, "rows width"],
    editable: Bool[Tensor, "rows width"],
    stop: bool = True,
) -> Generator[Ask | ChainState, Prediction, None]:
    """x_0 .. x_T as a conversation: yields Asks, to be answered, and after every step a ChainState.

    Paper: eq. 1, 5 to 7; sec. 2.2; sec. 3.2 ("stopping earlier if samples do not change anymore").
    """
    editable, noise = editable & inside, noise.fold("chain")
    nothing, done = torch.zeros_like(editable), ~editable.any(1)
    unknown, uncounted = torch.zeros(start.shape, device=start.device), torch.zeros_like(samples)
    state = ChainState(0, start, nothing, done, unknown, uncounted)
    yield state
    quiet = nothing.clone()  # looked at since the row last changed
    visited: list[set[bytes]] = [set() for _ in start]  # pairs (x_t-1, x_t) of a deterministic rule
    for step in range(1, steps + 1):
        rows = (~done).nonzero().squeeze(1)
        if not len(rows):
            return
        running = (each[rows] for each in (state.tokens, inside, editable, state.certainty, samples))
        view = View(rows, *running, noise=noise, step=step, steps=steps)
        update = yield from rule.step(view)
        new = torch.where(view.editable, update.tokens, view.tokens)  # locked positions never change
        changed = new != view.tokens
        if stop and not rule.runs_to_end:
            seen = (quiet[rows] | update.seen) & ~changed.any(1, keepdim=True)
            quiet[rows] = seen
            settled = (seen | ~view.editable).all(1) if update.settled is None else update.settled
            if rule.deterministic:
                settled = settled | _in_cycle(visited, rows, before=view.tokens, after=new)
            done = done.index_put((rows,), settled)
        state = ChainState(
            step,
            tokens=state.tokens.index_put((rows,), new),
            changed=nothing.index_put((rows,), changed),
            finished=done,
            certainty=state.certainty.index_put((rows,), update.certainty),
            calls=uncounted,
        )
        yield state


def _in_cycle(visited: list[set[bytes]], rows: Tensor, *, before: Tensor, after: Tensor) -> Tensor:
    repeated: list[bool] = []
    for row, pair in zip(map(int, rows), torch.cat([before, after], dim=1).cpu().numpy(), strict=True):
        repeated.append(pair.tobytes() in visited[row])
        visited[row].add(pair.tobytes())
    return torch.tensor(repeated, device=before.device)


def run_chain(denoiser: Denoiser, conversation: Generator[Ask | ChainState, Prediction, None]) -> Iterator[ChainState]:
    """Drive one chain with one denoiser, step by step, counting the network calls.

    Paper: eq. 1; sec. 2.2; listing, sampling_fn.
    """
    event, calls, network_calls = next(conversation, None), None, 0
    while event is not None:
        if isinstance(event, Ask):
            assert calls is not None, "a chain begins with its state x_0"
            calls = calls.index_add(0, event.rows, torch.ones_like(event.rows))
            network_calls += 1
            event = conversation.send(denoiser(event))
        else:
            calls = event.calls if calls is None else calls
            yield replace(event, calls=calls, network_calls=network_calls)
            event = next(conversation, None)


@dataclass(frozen=True)
class ModelScore:
    """`total` ranks candidates on one canvas; `per_token`, total over the text's length, those of different length."""

    total: Float[Tensor, " rows"]
    per_token: Float[Tensor, " rows"]


def model_score(
    denoiser: Denoiser,
    tokens: Int[Tensor, "rows width"],
    *,
    inside: Bool[Tensor, "rows width"],
    rows: Int[Tensor, " rows"] | None = None,
) -> ModelScore:
    """sum_i log f_theta(y_i | y) over the canvas: one more call, with y as its own input.

    Paper: sec. 3.1 (Decoding, "rerank them based on the model score"); app. E (Translation analysis).
    """
    rows = torch.arange(len(tokens), device=tokens.device) if rows is None else rows
    logits = denoiser(Ask(tokens, rows, inside, inside)).logits.float()
    log_probability = logits.gather(1, tokens[inside][:, None]).squeeze(1) - logits.logsumexp(1)
    total = torch.zeros(tokens.shape, device=tokens.device).masked_scatter(inside, log_probability).sum(1)
    return ModelScore(total, total / text_length(tokens.masked_fill(~inside, PAD)).clamp(min=1))
