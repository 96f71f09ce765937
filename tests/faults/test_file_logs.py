"""Logs that are files in pods, on the sandbox: each line once, whatever happens to pods, runners and connections."""

from __future__ import annotations

from pathlib import Path

from actions.run.spool.reader import SpoolReader
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import begin, kill
from tests.faults.small import WORK, a_run
from tests.support.polling import until
from tests.support.smallrun import carry_out, torn_down

SANDBOX_SPEED = 1.0

WATCH = """    watch:
      logs: {SOURCE, pod: batch.kubernetes.io/job-name=NAME}
"""

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  backoffLimit: RETRIES
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: example.com/work
          command: [sh, -c, "COMMAND"]
          env: [{name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
"""


def a_run_of(command: str, tmp_path: Path, sandbox: RunningSandbox, *, source: str, retries: int = 0) -> Path:
    job = JOB.replace("COMMAND", command).replace("RETRIES", str(retries))
    return a_run(tmp_path, sandbox, WORK + WATCH.replace("SOURCE", source), job=job)


def texts(folder: Path) -> list[str]:
    return [line.text for line in SpoolReader(folder, "work").lines()[0]]


def writing(*lines: str, pause: float = 0.4) -> str:
    return f"; sleep {pause}; ".join(f"echo {line} >> /data/log" for line in lines)


async def test_a_file_that_comes_late_is_kept_whole_and_in_order(tmp_path: Path, sandbox: RunningSandbox) -> None:
    command = f"sleep 1.5; {writing(*(f'step-{n}' for n in range(6)))}; sleep 3"
    folder = a_run_of(command, tmp_path, sandbox, source="file: /data/log")
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    assert texts(folder) == [f"step-{n}" for n in range(6)]
    await torn_down(folder)


async def test_the_newest_file_that_matches_is_the_one(tmp_path: Path, sandbox: RunningSandbox) -> None:
    command = "mkdir -p /data/a /data/b; echo old > /data/a/log; sleep 2; echo new > /data/b/log; sleep 9"
    folder = a_run_of(command, tmp_path, sandbox, source="file: /data/*/log")
    await carry_out(folder)
    assert texts(folder) == ["old", "new"]
    await torn_down(folder)


async def test_a_pods_uid_names_its_file_among_newer_ones(tmp_path: Path, sandbox: RunningSandbox) -> None:
    own, other = "/data/$POD_UID", "/data/other"
    command = f"mkdir -p {own} {other}; echo mine >> {own}/log; sleep 1; echo newer >> {other}/log; sleep 6"
    source = 'file: "/data/{uid}/log", uid_of: batch.kubernetes.io/job-name=NAME'
    folder = a_run_of(command, tmp_path, sandbox, source=source)
    await carry_out(folder)
    assert texts(folder) == ["mine"]
    await torn_down(folder)


async def test_what_a_program_prints_can_be_the_log(tmp_path: Path, sandbox: RunningSandbox) -> None:
    command = f"{writing('one', 'two', 'three')}; sleep 4"
    folder = a_run_of(command, tmp_path, sandbox, source="exec: [cat, /data/log]")
    await carry_out(folder)
    assert texts(folder) == ["one", "two", "three"]
    await torn_down(folder)


async def test_a_runner_that_dies_leaves_no_gap_and_no_line_twice(tmp_path: Path, sandbox: RunningSandbox) -> None:
    lines = [f"step-{n}" for n in range(12)]
    folder = a_run_of(f"{writing(*lines)}; sleep 4", tmp_path, sandbox, source="file: /data/log")
    runner = begin(folder)
    assert runner is not None
    await until(lambda: len(texts(folder)) >= 4, "four lines")
    kill(runner)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    assert texts(folder) == lines
    await torn_down(folder)


async def test_a_pod_that_is_replaced_brings_a_file_of_its_own(tmp_path: Path, sandbox: RunningSandbox) -> None:
    command = f"{writing('first', 'second')}; sleep 3; exit 1"
    folder = a_run_of(command, tmp_path, sandbox, source="file: /data/log", retries=1)
    await carry_out(folder)
    assert texts(folder) == ["first", "second", "first", "second"]
    await torn_down(folder)
