"""S12: read-only is kept below keys and verbs, in what speaks to clusters, to AWS, to Terraform and to runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from actions.base.errors import RefusedError
from actions.base.readonly import promise_readonly
from actions.cloud.aws_session import AwsSession
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import REVIEWS, KubeSession
from actions.run.client import send_request, start_runner
from actions.run.journal.folder import journal_path
from actions.run.state.records import RequestKind
from actions.sandbox.locate import RunningSandbox
from actions.terraform.driver import TerraformDriver
from tests.faults.small import a_run
from tests.support.answering import write_kubeconfig
from tests.support.program import Program
from tests.support.sandboxes import http_of

SANDBOX_SPEED = 60.0


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_s12_no_request_that_changes_a_cluster_is_sent(tmp_path: Path, method: str) -> None:
    promise_readonly()
    session = await KubeSession.connect(ClusterTarget(write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1")))
    try:
        with pytest.raises(RefusedError, match="read-only"):
            await session.request(method, "/api/v1/namespaces/default/pods", body=b"{}")
        for what in ("exec", "attach", "portforward"):
            with pytest.raises(RefusedError, match="read-only"):
                async with session.websocket(f"/api/v1/namespaces/default/pods/p/{what}"):
                    pass
        assert session.readonly
        assert REVIEWS.endswith("selfsubjectaccessreviews")  # what one may do is asked by a POST that changes nothing
    finally:
        await session.aclose()


@pytest.mark.parametrize(
    "operation", ["create_nodegroup", "delete_cluster", "authorize_security_group_ingress", "put_image", "tag_resource"]
)
async def test_s12_no_call_that_changes_an_account_is_made(operation: str) -> None:
    promise_readonly()
    session = AwsSession(region="us-west-2")
    try:
        with pytest.raises(RefusedError, match="was not carried out"):
            await session.call("eks", operation)
    finally:
        session.close()


async def test_s12_terraform_applies_and_destroys_nothing(tmp_path: Path) -> None:
    promise_readonly()
    root = tmp_path / "root"
    root.mkdir()
    driver = TerraformDriver(root, tmp_path / "a", {}, program=Path("/bin/false"))
    deeds: list[Callable[[], Awaitable[object]]] = [driver.apply, lambda: driver.destroy({})]
    for deed in deeds:
        with pytest.raises(RefusedError, match=r"false \w+ was not carried out"):
            await deed()


def test_s12_no_wish_is_written_and_no_runner_started(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_run(tmp_path, sandbox)
    before = journal_path(folder).read_bytes()
    promise_readonly()
    for kind in RequestKind:
        with pytest.raises(RefusedError, match="read-only"):
            send_request(folder, kind)
    with pytest.raises(RefusedError, match="read-only"):
        start_runner(folder)
    with pytest.raises(RefusedError, match="the launch of small"):
        a_run(tmp_path, sandbox)
    assert journal_path(folder).read_bytes() == before


async def _hits(sandbox: RunningSandbox, *, begin: bool = False) -> int:
    """Return the number of requests that change something and that the sandbox has got; it would have refused each."""
    async with http_of(sandbox.kubeconfig) as http:
        if begin:
            changing = ["update", "patch", "delete", "deletecollection", "exec", "attach", "portforward"]
            making = ["pods", "jobs", "configmaps", "secrets", "namespaces", "events", "pytorchjobs"]
            for fault in (
                {"kind": "broken", "name": "changed", "verbs": changing},
                {"kind": "broken", "name": "made", "verbs": ["create"], "resources": making},
            ):
                async with http.post("/sandbox/faults", json=fault) as answer:
                    assert answer.status == 201
        async with http.get("/sandbox/faults") as answer:
            return sum(fault["hits"] for fault in await answer.json())


STEPS = (
    "launch: bionemo-esm1nv", "teardown: {confirm: bionemo-on-eks}", "cancel", "park", "resume",
    "approve: {within: 1s}", "pause", "export: {to: s3://bucket/prefix}", "shell: kube-system/coredns",
    "forward: {to: kube-system/coredns:53}",
)  # fmt: skip


def test_s12_no_step_of_a_script_changes_anything(sandbox: RunningSandbox, program: Program) -> None:
    asyncio.run(_hits(sandbox, begin=True))
    script, report = program.home / "script.yaml", program.home / "report.json"
    played = "".join(f"  - {step}\n" for step in STEPS)
    script.write_text(f"eksml-script: 1\ndeadline: 60s\nsteps:\n  - open: nodes\nalways:\n{played}")
    program.command(
        "--readonly", "--kubeconfig", str(sandbox.kubeconfig), "--script", str(script), "--report", str(report),
        "--artifacts", str(program.home),
    )  # fmt: skip
    told = [(step["verb"], step["result"]) for step in json.loads(report.read_text())["steps"]]
    assert told[0] == ("open", "passed")
    without_a_run = {("teardown", "passed"), ("cancel", "passed"), ("park", "passed")}  # "nothing was launched"
    assert [step for step in told[1:] if step[1] == "passed" and step not in without_a_run] == []
    assert asyncio.run(_hits(sandbox)) == 0
    assert program.run_folders() == []
