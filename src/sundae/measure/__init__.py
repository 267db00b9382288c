"""How good, how varied and how fast: scores with the signature, the seed and the interval of what computed them."""
