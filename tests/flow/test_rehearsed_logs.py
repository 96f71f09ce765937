"""The worked example of docs/blueprints.md, played literally: a job of any image, rehearsed in CI by its own log."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.missing import needs
from tests.support.program import Program

_PAGE = (Path(__file__).parents[2] / "docs" / "blueprints.md").read_text("utf-8")
_SECTION = _PAGE.partition("## Rehearse a job of any image\n")[2].partition("\n## ")[0]
_LOG, _BLUEPRINT, _MANIFEST, _SCRIPT = re.findall(r"^```(?:text|yaml)\n(.*?)^```", _SECTION, re.MULTILINE | re.DOTALL)
_FAILS = """\
eksml-script: 1
nodes: g6e.12xlarge=1
steps:
  - launch: {blueprint: lora, existing_cluster: true}
  - wait: {stage: train, is: failed, within: 2m}
always:
  - teardown: {confirm: bionemo-on-eks}
  - expect: {audit: empty}
"""


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> Iterator[Program]:
    started = Program(tmp_path)
    yield started
    started.end_all()


@pytest.fixture(name="folder")
def _folder(program: Program) -> Path:
    """Write the example as the page shows it."""
    folder = program.home / "lora"
    (folder / "manifests").mkdir(parents=True)
    (folder / "train.log").write_text(_LOG, encoding="utf-8")
    (folder / "blueprint.yaml").write_text(_BLUEPRINT, encoding="utf-8")
    (folder / "manifests" / "train.yaml").write_text(_MANIFEST, encoding="utf-8")
    (program.home / "lora.yaml").write_text(_SCRIPT, encoding="utf-8")
    return folder


@pytest.mark.usefixtures("folder")
def test_the_example_is_rehearsed_as_the_page_says(program: Program) -> None:
    (command,) = re.findall(r"^    eksml-tui (--demo .*)$", _SECTION, re.MULTILINE)
    done = program.command(*command.split(), seconds=300)
    assert done.returncode == 0, done.stdout + done.stderr
    suites = ElementTree.parse(program.home / "lora.xml").getroot()
    assert {one.get("failures") for one in suites.iter("testsuite")} == {"0"}
    picture = (program.home / "pictures" / "lora.svg").read_text("utf-8")
    assert "NVIDIA&#160;L40S" in picture
    assert "train_loss" in picture


def test_an_exit_code_rehearses_a_failure(program: Program, folder: Path) -> None:
    text = _BLUEPRINT.replace("load: 92%}", "load: 92%, exit: 7}")
    (folder / "blueprint.yaml").write_text(text, encoding="utf-8")
    (program.home / "fails.yaml").write_text(_FAILS, encoding="utf-8")
    done = program.command("--demo", "--blueprints", ".", "--script", "fails.yaml", seconds=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Container axolotl ended with 7." in done.stdout


@needs("kubectl")
def test_a_log_that_is_recorded_of_a_job_is_what_it_printed(program: Program, folder: Path) -> None:
    (folder / "train.log").write_text(f"{_LOG}password=hunter22\n", encoding="utf-8")
    script = _SCRIPT.partition("always:")[0]
    (program.home / "lora.yaml").write_text(script, encoding="utf-8")
    played = program.command("--demo", "--blueprints", ".", "--script", "lora.yaml", seconds=300)
    assert played.returncode == 0, played.stdout + played.stderr
    where = program.kubeconfig("demo-1xg6e.12xlarge")
    assert _seen(where, "job", "axolotl") == {"eksml.dev/run", "eksml.dev/stage", "app.kubernetes.io/managed-by"}
    done = program.command("--kubeconfig", str(where), "logs", "job/axolotl", "--to", "again.log")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"rehearsal: \{log: again\.log, rate: \d+/[smh]\}\n", done.stdout)
    assert (program.home / "again.log").read_text("utf-8") == f"{_LOG}password=«redacted»\n"
    assert "again.log exists" in program.command(
        "--kubeconfig", str(where), "logs", "job/axolotl", "--to", "again.log"
    ).stderr  # fmt: skip


def _seen(kubeconfig: Path, kind: str, name: str) -> set[str]:
    """Return the names of all labels and annotations that a run has put on an object and its pods."""
    argv = ["kubectl", "--kubeconfig", str(kubeconfig), "get", kind, name, "-o", "json"]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r'"((?:app\.kubernetes\.io|eksml\.dev)/[\w-]+)"', text))
