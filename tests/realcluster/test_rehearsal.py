"""Rehearsals on a real control plane: PyTorchJobs by the real training-operator, other kinds by our controllers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import MissingError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from tests.realcluster.rehearsals import SCRIPTS, Played, playing
from tests.realcluster.running import real_cluster

_LEFT_PATHS = (
    "/api/v1/pods", "/api/v1/services", "/api/v1/secrets", "/api/v1/persistentvolumes",
    "/api/v1/persistentvolumeclaims", "/apis/batch/v1/jobs", "/apis/kubeflow.org/v1/pytorchjobs",
    "/apis/kubeflow.org/v2beta1/mpijobs", "/apis/ray.io/v1/rayclusters", "/apis/ray.io/v1/rayjobs",
    "/apis/trainer.kubeflow.org/v1alpha1/trainjobs", "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
    "/apis/scheduling.volcano.sh/v1beta1/queues", "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims",
)  # fmt: skip
every_script = pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])


@pytest.fixture(scope="module")
def rehearsals(request: pytest.FixtureRequest) -> Iterator[dict[Path, Future[Played]]]:
    """All that were asked for, on their way."""
    calls = [item.callspec for item in request.session.items if isinstance(item, pytest.Function)
             and hasattr(item, "callspec")]  # fmt: skip
    wanted = {script for call in calls if isinstance(script := call.params.get("script"), Path)}
    with playing(wanted, Path(real_cluster().homes)) as results:
        yield results


@every_script
def test_it_plays_from_launch_to_audited_teardown(rehearsals: dict[Path, Future[Played]], script: Path) -> None:
    played = rehearsals[script].result()
    assert played.exit_code == 0, played.output
    assert {step["result"] for step in played.report["steps"]} == {"passed"}


@every_script
async def test_nothing_of_the_run_is_left(rehearsals: dict[Path, Future[Played]], script: Path) -> None:
    label = f"eksml.dev/run={rehearsals[script].result().run}"
    session = await KubeSession.connect(ClusterTarget(Path(real_cluster().kubeconfig)))
    try:
        left = {path: await _labelled(session, path, label) for path in _LEFT_PATHS}
    finally:
        await session.aclose()
    assert not any(left.values()), left


async def _labelled(session: KubeSession, path: str, label: str) -> list[dict[str, Any]]:
    """Return the objects of a kind with a label; none of a kind that nothing has defined here."""
    try:
        items: list[dict[str, Any]] = (await session.get(path, {"labelSelector": label}))["items"]
    except MissingError:
        return []
    return items


@pytest.mark.parametrize("script", [one for one in SCRIPTS if one.stem == "bionemo-esm1nv"], ids=["bionemo-esm1nv"])
def test_pods_were_made_by_the_real_operator(rehearsals: dict[Path, Future[Played]], script: Path) -> None:
    assert rehearsals[script].result().run
    text = Path(real_cluster().audit_log).read_text(encoding="utf-8")
    audited = text[: text.rfind("\n") + 1].splitlines()  # the last line may be half written
    made = [
        event
        for event in map(json.loads, audited)
        if event["verb"] == "create" and (event.get("objectRef") or {}).get("name", "").startswith("esm1nv-pretraining")
    ]
    assert any(event["userAgent"].startswith("training-operator") for event in made)
