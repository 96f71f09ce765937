"""D3, F24: a stage that is resumed while its cluster does not answer waits for it, and is not failed by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from actions.base.process import is_alive
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.run.client import load_run, resume_interrupted, send_request
from actions.run.state.records import RequestKind
from actions.run.state.view import NoticeKind, RunState, StageState
from actions.run.store.access import known_store, note_vouched
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import begin, kill, wait_for_run
from tests.faults.small import BLUEPRINT, CONFIG_MAP, a_run
from tests.faults.watched import (
    a_logged_run,
    begun,
    fault,
    has_succeeded,
    printed,
    printing,
    resumed_after_a_kill,
    taken_down,
    texts,
    wait_for_note,
    wait_for_waiting,
)
from tests.schedules.partition import Relay
from tests.support.polling import wait

SANDBOX_SPEED = 1.0
LINES = 28
NEVER_READY = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: main, image: "example.com/work:missing"}]}
"""
Outage = Callable[[RunningSandbox], AbstractContextManager[None]]


@pytest.mark.parametrize(
    "kind", ["kind=broken", "kind=throttled", "kind=unauthorized", "kind=bad-gateway", "kind=forbidden"]
)
async def test_d03_a_job_is_waited_for_while_the_api_server_does_not_serve(
    tmp_path: Path, sandbox: RunningSandbox, kind: str
) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    runner = begun(folder)
    with fault(sandbox, kind):
        again = resumed_after_a_kill(folder, runner)
        assert re.search(r"UTC, retrying: |another machine may have taken the run over", wait_for_waiting(folder))
        assert is_alive(again)
    has_succeeded(folder)
    assert texts(folder) == printed(LINES)
    taken_down(folder)


async def test_d03_a_runner_whose_cluster_knows_the_run_asks_before_its_first_record_and_says_so(
    tmp_path: Path, sandbox: RunningSandbox
) -> None:
    # The first answer that counts may be the second one that is asked for, five seconds after the first.
    folder = a_logged_run(tmp_path, sandbox, printing(LINES, pause=1.0))
    runner = begun(folder)
    wait(lambda: known_store(folder).address, "the cluster's answer")
    with fault(sandbox, "kind=broken"):
        resumed_after_a_kill(folder, runner)
        view = wait_for_run(folder, lambda view: bool(view.notices), "a notice")
        assert [notice.kind for notice in view.notices] == [NoticeKind.UNCERTAIN]
        assert view.notices[0].since is not None
        assert view.notices[0].text.startswith("Waiting before the record ")
        assert view.notices[0].text.count(f" If none has: eksml-tui runs resume {folder.name} --without-store. ") == 1
    assert has_succeeded(folder).notices == ()
    assert texts(folder) == printed(LINES)
    taken_down(folder)


@contextmanager
def relayed(kubeconfig: Path, target: Path) -> Iterator[Relay]:
    """A way to the cluster that can be closed, and a kubeconfig that leads along it."""
    server = load_context(ClusterTarget(kubeconfig)).server
    port = urlsplit(server).port
    assert port is not None
    relay = Relay(port)
    target.write_text(kubeconfig.read_text().replace(f":{port}", f":{relay.port}"))
    target.chmod(0o600)
    try:
        yield relay
    finally:
        relay.end()


@pytest.mark.parametrize("how", ["refuse", "reset"])
async def test_d03_a_job_is_waited_for_while_nobody_listens(tmp_path: Path, sandbox: RunningSandbox, how: str) -> None:
    with relayed(sandbox.kubeconfig, tmp_path / "relayed.yaml") as relay:
        folder = a_logged_run(
            tmp_path, _Way(sandbox.name, sandbox.folder, sandbox.process, tmp_path / "relayed.yaml"), printing(LINES)
        )
        runner = begun(folder)
        kill(runner)
        relay.refuse() if how == "refuse" else relay.reset()
        assert begin(folder) is not None
        wait_for_waiting(folder)
        relay.accept()
        has_succeeded(folder)
        assert texts(folder) == printed(LINES)
        taken_down(folder)


class _Way(RunningSandbox, frozen=True):
    """The sandbox by another way."""

    way: Path

    @property
    def kubeconfig(self) -> Path:
        return self.way


async def test_d03_what_a_console_resumes_by_itself_waits_too(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    kill(begun(folder))
    with fault(sandbox, "kind=broken"):
        assert resume_interrupted(base=folder.parent) != []
        wait_for_waiting(folder)
    has_succeeded(folder)
    taken_down(folder)


async def test_d03_objects_that_are_not_ready_are_waited_for_too(tmp_path: Path, sandbox: RunningSandbox) -> None:
    blueprint = (
        BLUEPRINT.rstrip().removesuffix("}") + ", ready: [{api_version: apps/v1, kind: Deployment, name: NAME}]}\n"
    )
    folder = a_run(tmp_path, sandbox, objects=NEVER_READY, blueprint=blueprint)
    runner = begin(folder)
    assert runner is not None
    wait_for_note(folder, "Deployment default/", stage="objects")
    with fault(sandbox, "kind=broken"):
        resumed_after_a_kill(folder, runner)
        wait_for_waiting(folder, stage="objects")
    wait_for_note(folder, "Deployment default/", stage="objects")
    taken_down(folder)


async def test_d03_a_teardown_waits_and_says_so(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_run(tmp_path, sandbox, objects=CONFIG_MAP)
    assert begin(folder) is not None
    has_succeeded(folder)
    with fault(sandbox, "kind=unauthorized"):
        send_request(folder, RequestKind.TEARDOWN)

        wait_for_waiting(folder, stage="")
        assert load_run(folder).state is RunState.TEARING_DOWN
    view = wait_for_run(folder, lambda view: view.state is not RunState.TEARING_DOWN, "the teardown")
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert view.audit.leftovers == ()


async def test_d03_a_wish_interrupts_the_waiting(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_logged_run(tmp_path, sandbox, printing(LINES))
    runner = begun(folder)
    with fault(sandbox, "kind=broken"):
        resumed_after_a_kill(folder, runner)
        wait_for_waiting(folder)
        note_vouched(folder)  # or a runner that knows of a store waits for it before any record
        send_request(folder, RequestKind.CANCEL)
        wait_for_run(folder, lambda view: view.stage("work").state is StageState.CANCELLED, "the end of the waiting")
    wait_for_run(folder, lambda view: view.state is RunState.CANCELLED, "the cancellation")
    taken_down(folder)
