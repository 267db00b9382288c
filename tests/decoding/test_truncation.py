import torch
from hypothesis import given
from hypothesis import strategies as st

from sundae.decoding.truncation import keep_likeliest

LOGITS = st.lists(st.lists(st.floats(-8, 8, width=32), min_size=6, max_size=6), min_size=1, max_size=4)


@given(LOGITS, st.integers(0, 8))
def test_top_k_keeps_the_k_likeliest_and_nothing_else(rows, k):
    logits = torch.tensor(rows)
    kept = keep_likeliest(logits, top_k=k)
    for before, after in zip(logits, kept, strict=True):
        expected = 6 if k == 0 else min(k, 6)
        least = before.sort(descending=True).values[expected - 1]
        assert torch.equal(after.isfinite(), before >= least)  # equals at the border stay together
        assert torch.equal(after[after.isfinite()], before[after.isfinite()])


@given(LOGITS, st.floats(0.01, 1.0))
def test_top_p_keeps_the_smallest_set_that_is_likely_enough(rows, p):
    logits = torch.tensor(rows)
    kept = keep_likeliest(logits, top_p=p)
    for before, after in zip(logits, kept, strict=True):
        probability = before.softmax(0)
        chosen = after.isfinite()
        total, least = float(probability[chosen].sum()), float(probability[chosen].min())
        assert total >= p - 1e-5
        assert total - least < p + 1e-5  # without its least likely member it would not do
        if bool((~chosen).any()):
            assert float(probability[~chosen].max()) <= least + 1e-7


def test_both_together_and_neither():
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    assert torch.equal(keep_likeliest(logits), logits)
    assert keep_likeliest(logits, top_k=3, top_p=0.7).isfinite().tolist() == [[True, True, False, False]]
    assert keep_likeliest(logits, top_p=0.0).isfinite().sum() == 1
