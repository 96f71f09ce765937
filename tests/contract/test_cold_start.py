"""What is asked for often has to start at once."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("textual", "botocore", "boto3", "kubernetes", "aiohttp", "yaml", "msgspec")

PROBE = """
import sys
from tui.cli import main
try:
    main({argv!r})
except SystemExit as stop:
    assert stop.code == 0, stop.code
loaded = [name for name in {heavy!r} if name in sys.modules]
print("loaded:", loaded)
"""


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["runs", "--help"], ["nodes", "--help"]])
def test_help_loads_no_library(argv: list[str]) -> None:
    program = PROBE.format(argv=argv, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.endswith("loaded: []\n")


def test_the_version_is_the_packages() -> None:
    from tui.cli.arguments import VERSION

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
