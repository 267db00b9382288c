"""Random numbers without state: the same coordinates always give the same number.

Nothing is consumed, so a resumed run, another batch size or a row that stopped early cannot disturb
the randomness of any other sample.  Dropout alone uses torch's own generator.
"""

import zlib
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


# The finaliser of splitmix64 (Steele, Lea and Flood, 2014; constants of Stafford's variant 13).
_GAMMA = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift_right(x: Tensor, by: int) -> Tensor:
    """Logical shift of 64 bits; torch's own shift of a signed number repeats the sign bit."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


@dataclass(frozen=True)
class Noise:
    """A field of uniform random numbers, indexed by whole-number coordinates that broadcast."""

    seed: int

    def _bits(self, *coordinates: int | Tensor) -> Tensor:
        state = torch.tensor(_signed(self.seed % (1 << 64)))
        for coordinate in coordinates:
            # Always 64 bits: with a narrower coordinate torch would narrow the state, and the hash would collapse.
            state = _mix(state + _GAMMA * torch.as_tensor(coordinate).long())
        return _mix(state + _GAMMA)

    def fold(self, *names: str | int) -> "Noise":
        """An independent field for a purpose or a step."""
        keys = (zlib.crc32(name.encode()) if isinstance(name, str) else name for name in names)
        return Noise(int(self._bits(*keys)))

    def uniform(self, *coordinates: int | Tensor) -> Float[Tensor, "..."]:
        """Uniform on the multiples of 2^-24 in [0, 1): every one is exact in float32."""
        return _shift_right(self._bits(*coordinates), 40).to(torch.float32) * 2.0**-24

    def integer(self, below: int, *coordinates: int | Tensor) -> Int[Tensor, "..."]:
        """Uniform on 0 .. below-1 (63 random bits, so the modulo's bias is under below / 2^63)."""
        return _shift_right(self._bits(*coordinates), 1) % below


def sample_categorical(
    logits: Float[Tensor, "*any vocabulary"], *, uniform: Float[Tensor, "*any"], temperature: float = 1.0
) -> Int[Tensor, "*any"]:
    """Draw x ~ f^temperature from its logits by inverting the cumulative distribution; 0 is argmax.

    Paper: sec. 2.2 (Low-temperature sampling); listing, rand_categorical.
    """
    if temperature == 0:
        return logits.argmax(-1)
    cumulative = torch.softmax(logits.float() / temperature, dim=-1).cumsum(-1)
    # Scaling by the last entry keeps the threshold below it whatever the rounding: an impossible token is never drawn.
    threshold = uniform.unsqueeze(-1) * cumulative[..., -1:]
    drawn = torch.searchsorted(cumulative, threshold, right=True).squeeze(-1)
    return drawn.clamp(max=logits.shape[-1] - 1)  # logits that are not numbers: let the loss say so, not an index error
