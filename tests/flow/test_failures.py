"""Failures that a sandbox plays as a real kubelet makes them, and the words of `why` about them.

The same rows on a real kubelet are in `tests/realnode/failure_table.py`; on a real control plane alone nothing probes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.diagnose.codes import Finding
from actions.cluster.diagnose.collect import explain
from actions.cluster.diagnose.select import ObjectSelector
from tests.flow.kubectl import Kubectl, a_cluster
from tests.support.missing import needs
from tests.support.polling import until

pytestmark = [needs("kubectl"), pytest.mark.asyncio(loop_scope="module")]
_NOWHERE = {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 2}


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with a_cluster(tmp_path) as kubectl:
        yield kubectl


@pytest_asyncio.fixture(loop_scope="module")
async def session(cluster: Kubectl) -> AsyncIterator[KubeSession]:
    opened = await KubeSession.connect(ClusterTarget(cluster.kubeconfig))
    yield opened
    await opened.aclose()


async def _run(cluster: Kubectl, kind: str) -> None:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "36000"], f"{kind}Probe": _NOWHERE}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    await cluster.ok("apply", "-f", "-", stdin=yaml.safe_dump(pod))


async def _status(cluster: Kubectl) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(await cluster.ok("get", "pod", "p", "-o", "json"))["status"]
    return status


async def _has_failed(cluster: Kubectl, times: int) -> bool:
    events = json.loads(await cluster.ok("get", "events", "-o", "json"))["items"]
    return sum(int(event["count"]) for event in events if event["reason"] == "Unhealthy") >= times


async def _has_restarted(cluster: Kubectl, times: int) -> bool:
    return any(one["restartCount"] >= times for one in (await _status(cluster)).get("containerStatuses", ()))


async def _why(cluster: Kubectl, session: KubeSession) -> Finding:
    namespace = await cluster.ok("config", "view", "--minify", "-o", "jsonpath={..namespace}")
    (found,) = await explain(session, ObjectSelector("Pod", "p", namespace or "default"))
    return found


async def test_a_readiness_probe_of_a_port_on_which_nothing_listens(cluster: Kubectl, session: KubeSession) -> None:
    await _run(cluster, "readiness")
    await until(partial(_has_failed, cluster, 3), "three failures of the probe")
    (main,) = (await _status(cluster))["containerStatuses"]
    assert (main["ready"], "running" in main["state"]) == (False, True)
    ready = next(one for one in (await _status(cluster))["conditions"] if one["type"] == "Ready")
    assert ready["message"] == "containers with unready status: [main]"
    found = await _why(cluster, session)
    assert (found.code.value, found.severity.value) == ("PROBE_FAILED", "info")
    assert "its readiness probe (GET :8080/ready, every 2 s) failed" in found.headline
    assert found.headline.endswith(":8080: connect: connection refused")


async def test_a_liveness_probe_of_a_port_on_which_nothing_listens(cluster: Kubectl, session: KubeSession) -> None:
    await _run(cluster, "liveness")
    await until(partial(_has_restarted, cluster, 2), "two restarts")
    found = await _why(cluster, session)
    assert found.code.value == "PROBE_FAILED"
    assert found.headline.startswith("The kubelet restarts container main of p (")
    assert "Container main failed liveness probe, will be restarted" in found.evidence
