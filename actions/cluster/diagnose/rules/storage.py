"""Rules for volumes and configuration that a pod needs and does not get.

Source: kubelet's volume manager and `kuberuntime` (v1.2x–1.34), the CSI drivers of FSx, EFS and EBS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, field_quote, finding
from actions.cluster.diagnose.evidence import Evidence
from actions.cluster.diagnose.patterns import pattern

_MISSING = re.compile(
    r"""(?P<kind>secret|configmap|serviceaccount)s?\ "(?P<name>[^"\n]+)"\ not\ found
      | couldn't\ find\ key\ (?P<key>\S+)\ in\ (?P<holder>Secret|ConfigMap)\ (?P<of>\S+)
      | references\ non-existent\ (?:secret|config)\ key:\ (?P<item>\S+)
      | (?P<word>Secret|ConfigMap)\ "?(?P<named>[\w./-]+)"?\ (?:not\ found|does\ not\ exist)
      | no\ PriorityClass\ with\ name\ (?P<priority>\S+)\ was\ found""",
    re.VERBOSE | re.IGNORECASE,
)
_CONFIG_REASONS = frozenset({"CreateContainerConfigError"})
_MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeFailedDelete"})
_MOUNT_TEXT = pattern(r"MountVolume\.\w+ failed", r"AttachVolume\.Attach failed", r"Unable to attach or mount volumes")
_SUMMARY = re.compile(r"Unable to attach or mount volumes|timed out waiting for the condition")
_VOLUME = re.compile(r'volume "([^"]+)"')
_CLAIM_REASONS = frozenset({"ProvisioningFailed", "FailedBinding", "ClaimLost", "ClaimMisbound", "VolumeMismatch"})


def find_storage_faults(evidence: Evidence) -> Iterator[Finding]:
    """Yield missing configuration, then failed mounts, since a missing Secret also causes a failed mount."""
    missing = [(name, message) for name, message in _told(evidence) if _MISSING.search(message)]
    if missing:
        yield _config(missing)
    mounts = [
        (event.name, event.message)
        for event in evidence.troubles()
        if (event.reason in _MOUNT_REASONS or _MOUNT_TEXT.search(event.message)) and not _MISSING.search(event.message)
    ]
    if mounts:
        yield _mount(mounts)
    yield from _claims(evidence)


def _told(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for pod in evidence.pods:
        for container in pod.containers:
            if container.state.kind == "waiting" and container.state.reason in _CONFIG_REASONS:
                yield pod.name, f"{container.state.message}\n{container.state.reason}"
    for event in evidence.troubles():
        if event.type != "Normal" and event.reason != "FailedToRetrieveImagePullSecret":
            yield event.name, event.message
    for job in evidence.jobs:
        yield from ((job.name, condition.message) for condition in job.conditions if condition.status != "False")


def _config(missing: list[tuple[str, str]]) -> Finding:
    name, message = missing[0]
    found = _MISSING.search(message)
    groups = found.groupdict() if found else {}
    if groups.get("key"):
        what = f"The {groups['holder']} {groups['of'].rstrip('.,')} has no key {groups['key']}"
    elif groups.get("item"):
        what = f"A Secret or ConfigMap has no key {groups['item'].rstrip('.,')}"
    elif groups.get("priority"):
        what = f'The PriorityClass "{groups["priority"]}" does not exist'
    else:
        kind = {"secret": "Secret", "configmap": "ConfigMap", "serviceaccount": "ServiceAccount"}
        word = groups.get("kind") or groups.get("word") or ""
        what = f'The {kind.get(word.lower(), word)} "{groups.get("name") or groups.get("named")}" does not exist'
    return finding(
        Code.CONFIG_MISSING,
        f"{what}, which {name or 'the pod'} needs",
        [text for _, text in missing[:3]],
        "Create it in the pod's namespace (with that key); the pod continues by itself.",
    )


def _mount(mounts: list[tuple[str, str]]) -> Finding:
    """Yield a failed mount, by its detailed message if there is one: the kubelet's summary only reports a timeout."""
    mounts = sorted(mounts, key=lambda one: bool(_SUMMARY.match(one[1])))
    name, message = mounts[0]
    volume = _VOLUME.search(message)
    what = f'The volume "{volume[1]}"' if volume else "A volume"
    together = "\n".join(text for _, text in mounts)
    why, step = _reason_of(together)
    return finding(
        Code.VOLUME_MOUNT,
        f"{what} of {name or 'the pod'} cannot be mounted{why}",
        [text for _, text in mounts[:3]],
        step,
    )


def _reason_of(text: str) -> tuple[str, str]:
    if "not found in the list of registered CSI drivers" in text:
        return ": its CSI driver does not run on this node", "Check the CSI driver's node DaemonSet and tolerations."
    if "lustre" in text or "fsx" in text:
        if re.search(r"timed out|Input/output error|exit status (?:110|5)\b", text):
            return (
                ": FSx for Lustre does not answer, its port 988 is closed on the way",
                "Let the file system's security group accept TCP 988 and 1018-1023 from the nodes; same VPC and zone.",
            )
        return "", "Check DNS name and mount name of the file system, and the Lustre client of the node's AMI."
    if "Multi-Attach" in text:
        return ": it is still attached to another node", "Delete the pod that holds it, or use ReadWriteMany storage."
    return "", "kubectl describe pod and pvc; check the CSI driver's logs, security groups and the volume's zone."


def _claims(evidence: Evidence) -> Iterator[Finding]:
    """Yield claims without a volume: lost ones, and those whose provisioning failed."""
    lost = {claim.name for claim in evidence.volume_claims if claim.status.get("phase") == "Lost"}
    for name in sorted(lost):
        yield finding(
            Code.PVC_UNBOUND,
            f"The volume of claim {name} is gone",
            [field_quote("phase", "Lost")],
            "Make the claim again, or restore its PersistentVolume.",
        )
    bound = {claim.name for claim in evidence.volume_claims if claim.status.get("phase") == "Bound"}
    failed = [event for event in evidence.events if event.reason in _CLAIM_REASONS and event.name not in bound]
    if failed:
        yield finding(
            Code.PVC_UNBOUND,
            f"The volume claim {failed[0].name} is not bound",
            [event.message for event in failed[:3]],
            f"kubectl describe pvc {failed[0].name}: does the StorageClass exist, does its CSI driver run and have the"
            " rights it needs?",
        )
