"""A run's watchdog under the real CronJob controller: its pod is made when it is due, as its service account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, ObjectRef, list_objects, merge_patch
from actions.run.watchdog import keeper
from actions.run.watchdog.manifests import watchdog_name
from tests.flow.test_watchdog import a_run, carried_out, names_of
from tests.realcluster.running import real_cluster
from tests.support.polling import until

EVERY_MINUTE = {"spec": {"schedule": "* * * * *"}}


async def test_the_controller_starts_its_pod_when_it_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "LOOK_SECONDS", 0.2)
    kubeconfig = Path(real_cluster().kubeconfig)
    folder = a_run(tmp_path, kubeconfig)
    name = watchdog_name(folder.name)
    session = await KubeSession.connect(ClusterTarget(kubeconfig))
    discovery = Discovery(session)

    pods: list[dict[str, Any]] = []

    async def has_pod() -> bool:
        found = await list_objects(session, discovery, "v1", "Pod", namespace="default")
        pods.extend(pod for pod in found if pod["spec"].get("serviceAccountName") == name)
        return bool(pods)

    try:
        async with carried_out(folder):
            await until(lambda: "CronJob" in names_of(folder), "the watchdog")
            await merge_patch(session, discovery, ObjectRef("batch/v1", "CronJob", "default", name), EVERY_MINUTE)
            await until(has_pod, "its pod", deadline_seconds=600)
    finally:
        await session.aclose()
    (container,) = pods[0]["spec"]["containers"]
    assert container["command"][:3] == ["python3", "-I", "-c"]
    mounts = [one["mountPath"] for one in container["volumeMounts"]]
    assert mounts == ["/var/run/secrets/kubernetes.io/serviceaccount"]
