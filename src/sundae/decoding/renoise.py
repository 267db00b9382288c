"""Writing fresh noise where a prediction is not kept: what a model that was trained on uniform noise can mend.

Masked models put the mask back; a model without a mask gets a uniform token instead, which is how its training
corrupted text.  What is noise is not marked, so the model judges every position anew at every step.
"""

import torch
from torch import Tensor

from sundae.core.sampling import View


def uniform_token(logits: Tensor, *, uniform: Tensor) -> Tensor:
    """A token for each line of logits, uniform over the vocabulary but for what is barred there (logit -inf)."""
    upto = (logits > -torch.inf).cumsum(-1, dtype=torch.int32)
    number = (uniform.double() * upto[..., -1]).int()  # which of the tokens that may stand there
    drawn = torch.searchsorted(upto, number.unsqueeze(-1), right=True).squeeze(-1)
    return drawn.clamp(max=logits.shape[-1] - 1)


def keep_or_renoise(view: View, logits: Tensor, *, drawn: Tensor, keep: Tensor) -> Tensor:
    """x_t: the drawn token at the editable positions of `keep`, fresh noise at all other editable positions.

    `logits` and `drawn` have one line for each editable position.
    """
    noisy = ~keep[view.editable]
    noise = uniform_token(logits[noisy], uniform=view.uniform("renoise")[view.editable][noisy])
    return view.tokens.masked_scatter(view.editable, drawn.masked_scatter(noisy, noise))
