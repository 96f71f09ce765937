"""`eksml-tui runs` on a real run, after the console that launched it has gone; and that no secret stays behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actions.base.process import is_alive
from actions.run.client import load_run
from actions.run.state.view import RunState, StageState
from tests.support.journals import age_lease
from tests.support.leftover import read_all
from tests.support.missing import needs
from tests.support.polling import wait
from tests.support.program import Program

CLUSTER = "bionemo-on-eks"
LONGEST_SECONDS = 400.0
"""Of a teardown: a minute alone; a machine that plays other rehearsals beside it needs several."""
CANARIES = {
    "AWS_ACCESS_KEY_ID": "AKIACANARYCANARY0000",
    "AWS_SECRET_ACCESS_KEY": "CANARY-secret-access-key",
    "AWS_SESSION_TOKEN": "CANARY-session-token",
    "AWS_PROFILE": "CANARY-profile",
    "NGC_KEY_OF_MINE": "CANARY-ngc-key",
}
LAUNCH = """\
eksml-script: 1
steps:
  - launch:
      {blueprint: bionemo-esm1nv, preset: rehearsal, set: {workers: 2, ngc_api_key: "env:NGC_KEY_OF_MINE"}}
"""


@dataclass(frozen=True)
class SecretiveProgram(Program):
    """The program as somebody runs it whose shell is full of secrets."""

    @property
    def environment(self) -> Mapping[str, str]:
        return {**super().environment, **CANARIES}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """With one run that waits for its first approval, and no console."""
    started = SecretiveProgram(tmp_path_factory.mktemp("runs"))
    script = started.home / "launch.yaml"
    script.write_text(LAUNCH)
    done = started.run("--demo", "--script", str(script), "--report", str(started.home / "report.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    yield started
    started.end_all()


def shown(program: Program) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(said(program, "show", "latest", "--output", "json"))
    return view


def said(program: Program, *arguments: str) -> str:
    done = program.command("runs", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_waiting(program: Program, stage: str) -> bool:
    """By the journal: a command would cost a second of each look."""
    (folder,) = program.run_folders()
    return load_run(folder).stage(stage).state is StageState.AWAITING_APPROVAL


def stage_of(program: Program, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in shown(program)["stages"] if item["id"] == stage)
    return found


def kill_runner(program: Program) -> None:
    (folder,) = program.run_folders()
    runner = program.runner(folder)
    assert runner is not None
    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the runner's end")


def test_a_stage_is_approved_from_the_command_line_once(program: Program) -> None:
    wait(lambda: is_waiting(program, "network"), "a plan")
    refused = program.command("runs", "approve", "latest", "--plan", "0000")
    assert refused.returncode == 1
    assert "No such plan" in refused.stderr
    assert "Approved the plan of network" in said(program, "approve", "latest")
    wait(lambda: is_waiting(program, "provision"), "the next plan")


def test_a_run_whose_runner_was_killed_says_so_and_goes_on(program: Program) -> None:
    said(program, "approve", "latest")
    kill_runner(program)
    if "It has no runner" in program.command("--readonly", "runs", "show", "latest").stdout:
        assert "continues as process" in said(program, "resume", "latest")
    else:  # it had come to the next plan, and an approval starts a runner
        said(program, "approve", "latest")
    wait(lambda: is_waiting(program, "filesystem") or is_at_work(program), "the run to go on")


def is_at_work(program: Program) -> bool:
    (folder,) = program.run_folders()
    runner = program.runner(folder)
    return runner is not None and is_alive(runner)


def test_a_runner_of_an_earlier_boot_counts_as_gone(program: Program) -> None:
    wait(lambda: is_waiting(program, "filesystem"), "the last plan")
    (folder,) = program.run_folders()
    kill_runner(program)
    age_lease(folder, pid=os.getpid())  # the machine has come up again, and something else has the pid
    assert "continues as process" in said(program, "resume", "latest")
    assert "already running" in said(program, "resume", "latest")


def test_the_next_console_takes_an_interrupted_run_up_and_says_so(program: Program) -> None:
    kill_runner(program)
    script = program.home / "look.yaml"
    script.write_text("eksml-script: 1\nsteps: [{open: run}]\n")
    done = program.command("--demo", "--readonly", "--script", str(script))
    assert (done.returncode, done.stderr) == (0, "")
    done = program.command("--demo", "--script", str(script))  # nobody has looked meanwhile with a command
    assert (done.returncode, done.stderr) == (
        0,
        f"eksml-tui: Run {shown(program)['id']} was interrupted and has been resumed.\n",
    )
    wait(lambda: is_at_work(program), "a runner")


def test_no_process_of_a_demo_has_the_operators_secrets(program: Program) -> None:
    ours = [process.pid for process in program.processes() if is_alive(process)]
    assert len(ours) == 2
    for pid in ours:
        assert b"CANARY" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        # the one that a parameter of the run refers to
        assert {v.partition(b"=")[0] for v in variables if b"CANARY" in v} <= {b"NGC_KEY_OF_MINE"}


def test_following_the_logs_ends_with_the_run(program: Program) -> None:
    said(program, "approve", "latest")
    output = program.home / "followed"
    with output.open("wb") as file:
        follower = subprocess.Popen(
            program.argv("runs", "logs", "latest", "--follow"),
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=dict(program.environment),
        )  # fmt: skip
        try:
            (folder,) = program.run_folders()
            wait(lambda: load_run(folder).stage("train").state is StageState.RUNNING, "the training")
            table = said(program, "show", "latest")
            assert re.search(r"^train +running +\d+s +20s–1m30s ", table, re.MULTILINE), table
            follower.wait(LONGEST_SECONDS)
        finally:
            follower.kill()
    assert follower.returncode == 0
    assert shown(program)["state"] == "succeeded"
    assert " of 10 checks passed" in stage_of(program, "preflight")["message"]  # a registry cannot always be asked
    assert "train_loss" in output.read_text() or "reduced_train_loss" in output.read_text()


@needs("kubectl")
def test_what_the_run_made_is_found_by_its_label_and_its_manager(program: Program) -> None:
    listed = kubectl(program, "get", "jobs,pytorchjobs,pvc,pods", "-A", "-o", "json", "--show-managed-fields")
    run = shown(program)["id"]
    items = [item for item in json.loads(listed)["items"] if "eksml.dev/run" in item["metadata"].get("labels", {})]
    assert {"PyTorchJob", "PersistentVolumeClaim"} <= {item["kind"] for item in items}
    for item in items:
        labels = item["metadata"]["labels"]
        assert labels["eksml.dev/run"] == run
        if item["kind"] == "Pod":
            continue
        assert labels["app.kubernetes.io/managed-by"] == "eksml-tui"
        assert "eksml-tui" in {field["manager"] for field in item["metadata"]["managedFields"]}


def kubectl(program: Program, *arguments: str) -> str:
    environment = {**program.environment, "KUBECONFIG": str(program.kubeconfig())}
    return subprocess.run(["kubectl", *arguments], env=environment, capture_output=True, text=True, check=True).stdout


def test_a_wish_that_does_not_fit_is_refused_and_leaves_no_trace(program: Program) -> None:
    before = {**shown(program), "spent": None}  # which grows
    for arguments in (("cancel", "latest"), ("resume", "latest"), ("approve", "latest"), ("teardown", "latest")):
        done = program.command("runs", *arguments)
        assert done.returncode == 1, arguments
        assert len(done.stderr.splitlines()) == 1
    done = program.command("--readonly", "runs", "teardown", "latest", "--confirm", CLUSTER)
    assert done.returncode == 1
    assert "--readonly" in done.stderr
    assert {**shown(program), "spent": None} == before


def test_a_teardown_without_the_console_leaves_nothing(program: Program) -> None:
    assert "Asked run" in said(program, "teardown", "latest", "--confirm", CLUSTER, "--delete-data")
    (folder,) = program.run_folders()
    wait(
        lambda: load_run(folder).state in (RunState.TORN_DOWN, RunState.FAILED), "the teardown",
        deadline_seconds=LONGEST_SECONDS,
    )  # fmt: skip
    view = shown(program)
    assert view["state"] == "torn down", said(program, "show", "latest")
    assert view["audit"]["leftovers"] == []


def test_no_secret_of_the_operator_stays_on_disk(program: Program) -> None:
    found = [str(path) for path, data in read_all(program.home).items() if b"CANARY" in data]
    assert [path for path in found if not path.endswith("/launch.yaml")] == []


def test_a_damaged_journal_is_named_and_hides_no_other_run(program: Program) -> None:
    (folder,) = program.run_folders()
    damaged = program.state / "runs" / "damaged"
    damaged.mkdir(mode=0o700)
    try:
        (damaged / "journal.jsonl").write_bytes(b"garbage" * 4000)
        table = said(program, "list")
        assert folder.name in table
        assert "unreadable" in table
        for verb in ("show", "logs", "resume", "cancel", "teardown"):
            done = program.command("runs", verb, "damaged")
            assert done.returncode == 1, verb
            assert "damaged/journal.jsonl" in done.stderr
            assert len(done.stderr.splitlines()) == 1
    finally:
        shutil.rmtree(damaged)


def test_the_report_names_no_value_of_the_environment(program: Program) -> None:
    report = Path(program.home / "report.json").read_text()
    assert "env:NGC_KEY_OF_MINE" in report
    assert "CANARY" not in report
