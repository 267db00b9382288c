"""Random numbers without state: the same coordinates always give the same number.

Nothing is consumed, so a resumed run, another batch size or a row that stopped early cannot disturb any other sample.
Dropout alone uses torch's own generator.
"""

import zlib
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

# The finaliser of splitmix64 (Steele, Lea and Flood, 2014; constants of Stafford's variant 13).
_GAMMA, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
SLICE = 1 << 19  # logits that stay in the cache


def _signed(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _high_bits(x: Tensor, count: int) -> Tensor:
    """The first `count` of 64 bits as a number; torch's own shift would repeat the sign bit."""
    return (x >> (64 - count)) & ((1 << count) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _high_bits(x, 34)) * _signed(_MIX_1)
    x = (x ^ _high_bits(x, 37)) * _signed(_MIX_2)
    return x ^ _high_bits(x, 33)


def _mix_int(x: int) -> int:
    """The same without a tensor, which is far faster for a single number."""
    x %= 1 << 64
    x = (x ^ x >> 30) * _MIX_1 % (1 << 64)
    x = (x ^ x >> 27) * _MIX_2 % (1 << 64)
    return x ^ x >> 31


@dataclass(frozen=True)
class Noise:
    """A field of uniform random numbers, indexed by whole-number coordinates that broadcast."""

    seed: int

    def _bits(self, *coordinates: int | Tensor) -> Tensor:
        state = torch.tensor(_signed(self.seed))
        for coordinate in coordinates:
            # Always 64 bits: with a narrower coordinate torch would narrow the state, and the hash would collapse.
            state = _mix(state + _signed(_GAMMA) * torch.as_tensor(coordinate).long())
        return state

    def fold(self, *names: str | int) -> "Noise":
        """An independent field for a purpose or a step."""
        state = self.seed
        for name in names:
            state = _mix_int(state + _GAMMA * (zlib.crc32(name.encode()) if isinstance(name, str) else name))
        return Noise(state)

    def uniform(self, *coordinates: int | Tensor) -> Float[Tensor, "..."]:
        """Uniform on the multiples of 2^-24 in [0, 1): every one is exact in float32."""
        return _high_bits(self._bits(*coordinates), 24).to(torch.float32) * 2.0**-24

    def integer(self, below: int, *coordinates: int | Tensor) -> Int[Tensor, "..."]:
        """Uniform on 0 .. below-1 (63 random bits, so the modulo's bias is under below / 2^63)."""
        return _high_bits(self._bits(*coordinates), 63) % below


def sample_categorical(
    logits: Float[Tensor, "*any vocabulary"], *, uniform: Float[Tensor, "*any"], temperature: float = 1.0
) -> Int[Tensor, "*any"]:
    """Draw x ~ f^temperature from its logits by inverting the cumulative distribution; 0 is argmax.

    Paper: sec. 2.2 (Low-temperature sampling); listing, rand_categorical.
    """
    if temperature == 0:
        return logits.argmax(-1)
    if logits.dim() == 2 and logits.numel() > SLICE and len(logits) > 1:
        count = -(-logits.numel() // SLICE)
        slices = zip(logits.chunk(count), uniform.chunk(count), strict=True)
        return torch.cat([sample_categorical(own, uniform=u, temperature=temperature) for own, u in slices])
    scaled = logits.float() / temperature
    odds = scaled.sub_(scaled.amax(-1, keepdim=True)).clamp_(min=-80.0).exp_()  # what underflows is far slower
    cumulative = torch.threshold_(odds, 2e-35, 0.0).cumsum(-1)
    threshold = uniform.unsqueeze(-1) * cumulative[..., -1:]  # rounded or not: no impossible token is ever drawn
    # Logits that are not numbers lead beyond the last token: let the loss say so, not an index error.
    return torch.searchsorted(cumulative, threshold, right=True).squeeze(-1).clamp(max=logits.shape[-1] - 1)
