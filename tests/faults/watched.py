"""A small run whose job prints numbered lines, with runners that die and faults that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actions.base.process import ProcessIdentity
from actions.run.client import load_run, send_request
from actions.run.output.reader import OutputLine, OutputReader
from actions.run.state.records import RequestKind
from actions.run.state.view import NoticeKind, RunState, RunView, StageState, StageView
from actions.sandbox.faults.client import control_faults
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import begin, kill, wait_for_run
from tests.faults.small import LOGGED, WORK, a_run, job_of
from tests.support.polling import wait

_OVER = frozenset({StageState.SUCCEEDED, StageState.FAILED, StageState.CANCELLED, StageState.UNDONE})
_ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})


def printing(count: int, *, pause: float = 0.3, behind: str = "") -> str:
    """A shell command that prints so many lines, each a point of a curve, and takes its time."""
    lines = f"; sleep {pause}; ".join(f"echo {text}" for text in printed(count))
    return f"{lines}{behind}"


def printed(count: int) -> list[str]:
    """Return the lines that it prints: long enough that some of them need a page of the disk of their own."""
    return [f"step={number} loss={9 - number / 100:.2f} {'x' * 200}" for number in range(count)]


def a_logged_run(tmp_path: Path, sandbox: RunningSandbox, command: str) -> Path:
    """A run whose last stage is a job with a log; nothing is started."""
    return a_run(tmp_path, sandbox, WORK + LOGGED, job=job_of(command))


def stored_output(folder: Path) -> list[OutputLine]:
    """All lines of the job, in the order of the file."""
    reader, offset, found = OutputReader(folder, "work"), 0, list[OutputLine]()
    while True:
        lines, end = reader.lines(offset)
        found += lines
        if end == offset:
            return found
        offset = end


def texts(folder: Path) -> list[str]:
    """Its lines without markers."""
    return [line.text for line in stored_output(folder) if not line.is_marker]


def markers(folder: Path) -> list[str]:
    """The markers in it."""
    return [line.text for line in stored_output(folder) if line.is_marker]


def points(folder: Path) -> int:
    """Return the number of values in its curves."""
    return len(OutputReader(folder, "work").values(limit_bytes=1 << 26)[0])


def work_of(folder: Path) -> StageView:
    """The stage of the job."""
    return load_run(folder).stage("work")


def begun(folder: Path, *, lines: int = 3) -> ProcessIdentity:
    """A runner that has kept so many lines of the job."""
    runner = begin(folder)
    assert runner is not None
    wait(lambda: len(texts(folder)) >= lines, f"{lines} lines of the job")
    return runner


def resumed_after_a_kill(folder: Path, runner: ProcessIdentity) -> ProcessIdentity:
    """The runner is killed, and another one takes over."""
    kill(runner)
    again = begin(folder)
    assert again is not None
    return again


def wait_for_note(folder: Path, words: str, *, stage: str = "work") -> StageView:
    """Wait until a stage that runs says something."""

    found: list[StageView] = []

    def says() -> bool:
        view = load_run(folder).stage(stage)
        assert view.state not in _OVER, f"{view.state}: {view.message}"
        found[:] = [view]
        return words in view.message

    wait(says, f"{stage} to say {words!r}")
    return found[0]


def wait_for_waiting(folder: Path, *, stage: str = "work") -> str:
    """Wait until a run says that it waits for its cluster; the sentence.

    It is the stage's where the runner that died had not yet been told by the cluster that the run is its own. Where it
    had, the next runner asks that before it records anything, and the run has a notice.
    """
    found: list[str] = []

    def says() -> bool:
        view = load_run(folder)
        steps = [one for one in (*view.stages, *view.teardown) if stage in ("", one.id)]
        assert not stage or steps[0].state not in _OVER, f"{steps[0].state}: {steps[0].message}"
        found[:] = [one.message for one in steps if one.message.startswith("Waiting since ")]
        found.extend(one.text for one in view.notices if one.kind is NoticeKind.UNCERTAIN)
        return bool(found)

    wait(says, "the run to say that it waits")
    return found[0]


def has_succeeded(folder: Path) -> RunView:
    """The run as it ended: well."""
    view = wait_for_run(folder, lambda view: view.state in _ENDED, "the end of the run")
    assert view.state is RunState.SUCCEEDED, [stage.message for stage in view.stages]
    return view


def taken_down(folder: Path) -> RunView:
    """Tear the run down, by whichever runner there is."""
    send_request(folder, RequestKind.TEARDOWN)
    return wait_for_run(folder, lambda view: view.state is RunState.TORN_DOWN, "the teardown")


@contextmanager
def fault(sandbox: RunningSandbox, *words: str) -> Iterator[None]:
    """A fault of the cluster, as long as the context is open."""
    control_faults(sandbox.kubeconfig, [*words, "name=test"])
    try:
        yield
    finally:
        control_faults(sandbox.kubeconfig, ["clear", "test"])
