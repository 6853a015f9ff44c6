"""`python -m treercu` is the command `treercu`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
