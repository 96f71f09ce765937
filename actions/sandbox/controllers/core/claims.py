"""PersistentVolumeClaims: bound to the volume that they name, kept while a pod uses them.

Source: k8s.io/kubernetes `pkg/controller/volume/persistentvolume/pv_controller.go`, v1.34 (events and their texts).
"""

from __future__ import annotations

from actions.cluster.state.pod_requests import parse_quantity
from actions.sandbox.clientkit.cache import Caches
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.controller import Controller
from actions.sandbox.clientkit.kinds import (
    CLAIMS,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    Document,
    is_deleting,
    key_of,
    uid_of,
)
from actions.sandbox.controllers.core.pods import phase_of

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
"""The annotation of a volume that a driver has provisioned: the driver's name."""
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""The annotation of a claim that waits for a driver: the driver's name."""
_CLAIM_GUARD = "kubernetes.io/pvc-protection"
_VOLUME_GUARD = "kubernetes.io/pv-protection"
_SOURCE = "persistentvolume-controller"

Obstacle = tuple[str, str, bool]
"""An event: reason, message, whether it is a warning."""


class ClaimController(Controller):
    """Binds claims to volumes: the one named, or the smallest that fits. Provisioning is left to drivers."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._obstacles: dict[str, Obstacle] = {}
        """Claim's uid → the obstacle that was last reported to it."""
        caches[CLAIMS].listen(lambda claim: self.wake(key_of(claim)))
        caches[VOLUMES].listen(self._on_supply)
        caches[STORAGE_CLASSES].listen(self._on_supply)
        caches[PODS].listen(self._on_pod)

    def _on_supply(self, _volume_or_class: Document) -> None:
        self.wake_each(self._caches[CLAIMS])

    def _on_pod(self, pod: Document) -> None:
        for volume in pod["spec"].get("volumes") or ():
            if "persistentVolumeClaim" in volume:
                self.wake(f"{pod['metadata']['namespace']}/{volume['persistentVolumeClaim']['claimName']}")

    async def reconcile(self, key: str) -> float | None:
        """Bind, guard, let go."""
        claim = self._caches[CLAIMS].get(key)
        if claim is None:
            return None
        if is_deleting(claim):
            await self._release(claim)
            return None
        if _CLAIM_GUARD not in (claim["metadata"].get("finalizers") or ()):
            finalizers = [*(claim["metadata"].get("finalizers") or ()), _CLAIM_GUARD]
            await self._client.patch(CLAIMS, key, {"metadata": {"finalizers": finalizers}})
        status = (claim.get("status") or {}).get("phase")
        if status == "Bound":
            return None
        volume = self._volume_for(claim)
        if volume is not None:
            await self._bind(claim, volume)
        else:
            await self._wait(claim, is_new=status != "Pending")
        return None

    async def _wait(self, claim: Document, *, is_new: bool) -> None:
        """Report what an unbound claim waits for, and have its driver make a volume if it has one."""
        if is_new:
            await self._client.patch_status(CLAIMS, claim, {"phase": "Pending"})
        provisioner, obstacle = self._obstacle(claim)
        annotations = claim["metadata"].get("annotations") or {}
        if provisioner and annotations.get(PROVISIONER) != provisioner:
            await self._client.patch(CLAIMS, key_of(claim), {"metadata": {"annotations": {PROVISIONER: provisioner}}})
        if obstacle is not None and self._obstacles.get(uid_of(claim)) != obstacle:
            self._obstacles[uid_of(claim)] = obstacle
            reason, message, is_warning = obstacle
            await self._client.record_event(claim, CLAIMS, reason, message, source=_SOURCE, is_warning=is_warning)

    def _obstacle(self, claim: Document) -> tuple[str, Obstacle | None]:
        """Return the driver that is to make a volume, if any, and the obstacle of a claim without one."""
        named = claim["spec"].get("volumeName")
        if named:
            volume = self._caches[VOLUMES].get(named)
            return "", _mismatch(claim, volume) if volume is not None else None
        name = claim["spec"].get("storageClassName")
        if not name:
            text = "no persistent volumes available for this claim and no storage class is set"
            return "", ("FailedBinding", text, False)
        storage_class = self._caches[STORAGE_CLASSES].get(name)
        if storage_class is None:
            return "", ("ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', True)
        if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and not self._is_used(claim):
            return "", ("WaitForFirstConsumer", "waiting for first consumer to be created before binding", False)
        driver = str(storage_class["provisioner"])
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{driver}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered."
        )
        return driver, ("ExternalProvisioning", text, False)

    def _volume_for(self, claim: Document) -> Document | None:
        named = claim["spec"].get("volumeName")
        candidates = sorted(self._caches[VOLUMES].objects.values(), key=_capacity)
        return next((one for one in candidates if _matches(claim, one, named)), None)

    async def _bind(self, claim: Document, volume: Document) -> None:
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim["metadata"]["namespace"],
            "name": claim["metadata"]["name"],
            "uid": uid_of(claim),
        }
        name = volume["metadata"]["name"]
        finalizers = sorted({*(volume["metadata"].get("finalizers") or ()), _VOLUME_GUARD})
        change = {"metadata": {"finalizers": finalizers}, "spec": {"claimRef": reference}}
        await self._client.patch(VOLUMES, name, change)
        await self._client.patch_status(VOLUMES, volume, {"phase": "Bound"})
        annotations = {"pv.kubernetes.io/bind-completed": "yes"}
        change = {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}}
        await self._client.patch(CLAIMS, key_of(claim), change)
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes"),
            "capacity": volume["spec"].get("capacity"),
        }
        await self._client.patch_status(CLAIMS, claim, status)

    async def _release(self, claim: Document) -> None:
        """Take the guard away once no pod that lives uses the claim, and release its volume."""
        if self._is_used(claim):
            return
        kept = [one for one in claim["metadata"].get("finalizers") or () if one != _CLAIM_GUARD]
        await self._client.patch(CLAIMS, key_of(claim), {"metadata": {"finalizers": kept or None}})
        volume = self._caches[VOLUMES].get(claim["spec"].get("volumeName", ""))
        if volume is None:
            return
        is_provisioned = PROVISIONED_BY in (volume["metadata"].get("annotations") or {})
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and not is_provisioned:
            await self._client.patch(VOLUMES, key_of(volume), {"metadata": {"finalizers": None}})
            await self._client.delete(VOLUMES, key_of(volume))
        else:
            await self._client.patch_status(VOLUMES, volume, {"phase": "Released"})

    def _is_used(self, claim: Document) -> bool:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        return any(
            (volume.get("persistentVolumeClaim") or {}).get("claimName") == name
            for pod in self._caches[PODS].objects.values()
            if pod["metadata"]["namespace"] == namespace and phase_of(pod) not in ("Succeeded", "Failed")
            for volume in pod["spec"].get("volumes") or ()
        )


class VolumeController(Controller):
    """Makes new volumes Available, and releases one that is deleted and no longer claimed."""

    def __init__(self, client: ApiClient, caches: Caches) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        caches[VOLUMES].listen(lambda volume: self.wake(key_of(volume)))
        caches[CLAIMS].listen(self._on_claim)

    def _on_claim(self, claim: Document) -> None:
        if claim["spec"].get("volumeName"):
            self.wake(claim["spec"]["volumeName"])

    async def reconcile(self, key: str) -> float | None:
        """Report a free volume, or free a deleted one."""
        volume = self._caches[VOLUMES].get(key)
        if volume is None:
            return None
        if is_deleting(volume):
            if self._claim_of(volume) is None and volume["metadata"].get("finalizers"):
                await self._client.patch(VOLUMES, key, {"metadata": {"finalizers": None}})
            return None
        if (volume.get("status") or {}).get("phase") in (None, "Pending"):
            await self._client.patch_status(VOLUMES, volume, {"phase": "Available"})
        return None

    def _claim_of(self, volume: Document) -> Document | None:
        reference = volume["spec"].get("claimRef")
        if not reference:
            return None
        claim = self._caches[CLAIMS].get(f"{reference['namespace']}/{reference['name']}")
        return claim if claim is not None and uid_of(claim) == reference.get("uid") else None


def _mismatch(claim: Document, volume: Document) -> Obstacle | None:
    """Return the reason why a claim cannot have the volume that it names."""
    name = volume["metadata"]["name"]
    if not _is_free_for(claim, volume):
        return "FailedBinding", f'volume "{name}" already bound to a different claim.', True
    why = ""
    if _capacity(volume) < _wanted(claim):
        why = "requested PV is too small"
    elif not _is_of_class(claim, volume):
        why = "storageClassName does not match"
    elif not _allows(claim, volume):
        why = "incompatible accessMode"
    return ("VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}', True) if why else None


def _matches(claim: Document, volume: Document, named: str | None) -> bool:
    name = volume["metadata"]["name"]
    if is_deleting(volume) or (named and named != name):
        return False
    fits = _is_of_class(claim, volume) and _allows(claim, volume) and _capacity(volume) >= _wanted(claim)
    return fits and _is_free_for(claim, volume)


def _is_free_for(claim: Document, volume: Document) -> bool:
    reference = volume["spec"].get("claimRef")
    if not reference:
        return True
    is_it = (reference.get("namespace"), reference.get("name")) == (
        claim["metadata"]["namespace"],
        claim["metadata"]["name"],
    )
    return is_it and reference.get("uid", uid_of(claim)) == uid_of(claim)


def _is_of_class(claim: Document, volume: Document) -> bool:
    return (claim["spec"].get("storageClassName") or "") == (volume["spec"].get("storageClassName") or "")


def _allows(claim: Document, volume: Document) -> bool:
    return set(claim["spec"].get("accessModes") or ()) <= set(volume["spec"].get("accessModes") or ())


def _wanted(claim: Document) -> float:
    return parse_quantity(str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0")))


def _capacity(volume: Document) -> float:
    return parse_quantity(str((volume["spec"].get("capacity") or {}).get("storage", "0")))
