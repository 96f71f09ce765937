"""The FSx for Lustre CSI driver's controller: a file system for each claim that no volume was made for.

Source: aws-fsx-csi-driver 1.9 and its external-provisioner (events, annotations, capacities rounded up); what it makes
is billed until the claim is deleted while the driver runs.
"""

from __future__ import annotations

from actions.cluster.state.pod_requests import parse_quantity
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES, Document, is_deleting, key_of, uid_of
from actions.sandbox.controllers.core.claims import PROVISIONED_BY, PROVISIONER
from actions.sandbox.controllers.core.operators import KubernetesOperator
from actions.sandbox.model.options import SandboxOptions

DRIVER = "fsx.csi.aws.com"
_CONTROLLER = "kube-system/fsx-csi-controller"
_SOURCE = f"{DRIVER}_fsx-csi-controller"
_GUARD = "external-provisioner.volume.kubernetes.io/finalizer"
_GIB = 1 << 30
_FIRST_GIB = 1200
_STEPS_GIB = {"SCRATCH_1": 3600}
_STEP_GIB = 2400


class FsxProvisioner(Controller):
    """Makes volumes for claims of a class of its driver, and takes them away when they are released."""

    def __init__(self, client: ApiClient, caches: Caches, options: SandboxOptions) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._options = options
        self._driver = KubernetesOperator(caches, _CONTROLLER)
        self._begun: dict[str, float] = {}
        """Claim's uid → since when its file system has been made (monotonic)."""
        caches[CLAIMS].listen(lambda claim: self.wake(key_of(claim)))
        caches[VOLUMES].listen(lambda volume: self.wake(key_of(volume)))
        self._driver.on_change(self._wake_all)

    def _wake_all(self) -> None:
        for kind in (CLAIMS, VOLUMES):
            self.wake_each(self._caches[kind])

    async def reconcile(self, key: str) -> float | None:
        """Provision for a claim (`namespace/name`), or delete the file system of a volume (`name`)."""
        if not self._driver.is_ready:
            return None
        claim = self._caches[CLAIMS].get(key)
        if claim is not None:
            return await self._provision(claim)
        volume = self._caches[VOLUMES].get(key)
        if volume is not None:
            await self._reclaim(volume)
        return None

    async def _provision(self, claim: Document) -> float | None:
        annotations = claim["metadata"].get("annotations") or {}
        is_ours = annotations.get(PROVISIONER) == DRIVER and not claim["spec"].get("volumeName")
        storage_class = self._caches[STORAGE_CLASSES].get(claim["spec"].get("storageClassName") or "")
        if not is_ours or storage_class is None or is_deleting(claim):
            return None
        now, uid = self._client.clock.monotonic(), uid_of(claim)
        if uid not in self._begun:
            self._begun[uid] = now
            message = f'External provisioner is provisioning volume for claim "{key_of(claim)}"'
            await self._client.record_event(claim, CLAIMS, "Provisioning", message, source=_SOURCE)
        left = self._begun[uid] + self._options.filesystem_seconds - now
        if left > 0:
            return left
        made = await self._client.create(VOLUMES, _volume(claim, storage_class))
        if made is not None:
            message = f"Successfully provisioned volume {made['metadata']['name']}"
            await self._client.record_event(claim, CLAIMS, "ProvisioningSucceeded", message, source=_SOURCE)
        return None

    async def _reclaim(self, volume: Document) -> None:
        is_ours = (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == DRIVER
        is_free = (volume.get("status") or {}).get("phase") == "Released"
        if is_ours and is_free and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            await self._client.patch(VOLUMES, key_of(volume), {"metadata": {"finalizers": None}})
            await self._client.delete(VOLUMES, key_of(volume), uid=uid_of(volume))


def _volume(claim: Document, storage_class: Document) -> Document:
    uid = uid_of(claim)
    kind = (storage_class.get("parameters") or {}).get("deploymentType", "SCRATCH_1")
    asked = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0")
    name = f"fs-0{uid.replace('-', '')[:16]}"
    return {
        "metadata": {"name": f"pvc-{uid}", "annotations": {PROVISIONED_BY: DRIVER}, "finalizers": [_GUARD]},
        "spec": {
            "capacity": {"storage": f"{_size_gib(parse_quantity(str(asked)), kind)}Gi"},
            "accessModes": claim["spec"].get("accessModes"),
            "storageClassName": storage_class["metadata"]["name"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "mountOptions": storage_class.get("mountOptions"),
            "volumeMode": "Filesystem",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
                "uid": uid,
            },
            "csi": {
                "driver": DRIVER,
                "volumeHandle": name,
                "volumeAttributes": {"dnsname": f"{name}.fsx.us-west-2.amazonaws.com", "mountname": name[-8:]},
            },
        },
    }


def _size_gib(asked_bytes: float, deployment: str) -> int:
    """The capacity that is made: 1200 GiB or a multiple of what the deployment type is sold in."""
    asked = -(-int(asked_bytes) // _GIB)
    if asked <= _FIRST_GIB:
        return _FIRST_GIB
    step = _STEPS_GIB.get(deployment, _STEP_GIB)
    if deployment == "SCRATCH_1" and asked <= _STEP_GIB:
        return _STEP_GIB
    return -(-asked // step) * step
