"""A job that ended with 0 is still judged by what it printed; a retry runs it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.run.client import send_request
from actions.run.state.records import CheckResult, RequestKind
from actions.run.state.view import RunState
from tests.support.smallrun import a_small_run, carry_out
from tests.unit.sandbox.controllers.server import whole_cluster

CLOCK = SystemClock()
BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: small, region: us-west-2}
parameters:
  nodes: {type: integer, title: Nodes, default: 2}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: small, region: us-west-2}
  - id: test
    kind: job
    title: Test
    needs: [access]
    expect: 1s..5s
    manifests: [job.yaml]
    target: {api_version: batch/v1, kind: Job, name: test}
    watch: {logs: {pods: job-name=test, container: test}}
    verdict: VERDICT
"""
BANDWIDTH = '{reads: nccl, instance_type: g5.8xlarge, nodes: "${nodes}", ranks_per_node: 1, hint: Look at the network.}'
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: test}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: test, image: "busybox:1", command: [sh, -c, "TEXT"]}
"""
ROW = "echo '268435456 67108864 float sum -1 94155 2.85 BUSBW 0 93550 2.87 2.87 0'"
TABLE = f"{ROW}; echo '# Out of bounds values : 0 OK'; echo '# Avg bus bandwidth    : 1.3'"


def a_run(tmp_path: Path, kubeconfig: Path, verdict: str, text: str) -> Path:
    files = {"blueprint.yaml": BLUEPRINT.replace("VERDICT", verdict), "job.yaml": JOB.replace("TEXT", text)}
    return a_small_run(tmp_path, files, kubeconfig=kubeconfig, existing_cluster=True)


@pytest.mark.parametrize(
    ("verdict", "text", "state", "said"),
    [
        (BANDWIDTH, TABLE.replace("BUSBW", "2.85"), RunState.SUCCEEDED, "≥ 100% of 2 × g5.8xlarge."),
        (BANDWIDTH, TABLE.replace("BUSBW", "1.00"), RunState.FAILED, "bus bandwidth: 1 GB/s at 256 MiB, 35% of"),
    ],
)
async def test_a_job_is_judged_by_what_it_printed(
    tmp_path: Path, verdict: str, text: str, state: RunState, said: str
) -> None:
    async with whole_cluster(tmp_path):
        view = await carry_out(a_run(tmp_path, tmp_path / "kubeconfig", verdict, text))
    assert view.state is state
    stage = view.stage("test")
    assert said in stage.message
    failed = [finding for finding in stage.findings if finding.result is CheckResult.FAILED]
    assert bool(failed) == (state is RunState.FAILED)


async def test_a_retry_runs_a_badly_judged_job_anew(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        folder = a_run(tmp_path, tmp_path / "kubeconfig", BANDWIDTH, "echo hello")
        jobs = "/apis/batch/v1/namespaces/default/jobs/test"
        await carry_out(folder)
        first = (await client.session.get(jobs))["metadata"]["uid"]
        send_request(folder, RequestKind.RETRY, start=False)
        assert (await carry_out(folder)).stage("test").attempt == 2
        assert (await client.session.get(jobs))["metadata"]["uid"] != first
