"""The BioNeMo rehearsal on a real control plane, its jobs run by the real training-operator."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actions.cluster.kubeconfig import ClusterTarget
from actions.cluster.session import KubeSession
from tests.realcluster.running import FOLDER, real_cluster
from tests.support.program import Program

pytestmark = pytest.mark.skipif(not FOLDER, reason="not started by `make realcluster`")
SCRIPT = Path(__file__).parents[2] / "assets" / "scripts" / "bionemo.yaml"


@dataclass(frozen=True)
class ProgramOnAws(Program):
    """The program, in an account that has the cluster."""

    @property
    def environment(self) -> dict[str, str]:
        account = {
            "AWS_ENDPOINT_URL": real_cluster().aws_endpoint_url,
            "AWS_REGION": "us-west-2",
            "AWS_ACCESS_KEY_ID": "realcluster",
            "AWS_SECRET_ACCESS_KEY": "realcluster",
        }
        return {**super().environment, **account}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = ProgramOnAws(tmp_path_factory.mktemp("rehearsal"))
    report = program.home / "report.json"
    done = program.run(
        "--kubeconfig", real_cluster().kubeconfig, "--script", str(SCRIPT), "--report", str(report),
        "--artifacts", str(program.home), seconds=600,
    )  # fmt: skip
    program.end_all()
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(report.read_text()))


def test_it_plays_from_launch_to_audited_teardown(played: dict[str, Any]) -> None:
    assert {step["result"] for step in played["steps"]} == {"passed"}
    assert played["exit_code"] == 0


async def test_nothing_of_the_run_is_left(played: dict[str, Any]) -> None:
    session = await KubeSession.connect(ClusterTarget(Path(real_cluster().kubeconfig)))
    label = f"eksml.dev/run={played['run']['id']}"
    paths = (
        "/api/v1/pods", "/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims", "/apis/batch/v1/jobs",
        "/apis/kubeflow.org/v1/pytorchjobs", "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims",
    )  # fmt: skip
    left = [await session.get(path, {"labelSelector": label}) for path in paths]
    await session.aclose()
    assert [found["items"] for found in left] == [[]] * len(paths)


def test_pods_were_made_by_the_real_operator(played: dict[str, Any]) -> None:
    audited = Path(real_cluster().audit_log).read_text(encoding="utf-8").splitlines()
    made = [
        event
        for event in map(json.loads, audited)
        if event["verb"] == "create" and (event.get("objectRef") or {}).get("name", "").startswith("esm1nv-pretraining")
    ]
    assert played["run"]["id"]
    assert any(event["userAgent"].startswith("training-operator") for event in made)


def test_terraform_is_the_real_one_where_there_is_one(played: dict[str, Any]) -> None:
    told = json.dumps(played)
    assert ("simulated" in told) == (shutil.which("terraform") is None)
