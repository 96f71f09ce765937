"""`python -m tui.cli`."""

import sys

from tui.cli.main import program

if __name__ == "__main__":
    sys.exit(program())
