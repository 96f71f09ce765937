"""A console that captures a rehearsal and is killed, and its capture shown again without any network."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from actions.capture.entries import FIRST_LINE, Began
from actions.capture.reader import CaptureReader
from tests.support.polling import wait
from tests.support.program import Program

PANES = ("pods", "nodes", "logs", "charts")
"""Their contents at one moment; others show durations, or what they have sampled themselves since they were opened."""
LIVE = """\
eksml-script: 1
size: 160x45
deadline: 5m
steps:
  - wait: {cluster: bionemo-on-eks, within: 1m}
  - launch: {blueprint: bionemo-esm1nv, preset: rehearsal, auto_approve: true}
  - layout: single
  - open: accelerators
  - wait: {metric: loss, of: train, step: ">= 20", within: 3m}
  - wait: {text: "8 GPUs", within: 2m}
  - open: pods
  - screenshot: pods.txt
  - open: nodes
  - screenshot: nodes.txt
  - wait: {stage: train, is: succeeded, within: 3m}
  - open: logs
  - wait: {text: "Trainer.fit. stopped", within: 2m}
  - screenshot: logs.txt
  - open: charts
  - screenshot: charts.txt
  - screenshot: last.txt
  - wait: {text: never, within: 5m}
"""
NO_NETWORK = """\
import socket

def refused(*_, **__):
    raise AssertionError("a replay uses the network")

real = socket.socket.connect
socket.socket.connect = lambda own, to: real(own, to) if own.family == socket.AF_UNIX else refused()
socket.getaddrinfo = refused
"""


@dataclass(frozen=True)
class Captured:
    """Remains of a console that was killed: its capture, its screens, and when they were painted."""

    program: Program
    file: Path
    screens: Mapping[str, str]
    painted: Mapping[str, float]
    """Seconds since the epoch."""
    secrets: tuple[str, ...]


def _finished(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 1000


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    program = Program(tmp_path_factory.mktemp("captured"))
    home, file = program.home, program.home / "night.capture"
    script = home / "live.yaml"
    script.write_text(LIVE)
    argv = program.argv("--demo", "--speed", "20", "--script", str(script), "--capture", str(file))
    with (home / "out").open("wb") as out:
        console = subprocess.Popen(
            argv, env=dict(program.environment), cwd=home, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        wait(
            lambda: _finished(home / "last.txt") or console.poll() is not None, "the last screen of the live console",
            deadline_seconds=300,
        )  # fmt: skip
        assert console.poll() is None, (home / "out").read_text()
        size = file.stat().st_size
        wait(lambda: file.stat().st_size > size, "a flush after the last screen")
        kubeconfig = program.kubeconfig().read_text()
        console.send_signal(signal.SIGKILL)
        console.wait(10)
    finally:
        if console.poll() is None:
            console.kill()
            console.wait(10)
        program.end_all()
    screens = {pane: (home / f"{pane}.txt").read_text() for pane in PANES}
    painted = {pane: (home / f"{pane}.txt").stat().st_mtime for pane in PANES}
    return Captured(program, file, screens, painted, tuple(re.findall(r"(?:token|key-data): (\S{20,})", kubeconfig)))


def summary(captured: Captured) -> dict[str, object]:
    done = captured.program.command("read", "capture", str(captured.file), "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def offline(captured: Captured, folder: Path) -> Program:
    """The program on another machine: no state, no kubeconfig, no network."""
    (folder / "sitecustomize.py").write_text(NO_NETWORK)
    return replace(captured.program, home=folder)


def replayed(captured: Captured, folder: Path, steps: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program, script = offline(captured, folder), folder / "replay.yaml"
    script.write_text(f"eksml-script: 1\nsize: 160x45\ndeadline: 2m\nsteps:\n{steps}")
    return subprocess.run(
        program.argv("--replay", str(captured.file), "--script", str(script), *arguments),
        env={**program.environment, "PYTHONPATH": str(folder), "KUBECONFIG": str(folder / "none")},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def contents(screen: str) -> list[str]:
    """The pane of a screen: no header, cursor or keys, which differ while nothing may be changed."""
    return [line.rstrip() for line in screen.splitlines()[2:-3]]


def test_the_capture_of_a_killed_console_is_readable_and_holds_no_secret(captured: Captured) -> None:
    found = summary(captured)
    assert found["ended"] == "it is cut: the console was killed"
    assert str(found["runs"]).startswith("['bionemo-esm1nv-")
    assert "/api/v1/pods" in str(found["resources"])
    data = zlib.decompressobj(31).decompress(captured.file.read_bytes())
    assert data.startswith(FIRST_LINE)
    assert captured.secrets
    for secret in captured.secrets:
        assert secret.encode() not in data
    assert b"Authorization" not in data


def test_the_screens_of_a_replay_are_those_that_were_seen(captured: Captured, tmp_path: Path) -> None:
    began = next(CaptureReader(captured.file).entries())
    assert isinstance(began, Began)
    steps = "  - replay: pause\n"
    for pane in PANES:
        for number, early in enumerate((0.0, 0.3, -0.5, -1.2)):  # a frame is late, the copy of a run is later
            at = captured.painted[pane] - began.wall - early
            steps += f'  - replay: {{action: seek, to: "{at:.2f}s"}}\n  - open: {pane}\n'
            steps += f"  - wait: {{nodes: {{count: 4}}, within: 1m}}\n  - screenshot: {pane}-{number}.txt\n"
    done = replayed(captured, tmp_path, steps)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "replay" in (tmp_path / "pods-0.txt").read_text().splitlines()[0]
    for pane in PANES:
        shown = [contents((tmp_path / f"{pane}-{number}.txt").read_text()) for number in range(4)]
        assert contents(captured.screens[pane]) in shown, pane


def test_a_replay_plays_seeks_and_refuses_to_act(captured: Captured, tmp_path: Path) -> None:
    steps = """\
  - replay: pause
  - wait: {text: "replay .* paused", within: 1m}
  - replay: {action: seek, to: start}
  - replay: step
  - replay: {action: speed, to: "20"}
  - replay: play
  - wait: {text: "replay .* ×20", within: 1m}
  - wait: {stage: train, is: running, within: 2m}
  - replay: {action: seek, to: end}
  - expect: {metric: loss, of: train, step: ">= 20", text: "replay .* end"}
  - open: pods
  - press: D
  - wait: {text: "This is a replay: delete was not carried out", within: 1m}
"""
    before = sorted(captured.program.state.rglob("*"))
    done = replayed(captured, tmp_path, steps, "--speed", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    done = replayed(captured, tmp_path, "  - launch: {blueprint: bionemo-esm1nv, preset: rehearsal}\n")
    assert done.returncode == 1
    assert "This is a replay: launch was not carried out" in done.stdout
    assert sorted(captured.program.state.rglob("*")) == before
    assert not (tmp_path / "state").exists()


def test_a_capture_is_neither_replaced_nor_taken_of_a_replay(captured: Captured) -> None:
    program = captured.program
    done = program.command("--capture", str(captured.file), "--script", str(program.home / "live.yaml"))
    assert done.returncode == 1
    assert "exists, and a capture does not replace it" in done.stderr
    done = program.command("--replay", str(captured.file), "--capture", "other")
    assert (done.returncode, "omit --capture" in done.stderr) == (2, True)


def test_a_hostile_capture_is_refused_before_the_console_opens(captured: Captured, tmp_path: Path) -> None:
    file = tmp_path / "bomb.capture"
    file.write_bytes(gzip.compress(FIRST_LINE + bytes(200 << 20)))
    script = captured.program.home / "live.yaml"
    done = captured.program.command("--replay", str(file), "--script", str(script))
    assert done.returncode == 2
    assert done.stderr.startswith(f"eksml-tui: {file}: ")
    assert done.stderr.count("\n") == 1
