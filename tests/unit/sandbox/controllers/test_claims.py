"""Claims: bound to the static volume they name, provisioned by the FSx driver, or told why they wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import CLAIMS, DEPLOYMENTS, STORAGE_CLASSES, VOLUMES, Document
from tests.unit.sandbox.controllers.server import until, whole_cluster


def a_volume(name: str = "fsx-pv", **spec: Any) -> Document:
    standing: Document = {
        "capacity": {"storage": "1200Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-0123456789abcdef0"},
    }
    return {"metadata": {"name": name}, "spec": standing | spec}


def a_claim(name: str = "fsx-pvc", *, size: str = "1200Gi", **spec: Any) -> Document:
    standing = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": standing | spec}


def is_bound(claim: Document | None) -> bool:
    return bool((claim or {}).get("status", {}).get("phase") == "Bound")


async def told(client: ApiClient, claim: str, reason: str) -> str:
    """Return the message of the claim's event with that reason, once there is one."""
    while True:
        query = {"fieldSelector": f"involvedObject.name={claim}"}
        for event in (await client.session.get("/api/v1/namespaces/default/events", query))["items"]:
            if event["reason"] == reason:
                return str(event["message"])


@pytest.mark.parametrize(
    ("claim", "reason", "text"),
    [
        (a_claim(volumeName="fsx-pv"), "VolumeMismatch", "storageClassName does not match"),
        (a_claim(volumeName="fsx-pv", storageClassName="", size="2400Gi"), "VolumeMismatch", "PV is too small"),
        (a_claim(volumeName="fsx-pv", storageClassName="", accessModes=["ReadWriteOnce"]), "VolumeMismatch",
         "incompatible accessMode"),
        (a_claim(storageClassName="nowhere"), "ProvisioningFailed", 'storageclass.storage.k8s.io "nowhere" not found'),
        (a_claim(storageClassName="", size="2400Gi"), "FailedBinding", "no storage class is set"),
        (a_claim(), "WaitForFirstConsumer", "waiting for first consumer"),
    ],
)  # fmt: skip
async def test_a_claim_that_waits_is_told_why(tmp_path: Path, claim: Document, reason: str, text: str) -> None:
    async with whole_cluster(tmp_path) as client:
        await client.create(VOLUMES, a_volume())
        await client.create(CLAIMS, claim)
        assert text in await told(client, "fsx-pvc", reason)
        found = await client.read(CLAIMS, "default/fsx-pvc")
        assert not is_bound(found)


async def test_a_volume_is_bound_once(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as client:
        await client.create(VOLUMES, a_volume())
        await client.create(CLAIMS, a_claim("first", volumeName="fsx-pv", storageClassName=""))
        await until(client, CLAIMS, "default/first", is_bound)
        await client.create(CLAIMS, a_claim("second", volumeName="fsx-pv", storageClassName=""))
        assert await told(client, "second", "FailedBinding") == 'volume "fsx-pv" already bound to a different claim.'


async def test_a_claim_of_the_drivers_class_gets_a_file_system_that_goes_only_while_the_driver_runs(
    tmp_path: Path,
) -> None:
    async with whole_cluster(tmp_path) as client:
        parameters = {"deploymentType": "PERSISTENT_1"}
        fsx = {"metadata": {"name": "fsx"}, "provisioner": "fsx.csi.aws.com", "parameters": parameters}
        await client.create(STORAGE_CLASSES, fsx)
        await client.create(CLAIMS, a_claim("fsx-claim", storageClassName="fsx", size="1300Gi"))
        assert "external provisioner 'fsx.csi.aws.com'" in await told(client, "fsx-claim", "ExternalProvisioning")
        claim = await until(client, CLAIMS, "default/fsx-claim", is_bound)
        volume = claim["spec"]["volumeName"]
        assert claim["status"]["capacity"] == {"storage": "2400Gi"}
        await client.patch(DEPLOYMENTS, "kube-system/fsx-csi-controller", {"spec": {"replicas": 0}})
        await until(client, DEPLOYMENTS, "kube-system/fsx-csi-controller", _has_no_pods)
        await client.delete(CLAIMS, "default/fsx-claim")
        await until(client, VOLUMES, volume, lambda one: (one or {}).get("status", {}).get("phase") == "Released")
        await client.patch(DEPLOYMENTS, "kube-system/fsx-csi-controller", {"spec": {"replicas": 2}})
        await until(client, VOLUMES, volume, lambda one: one is None)


def _has_no_pods(deployment: Document | None) -> bool:
    return not (deployment or {}).get("status", {}).get("readyReplicas")
