"""Small texts that the tests of this room share."""

import random

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "sat",
    "ran",
    "sang",
    "on",
    "under",
    "over",
    "mat",
    "tree",
    "hill",
    "and",
    "then",
    "it",
    "was",
    "very",
    "happy",
    "<pad>",
    "naïve",
    "猫",
]


def make_sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) + "." for _ in range(count)]


SENTENCES = make_sentences(400)
