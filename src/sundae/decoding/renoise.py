"""Writing fresh noise where a prediction is not kept: what a model that was trained on uniform noise can mend.

Masked models put the mask back; a model without a mask gets a uniform token instead, which is how its training
corrupted text.  What is noise is not marked, so the model judges every position anew at every step.
"""

import torch
from torch import Tensor

from sundae.core.sampling import View


def uniform_token(logits: Tensor, *, lines: Tensor, uniform: Tensor, again: Tensor) -> Tensor:
    """A token for each of these lines of logits, uniform over the vocabulary but for what is barred (logit -inf).

    Where the first number hits a barred token, the second one, `again`, chooses among the others: counting those is
    work on the whole vocabulary.
    """
    drawn = (uniform.double() * logits.shape[-1]).long()
    wrong = logits[lines, drawn] == -torch.inf
    if not wrong.any():
        return drawn
    upto = (logits[lines[wrong]] > -torch.inf).cumsum(-1, dtype=torch.int32)
    number = (again[wrong].double() * upto[..., -1]).int()  # which of the tokens that may stand there
    other = torch.searchsorted(upto, number.unsqueeze(-1), right=True).squeeze(-1)
    return drawn.masked_scatter(wrong, other.clamp(max=logits.shape[-1] - 1))


def keep_or_renoise(view: View, logits: Tensor, *, drawn: Tensor, keep: Tensor) -> Tensor:
    """x_t: the drawn token at the editable positions of `keep`, fresh noise at all other editable positions.

    `logits` and `drawn` have one line for each editable position.
    """
    noisy = view.editable & ~keep
    lines = noisy[view.editable].nonzero().squeeze(1)
    uniform, again = (view.uniform(purpose)[noisy] for purpose in ("renoise", "renoise again"))
    noise = uniform_token(logits, lines=lines, uniform=uniform, again=again)
    return view.tokens.masked_scatter(view.editable, drawn).masked_scatter(noisy, noise)
