"""D16: what a script takes from the environment is in nothing that it leaves behind."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from tests.support.program import Program
from tests.support.scripting import Playing, play, texts_below

VALUES = ["CANARY-VALUE-77", 'CANARY "q" <&> 100%/ä', "CANARY-first-line\nCANARY-second-line"]


def _forms(value: str) -> set[str]:
    """Return the forms in which it may have been written."""
    lines = value.splitlines()
    raw = {value, *lines, json.dumps(value)[1:-1], repr(value)[1:-1], html.escape(value), quote(value, safe="")}
    spaced = {html.escape(line, quote=False).replace(" ", "&#160;") for line in lines}
    return raw | spaced | {base64.b64encode(value.encode()).decode()}


def _left_behind(program: Program, output: str) -> dict[str, str]:
    """Everything that the script has written or said, by name."""
    files = {str(path.relative_to(program.home)): text for path, text in texts_below(program.home).items()}
    files.pop("script.yaml")
    return files | {"output": output}


def _assert_nowhere(value: str, left: dict[str, str]) -> None:
    found = [(name, form) for name, text in left.items() for form in _forms(value) if form in text]
    assert found == []


@pytest.mark.parametrize("value", VALUES)
def test_d16_a_step_that_fails_shows_the_text_as_written(tmp_path: Path, value: str) -> None:
    program = Playing(tmp_path, {"CANARYENV": value})
    steps = """
  - expect: {text: "begin-${env:CANARYENV}-end"}
"""
    done = play(program, steps.replace("begin-", "") if value == VALUES[0] else steps)
    assert done.returncode == 1
    _assert_nowhere(value, _left_behind(program, done.stdout + done.stderr))
    report = json.loads((tmp_path / "report.json").read_text())
    assert "${env:CANARYENV}" in report["steps"][0]["text"]
    assert "${env:CANARYENV}" in report["steps"][0]["seen"]
    assert "is not on the screen" in done.stdout
    case = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert "${env:CANARYENV}" in str(case[0].get("message"))


def test_d16_what_verbs_refuse_is_not_repeated(tmp_path: Path) -> None:
    program = Playing(tmp_path, {"CANARYENV": VALUES[0]})
    steps = """
  - context: "${env:CANARYENV}"
"""
    done = play(program, steps, "--debug")
    assert done.returncode == 1
    _assert_nowhere(VALUES[0], _left_behind(program, done.stdout + done.stderr))
    assert "${env:CANARYENV}" in json.loads((tmp_path / "report.json").read_text())["steps"][0]["seen"]


def test_d16_pictures_do_not_show_it(tmp_path: Path) -> None:
    program = Playing(tmp_path, {"CANARYENV": VALUES[0]})
    steps = """
  - open: pods
  - filter: "${env:CANARYENV}"
  - screenshot: shown.svg
  - screenshot: shown.txt
  - press: colon C A N A R Y minus V A L U E minus 7 7
  - screenshot: typed.svg
  - screenshot: "named-${env:CANARYENV}.svg"
"""
    done = play(program, steps, is_executed=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "${env:CANARYENV}" in (tmp_path / "artifacts" / "shown.txt").read_text()  # it was on the screen
    assert "•" * len(VALUES[0]) in (tmp_path / "artifacts" / "shown.svg").read_text()
    assert "•" * len(VALUES[0]) in (tmp_path / "artifacts" / "typed.svg").read_text()
    _assert_nowhere(VALUES[0], _left_behind(program, done.stdout + done.stderr))
    assert "named-${env:CANARYENV}.svg" in json.loads((tmp_path / "report.json").read_text())["artifacts"][-1]


@pytest.mark.parametrize(
    "step",
    [
        'wait: {text: "(${env:CANARYENV}"}',
        'wait: {stage: train, is: "${env:CANARYENV}"}',
        'wait: {metric: loss, value: "${env:CANARYENV}"}',
        'press: "${env:CANARYENV}"',
        'launch: {blueprint: "${env:CANARYENV}"}',
        'open: "${env:CANARYENV}"',
        'open: {pane: nodes, within: "${env:CANARYENV}"}',
    ],
)
def test_d16_a_script_that_is_refused_does_not_repeat_it(tmp_path: Path, step: str) -> None:
    program = Playing(tmp_path, {"CANARYENV": VALUES[0]})
    done = play(program, f"  - {step}\n", "--debug")
    assert done.returncode == 2, done.stderr
    assert f"{tmp_path}/script.yaml:4:" in done.stderr
    _assert_nowhere(VALUES[0], _left_behind(program, done.stdout + done.stderr))
