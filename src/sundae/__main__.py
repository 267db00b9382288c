"""`python -m sundae` is `sundae`."""

import sys

from sundae.cli import main

if __name__ == "__main__":  # a spawned worker imports this module again
    sys.exit(main())
