"""Results of a run, listed and exported on the sandbox; and checks that have to look at its volume."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, MissingError, RefusedError
from actions.run.context.retry import ONCE
from actions.run.results import Copy, OpenResults, export_results, list_results, results_json, results_table
from actions.run.state.records import CheckResult
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import BLUEPRINT, WORK, a_run
from tests.support.smallrun import carry_out, own_name, torn_down

CLOCK = SystemClock()
SANDBOX_SPEED = 20.0

LOOK = """
  - id: look
    kind: check
    title: Look
    needs: [work]
    expect: 1s..5s
    checks:
      - {check: files, title: files, claim: NAME, mount: /data, folder: /data/out, pattern: "*.ckpt", at_least: 2}
      - {check: files, title: more, claim: NAME, mount: /data, folder: /data/none, at_least: 1, is_required: false}
      - {check: disk, title: room, claim: NAME, mount: /data, free_gib: 10}
"""

VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 1200Gi}
  storageClassName: ""
  csi: {driver: fsx.csi.aws.com, volumeHandle: fs-1}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: NAME
  resources: {requests: {storage: 1200Gi}}
"""

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: example.com/work
          command: [sh, -c, "mkdir -p /data/out/sub; echo one > /data/out/a.ckpt; echo two > '/data/out/sub/b c.ckpt'"]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: NAME}}]
"""


def a_run_with(results: str, tmp_path: Path, sandbox: RunningSandbox) -> Path:
    blueprint = BLUEPRINT.replace("stages:", f"{results}\nstages:")
    return a_run(tmp_path, sandbox, WORK + LOOK, job=JOB, objects=VOLUME, blueprint=blueprint)


async def test_results_are_counted_listed_and_exported(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run_with("results: {claim: NAME, mount: /data, folder: /data/out}", tmp_path, sandbox)
    view = await carry_out(folder)
    assert view.state is RunState.SUCCEEDED, view.stage("look").message
    found = {finding.subject: (finding.result, finding.detail) for finding in view.stage("look").findings}
    assert found["files"] == (CheckResult.PASSED, "2 files *.ckpt are in /data/out, 2 required.")
    assert found["more"][0] is CheckResult.FAILED
    assert found["room"][0] is CheckResult.PASSED

    listing = await list_results(folder, CLOCK)
    assert [(file.path, file.size_bytes) for file in listing.files] == [("a.ckpt", 4), ("sub/b c.ckpt", 4)]
    assert "2 files, 8 B, in /data/out" in results_table(listing)
    assert '"path": "sub/b c.ckpt"' in results_json(listing)

    said: list[str] = []
    done = await export_results(folder, "s3://bucket/prefix", CLOCK, on_line=said.append)
    assert done == "The results are in s3://bucket/prefix."
    assert "upload: /data/out/a.ckpt to s3://bucket/prefix/a.ckpt" in said
    with pytest.raises(RefusedError, match="copy to s3://denied-bucket failed"):
        await export_results(folder, "s3://denied-bucket", CLOCK, on_line=said.append)

    await one_copy_goes_on_and_is_taken_up(folder)
    with monkeypatch.context() as killed:  # whoever made the Job does not live to delete it
        killed.setattr("actions.run.volume.helper_job.delete_job", AsyncMock())
        await list_results(folder, CLOCK)
    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert view.audit.leftovers == ()


async def one_copy_goes_on_and_is_taken_up(folder: Path) -> None:
    copies: list[Copy] = []
    told: list[str] = []

    def begin(copy: Copy, sentence: str) -> None:
        copies.append(copy)
        told.append(sentence)

    async def export(*, is_detached: bool = False) -> str:
        target = "s3://bucket/again"
        return await export_results(folder, target, CLOCK, on_line=told.append, on_begin=begin, is_detached=is_detached)

    assert await export(is_detached=True) == ""
    assert "also if this program ends" in told[0]
    watching = asyncio.create_task(export())
    while len(copies) < 2:
        await asyncio.sleep(0)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert await export() == "The results are in s3://bucket/again."
    assert len({copy.ref for copy in copies}) == 1
    assert not copies[0].was_there


async def test_a_copy_runs_as_the_service_account_that_has_the_runs_role(
    tmp_path: Path, sandbox: RunningSandbox
) -> None:
    results = (
        "results: {claim: NAME, mount: /data, folder: /data/out, export: {to: bucket/team, service_account: NAME}}"
    )
    folder = a_run_with(results, tmp_path, sandbox)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    copies: list[Copy] = []
    said: list[str] = []

    def begin(copy: Copy, sentence: str) -> None:
        copies.append(copy)
        said.append(sentence)

    await export_results(folder, "", CLOCK, on_line=said.append, on_begin=begin, is_detached=True)
    async with OpenResults(folder, CLOCK) as opened:
        connection = await opened.context.connect(ONCE)
        job = await connection.fetch(copies[0].ref)
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == own_name(tmp_path)
    place = f"s3://bucket/team/{folder.name}"
    assert f"copies /data/out to {place}, also if this program ends" in said[0]
    assert await export_results(folder, "", CLOCK, on_line=said.append) == f"The results are in {place}."
    with pytest.raises(ConfigError, match="s3://bucket/other is not below s3://bucket/team"):
        await export_results(folder, "s3://bucket/other", CLOCK, on_line=said.append)
    await torn_down(folder)


async def test_a_blueprint_without_results_says_so(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_run_with("", tmp_path, sandbox)
    with pytest.raises(MissingError, match="names no folder of results"):
        await list_results(folder, CLOCK)


@pytest.mark.parametrize(
    "target", ["nowhere", "s3://", "s3://A_B/x", "https://bucket.s3.amazonaws.com/x", "s3://b/a;b"]
)
async def test_only_an_address_in_s3_is_a_target(tmp_path: Path, target: str) -> None:
    with pytest.raises(ConfigError, match="is not an address in S3"):
        await export_results(tmp_path, target, CLOCK, on_line=print)
