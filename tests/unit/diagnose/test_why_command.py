"""`eksml-tui why --from`: what can be read, what is printed, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.diagnose.samples import Document, a_node, a_pod, an_event, unschedulable
from tui.cli import main

_REFUSAL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
_STUCK = unschedulable(_REFUSAL)


def _file(folder: Path, document: object) -> str:
    path = folder / "captured.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    "document",
    [
        {"pods": [_STUCK]},
        {"apiVersion": "v1", "kind": "List", "items": [_STUCK, a_node("n1", "m5.large")]},
        {
            "apiVersion": "v1",
            "kind": "PodList",
            "items": [{key: _STUCK[key] for key in ("metadata", "spec", "status")}],
        },
        _STUCK,
        [_STUCK, an_event("FailedScheduling", _REFUSAL)],
        json.dumps({"kind": "List", "items": [_STUCK]}, indent=4)
        + "\n\n"
        + json.dumps({"kind": "EventList", "items": [an_event("FailedScheduling", _REFUSAL)]}),
        yaml.safe_dump({"apiVersion": "v1", "items": [_STUCK, a_node("n1", "m5.large")], "kind": "List"}),
        "---\n" + yaml.safe_dump_all([_STUCK, an_event("FailedScheduling", _REFUSAL)]),
    ],
    ids=[
        "sample",
        "list",
        "list of one kind",
        "object",
        "array",
        "two answers, one behind the other",
        "yaml",
        "yaml of several objects",
    ],
)
def test_all_forms_are_read(document: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--from", _file(tmp_path, document), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["code"] for one in told] == ["GPU_SHORTAGE"]
    assert set(told[0]) == {"code", "severity", "headline", "evidence", "next_step"}
    assert _REFUSAL in told[0]["evidence"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_file_of_powershell_is_read(encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "captured.json"
    path.write_bytes(json.dumps({"pods": [_STUCK]}).encode(encoding))
    assert main(["why", "--from", str(path), "--output", "json"]) == 0
    assert [one["code"] for one in json.loads(capsys.readouterr().out)] == ["GPU_SHORTAGE"]


@pytest.mark.parametrize("document", [{"kind": "List", "items": []}, {"pods": []}, []])
def test_nothing_wrong_is_an_answer(document: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--from", _file(tmp_path, document), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["why", "--from", _file(tmp_path, document)]) == 0
    assert capsys.readouterr().out.startswith("Nothing is wrong")


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "{}", '"pods"', "null", "\x00", "[" * 5000, "kind: Pod\nspec: [", "kind: [" + "[" * 500]
)
def test_what_cannot_be_read_is_one_sentence(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--from", _file(tmp_path, text)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("eksml-tui: ")
    assert told.count("\n") == 1
    assert "captured.json" in told


def test_a_missing_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--from", str(tmp_path / "no.json")]) == 2
    assert "no.json: It cannot be read" in capsys.readouterr().err


def _two() -> Document:
    other = unschedulable("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "prep-0")
    return {"kind": "List", "items": [_STUCK, other, a_pod("fine", phase="Succeeded")]}


def test_an_object_narrows_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _file(tmp_path, _two())
    for name, code in (("pod/ml/train-0", "GPU_SHORTAGE"), ("ml/prep-0", "PVC_UNBOUND")):
        assert main(["why", name, "--from", source, "-o", "json"]) == 0
        assert [one["code"] for one in json.loads(capsys.readouterr().out)] == [code]
    assert main(["why", "pod/ml/fine", "--from", source, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["why", "pod/ml/absent", "--from", source]) == 1
    assert "Nothing was found about Pod ml/absent." in capsys.readouterr().err


def test_the_table_says_what_why_and_what_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--from", _file(tmp_path, {"pods": [_STUCK]})]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ERROR  GPU_SHORTAGE"
    assert any(line.startswith("    │ 0/1 nodes are available") for line in lines)
    assert any(line.startswith("  → Wait for the job") for line in lines)


def test_controls_and_credentials_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = "\x1b]0;owned\x07ValueError: bad token hf_" + "a" * 34 + "\x1b[2J\n"
    ended = {"name": "m", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    pod = a_pod(phase="Failed", node="n1", containerStatuses=[ended])
    assert main(["why", "--from", _file(tmp_path, {"pods": [pod], "logs": log})]) == 0
    told = capsys.readouterr().out
    assert "ValueError: bad token «redacted»" in told
    assert "\x1b" not in told
