"""The real training-operator, outside the cluster, behind a Deployment that stands for it inside."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from tests.realcluster.harness.controlplane import ControlPlane
from tests.realcluster.harness.parts import program
from tests.realcluster.harness.programs import free_ports, listens, running
from tests.realcluster.harness.standins import TRAINING_OPERATOR, shown
from tests.support.applying import apply_all

_NAMESPACE = "kubeflow"
_SECRET = "training-operator-webhook-cert"
_WEBHOOKS = "validator.training-operator.kubeflow.org"
_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
"""The folder in which the operator looks for its certificates; no other can be set."""
_READY_SECONDS = 120.0


@asynccontextmanager
async def training_operator(plane: ControlPlane, session: KubeSession) -> AsyncIterator[None]:
    """Run it until the context is left; entered when it is ready for jobs. The CRD of PyTorchJobs must be there."""
    await apply_all(session, Discovery(session), _inside())
    metrics, health, webhook = free_ports(3)
    argv = [
        program("training-operator"),
        f"--kubeconfig={plane.kubeconfig}",
        "--enable-scheme=pytorchjob",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--webhook-server-port={webhook}",
    ]
    async with running(argv, name="training-operator", logs=plane.folder / "logs") as operator:

        async def is_ready() -> bool:
            await _mount_certificates(session)
            return await listens(webhook)

        await operator.until(is_ready, "the training-operator's readiness", deadline_seconds=_READY_SECONDS)
        yield


async def _mount_certificates(session: KubeSession) -> None:
    """Play the kubelet that would put the secret's files into the operator's pod."""
    secret = await session.get(f"/api/v1/namespaces/{_NAMESPACE}/secrets/{_SECRET}")
    for name, value in (secret.get("data") or {}).items():
        _CERTIFICATES.mkdir(parents=True, exist_ok=True)
        data = base64.b64decode(value)
        path = _CERTIFICATES / name
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


def _inside() -> list[dict[str, Any]]:
    """The objects that show it in the cluster, and those that it wants to find."""
    return [
        *shown(TRAINING_OPERATOR),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET, "namespace": _NAMESPACE}},
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": _WEBHOOKS},
            "webhooks": [],
        },
    ]
