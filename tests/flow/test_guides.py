"""The pages by task do what they show: their files are written, and their commands run in order on a sandbox."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.files import documents
from tests.faults.rehearsal import a_sandbox
from tests.support.program import Program

JOBS_OF_OTHERS = Path(__file__).parents[1] / "fixtures" / "jobs"
GUIDES = sorted((documents() / "guides").glob("*.md"))
_BLOCK = re.compile(r'^```(?:console|\w+ title="([^"]+)")\n(.*?)^```', re.MULTILINE | re.DOTALL)


def steps(text: str) -> Iterator[tuple[str, str]]:
    """List the files of a page, as a name and a text, and its commands, as an empty name and a line, in their order."""
    for name, body in _BLOCK.findall(text):
        if name:
            yield name, body
        else:
            yield from (("", line[2:]) for line in body.splitlines() if line.startswith("$ "))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(tmp_path)
    for job in JOBS_OF_OTHERS.glob("*.yaml"):  # the page has their addresses
        shutil.copy(job, tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shown = list(steps(page.read_text("utf-8")))
    assert [line for name, line in shown if not name], "a page by task has commands"
    try:
        with a_sandbox("guide") as sandbox:
            environment = {
                **program.environment,
                "PATH": f"{Path(sys.executable).parent}:{program.environment['PATH']}",
                "KUBECONFIG": str(sandbox.kubeconfig),
            }
            for name, text in shown:
                if name:
                    path = tmp_path / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, "utf-8")
                    continue
                done = subprocess.run(
                    ["bash", "-o", "pipefail", "-c", text],
                    env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=300, check=False,
                )  # fmt: skip
                assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    finally:
        program.end_all()
