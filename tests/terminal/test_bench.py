"""`make bench` beside other programs: their titles as they really draw them, and parts that fail."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.others import _SCREENS, counted, measure_others, measure_stern, until_shown
from tests.bench.program import Program, environment
from tests.bench.target import Target

_K9S = """\
#!{python}
import sys, time
say = lambda text: (sys.stdout.write(text), sys.stdout.flush())
say("\\x1b[?1049h\\x1b[2J\\x1b[1;40H\\x1b[36mNodes(\\x1b[35mall\\x1b[36m)[\\x1b[37m0\\x1b[36m] ")
time.sleep({pause})
say("\\x1b[1;38H\\x1b[36mNodes(\\x1b[35mall\\x1b[36m)[\\x1b[37m5,\\x1b[1;52H00\\x1b[36m]")
time.sleep({alive})
"""
"""It redraws its centred title as tcell does: the `0` that stood in its new place before is not written again."""


def a_program(folder: Path, name: str, text: str, **values: object) -> Path:
    path = folder / name
    path.write_text(text.format(python=sys.executable, **values))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("text", ["5000", "5,000"])
def test_a_number_may_be_written_either_way(text: str) -> None:
    import re

    assert re.fullmatch(counted(5_000), text)
    assert not re.fullmatch(counted(500), text)


def test_a_title_counts_as_it_stands_on_the_screen(tmp_path: Path) -> None:
    path = a_program(tmp_path, "k9s", _K9S, pause=0.1, alive=600)
    (pattern,) = [screen.pattern for screen in _SCREENS if screen.name == "k9s"]
    with Program([str(path)], environment(tmp_path, "none")) as program:
        assert until_shown(program, pattern % counted(5_000)) > program.began_at


def test_a_program_that_ends_is_told_at_once_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_program(tmp_path, "k9s", "#!/bin/sh\necho no such flag\nexit 1\n")
    a_program(tmp_path, "kubectl", "#!/bin/sh\necho one; echo two; echo three\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    began = time.monotonic()
    found = measure_others(Target("stand-in", "none", 3), seconds=0.1)
    assert time.monotonic() - began < 120  # and not the three minutes that a title is waited for
    assert found["k9s"] == {"failed": "ChildProcessError: It ended; the last that it wrote: no such flag"}
    assert set(found["kubectl"]) == {"get nodes seconds", "get pods seconds"}  # type: ignore[call-overload]
    assert (found["eks-node-viewer"]) == "not on PATH"


@pytest.mark.parametrize(
    ("prints", "found"),
    [
        (400, None),
        (0, {"failed": "RuntimeError: stern ended with 0 after 0 of 400 lines"}),
        (399, {"failed": "RuntimeError: stern ended with 0 after 399 of 400 lines"}),
    ],
)
def test_a_peer_that_does_not_print_what_it_is_measured_by_has_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: int, found: object
) -> None:
    script = f"#!/bin/sh\necho $@ > {tmp_path}/given\ni=0; while [ $i -lt {prints} ]; do echo; i=$((i+1)); done\n"
    a_program(tmp_path, "stern", script)
    monkeypatch.setenv("PATH", str(tmp_path))
    measured = measure_stern("none", lines=400)
    assert isinstance(measured, dict)
    assert measured == found or (found is None and measured.keys() == {"seconds", "cpu_us_per_line"})
    assert "--since 87600h" in (tmp_path / "given").read_text()


def test_what_was_measured_is_kept_when_a_part_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> dict[str, object]:
        raise OSError("the fleet is gone")

    monkeypatch.setattr(bench, "measure_start", lambda: {"seconds": 1.5})
    monkeypatch.setattr(bench, "measure_fleet", breaks)
    monkeypatch.setattr(bench, "measure_restart", lambda *_, **__: {"seconds": 0.25})
    monkeypatch.setattr(bench, "measure_others", lambda *_, **__: {"k9s": "not on PATH"})
    file = tmp_path / "bench.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--kubeconfig", "none", "--nodes", "3", "--output", str(file)])
    assert bench.main() == 0
    result = json.loads(file.read_text())
    assert result["start"] == {"seconds": 1.5}
    assert result["cluster"] == {
        "failed": "OSError: the fleet is gone",
        "restart": {"seconds": 0.25},
        "others": {"k9s": "not on PATH"},
    }
