"""Named runs.  The `paper-` ones carry the figures of sections 3.1 and 3.2; docs/paper-map.md has our readings."""

from dataclasses import dataclass, replace

from sundae.config import (
    DataConfig,
    FrontierConfig,
    NetworkConfig,
    ObjectiveConfig,
    RunConfig,
    SamplingConfig,
    TrainingConfig,
    nearest,
)
from sundae.errors import UsageError


@dataclass(frozen=True)
class Preset:
    """A named configuration and one line that says what it is for."""

    summary: str
    config: RunConfig


# Section 3.1, Experiment Settings and Decoding.
_WMT14_ENDE = RunConfig(
    network=NetworkConfig(
        vocabulary_size=37_000,
        canvas=128,
        width=512,
        hidden=2048,
        heads=8,
        decoder_layers=6,
        encoder_layers=6,
        source_positions=128,
        length_hidden=128,
        length_blocks=6,
        dropout=0.1,
        scale_embedding=True,
    ),
    objective=ObjectiveConfig(unroll_steps=2, label_smoothing=0.1),
    training=TrainingConfig(
        steps=1_000_000,
        batch_size=4096,
        learning_rate=1e-4,
        initial_learning_rate=1e-7,
        final_learning_rate=1e-5,
        warmup_steps=5_000,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-6,
        weight_decay=0.1,
        precision="bfloat16",
        average_last=10,
    ),
    sampling=SamplingConfig(
        rule="low-temperature",
        steps=10,
        temperature=0.3,
        schedule="all",
        uncertain_share=0.3,
        candidates=16,
        stop_early=False,
    ),
    data=DataConfig(
        kind="parallel",
        tokenizer="pretokenised",
        description="WMT'14 English-German, joint BPE as in Vaswani et al. (2017), cropped to 128 tokens",
        source_language="en",
        target_language="de",
        training_pairs=4_500_000,
    ),
)

# Section 3.2, Unconditional Text Generation (Qualitative): "the same as the decoder part, but much larger".
_C4_32 = RunConfig(
    network=NetworkConfig(
        vocabulary_size=32_000,
        canvas=32,
        width=1024,
        hidden=4096,
        heads=16,
        decoder_layers=24,
        dropout=0.1,
        scale_embedding=True,
    ),
    objective=ObjectiveConfig(unroll_steps=2),
    training=TrainingConfig(
        steps=400_000,
        batch_size=4096,
        learning_rate=2e-3,
        initial_learning_rate=1e-7,
        final_learning_rate=1e-5,
        warmup_steps=10_000,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-6,
        weight_decay=0.1,
        precision="bfloat16",
    ),
    sampling=SamplingConfig(rule="low-temperature", steps=1000, temperature=0.8, schedule="share", share=0.3),
    data=DataConfig(
        kind="crops", tokenizer="sentencepiece", description="C4, SentencePiece 32K, random crops of 32 tokens"
    ),
)

# Ours, for a CPU.  Vocabulary, canvas and tokenizer are those of the corpus that they are trained on.
_TINY = RunConfig(
    network=NetworkConfig(
        vocabulary_size=1024, canvas=12, width=128, hidden=512, heads=4, decoder_layers=2, dropout=0.0
    ),
    training=TrainingConfig(
        steps=600,
        batch_size=48,
        learning_rate=6e-3,
        warmup_steps=50,
        clip=1.0,
        ema_decay=0.99,
        log_every=10,
        validate_every=200,
        checkpoint_every=200,
    ),
    sampling=SamplingConfig(steps=60, temperature=0.8, schedule="share", share=0.3),
)
_EVERYDAY = RunConfig(
    network=NetworkConfig(
        vocabulary_size=4096, canvas=24, width=256, hidden=1024, heads=4, decoder_layers=6, dropout=0.0
    ),
    objective=ObjectiveConfig(corruption_rates="even"),
    training=TrainingConfig(
        steps=24_000,
        batch_tokens=1000,
        learning_rate=1.5e-3,
        warmup_steps=1000,
        weight_decay=0.01,
        clip=1.0,
        ema_decay=0.999,
        log_every=50,
        validate_every=500,
        checkpoint_every=250,
    ),
    sampling=SamplingConfig(steps=50, temperature=0.8, final_temperature=0.7, schedule="share", share=0.6),
)

# Wu et al. (2021), "Good for Misconceived Reasons": Transformer-Tiny, the best published recipe for 29,000 pairs.
# Theirs has 8,000 updates of 8,000 tokens; on a CPU more and smaller ones go further in the same time.
_MULTI30K_AR = RunConfig(
    network=NetworkConfig(
        kind="autoregressive",
        vocabulary_size=6000,
        canvas=64,
        width=128,
        hidden=256,
        heads=4,
        decoder_layers=4,
        encoder_layers=4,
        source_positions=64,
        dropout=0.3,
        scale_embedding=True,
        rotary=True,
    ),
    objective=ObjectiveConfig(label_smoothing=0.1),
    training=TrainingConfig(
        steps=24_000,
        batch_tokens=1000,
        optimiser="muon",
        learning_rate=5e-3,
        warmup_steps=1000,
        beta2=0.98,
        epsilon=1e-9,
        weight_decay=1e-4,
        clip=1.0,
        average_last=10,
        log_every=100,
        validate_every=2000,
        checkpoint_every=400,
    ),
    data=DataConfig(
        kind="parallel",
        tokenizer="byte-bpe",
        description="Multi30k, 29,000 image captions, lower-cased and tokenised, joint BPE",
        source_language="en",
        target_language="de",
        training_pairs=29_000,
    ),
)

# The same network and budget; the noise of the corruption regularises too, so less of it is left to dropout.
_MULTI30K = replace(
    _MULTI30K_AR,
    network=replace(_MULTI30K_AR.network, kind="sundae", dropout=0.2),
    objective=replace(_MULTI30K_AR.objective, corruption_rates="even"),
    sampling=SamplingConfig(
        steps=10, temperature=0.3, schedule="all", uncertain_share=0.3, candidates=16, stop_early=False
    ),
)

# Short everyday sentences.  Narrow, so that a core sees the text often enough in a few hours.
_TATOEBA = replace(
    _MULTI30K,
    network=replace(_MULTI30K.network, vocabulary_size=8000, canvas=48, hidden=512, source_positions=48, dropout=0.1),
    objective=replace(_MULTI30K.objective, plain_share=0.6),
    training=replace(_MULTI30K.training, steps=14_000),
    sampling=replace(_MULTI30K.sampling, candidates=4),
    data=DataConfig(
        kind="parallel",
        tokenizer="byte-bpe",
        description="Tatoeba, short everyday sentences (tatoeba.org, manythings.org/anki; CC BY 2.0 FR)",
        source_language="en",
        target_language="de",
    ),
)

PRESETS: dict[str, Preset] = {
    "tiny": Preset("a first try on any text: a model in about a minute on a CPU", _TINY),
    "everyday": Preset("short English sentences, 6M parameters, hours on a CPU", _EVERYDAY),
    "multi30k": Preset("translation of image captions, 29,000 pairs, hours on a CPU", _MULTI30K),
    "multi30k-ar": Preset("translation of image captions, the autoregressive twin, hours on a CPU", _MULTI30K_AR),
    "tatoeba": Preset("translation of everyday sentences, 150,000 pairs, many hours on a CPU", _TATOEBA),
    "paper-wmt14-ende": Preset("translation, English to German, raw data, 63M parameters", _WMT14_ENDE),
    "paper-wmt14-deen": Preset(
        "translation, German to English, raw data",
        replace(
            _WMT14_ENDE,
            data=replace(
                _WMT14_ENDE.data,
                description="WMT'14 German-English, joint BPE as in Vaswani et al. (2017), cropped to 128 tokens",
                source_language="de",
                target_language="en",
            ),
        ),
    ),
    "paper-wmt14-enfr": Preset(
        "translation, English to French, raw data",
        replace(
            _WMT14_ENDE,
            network=replace(_WMT14_ENDE.network, vocabulary_size=32_000),
            data=replace(
                _WMT14_ENDE.data,
                description="WMT'14 English-French, 32K word pieces as in Vaswani et al. (2017), cropped to 128 tokens",
                target_language="fr",
                training_pairs=36_000_000,
            ),
        ),
    ),
    "paper-wmt14-ende-distilled": Preset(
        "translation, English to German, targets written by an autoregressive teacher",
        replace(
            _WMT14_ENDE,
            network=replace(_WMT14_ENDE.network, dropout=0.05),
            objective=replace(_WMT14_ENDE.objective, label_smoothing=0.0),
            data=replace(
                _WMT14_ENDE.data,
                description="WMT'14 English-German, German side decoded by an autoregressive Transformer",
            ),
        ),
    ),
    "paper-c4-32": Preset("unconditional text, 32 tokens, 335M parameters", _C4_32),
    "paper-c4-256": Preset(
        "unconditional text, 256 tokens, triangular update schedule",
        replace(
            _C4_32,
            network=replace(_C4_32.network, canvas=256),
            training=replace(_C4_32.training, steps=350_000),
            sampling=replace(_C4_32.sampling, schedule="triangle", stop_early=False),
            data=replace(_C4_32.data, description="C4, SentencePiece 32K, random crops of 256 tokens"),
        ),
    ),
    "paper-emnlp2017": Preset(
        "unconditional news sentences for the BLEU/self-BLEU frontier",
        replace(
            _C4_32,
            # The list of 5,697 has four special entries: 5,693 words, and our <pad> and <unk>.
            network=replace(_C4_32.network, vocabulary_size=5_695, canvas=52),
            training=replace(_C4_32.training, steps=8_000, batch_size=1024),
            sampling=replace(_C4_32.sampling, schedule="all", stop_early=False),
            data=DataConfig(
                kind="sentences",
                tokenizer="word",
                description="EMNLP2017 News, words as in ScratchGAN, one sentence padded to 52 tokens",
            ),
            frontier=FrontierConfig(
                lowest_temperature=0.1,
                highest_temperature=2.0,
                temperatures=60,
                quality_samples=10_000,
                diversity_samples=10_000,
            ),
        ),
    ),
    "paper-github-python": Preset(
        "in-painting of Python code, 32 tokens, trained twice as long",
        replace(
            _C4_32,
            training=replace(_C4_32.training, steps=800_000),
            sampling=replace(_C4_32.sampling, schedule="all"),
            data=replace(
                _C4_32.data,
                description=(
                    "Python files of GitHub repositories under apache-2.0, mit, bsd-3-clause, bsd-2-clause, unlicense, "
                    "cc0-1.0, isc or artistic-2.0; exact duplicates removed; crops of 32 tokens"
                ),
            ),
        ),
    ),
}


def preset(name: str) -> RunConfig:
    """The configuration of a named run."""
    if name not in PRESETS:
        raise UsageError(f"unknown preset {name!r}", why=nearest(name, PRESETS))
    return PRESETS[name].config
