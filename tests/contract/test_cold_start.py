"""The commands that are used often have to start at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import modules_of

ROOT = Path(__file__).parents[2]
HEAVY = ("textual", "botocore", "boto3", "kubernetes", "aiohttp", "yaml", "msgspec")

LIBRARY = re.compile(r"kubernetes\b|actions\.cluster\.auth\.typed\b")
"""The library, and the module that imports it at once and is imported in functions for that."""

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


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("runs", ("aiohttp", "yaml", "actions.blueprint", "actions.run.engine.live_backend", "actions.run.results")),
        ("nodes", ("aiohttp", "actions.cluster.diagnose", "actions.telemetry", "actions.run")),
    ],
)
def test_a_command_loads_only_what_its_quick_verbs_need(command: str, unneeded: tuple[str, ...]) -> None:
    program = (
        f"import sys; from tui.cli.main import function_of; function_of({command!r});"
        f"print([name for name in {unneeded!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_the_client_library_is_imported_in_functions_alone() -> None:
    at_once = {
        str(module.path)
        for module in modules_of("actions", "tui")
        for node in module.tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom)) and LIBRARY.match(ast.unparse(node).partition(" ")[2])
    }
    assert at_once == {"actions/cluster/auth/typed.py"}


CONNECT = """
import asyncio, sys
from pathlib import Path
from actions.cluster.auth.session import ClusterTarget, KubeSession
async def main():
    await (await KubeSession.connect(ClusterTarget(Path(sys.argv[1])))).aclose()
asyncio.run(main())
print("loaded:", "kubernetes" in sys.modules)
"""


def test_connecting_in_the_usual_way_does_not_wait_for_the_client_library(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    authority = ROOT / "tests" / "fixtures" / "tls" / "ca.pem"
    file.write_text(
        "current-context: here\n"
        "contexts: [{name: here, context: {cluster: c}}]\n"
        f"clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1', certificate-authority: {authority}}}}}]\n"
    )
    argv = [sys.executable, "-P", "-c", CONNECT, str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "loaded: False\n"
