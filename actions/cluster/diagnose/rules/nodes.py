"""Rules for nodes that fail: lost, full, reclaimed, without addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.base.wording import counted
from actions.cluster.diagnose.codes import Code, Finding, field_quote, finding
from actions.cluster.diagnose.evidence import Condition, Evidence, Node
from actions.cluster.diagnose.log_patterns import find_hits, log_texts, pattern
from actions.cluster.diagnose.rules.scheduler_messages import LOST_TAINTS, refusals
from actions.fleet.facts import EventFacts, node_health

_SPOT_REASONS = frozenset({"SpotInterrupted", "SpotInterruption", "SpotITN"})
_SPOT_TEXT = pattern(
    r"Spot interruption warning", r"Spot ITN received", r"Spot Interruption event", r"spot instance[^\n]{0,40}reclaim"
)
_ADDRESSES_GONE = re.compile(r"assign an? |(?:available|free) IP")
_CNI_SILENT = re.compile(r"dial(?:ing)?:? (?:dial )?tcp|connection refused|code = Unavailable|not initialized|NotReady")
_NO_ADDRESS = pattern(
    r"failed to assign an IP address to container",
    r"no available IP addresses",
    r"no free IP addresses",
    r"Unable to assign (?:an )?IP",
    r"AddNetwork failed|add cmd: (?:Error received from AddNetwork|failed)",
    r"NetworkPluginNotReady|cni plugin not initialized",
)
_FULL_REASONS = frozenset({"FreeDiskSpaceFailed", "ImageGCFailed", "NodeHasDiskPressure"})
_AT_START = re.compile(r"unable to find data in memory cache|failed to get imageFs info|invalid capacity 0")
"""Complaints of every kubelet before it has measured its disk."""
_FULL_TEXT = pattern(r"no space left on device", r"No space left on device", r"Errno 28", r"Disk quota exceeded")
_OVER_QUOTA = "The program has used up its quota of a file system"
_CUT_CHECKPOINT = pattern(
    r"enforce fail at inline_container\.cc:\d{1,5}\] ?\. (?:unexpected pos \d|PytorchStreamWriter failed writing)"
)
"""PyTorch about a file that took fewer bytes than it was to: it does not print the system's reason."""
_NO_NETWORK = re.compile(r"NetworkPluginNotReady|cni plugin not initialized")
_SHARED_MEMORY = re.compile(r"/dev/shm|torch_|posix_fallocate")  # noqa: S108 - a text to find
"""Full shared memory has a rule of its own."""
_LOST_REASONS = frozenset({"NodeNotReady", "NodeLost", "KubeletDown"})
_LOST_TEXT = pattern(r"Kubelet stopped posting node status", r"stopped posting node status")


def find_node_faults(evidence: Evidence) -> Iterator[Finding]:
    """Yield faults of nodes."""
    yield from _spot(evidence)
    yield from _lost(evidence)
    yield from _unhealthy(evidence)
    yield from _full(evidence)
    yield from _addresses(evidence)


def _spot(evidence: Evidence) -> Iterator[Finding]:
    for event in evidence.events:
        if event.reason in _SPOT_REASONS or _SPOT_TEXT.search(event.message):
            yield finding(
                Code.SPOT_INTERRUPTED,
                f"AWS reclaims the spot instance of {event.name or 'a node'}: it ends two minutes after the warning",
                [event.message, event.reason],
                "Resume from the last checkpoint on a new node; use on-demand or a reservation for what must not stop.",
            )
            return


def _lost(evidence: Evidence) -> Iterator[Finding]:
    for node in evidence.nodes:
        ready = node.condition("Ready")
        if ready is None or ready.status == "True" or not _carries(evidence, node):
            continue
        if _is_starting(evidence, node):
            if node.name == evidence.asked_node:
                yield _starting(evidence, node, ready)
            continue
        if _NO_NETWORK.search(ready.message):
            yield finding(
                Code.NO_POD_IP,
                f"The network plugin of node {node.name} is not up: no pod gets an address there",
                [ready.message, field_quote("reason", ready.reason)],
                "See why aws-node does not run on it: kubectl get pods -n kube-system -o wide.",
            )
            continue
        silent = ready.status == "Unknown" or _LOST_TEXT.search(ready.message)
        is_new = ready.reason == "NodeStatusNeverUpdated"
        state = "has never answered" if is_new else "no longer answers" if silent else "is not ready"
        yield finding(
            Code.NODE_LOST,
            f"Node {node.name} {state}{_pods_on(evidence, node)}",
            [ready.message or ready.reason, field_quote("reason", ready.reason)],
            "Look at the instance (status checks, console output); replace it"
            + ("." if is_new else " and resume from the last checkpoint."),
        )
    yield from _lost_by_event(evidence)


_FAULTS = ("sagemaker.amazonaws.com/fault-types", "sagemaker.amazonaws.com/fault-reasons")


def _unhealthy(evidence: Evidence) -> Iterator[Finding]:
    """Yield what the health checks of HyperPod have against nodes."""
    for node in evidence.nodes:
        health = node_health(node.labels)
        if not health or not (node.name == evidence.asked_node or _carries(evidence, node)):
            continue
        is_lost = "Pending" in health or "Failed" in health
        yield finding(
            Code.NODE_LOST if is_lost else Code.WAITING_FOR_NODE,
            f"HyperPod keeps pods from node {node.name}: {health}",
            [f"{name}: {node.labels[name]}" for name in node.labels if "health" in name or name in _FAULTS],
            "HyperPod replaces or reboots it if the recovery of its instance group is automatic: see the group's nodes "
            "with aws sagemaker list-cluster-nodes."
            if is_lost
            else "Wait: a deep health check takes up to two hours.",
        )


_START_SECONDS = 600.0
_FIRST_REPORT_SECONDS = 60.0
"""A new node is unready from its first report on."""


def _is_starting(evidence: Evidence, node: Node) -> bool:
    """Return whether it is so young that it cannot be ready yet; one that is silent, or unready for less, was."""
    ready = node.condition("Ready")
    was_ready = ready is not None and (
        ready.status == "Unknown" or ready.since > node.created_at + _FIRST_REPORT_SECONDS
    )
    return bool(not was_ready and node.created_at and evidence.now and evidence.now - node.created_at < _START_SECONDS)


def _starting(evidence: Evidence, node: Node, ready: Condition) -> Finding:
    """Return the finding about a young node that is the subject of a diagnosis."""
    since = ready.since or node.created_at
    return finding(
        Code.WAITING_FOR_NODE,
        f"Node {node.name} is NotReady {_for_minutes(evidence.now - since)}; it joined the cluster"
        f" {_for_minutes(evidence.now - node.created_at).removeprefix('for ')} ago",
        [ready.message or ready.reason, field_quote("reason", ready.reason)],
        "Wait: a node takes minutes to be ready. Look at its daemons if it takes ten: kubectl get pods -A -o wide.",
    )


def _for_minutes(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"for {counted(minutes, 'minute')}" if minutes else "for less than a minute"


def _carries(evidence: Evidence, node: Node) -> bool:
    """Return whether the node matters here: pods are on it, or no pod is on any known node.

    Of pods that the scheduler refuses, it matters only if lost nodes are among the reasons.
    """
    carriers = {pod.node for pod in evidence.pods if pod.node}
    if node.name in carriers:
        return True
    refused = [one for one in refusals(evidence) if one.reasons]
    is_blamed = not refused or any(not key or key in LOST_TAINTS for one in refused for key in one.taints())
    return is_blamed and not carriers.intersection(one.name for one in evidence.nodes)


def _pods_on(evidence: Evidence, node: Node) -> str:
    names = [pod.name for pod in evidence.pods if pod.node == node.name]
    return f"; {names[0]} is on it" if len(names) == 1 else f"; {len(names)} pods are on it" if names else ""


def _lost_by_event(evidence: Evidence) -> Iterator[Finding]:
    known = {node.name for node in evidence.nodes}
    lost = [
        event
        for event in evidence.events
        if event.name not in known and (event.reason in _LOST_REASONS or _LOST_TEXT.search(event.message))
    ]
    if known and evidence.pods and all(pod.is_fine for pod in evidence.pods):
        return
    if not lost:
        lost_pods = [pod for pod in evidence.pods if pod.reason == "NodeLost"]
        if lost_pods:
            yield finding(
                Code.NODE_LOST,
                f"The node of {lost_pods[0].name} no longer answers",
                [field_quote("reason", "NodeLost"), lost_pods[0].message],
                "Replace the node; a pod of a Job comes back on another one.",
            )
        return
    pod = evidence.pod(lost[0].namespace, lost[0].name)
    ready = {node.name for node in evidence.nodes if node.is_ready}
    if pod is not None and (pod.is_fine or pod.node in ready):  # its node answers again, or it is on another one
        return
    name = lost[0].name if lost[0].kind == "Node" else (pod.node if pod else "")
    yield finding(
        Code.NODE_LOST,
        f"Node {name} no longer answers" if name else f"The node of {lost[0].name} no longer answers",
        [lost[0].message, lost[0].reason],
        "Look at the instance (status checks, console output); replace it and resume from the last checkpoint.",
    )


def _has_room_since(evidence: Evidence, event: EventFacts) -> bool:
    """Return whether the kubelet of the event's node has reported that there is room, later than it."""
    return event.kind == "Node" and any(
        one.name == event.name and one.reason == "NodeHasNoDiskPressure" and one.last_seen_at >= event.last_seen_at > 0
        for one in evidence.events
    )


def _full(evidence: Evidence) -> Iterator[Finding]:
    quotes: list[str] = []
    where = ""
    for node in evidence.nodes:
        pressure = node.condition("DiskPressure")
        if pressure is not None and pressure.status == "True":
            where = where or node.name
            quotes += [pressure.message or pressure.reason, pressure.reason]
    for event in evidence.events:
        if _AT_START.search(event.message) or _has_room_since(evidence, event):
            continue
        if event.reason in _FULL_REASONS or (event.reason == "EvictionThresholdMet" and "ephemeral" in event.message):
            where = where or (event.name if event.kind == "Node" else "")
            quotes += [event.message, event.reason]
    lines = [hit.line for hit in find_hits(log_texts(evidence), _FULL_TEXT) if not _SHARED_MEMORY.search(hit.line)]
    cut = [hit.line for hit in find_hits(log_texts(evidence), _CUT_CHECKPOINT)] if not quotes and not lines else []
    if cut:
        yield finding(
            Code.NODE_DISK_FULL,
            "A checkpoint could not be written whole: as a rule its disk, volume or quota is full",
            cut[:2],
            "Look at the free space where it was to be written; write to a larger volume, or keep fewer checkpoints.",
        )
    is_quota = all("Disk quota exceeded" in line for line in lines)
    if quotes or lines:
        sentence = f"The disk of node {where} is full" if where else "The node's disk is full"
        yield finding(
            Code.NODE_DISK_FULL,
            sentence if quotes else _OVER_QUOTA if is_quota else "The program found no space left on its disk",
            [*quotes[:4], *lines[:2]],
            "Free disk on the node, raise its volume size, or write to the shared file system.",
        )


def _addresses(evidence: Evidence) -> Iterator[Finding]:
    events = [
        event
        for event in evidence.troubles()
        if _NO_ADDRESS.search(event.message)
        or (event.reason == "FailedCreatePodSandBox" and "failed to setup network" in event.message)
    ]
    if events:
        pod = evidence.pod(events[0].namespace, events[0].name)
        node = f" on {pod.node}" if pod is not None and pod.node else ""
        is_silent = _CNI_SILENT.search(events[0].message) is not None
        what = (
            "The network plugin does not answer"
            if is_silent
            else "There is no IP address left"
            if _ADDRESSES_GONE.search(events[0].message)
            else "The network gives no address"
        )
        yield finding(
            Code.NO_POD_IP,
            f"{what}{node} for {events[0].name or 'the pod'} (tried {events[0].count} times)",
            [*(event.message for event in events[:3]), events[0].reason],
            "See why aws-node does not run on that node, or what it says: kubectl get pods -n kube-system -o wide."
            if is_silent
            else "Enable prefix delegation in the VPC CNI, use a larger subnet, or put fewer pods on the node; see that"
            " aws-node runs there.",
        )
