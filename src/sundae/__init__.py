"""Step-unrolled denoising autoencoders for text (SUNDAE, ICLR 2022).

Importing this package does not import torch; public names load what they need when first used.
"""

import importlib
from typing import Any

from sundae.machine import guard_cpu

__version__ = "0.1.0.dev0"

# It must run before torch is first imported, hence here.
guard_cpu()

_PUBLIC = {
    "NetworkConfig": "sundae.config",
    "ObjectiveConfig": "sundae.config",
    "RunConfig": "sundae.config",
    "SamplingConfig": "sundae.config",
    "TrainingConfig": "sundae.config",
    "Sundae": "sundae.model",
    "preset": "sundae.presets",
    "Noise": "sundae.core.noise",
    "Transformer": "sundae.core.network",
    "as_denoiser": "sundae.core.network",
    "unrolled_loss": "sundae.core.objective",
    "run_chain": "sundae.core.sampling",
    "unfold_chain": "sundae.core.sampling",
}

__all__ = ["__version__", *_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sundae' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
