from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sundae.measure.ngrams import count_by_text, number_ngrams, split_texts

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=6).map(" ".join), max_size=5)


@given(TEXTS)
def test_equal_numbers_mean_equal_ngrams_and_none_is_missed(texts: list[str]):
    tokens = split_texts(texts)
    words = [text.split() for text in texts]
    flat = [word for row in words for word in row]
    for ngrams in number_ngrams(tokens, largest=4):
        n = ngrams.order
        expected = [(i, tuple(row[p : p + n])) for i, row in enumerate(words) for p in range(len(row) - n + 1)]
        found = [(i, tuple(flat[p : p + n])) for i, p in zip(ngrams.text, ngrams.start, strict=True)]
        assert found == expected
        # A one-to-one map between numbers and n-grams.
        pairs = {(number, gram) for number, (_, gram) in zip(ngrams.ids.tolist(), found, strict=True)}
        assert len(pairs) == len({number for number, _ in pairs}) == len({gram for _, gram in pairs})
        assert ngrams.distinct == len(pairs)
        assert set(ngrams.ids.tolist()) == set(range(ngrams.distinct))


@given(TEXTS)
def test_counts_by_text_are_those_of_a_counter(texts: list[str]):
    for ngrams in number_ngrams(split_texts(texts), largest=3):
        counted = count_by_text(ngrams, texts=len(texts))
        expected = Counter(zip(ngrams.ids.tolist(), ngrams.text.tolist(), strict=True))
        keys = list(zip(counted.ngram.tolist(), counted.text.tolist(), strict=True))
        assert keys == sorted(expected)
        assert counted.count.tolist() == [expected[key] for key in keys]
