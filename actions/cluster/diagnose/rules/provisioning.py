"""Rules for nodes that are not made: refused by AWS, or by the limits and requirements of node pools.

Source: aws/karpenter-provider-aws `pkg/errors`: eight EC2 codes all have the reason InsufficientCapacityError, so that
only the code in the message distinguishes them. EC2 API reference for the codes. kubernetes-sigs/karpenter
`scheduling` (v0.3x–1.x): one message lists every pool with its reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from actions.cluster.diagnose.codes import Code, Finding, finding
from actions.cluster.diagnose.evidence import Condition, Evidence, KubeObject
from actions.cluster.diagnose.log_patterns import (
    THROTTLED,
    Hit,
    LogPattern,
    all_messages,
    log_texts,
    match_patterns,
    pattern,
)
from actions.cluster.diagnose.rules.scheduler_messages import (
    RAISE_MAXIMUM,
    SchedulingRefusal,
    full_groups,
    pod_names,
    quotes_of,
    refusals,
)
from actions.fleet.accelerators import ACCELERATORS, EFA, is_accelerator
from actions.fleet.quantity import parse_quantity

_BUCKET = re.compile(r"current vCPU limit of (\d+)")
_TYPE = re.compile(r"\b([a-z]{1,4}\d[a-z0-9-]*\.(?:\d*x?large|metal[\w-]*|medium|small|micro|nano))\b")
_ZONE = re.compile(r"\b([a-z]{2}(?:-[a-z]+)+-\d[a-z])\b")


def _detailed(sentence: str) -> Callable[[Hit], str]:
    """Return a function that adds limit, type and zone of a refusal to a sentence."""

    def headline(hit: Hit) -> str:
        limit, kind, zone = _BUCKET.search(hit.line), _TYPE.search(hit.line), _ZONE.search(hit.line)
        details = (
            f"the limit is {limit[1]}" if limit else "",
            kind[1] if kind else "",
            f"in {zone[1]}" if zone else "",
        )
        shown = ", ".join(filter(None, details))
        return f"{sentence} ({shown})" if shown else sentence

    return headline


_REFUSALS = (
    LogPattern(
        Code.AWS_QUOTA,
        pattern(
            r"VcpuLimitExceeded", r"more vCPU capacity than your current vCPU limit", r"would exceed your VCPU quota"
        ),
        _detailed("The account's vCPU quota is used up"),
        "Request an increase of the quota of this instance family (Service Quotas, EC2); retrying will never help.",
    ),
    LogPattern(
        Code.AWS_QUOTA,
        pattern(
            r"MaxSpotInstanceCountExceeded", r"Max spot instance count exceeded", r"exceed your spot instance quota"
        ),
        _detailed("The account's spot quota is used up"),
        "Request an increase of the spot quota, or use on-demand instances.",
    ),
    LogPattern(
        Code.AWS_QUOTA,
        pattern(r"MaxFleetCountExceeded", r"InstanceLimitExceeded", r"exceed your fleet request quota"),
        _detailed("A quota of EC2 is used up"),
        "Request an increase of the quota that the message names.",
    ),
    LogPattern(
        Code.RESERVATION_FULL,
        pattern(
            r"ReservationCapacityExceeded",
            r"InsufficientReservedInstanceCapacity",
            r"exceeds the available capacity of reservation",
        ),
        _detailed("The capacity reservation has no free instance left"),
        "End another job in the reservation, or enlarge it.",
    ),
    LogPattern(
        Code.SUBNET_FULL,
        pattern(
            r"InsufficientFreeAddressesInSubnet",
            r"InsufficientCidrBlocks",
            r"(?:does not have|not) enough free (?:addresses|IP addresses|cidr blocks)",
            r"no free (?:IP )?addresses (?:left )?in (?:the )?subnet",
            ignore_case=True,
        ),
        _detailed("The subnet has no free address left"),
        "Use a larger or another subnet, delete unused network interfaces, or add a secondary CIDR.",
    ),
    LogPattern(
        Code.WRONG_ZONE,
        pattern(
            r"fleet error\(s\)[^\n]{0,200}\bUnsupported: ",
            r"instance type[^\n]{0,60} is not supported in (?:your|the|this) (?:requested )?[Aa]vailability [Zz]one",
            r"UnsupportedAvailabilityZone",
        ),
        _detailed("This zone does not offer the instance type"),
        "Allow another zone, or another instance type; subnets of the NodeClass decide which zones there are.",
    ),
    LogPattern(
        Code.CAPACITY,
        pattern(
            r"(?<!aws-error-code=)UnfulfillableCapacity",
            r"InsufficientInstanceCapacity",
            r"InsufficientHostCapacity",
            r"do not have sufficient [\w.-]+ capacity",
            r"no Spot capacity available",
            r"insufficient capacity, all requested instance types were unavailable",
            r"capacity-not-available",
        ),
        _detailed("AWS has no capacity for this request right now"),
        "Allow more zones, other types or on-demand, or use a capacity reservation; the same request is made again"
        " by itself.",
    ),
)


def find_refused_capacity(evidence: Evidence) -> Iterator[Finding]:
    """Yield requests that AWS refused, and instances that never became nodes."""
    over = _messages_of_the_past(evidence)
    events = [event for event in evidence.events if event.message not in over]
    texts = [
        *((message, name) for message, name in all_messages(evidence) if message not in over),
        *((event.message, event.name) for event in events),
        *((refused.message, claim.name) for claim, refused in _not_launched(evidence)),
    ]
    found = list(match_patterns(texts, _REFUSALS))
    yield from found
    if not found:
        yield from _unspecified(evidence)
        yield from _launch_failed(evidence)
        yield from _unready_pools(evidence)
        yield from match_patterns(all_messages(evidence), (_NOT_LAUNCHED,))
    yield from _not_joining(evidence)


def _messages_of_the_past(evidence: Evidence) -> frozenset[str]:
    """Return what was reported about nodes to be made, if no pod waits for one any more."""
    if evidence.awaits_nodes:
        return frozenset()
    return frozenset(event.message for event in evidence.events if event.kind not in ("", "Pod"))


def _unspecified(evidence: Evidence) -> Iterator[Finding]:
    """Yield Karpenter's own reason, for use if there is no code of EC2."""
    told = [(one.name, one.reason, one.message) for one in evidence.events if evidence.awaits_nodes]
    told += [(claim.name, refused.reason, refused.message) for claim, refused in _not_launched(evidence)]
    for name, reason, message in told:
        if reason in ("InsufficientCapacityError", "InsufficientCapacity"):
            yield finding(
                Code.CAPACITY,
                f"AWS has no capacity for {name or 'the node claim'} right now",
                [message or reason],
                "Allow more zones, other types or on-demand, or use a capacity reservation.",
            )
            return


def _not_launched(evidence: Evidence) -> Iterator[tuple[KubeObject, Condition]]:
    """Yield NodeClaims without an instance, with the condition that has the reason."""
    for claim in evidence.node_claims:
        launched = claim.condition("Launched")
        if launched is not None and launched.status != "True":
            yield claim, launched


_LAUNCH_REASONS = frozenset(
    {
        "LaunchFailed",
        "NodeClassNotReady",
        "Unauthorized",
        "SpotSLRCreationFailed",
        "InstanceProfileNameInvalid",
        "LaunchTemplateNotFound",
        "InvalidAMIID",
        "AccountPendingVerification",
    }
)
"""Reasons of Karpenter's `ToReasonMessage` that no retry removes and that are not about capacity or quotas."""
_BRIEF = 240
_API_ERROR = re.compile(r"\bapi error (?=\w+: )|\bfleet error\(s\), ")
_WAIT_FOR_CALLS = (
    "Wait: Karpenter tries again. If it stays, find what else calls EC2 so often in this account and region."
)
_CHECK_CLASS = "Check the rights of Karpenter's role, and the EC2NodeClass: AMI, subnets, security groups, role."


def _answer_of_aws(refused: Condition) -> str:
    """Return what AWS answered, without the calls around it."""
    message = refused.message or refused.reason
    found = _API_ERROR.search(message)
    return message[found.end() if found else 0 :][:_BRIEF]


def _launch_failed(evidence: Evidence) -> Iterator[Finding]:
    """Yield instances that were refused for another reason than capacity: rights, a launch template, an AMI."""
    for claim, refused in _not_launched(evidence):
        if refused.reason in _LAUNCH_REASONS:
            yield finding(
                Code.NODE_NOT_JOINING,
                f"No instance was launched for NodeClaim {claim.name}: {_answer_of_aws(refused)}",
                [refused.message, refused.reason],
                _WAIT_FOR_CALLS if THROTTLED.search(refused.message) else _CHECK_CLASS,
            )


def _unready_pools(evidence: Evidence) -> Iterator[Finding]:
    """Yield node pools and classes that make no node while a pod waits for one: by their conditions and warnings."""
    if not evidence.awaits_nodes:
        return
    told = [
        (f"{thing.kind} {thing.name}", one.message or one.reason)
        for thing in evidence.others
        for one in thing.conditions
        if one.status == "False" and (one.message or one.reason) and not thing.has("Ready")
    ]
    told += [
        (f"{event.kind} {event.name}", event.message or event.reason)
        for event in evidence.events
        if event.type == "Warning" and (event.kind == "NodePool" or event.kind.endswith("NodeClass"))
    ]
    if told:
        name, words = told[0]
        yield finding(
            Code.NODE_NOT_JOINING,
            f"{name} makes no node: {words[:_BRIEF]}",
            [text for _, text in told[:3]],
            "Read the conditions of the NodePool and of its node class (kubectl describe"
            " nodepools,ec2nodeclasses): AMI, subnets, security groups, role.",
        )


_JOIN_SECONDS = 900.0
_LOOK_AT_THE_INSTANCE = (
    "Check the node role's access entry, the security groups and routes to the API server, and the instance's console"
    " output."
)
_NODE_GROUP = LogPattern(
    Code.NODE_NOT_JOINING,
    pattern(r"NodeCreationFailure[^\n]{0,200}", r"Instances failed to join the kubernetes cluster"),
    "The instances of a node group did not join the cluster in time",
    _LOOK_AT_THE_INSTANCE,
)
_NOT_LAUNCHED = LogPattern(
    Code.NODE_NOT_JOINING,
    pattern(r"AsgInstanceLaunchFailures: (?P<why>[^\n]{1,300})"),
    lambda hit: f"EC2 launches no instance for the node group: {hit.match['why']}",
    "Correct what it names: launch template, AMI, key, instance profile, or a service-linked role.",
)
_NEVER_JOINED = re.compile(
    r"not registered within|NodeCreationFailure|[Ii]nstances? failed to join the kubernetes cluster"
)


def _not_joining(evidence: Evidence) -> Iterator[Finding]:
    for claim in evidence.node_claims:
        if not claim.has("Launched") or claim.has("Registered") or claim.has("Ready") or _is_young(evidence, claim):
            continue
        open_steps = [one for name in ("Registered", "Initialized", "Ready") if (one := claim.condition(name))]
        yield finding(
            Code.NODE_NOT_JOINING,
            f"The instance of NodeClaim {claim.name} was launched but has not joined the cluster",
            [one.message or one.reason for one in open_steps] + [one.reason for one in open_steps[:1]],
            _LOOK_AT_THE_INSTANCE,
        )
    over = _messages_of_the_past(evidence)
    for event in evidence.events:
        if event.message not in over and _NEVER_JOINED.search(event.message):
            yield finding(
                Code.NODE_NOT_JOINING,
                f"The instance of {event.kind} {event.name} did not join the cluster in time",
                [event.message],
                _LOOK_AT_THE_INSTANCE,
            )
    yield from match_patterns(log_texts(evidence), (_NODE_GROUP,))


def _is_young(evidence: Evidence, claim: KubeObject) -> bool:
    """Return whether it is known to have been launched a short while ago: joining takes minutes."""
    launched = claim.condition("Launched")
    since = (launched.since if launched else 0.0) or claim.created_at
    return bool(since and evidence.taken_at and evidence.taken_at - since < _JOIN_SECONDS)


_POOL = re.compile(r'nodepool(?:[=:]"?| "|[:=] ?| In \[)([\w.-]+)"?', re.IGNORECASE)
_TAINT = re.compile(r"did not tolerate (?:taint \(taint=)?([^\s;,()]+)")
_LIMIT = re.compile(
    r"exceed(?:s|ed)? (?:the )?limits? for (?:nodepool|provisioner)|nodepool[^\n]{0,40}limits? (?:have been )?exceeded"
)
_LIMIT_POOL = re.compile(r'for (?:nodepool|provisioner):? (?:\((?:NodePool|provisioner)=|")?([\w.-]+)')
_ASKED = re.compile(r"karpenter\.sh/nodepool In \[([\w.-]+)\][^\n{]*\{([^{}\n]*)\}")
_AMOUNT = re.compile(r'"([^"]+)":"([^"]+)"')
"""A resource and its quantity that Karpenter asks of a pool."""
_MISMATCH = re.compile(
    r"no instance type (?:met|satisfied|has|which)|incompatible requirements|filtered out all available instance types"
    r"|minValues requirement"
)
_WISHES = (
    re.compile(r"instance-gpu-name In \[([^\]]+)\]"),
    re.compile(r"instance-type In \[([^\]]+)\]"),
    re.compile(r'"(?:nvidia\.com/gpu|aws\.amazon\.com/neuron)":"(\d+)"'),
    re.compile(r"topology\.kubernetes\.io/zone In \[([^\]]+)\]"),
)
_MISFITS = (
    "didn't match",
    "didn't satisfy",
    "didn't have free ports",
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient pods",
    "Insufficient ephemeral-storage",
    "Too many pods",
    "were unschedulable",
    "taint {node.kubernetes.io/unschedulable",
    "taint {node.kubernetes.io/memory-pressure",
    "taint {node.kubernetes.io/pid-pressure",
    "taint {ToBeDeletedByClusterAutoscaler",
)
_FULL_OF_VOLUMES = "exceed max volume count"
_NO_NODES = "no nodes available to schedule pods"
_OF_DAEMONS = "didn't satisfy plugin(s) [NodeAffinity]"
_ADVICE = (
    (("Too many pods",), "Raise the node's limit of pods (prefix delegation in the VPC CNI), or use a larger type."),
    (("were unschedulable", "node.kubernetes.io/unschedulable"), "Uncordon them (kubectl uncordon), or add nodes."),
    ((_FULL_OF_VOLUMES,), "Add nodes, or use fewer EBS volumes: an instance takes only so many."),
    (("topology spread", "anti-affinity"), "Add nodes where the pod may be, or relax its spread or anti-affinity."),
    (("free ports",), "Wait for the pod that holds the host port, or use another one."),
    (("resource claim", "resourceclaim"), "Make the ResourceClaim, or correct its name: kubectl get resourceclaims."),
)
"""Next steps by words that every reason of a refusal has one of."""


def find_pool_limits(evidence: Evidence) -> Iterator[Finding]:
    """Yield the reasons why no node is added, or no present node fits."""
    refused = list(refusals(evidence))
    yield from _limits(evidence, refused)
    yield from _full_groups(evidence, refused)
    yield from _taints(refused)
    yield from _mismatches([one for one in refused if not _left_by_limits(evidence, one)])
    yield from _misfits(refused)
    yield from _unknown(refused)


def _limits(evidence: Evidence, refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    left = [_left_by_limits(evidence, one) for one in refused]
    full = [one for one, words in zip(refused, left, strict=True) if words or _LIMIT.search(one.message)]
    if full:
        found = _LIMIT_POOL.search(full[0].message) or _POOL.search(full[0].message)
        pool = f' "{found[1]}"' if found else ""
        yield finding(
            Code.NODEPOOL_LIMIT,
            f"NodePool{pool} has reached its resource limit{max(left)}: no node is added for {pod_names(full)}",
            quotes_of(full),
            "Raise spec.limits of the NodePool (nvidia.com/gpu, cpu or memory), or free nodes of it.",
        )


def _left_by_limits(evidence: Evidence, refusal: SchedulingRefusal) -> str:
    """Return the limit of a pool that leaves less than was asked of it, in brackets; empty if none is known.

    Karpenter leaves out the instance types that exceed what is left, then says that no other has enough.
    """
    pools = {one.name: one for one in evidence.others if one.kind == "NodePool"}
    for name, asked in _ASKED.findall(refusal.message):
        pool = pools.get(name)
        limits, used = (pool.spec.get("limits"), pool.status.get("resources")) if pool else ({}, {})
        for resource, amount in _AMOUNT.findall(asked):
            most, now = (str((one or {}).get(resource) or 0) for one in (limits, used))
            if resource in (limits or {}) and _sum(amount, now) > _sum(most):
                return f" ({resource} {most}, of which {now} is in use)"
    return ""


def _sum(*quantities: str) -> float:
    """Return a sum; one that cannot be read is not a number, and compares with nothing."""
    try:
        return sum(map(parse_quantity, quantities))
    except ValueError:
        return math.nan


def _full_groups(evidence: Evidence, refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    """Yield node groups that may not be enlarged, for pods that lack no accelerators: those have another finding."""
    full = full_groups(evidence)
    if full and not any(map(_is_special, refused)):
        yield finding(
            Code.NODEPOOL_LIMIT,
            f"The node group has reached its greatest size: no node is added for {full[0].name or 'the pod'}",
            [event.message for event in full[:3]],
            RAISE_MAXIMUM,
        )


def _taints(refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    """Yield a taint that is the only objection, or one of nodes with accelerators."""
    for one in refused:
        keys = _TAINT.findall(one.message)
        key = next((word for word in keys if word.startswith(ACCELERATORS)), "")
        if not key and keys and not _MISMATCH.search(one.message):
            key = keys[0]
        if key and not _LIMIT.search(one.message):
            yield finding(
                Code.TAINT,
                f"{one.pod or 'The pod'} does not tolerate the taint {key} of the node pool",
                [one.message],
                f"Add a toleration for {key.split('=')[0].split(':')[0]} to the pod.",
            )
            return


def _mismatches(refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    unfit = [one for one in refused if _MISMATCH.search(one.message)]
    if unfit:
        found = _POOL.search(unfit[0].message)
        pool = f'in NodePool "{found[1]}" ' if found else ""
        wishes = [match[1] for expression in _WISHES if (match := expression.search(unfit[0].message))]
        yield finding(
            Code.NODEPOOL_MISMATCH,
            f"No instance type {pool}fits {pod_names(unfit)}" + (f" ({', '.join(wishes)})" if wishes else ""),
            quotes_of(unfit),
            "Relax the zone, instance or GPU requirement of the pod, or widen the requirements of the NodePool.",
        )


_OF_KARPENTER = re.compile(r"^Failed to schedule pod, ([^\n]+)|(^no nodepools found[^\n]*)")


def _unknown(refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    """Yield a message of Karpenter in words that no rule reads."""
    known = (_LIMIT, _TAINT, _MISMATCH)
    for one in refused:
        found = _OF_KARPENTER.search(one.message)
        if found and not any(expression.search(one.message) for expression in known):
            yield finding(
                Code.NODEPOOL_MISMATCH,
                f"Karpenter makes no node for {one.pod or 'the pod'}: {(found[1] or found[2])[:_BRIEF]}",
                [one.message],
                "Compare the pod with the requirements, limits and readiness of the NodePools: kubectl get nodepools.",
            )
            return


def _is_special(refusal: SchedulingRefusal) -> bool:
    """Return whether nodes have too few accelerators or EFA adapters, and none of them lacks only something else."""
    return any(map(_is_special_name, refusal.short_of())) and not refusal.has_free(_is_special_name)


def _is_special_name(resource: str) -> bool:
    return resource == EFA or is_accelerator(resource)


def _misfits(refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    """Yield labels, processors or memory that no present node has."""
    unfit = [
        one
        for one in refused
        if (one.has(*_MISFITS) and (one.is_misfit or not _is_special(one))) or one.has(_FULL_OF_VOLUMES, _NO_NODES)
    ]
    if unfit:
        yield misfit(unfit)


def misfit(unfit: list[SchedulingRefusal]) -> Finding:
    """Return the finding of pods that no node takes, with the reasons of the first one in the scheduler's words."""
    own = _of_its_node(unfit[0])
    reasons = ", ".join(f"{count or ''} {reason}".strip() for reason, count in (own or unfit[0].reasons).items())
    none = "The cluster has no node for" if unfit[0].has(_NO_NODES) else "No node fits"
    if own:
        reasons, none = ", ".join(own), "Its node does not take"
    return finding(
        Code.NODEPOOL_MISMATCH,
        f"{none} {pod_names(unfit)}{f': {reasons}' if reasons else ''}",
        quotes_of(unfit),
        _advice(unfit[0]),
    )


def _of_its_node(refusal: SchedulingRefusal) -> dict[str, int]:
    """Return the reasons of the one node that a DaemonSet's pod is for; empty for any other pod.

    All other nodes are ruled out by the affinity that the controller has written into the pod.
    """
    others = {reason: count for reason, count in refusal.reasons.items() if _OF_DAEMONS not in reason}
    return others if len(others) < len(refusal.reasons) and sum(others.values()) == 1 else {}


def _advice(refusal: SchedulingRefusal) -> str:
    if refusal.has(_NO_NODES):
        return "Scale a node group up, or give Karpenter a NodePool that fits the pod."
    reasons = _of_its_node(refusal) or refusal.reasons
    for words, advice in _ADVICE:
        if reasons and all(any(word in reason for word in words) for reason in reasons):
            return advice
    return "Compare the pod's node selector, affinity and requests with the nodes' labels and free room."
