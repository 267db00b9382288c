"""How much of the machine's matrix speed a training step uses, and how it compares with the paper's listing.

    python benchmarks/train_speed.py [--threads 2] [--repeats 7]

One run measures, alternating: the GEMM peak, our step, and the same step written plainly after the paper's listing
(cross_entropy, Categorical).  Utilisation: the matmul FLOPs that the step needs, nothing counted twice, / time / peak.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import sundae
from sundae.config import NetworkConfig, ObjectiveConfig, TrainingConfig
from sundae.core.corruption import corrupt, corruption_rates
from sundae.core.length import half_length, length_loss, text_length
from sundae.core.network import Transformer
from sundae.core.noise import Noise
from sundae.training.batches import Batch
from sundae.training.loop import Trainer
from sundae.training.losses import DenoisingLoss

CASES = {
    "4+4 layers, d 128": NetworkConfig(
        vocabulary_size=8000,
        canvas=32,
        width=128,
        hidden=512,
        heads=4,
        decoder_layers=4,
        encoder_layers=4,
        source_positions=32,
        dropout=0.1,
    ),
    "8 layers, d 512": NetworkConfig(
        vocabulary_size=8000, canvas=32, width=512, hidden=2048, heads=8, decoder_layers=8, dropout=0.1
    ),
}
ROWS, CANVAS, SOURCE = 64, 32, 24  # 2,048 target tokens


def matmul_flops(config: NetworkConfig, passes: int) -> float:
    """Forward and backward (twice the forward) of every matrix product of one step with `passes` unrolls."""
    d, target, source = config.width, ROWS * CANVAS, ROWS * SOURCE
    feed = 2 * d * config.hidden
    encoder = decoder = 0.0
    if config.translates:
        memory = source + ROWS  # with the length slot
        encoder = config.encoder_layers * (2 * source * (4 * d * d + feed) + 4 * ROWS * SOURCE * SOURCE * d)
        encoder += config.decoder_layers * 2 * memory * 2 * d * d  # cross-attention keys and values, once
        decoder = config.decoder_layers * (2 * target * 2 * d * d + 4 * ROWS * CANVAS * (SOURCE + 1) * d)
    decoder += config.decoder_layers * (2 * target * (4 * d * d + feed) + 4 * ROWS * CANVAS * CANVAS * d)
    vocabulary = 2 * target * d * config.vocabulary_size
    return 3 * (encoder + passes * (decoder + vocabulary))


def make_batch(config: NetworkConfig) -> Batch:
    torch.manual_seed(0)
    clean = torch.randint(1, config.vocabulary_size, (ROWS, CANVAS))
    everywhere = torch.ones(ROWS, CANVAS, dtype=torch.bool)
    if not config.translates:
        return Batch(clean, everywhere, torch.arange(ROWS))
    source = torch.randint(1, config.vocabulary_size, (ROWS, SOURCE))
    return Batch(clean, everywhere, torch.arange(ROWS), source, torch.ones(ROWS, SOURCE, dtype=torch.bool))


def our_step(config: NetworkConfig, smoothing: float) -> Callable[[], None]:
    torch.manual_seed(0)
    module = DenoisingLoss(Transformer(config), ObjectiveConfig(label_smoothing=smoothing))
    trainer, batch = Trainer(module, TrainingConfig(clip=1.0)), make_batch(config)

    def step() -> None:
        trainer.update([batch])

    return step


def plain_step(config: NetworkConfig, smoothing: float) -> Callable[[], None]:
    """The listing of the paper, with torch's own loss, sampler and optimiser."""
    torch.manual_seed(0)
    network, batch = Transformer(config).train(), make_batch(config)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-4)

    def step() -> None:
        noise = Noise(0)
        rates = corruption_rates(batch.samples, noise=noise)
        x = corrupt(batch.clean, rates=rates, samples=batch.samples, vocabulary_size=8000, noise=noise)
        memory, losses = None, []
        if batch.source is not None and batch.source_inside is not None:
            encodings = network.encode(batch.source, inside=batch.source_inside)
            half = half_length(text_length(batch.clean))
            memory = network.remember(encodings, inside=batch.source_inside, half=half)
            predicted = network.length_predictor(encodings, inside=batch.source_inside)
            losses.append(length_loss(predicted, half=half))
        for _ in range(2):
            logits = network.logits(network(x, memory=memory))
            losses.append(F.cross_entropy(logits.flatten(0, 1), batch.clean.flatten(), label_smoothing=smoothing) / 2)
            x = torch.distributions.Categorical(logits=logits.detach()).sample()
        optimiser.zero_grad()
        torch.stack(losses).sum().backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()

    return step


def gemm(size: int = 2048) -> Callable[[], None]:
    a, b, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)

    def product() -> None:
        torch.mm(a, b, out=out)

    return product


def seconds(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    product = gemm()
    report: dict[str, object] = {
        "threads": arguments.threads,
        "repeats": arguments.repeats,
        "seed": 0,
        "torch": torch.__version__,
        "sundae": sundae.__version__,
        "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
    }
    for name, config in CASES.items():
        smoothing = 0.1 if config.translates else 0.0
        ours, plain = our_step(config, smoothing), plain_step(config, smoothing)
        times: dict[str, list[float]] = {"gemm": [], "ours": [], "plain": []}
        for action in (product, ours, plain):
            action()  # warm-up
        for _ in range(arguments.repeats):
            times["gemm"] += [seconds(product) for _ in range(3)]
            times["ours"].append(seconds(ours))
            times["plain"].append(seconds(plain))
        peak = 2 * 2048**3 / statistics.median(times["gemm"])
        flops = matmul_flops(config, passes=2)
        mine, theirs = statistics.median(times["ours"]), statistics.median(times["plain"])
        report[name] = {
            "peak_gflops": round(peak / 1e9, 1),
            "step_gflop": round(flops / 1e9, 1),
            "ours_seconds": round(mine, 3),
            "plain_seconds": round(theirs, 3),
            "ours_share_of_peak": round(flops / mine / peak, 3),
            "plain_share_of_peak": round(flops / theirs / peak, 3),
            "speedup": round(theirs / mine, 2),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
