"""The BioNeMo rehearsal without a screen: a sandbox, a run, and runners that may be killed."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.files import shipped_blueprints
from actions.base.process import ProcessIdentity, is_alive
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import RunReader, load_run, send_request, start_runner
from actions.run.launch import LaunchOrder, create_run
from actions.run.state.records import JournalRecord, Owned, RequestKind
from actions.run.state.view import RunView
from actions.sandbox.locate import RunningSandbox, find_or_start
from tests.support.leftover import send
from tests.support.polling import wait

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
"""None of the machine's: the sandbox's own are in the file that `a_sandbox` names in the environment."""
SKIPPED = {"sample", "tensorboard", "exporters"}
"""The stages that the rehearsal of BioNeMo has switched off."""
DEADLINE_SECONDS = 400.0
_MORE_TIME = 1.15


@contextmanager
def a_sandbox(name: str, *, speed: float = 60.0) -> Iterator[RunningSandbox]:
    """A sandbox of its own, ended by its process id. XDG_STATE_HOME is the caller's; AWS libraries find its account."""
    sandbox = find_or_start(name, speed=speed)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(sandbox.credentials))
            yield sandbox
    finally:
        kill(sandbox.process.identity(), signal.SIGTERM)


def a_rehearsal(sandbox: RunningSandbox, *, auto_approve: bool = True, is_endless: bool = False) -> Path:
    """A run of the shipped blueprint against the sandbox; nothing is started.

    Args:
        sandbox: Its cluster and account.
        auto_approve: Whether plans are carried out without being asked about.
        is_endless: Its training goes on for as long as the test wants; else it lasts two minutes of the sandbox.
    """
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {"max_steps": "900000"} if is_endless else {}, preset="rehearsal"),
            target=ClusterTarget(),
            environment={
                "AWS_ENDPOINT_URL": sandbox.process.aws_endpoint_url,
                "AWS_REGION": "us-west-2",
                "AWS_SHARED_CREDENTIALS_FILE": str(sandbox.credentials),
            },
            clock=SystemClock(),
            auto_approve=auto_approve,
        )
    )


def begin(folder: Path) -> ProcessIdentity | None:
    """Start a runner, unless one is at work."""
    return start_runner(folder, environment=CREDENTIALS)


def tear_down(folder: Path) -> None:
    """Wish for a teardown with the data."""
    send_request(folder, RequestKind.TEARDOWN, delete_data=True, environment=CREDENTIALS)


def kill(process: ProcessIdentity, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal a process of ours and wait until it is gone."""
    send(process, number)
    wait(lambda: not is_alive(process), "a process to end")


def wait_for_run(folder: Path, condition: Callable[[RunView], bool], what: str) -> RunView:
    """Poll the run until its view satisfies the condition, and return that view: the next may not."""
    found: list[RunView] = []

    def is_found() -> bool:
        found[:] = [load_run(folder)]
        return condition(found[0])

    wait(is_found, what, deadline_seconds=DEADLINE_SECONDS)
    return found[0]


def run_with_kills(
    folder: Path, is_over: Callable[[RunView], bool], *, every: int, longest_seconds: float = 2.5
) -> int:
    """Keep a runner at work until the run is over, killing it after every so many new records or seconds.

    Each that had to die by the clock leaves the next one more time: on a slow machine none would come to an end else.

    Returns:
        How many runners were killed.
    """
    killed = 0
    deadline = time.monotonic() + DEADLINE_SECONDS
    runner = begin(folder)
    reader = RunReader(folder)
    view = reader.poll()
    assert view is not None
    last, began_at = view.last_seq, time.monotonic()
    while not (is_over(view) and not reader.runner_alive):
        assert time.monotonic() < deadline, f"{view.state} {[(stage.id, stage.message) for stage in view.stages]}"
        time.sleep(0.01)
        view = reader.poll() or view
        is_due = view.last_seq >= last + every or time.monotonic() >= began_at + longest_seconds
        if runner is not None and is_due and not is_over(view):
            kill(runner)
            killed += 1
            longest_seconds *= 1.0 if view.last_seq >= last + every else _MORE_TIME
            last = view.last_seq
        if not reader.runner_alive and not is_over(view):
            started = begin(folder)
            if started is not None:
                runner, began_at = started, time.monotonic()
    reader.close()
    return killed


def records_of(folder: Path) -> tuple[JournalRecord, ...]:
    """The journal."""
    reader = RunReader(folder)
    reader.poll()
    records = reader.records()
    reader.close()
    return records


def uids_by_object(folder: Path) -> dict[str, set[str]]:
    """Every uid that an object of a name has ever had: more than one means that it was made twice."""
    found: dict[str, set[str]] = defaultdict(set)
    for record in records_of(folder):
        if isinstance(record.body, Owned) and record.body.uid:
            found[f"{record.body.object_kind} {record.body.namespace}/{record.body.name}"].add(record.body.uid)
    return found
