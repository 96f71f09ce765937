"""A job of any image, rehearsed in CI by its own log."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.missing import needs
from tests.support.program import Program

_EXAMPLE = Path(__file__).parents[1] / "fixtures" / "rehearsed" / "lora"
_LOG = (_EXAMPLE / "train.log").read_text("utf-8")
_SCRIPT = _EXAMPLE.with_suffix(".yaml").read_text("utf-8")
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


@pytest.fixture(name="folder")
def _folder(program: Program) -> Path:
    """Copy the blueprint and its script."""
    folder = shutil.copytree(_EXAMPLE, program.home / "lora")
    (program.home / "lora.yaml").write_text(_SCRIPT, encoding="utf-8")
    return folder


@pytest.mark.usefixtures("folder")
def test_a_job_is_rehearsed_with_expectations_and_a_report(program: Program) -> None:
    outputs = ("--junit", "lora.xml", "--artifacts", "pictures")
    done = program.command("--demo", "--blueprints", ".", "--script", "lora.yaml", *outputs, seconds=300)
    assert done.returncode == 0, done.stdout + done.stderr
    suites = ElementTree.parse(program.home / "lora.xml").getroot()
    assert {one.get("failures") for one in suites.iter("testsuite")} == {"0"}
    picture = (program.home / "pictures" / "lora.svg").read_text("utf-8")
    assert "NVIDIA&#160;L40S" in picture
    assert "train_loss" in picture


def test_an_exit_code_rehearses_a_failure(program: Program, folder: Path) -> None:
    text = (folder / "blueprint.yaml").read_text("utf-8").replace("load: 92%}", "load: 92%, exit: 7}")
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
