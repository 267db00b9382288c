"""How good a text is: scores with the signature of what computed them."""
