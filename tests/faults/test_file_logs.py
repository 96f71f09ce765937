"""Logs that are files in pods, on the sandbox: each line once, whatever happens to pods, runners and connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from actions.blueprint.render import RUN_LABEL
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote.exec import run_in_pod
from actions.run.client import load_run, send_request
from actions.run.output.reader import OutputReader
from actions.run.state.records import RequestKind
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
    return [line.text for line in OutputReader(folder, "work").lines()[0]]


@asynccontextmanager
async def at_work(folder: Path) -> AsyncIterator[None]:
    """The run, carried out here until it is torn down: its job lasts longer than any test."""
    runner = asyncio.create_task(carry_out(folder))
    try:
        yield
    finally:
        send_request(folder, RequestKind.TEARDOWN, start=False)
        assert (await runner).state is RunState.TORN_DOWN


async def in_its_pod(folder: Path, sandbox: RunningSandbox, command: str) -> None:
    """Run a shell command beside the job's program."""
    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig))
    try:
        run = {"labelSelector": f"{RUN_LABEL}={load_run(folder).id}"}
        (pod,) = (await session.get("/api/v1/namespaces/default/pods", run))["items"]
        done = await run_in_pod(session, "default", pod["metadata"]["name"], "main", ["sh", "-c", command])
        assert done.exit_code == 0, done
    finally:
        await session.aclose()


def writing(*lines: str, pause: float = 0.4) -> str:
    return f"; sleep {pause}; ".join(f"echo {line} >> /data/log" for line in lines)


async def test_a_file_that_comes_late_is_kept_whole_and_in_order(tmp_path: Path, sandbox: RunningSandbox) -> None:
    lines = [f"step-{n}" for n in range(6)]
    folder = a_run_of(f"sleep 1.5; {writing(*lines)}; sleep 600", tmp_path, sandbox, source="file: /data/log")
    async with at_work(folder):
        await until(lambda: len(texts(folder)) >= len(lines), "all lines")
        assert texts(folder) == lines


async def test_the_newest_file_that_matches_is_the_one(tmp_path: Path, sandbox: RunningSandbox) -> None:
    command = "mkdir -p /data/a /data/b; echo old > /data/a/log; sleep 600"
    folder = a_run_of(command, tmp_path, sandbox, source="file: /data/*/log")
    async with at_work(folder):
        await until(lambda: texts(folder), "the first file")
        await in_its_pod(folder, sandbox, "echo new > /data/b/log")
        await until(lambda: len(texts(folder)) > 1, "the second file")
        assert texts(folder) == ["old", "new"]


async def test_a_pods_uid_names_its_file_among_newer_ones(tmp_path: Path, sandbox: RunningSandbox) -> None:
    own, other = "/data/$POD_UID", "/data/other"
    command = f"mkdir -p {own} {other}; echo mine >> {own}/log; sleep 1; echo newer >> {other}/log; sleep 6"
    source = 'file: "/data/{uid}/log", uid_of: batch.kubernetes.io/job-name=NAME'
    folder = a_run_of(command, tmp_path, sandbox, source=source)
    await carry_out(folder)
    assert texts(folder) == ["mine"]
    await torn_down(folder)


async def test_what_a_program_prints_can_be_the_log(tmp_path: Path, sandbox: RunningSandbox) -> None:
    command = f"{writing('one', 'two', 'three')}; sleep 600"
    folder = a_run_of(command, tmp_path, sandbox, source="exec: [cat, /data/log]")
    async with at_work(folder):
        await until(lambda: len(texts(folder)) >= 3, "all lines")
        assert texts(folder) == ["one", "two", "three"]


async def test_a_runner_that_dies_leaves_no_gap_and_no_line_twice(tmp_path: Path, sandbox: RunningSandbox) -> None:
    lines = [f"step-{n}" for n in range(12)]
    folder = a_run_of(f"{writing(*lines)}; sleep 600", tmp_path, sandbox, source="file: /data/log")
    runner = begin(folder)
    assert runner is not None
    await until(lambda: len(texts(folder)) >= 4, "four lines")
    kill(runner)
    async with at_work(folder):
        await until(lambda: lines[-1] in texts(folder), "the last line")
        assert texts(folder) == lines


async def test_a_pod_that_is_replaced_brings_a_file_of_its_own(tmp_path: Path, sandbox: RunningSandbox) -> None:
    command = f"{writing('first', 'second')}; sleep 3; exit 1"
    folder = a_run_of(command, tmp_path, sandbox, source="file: /data/log", retries=1)
    await carry_out(folder)
    assert texts(folder) == ["first", "second", "first", "second"]
    await torn_down(folder)
