"""Rules for volumes and configuration that a pod needs and does not get.

Source: kubelet's volume manager and `kuberuntime` (v1.2x–1.34), the CSI drivers of FSx, EFS and EBS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, field_quote, finding
from actions.cluster.diagnose.evidence import Evidence
from actions.cluster.diagnose.log_patterns import THROTTLED, pattern

_MISSING = re.compile(
    r"""(?P<kind>secret|configmap|serviceaccount)s?\ "(?P<name>[^"\n]+)"\ not\ found
      | couldn't\ find\ key\ (?P<key>\S+)\ in\ (?P<holder>Secret|ConfigMap)\ (?P<of>\S+)
      | references\ non-existent\ (?:secret|config)\ key:\ (?P<item>\S+)
      | (?P<word>Secret|ConfigMap)\ (?="|\S*[-/.\d])"?(?P<named>[\w./-]+)"?\ (?:not\ found|does\ not\ exist)
      | no\ PriorityClass\ with\ name\ (?P<priority>\S+)\ was\ found""",
    re.VERBOSE | re.IGNORECASE,
)
_CONFIG_REASONS = frozenset({"CreateContainerConfigError"})
_MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeFailedDelete"})
_MOUNT_TEXT = pattern(r"MountVolume\.\w+ failed", r"AttachVolume\.Attach failed", r"Unable to attach or mount volumes")
_SUMMARY = re.compile(r"Unable to attach or mount volumes|timed out waiting for the condition")
_VOLUME = re.compile(r'volume "([^"\n]+)"|unmounted volumes=\[([^]\n]+)\]')
_CLAIM_REASONS = frozenset({"ProvisioningFailed", "FailedBinding", "ClaimLost", "ClaimMisbound", "VolumeMismatch"})


_NO_CLASS = re.compile(r'storageclass(?:\.storage\.k8s\.io)? "([^"\n]{1,253})" not found')


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
        "Add that key to it; the pod continues by itself."
        if groups.get("key") or groups.get("item")
        else "Make it, or correct the name in the pod template."
        if groups.get("priority")
        else "Make it in the pod's namespace; the pod continues by itself.",
    )


def _mount(mounts: list[tuple[str, str]]) -> Finding:
    """Yield a failed mount, by its detailed message if there is one: the kubelet's summary only reports a timeout."""
    mounts = sorted(mounts, key=lambda one: bool(_SUMMARY.match(one[1])))
    name, message = mounts[0]
    volume = _VOLUME.search(message)
    what = f'The volume "{volume[1] or volume[2]}"' if volume else "A volume"
    why, step = next((row[1:] for row in _CAUSES if row[0].search(message)), ("", _READ_THE_DRIVER))
    return finding(
        Code.VOLUME_MOUNT,
        f"{what} of {name or 'the pod'} cannot be mounted{why}",
        [text for _, text in mounts[:3]],
        step,
    )


_READ_THE_DRIVER = "kubectl describe pod and pvc; read the log of the CSI driver's pod on that node."
_CAUSES = (
    (
        re.compile(r"not found in the list of registered CSI drivers"),
        ": its CSI driver does not run on this node",
        "Check the CSI driver's node DaemonSet and tolerations.",
    ),
    (
        THROTTLED,
        ": AWS takes no more calls of this kind for now",
        "Wait: the CSI driver tries again. If it stays, find what else calls EC2 so often in this account and region.",
    ),
    (
        re.compile(r"No such device|unknown filesystem type|modules? (?:are )?loaded\?|[Mm]odule \S{1,40} not found"),
        ": the node's kernel has no module for this file system",
        "Use an AMI whose kernel has it (for Lustre the client that is built for that kernel), or load the module"
        " in the user data of the node class.",
    ),
    (
        re.compile(
            r"[Ff]ailed to resolve|[Cc](?:ould not|an't|annot) (?:be )?resolve|Name or service not known|no such host"
            r"|[Cc]an't parse NID|name resolution"
        ),
        ": the name of its server does not resolve",
        "Correct the DNS name in the PersistentVolume; the VPC needs DNS support, EFS a mount target in the node's"
        " zone.",
    ),
    (
        re.compile(r"(?i:unauthorized|access ?denied|permission denied|not authorized|forbidden|not permitted)"),
        ": access is denied",
        "Give the role of the CSI driver (or of the pod, for S3 and EFS access points) the right that the message"
        " names; see the policy of the file system or bucket.",
    ),
    (
        re.compile(r"Multi-Attach|(?:still|already|currently|exclusively) (?:attached|in use|used)"),
        ": it is still attached to another node",
        "Delete the pod that holds it, or use ReadWriteMany storage.",
    ),
    (
        re.compile(
            r"AttachmentLimitExceeded|[Aa]ttachment limit|maximum number of (?:volume|attachment)s?|max volume count"
        ),
        ": the instance has as many volumes as it takes",
        "Let the pod go to another node, or use fewer EBS volumes and network interfaces on this one.",
    ),
    (
        re.compile(r"ZoneMismatch|not in the same (?:availability )?zone"),
        ": it is in another zone than the node",
        "Let the pod run in the volume's zone, or make the volume where the nodes are.",
    ),
    (
        re.compile(r"InvalidVolume\.NotFound|FileSystemNotFound|[Vv]olume \S{1,80} (?:was )?not found|does not exist"),
        ": there is no such volume",
        "Correct its id in the PersistentVolume, or make it again from a snapshot.",
    ),
    (
        re.compile(r"hostPath type check failed|is not a (?:directory|socket|block device)"),
        ": the node has no such path",
        "Correct the path or type of the hostPath, or send the pod to nodes that have it.",
    ),
    (
        re.compile(r"wrong fs type|bad superblock|[Ss]tructure needs cleaning|can't read superblock|fsck"),
        ": its file system is damaged, or of another type",
        "Check fsType and mount options; repair it with fsck on a node, or restore a snapshot.",
    ),
    (
        re.compile(r"(?i:lustre|fsx)[^\n]*(?:timed out|Input/output error|exit status (?:110|5)\b)"),
        ": FSx for Lustre does not answer, its port 988 is closed on the way",
        "Let the file system's security group accept TCP 988 and 1018-1023 from the nodes; same VPC and zone.",
    ),
    (
        re.compile(r"(?i:efs|nfs)[^\n]*(?:timed out|Connection refused|DeadlineExceeded|exit status 32)"),
        ": the NFS server does not answer",
        "Let the security group of the mount target accept TCP 2049 from the nodes; EFS needs one in the node's zone.",
    ),
    (
        re.compile(r"(?i:lustre|fsx)[^\n]*(?:No such file|Is the MGS|Invalid argument|exit status)"),
        ": FSx for Lustre has no such mount name, or does not take its options",
        "Compare DNS name, mount name and options in the PersistentVolume with the file system's (aws fsx"
        " describe-file-systems); see that the Lustre client of the AMI is of its version.",
    ),
)
"""Words of a mount's own message, what they mean, and what to do; the first that fits counts."""


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
        without = _NO_CLASS.search(failed[0].message)
        yield finding(
            Code.PVC_UNBOUND,
            f"The volume claim {failed[0].name} is not bound"
            + (f": StorageClass {without[1]} is not there" if without else ""),
            [event.message for event in failed[:3]],
            "Make that StorageClass, or name another in the claim: kubectl get storageclass."
            if without
            else "Wait: the provisioner tries again; AWS takes no more calls of this kind for now."
            if THROTTLED.search(failed[0].message)
            else f"kubectl describe pvc {failed[0].name}: does its CSI driver run, and has it the rights it needs?",
        )
