"""The command line. Importing it is cheap: `--help` loads no library."""

from tui.cli.main import main, program

__all__ = ["main", "program"]
