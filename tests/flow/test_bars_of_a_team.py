"""The bars of runs of a team, end to end: the machine of a run is lost, or wakes up later; somebody else goes on.

Real processes, the sandbox as cluster and account, moto as S3. What a machine has changed is read from the audit log of
the sandbox and the log of the proxy before S3, both by the process that asked.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actions.base.process import ProcessIdentity, is_alive
from actions.run.client import load_run, send_request
from actions.run.journal.folder import runner_log_path
from actions.run.journal.watched import read_watched
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView, StageState
from actions.run.store.access import known_store
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import a_sandbox
from tests.support.journals import drop_lease
from tests.support.leftover import delete_folder
from tests.support.members import Member, a_member, audited, is_of, stop_between_records
from tests.support.polling import wait
from tests.support.stores import Proxy, a_home
from tests.support.terminal import Terminal, needs_tmux

pytestmark = pytest.mark.kill
BLUEPRINT = "bionemo-esm1nv"
CLUSTER = "bionemo-on-eks"
STAGE = r"[▶?] Pre-training"
CURVE = r"━━ train_loss \d+\.\d+"
LOG = r"Epoch \d+"


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningSandbox]:
    """The cluster and the account; of no member's machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "cloud"))
    with a_sandbox("team", speed=60.0) as running:
        yield running


@pytest.fixture
def store() -> Iterator[Proxy]:
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def anna(tmp_path: Path, cloud: RunningSandbox, store: Proxy) -> Iterator[Member]:
    with a_member(tmp_path / "anna", cloud, store) as member:
        yield member


@pytest.fixture
def ben(tmp_path: Path, cloud: RunningSandbox, store: Proxy) -> Iterator[Member]:
    with a_member(tmp_path / "ben", cloud, store) as member:
        yield member


def in_training(member: Member) -> Path:
    """A run of a member in the middle of its training; its folder."""
    options = ("--yes", "--auto-approve", "--no-checks", "--preset", "rehearsal")
    done = member.run("launch", BLUEPRINT, *options, "max_steps=900000")
    assert done.returncode == 0, done.stderr
    (folder,) = member.run_folders()
    wait(lambda: load_run(folder).stage("train").state is StageState.RUNNING, "the training", deadline_seconds=300)
    return folder


def runner_of(member: Member, folder: Path) -> ProcessIdentity:
    runner = member.runner(folder)
    assert runner is not None
    return runner


def torn_down(folder: Path) -> RunView:
    """Wait until a run is over, and return it."""
    over = (RunState.TORN_DOWN, RunState.FAILED)
    wait(lambda: load_run(folder).state in over, "the teardown", deadline_seconds=400)
    return load_run(folder)


@pytest.mark.terminal
@needs_tmux
def test_a_lost_machines_run_is_on_screen_elsewhere_and_is_torn_down_from_there(
    anna: Member, ben: Member, store: Proxy, record_property: Callable[[str, object], None]
) -> None:
    folder = in_training(anna)
    wait(lambda: store.puts(f"{folder.name}/output/train/points/"), "points in the home")
    assert store.puts(f"{folder.name}/terraform/network.tfstate"), store.puts(folder.name)
    runner = runner_of(anna, folder)
    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the runner's end")
    delete_folder(anna.state.parent)

    same_user = {**ben.environment, "LOGNAME": anna.environment["LOGNAME"]}
    terminal = Terminal(ben.argv(), environment=same_user, size=(200, 50), directory=ben.home)
    try:
        terminal.wait(r"\S")
        began, seen = time.monotonic(), dict[str, float]()
        terminal.press("C-w", "r")
        for name, pattern in (("stage", STAGE), ("curve", CURVE), ("log", LOG)):
            terminal.wait(pattern)
            seen[name] = round(time.monotonic() - began, 2)
        sys.stdout.write(f"seconds after the first frame: {seen}\n{terminal.text()}\n")
        record_property("seconds_after_first_frame", str(seen))
        assert "can only be watched" in terminal.text()

        taken = ben.run("runs", "takeover", folder.name, "--confirm", folder.name, "--machine-is-gone")
        assert taken.returncode == 0, taken.stderr
        terminal.wait_gone("can only be watched")  # a command beside the console has made the run this machine's
    finally:
        terminal.close()
    (here,) = ben.run_folders()
    assert (here.name, load_run(here).epoch) == (folder.name, 2)
    asked = ben.run("runs", "teardown", here.name, "--confirm", CLUSTER, "--delete-data")
    assert asked.returncode == 0, asked.stderr
    view = torn_down(here)
    assert view.audit is not None, [(step.id, step.state, step.message) for step in view.teardown]
    assert view.audit.is_clean, view.audit


@pytest.mark.terminal
@needs_tmux
def test_a_run_that_waits_for_its_first_plan_is_in_a_colleagues_console(anna: Member, ben: Member) -> None:
    """No cluster has a record of it yet: it is known to the home alone."""
    launched = anna.run("launch", BLUEPRINT, "--yes", "--no-checks", "--preset", "rehearsal")
    assert launched.returncode == 0, launched.stderr
    (folder,) = anna.run_folders()
    wait(lambda: load_run(folder).stage("network").state is StageState.AWAITING_APPROVAL, "the plan")

    terminal = Terminal(ben.argv(), environment=ben.environment, size=(160, 45), directory=ben.home)
    try:
        terminal.wait(r"\S")
        terminal.press("0")
        terminal.wait(r"awaiting approval +network")
        sys.stdout.write(f"{terminal.text()}\n")
        terminal.press("Enter")
        terminal.wait("can only be watched")
        terminal.wait(rf"runs takeover {folder.name}")
        terminal.wait(r"Awaiting approval|to add, \d+ to change")  # the plan, which its store has
        sys.stdout.write(f"{terminal.text()}\n")
    finally:
        terminal.close()


def test_a_runner_that_wakes_up_after_the_takeover_changes_nothing(
    anna: Member, ben: Member, cloud: RunningSandbox, store: Proxy
) -> None:
    folder = in_training(anna)
    old = runner_of(anna, folder)
    wait(lambda: known_store(folder).address, "the fence to know the store")
    assert audited(cloud, old.pid), "the audit log knows the runner"
    stop_between_records(old, folder)
    try:
        send_request(folder, RequestKind.TEARDOWN, delete_data=True, start=False)  # it would act on that
        refused = ben.run("runs", "takeover", folder.name)
        assert refused.returncode != 0
        assert f"--confirm {folder.name}" in refused.stderr
        taken = ben.run("runs", "takeover", folder.name, "--confirm", folder.name)
        assert taken.returncode == 0, taken.stderr
        assert f"AWS: this machine's default credentials.\nCluster: {CLUSTER}, from EKS.\n" in taken.stderr
        changes, asked = len(audited(cloud, old.pid)), len(store.answered)
    finally:
        os.kill(old.pid, signal.SIGCONT)
    wait(lambda: not is_alive(old), "the old runner's end")
    assert audited(cloud, old.pid)[changes:] == []
    puts = [
        one
        for one in store.answered[asked:]
        if one.method not in ("GET", "HEAD") and is_of(one.headers.get("User-Agent", ""), old.pid)
    ]
    wait(lambda: all(one.status for one in puts), "the answers to what it had asked when it ended")
    # A segment that it was about to send when it was stopped lies beside the new ones, which join each other.
    assert all(one.status == 412 or "/output/" in one.path for one in puts), puts
    assert "taken over" in runner_log_path(folder).read_text()
    watched = read_watched(folder)
    assert watched is not None
    assert watched.epoch == 2

    (here,) = ben.run_folders()
    new = runner_of(ben, here)
    wait(lambda: load_run(here).stage("train").state is StageState.RUNNING, "the training with the new runner")
    wait(lambda: audited(cloud, new.pid), "a change by the new one")


def test_a_copy_of_the_folder_on_another_machine_changes_nothing(
    anna: Member, ben: Member, cloud: RunningSandbox, store: Proxy
) -> None:
    folder = in_training(anna)
    wait(lambda: known_store(folder).address, "the fence to know the store")
    (ben.state / "runs").mkdir(parents=True, exist_ok=True)
    copy, first = ben.state / "runs" / folder.name, runner_of(anna, folder)
    stop_between_records(first, folder)  # else files could go, and the journal change, while they are copied
    try:
        shutil.copytree(folder, copy)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    drop_lease(copy)
    asked = len(store.answered)

    done = ben.run("runs", "resume", copy.name)
    assert done.returncode == 0, done.stderr
    wait(lambda: "has a copy of its folder" in runner_log_path(copy).read_text(), "the end of the copy's runner")
    second = ben.runner(copy)
    wait(lambda: second is None or not is_alive(second), "the end of its process")
    found = read_watched(copy)
    assert found is not None
    assert "has a copy of its folder" in found.text
    assert is_alive(first)
    assert load_run(folder).stage("train").state is StageState.RUNNING
    agents = {one.headers.get("User-Agent", "") for one in store.answered[asked:] if one.method != "GET"}
    assert all(is_of(agent, first.pid) for agent in agents), agents
    refused = ben.run("runs", "teardown", copy.name, "--confirm", CLUSTER)
    assert refused.returncode != 0
    assert "another machine" in refused.stderr
    assert "that has a copy of its folder" in refused.stderr
    assert f"eksml-tui runs takeover {copy.name}" in refused.stderr
    runners = {one["userAgent"] for one in audited(cloud) if "runner" in one["userAgent"]}
    assert all(is_of(agent, first.pid) for agent in runners), runners
