"""Rules for pods without a node: taints, accelerators, adapters, claims; and nodes that are being made."""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, Severity, finding
from actions.cluster.diagnose.evidence import Evidence, Node, number
from actions.cluster.diagnose.log_patterns import LogPattern, match_patterns, pattern, pod_suffix, unresolved_log_text
from actions.cluster.diagnose.rules.scheduler_messages import (
    LOST_TAINTS,
    RAISE_MAXIMUM,
    SchedulingRefusal,
    full_groups,
    is_unscheduled,
    names_ask,
    pod_names,
    quotes_of,
    refusals,
)
from actions.fleet.accelerators import (
    ACCELERATORS,
    AMD,
    EFA,
    GPU,
    NEURON,
    accelerator_of,
    is_accelerator,
    is_of_family,
    is_profile,
)

_PLUGINS = {GPU: "nvidia-device-plugin", NEURON: "neuron-device-plugin", AMD: "amdgpu-device-plugin"}
_DRIVERS = {GPU: "gpu.nvidia.com", NEURON: "neuron.aws.com", AMD: "gpu.amd.com"}
"""The drivers of dynamic resource allocation, which offer devices in ResourceSlices instead of the node's status.

Source: `DriverName` in the sources of NVIDIA's, AMD's and Karpenter's drivers; the guide of EKS on Neuron devices.
"""
_PLUGIN_GRACE_SECONDS = 300.0
_DISK_TAINT = "node.kubernetes.io/disk-pressure"
_STARTING = re.compile(
    r"/agent-not-ready$|^node\.cloudprovider\.kubernetes\.io/uninitialized$|^karpenter\.sh/unregistered$"
)
"""Taints that are removed when the node is up."""
_LEAVING = "karpenter.sh/disrupt"
"""The beginning of the taints that Karpenter gives a node before it drains it, in all versions."""
_PASSING = re.compile(
    rf"{_STARTING.pattern}|^node\.kubernetes\.io/|^{re.escape(_LEAVING)}|ClusterAutoscaler$|^aws-node-termination-handler/"
)
"""Taints that controllers set and remove: to tolerate them would be wrong."""
_OF_SYSTEMS = re.compile(r"^CriticalAddonsOnly$|^node-role\.kubernetes\.io/")
"""Taints of nodes that are kept for the cluster's own pods."""


def find_unschedulable(evidence: Evidence) -> Iterator[Finding]:
    """Yield the reasons for pods without a node."""
    refused = list(refusals(evidence))
    yield from _device_plugins(evidence, refused)
    yield from _unregistered(evidence)
    yield from _missing_classes(refused)
    yield from _adapters(evidence, refused)
    yield from _taints(evidence, refused)
    yield from _claims(refused)
    yield from _accelerators(evidence, refused)
    yield from match_patterns(unresolved_log_text(evidence), _RAYS_OWN)
    yield from _nominations(evidence, refused)


_RAYS_OWN = (
    LogPattern(
        Code.GPU_SHORTAGE,
        pattern(r"resource request cannot be scheduled right now: [^\n]{0,80}'(?:GPU|neuron_cores)'"),
        lambda hit: f"A task of the Ray cluster{pod_suffix(hit)} waits for accelerators that others hold",
        "ray status shows who holds them: end that, ask for fewer, or give the cluster more workers.",
        Severity.WARNING,
    ),
    LogPattern(
        Code.GPU_SHORTAGE,
        pattern(r"No available node types can fulfill resource request[^\n]{0,80}'(?:GPU|neuron_cores)'"),
        lambda hit: f"No worker group of the Ray cluster{pod_suffix(hit)} has the accelerators that a task asks for",
        "Give a worker group that many GPUs (or neuron_cores), or have the task ask for fewer.",
    ),
    LogPattern(
        Code.NODEPOOL_MISMATCH,
        pattern(r"No available node types can fulfill resource request(?![^\n]{0,80}'(?:GPU|neuron_cores)')"),
        lambda hit: f"No worker group of the Ray cluster{pod_suffix(hit)} fits what a task asks for",
        "Give a worker group these resources, or have the task ask for fewer.",
    ),
)


def _device_plugins(evidence: Evidence, refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    """Yield accelerator instances that are Ready, not brand-new, and advertise no accelerators."""
    for resource, plugin in _PLUGINS.items():
        bare = [node for node in evidence.nodes if _is_bare(evidence, node, resource)]
        short = [one for one in refused if any(is_of_family(name, resource) for name in one.short_of())]
        if not bare or not _matters(evidence, refused, short, resource):
            continue
        types = sorted({node.instance_type for node in bare})
        are, plural = ("are", "") if len(bare) > 1 else ("is", "s")
        nodes = f"node{'' if plural else 's'}"
        which = f"{types[0]} {nodes}" if len(types) == 1 else f"{nodes} ({_few(types)})"
        yield finding(
            Code.DEVICE_PLUGIN_MISSING,
            f"{len(bare)} {which} {are} Ready but advertise{plural} no {resource}:"
            " the device plugin does not run there",
            [*quotes_of(short), *types, *(node.name for node in bare[:3])],
            f"Check the {plugin} DaemonSet (tolerations, node selector), and that the AMI is the accelerated one.",
        )


def _matters(
    evidence: Evidence, refused: list[SchedulingRefusal], short: list[SchedulingRefusal], resource: str
) -> bool:
    """Return whether what is looked at may want devices of the family that nodes do not advertise.

    A wait for MIG devices has nothing to do with it where other nodes advertise some.
    """
    if any(one.reasons for one in refused):
        names = {name for one in short for name in one.short_of() if is_of_family(name, resource)}
        has_profiles = any(is_profile(name) for node in evidence.nodes for name in node.allocatable)
        return any(not has_profiles or not is_profile(name) for name in names)
    pods = [pod for pod in evidence.pods if pod.is_unscheduled] or ([] if evidence.asked_node else evidence.pods)
    return not pods or any(is_of_family(name, resource) for pod in pods for name in pod.requests)


_MOST_TYPES = 3


def _few(types: list[str]) -> str:
    """Return names of types for a sentence: `g5.xlarge, p4d.24xlarge, p5.48xlarge and 3 more types`."""
    more = len(types) - _MOST_TYPES
    if more <= 0:
        return f"{', '.join(types[:-1])} and {types[-1]}"
    return f"{', '.join(types[:_MOST_TYPES])} and {more} more type{'s' * (more > 1)}"


_INCONSISTENT = re.compile(r'expected resource "([\w./-]+)" didn\'t register on the node')
_NO_CLASS = re.compile(r"device class (\S{1,253}) does not exist")
_UNREGISTERED = re.compile(r'[Rr]esource "?([\w./-]+)"? was requested but not registered')


def _unregistered(evidence: Evidence) -> Iterator[Finding]:
    """Yield nodes of Karpenter that wait for a device plugin."""
    for event in evidence.events:
        missing = _INCONSISTENT.search(event.message) if event.reason == "FailedConsistencyCheck" else None
        if missing and missing[1] in _PLUGINS:
            yield finding(
                Code.DEVICE_PLUGIN_MISSING,
                f"The node of {event.kind or 'NodeClaim'} {event.name} advertises no {missing[1]}: the device plugin"
                " does not run there",
                [event.message],
                f"Check the {_PLUGINS[missing[1]]} DaemonSet (tolerations, node selector), and that the AMI is the"
                " accelerated one.",
            )
            break
    for claim in evidence.node_claims:
        step = claim.condition("Initialized")
        found = _UNREGISTERED.search(step.message) if step is not None and step.status != "True" else None
        if step is not None and found:
            yield finding(
                Code.DEVICE_PLUGIN_MISSING,
                f"The node of NodeClaim {claim.name} advertises no {found[1]}: the device plugin does not run there",
                [step.message, step.reason],
                "Check the device plugin's DaemonSet (tolerations, node selector), and the AMI of the node class.",
            )


def _missing_classes(refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    """Yield a class of devices that a claim names and no driver has made."""
    without = [(one, found[1]) for one in refused if (found := _NO_CLASS.search(one.message))]
    if without:
        name = without[0][1]
        yield finding(
            Code.DEVICE_PLUGIN_MISSING,
            f"{pod_names(one for one, _ in without)} asks for a device of class {name}, which does not exist: its"
            " driver is not installed",
            quotes_of(one for one, _ in without),
            f"Install the driver that offers {name} (kubectl get deviceclasses), or correct the class in the claim.",
        )


def _is_bare(evidence: Evidence, node: Node, resource: str) -> bool:
    if accelerator_of(node.instance_type) != resource or not (node.is_ready or node.condition("Ready") is None):
        return False
    if _DRIVERS[resource] in evidence.device_drivers.get(node.name, ()):
        return False
    if any((number(amount) or 0) > 0 for name, amount in node.allocatable.items() if is_of_family(name, resource)):
        return False
    ready = node.condition("Ready")
    since = (ready.since if ready else 0.0) or node.created_at
    return not (since and evidence.now and evidence.now - since < _PLUGIN_GRACE_SECONDS)


def _adapters(evidence: Evidence, refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    """Yield too few EFA adapters on nodes that have enough of everything else."""
    short = [one for one in refused if _is_about_adapters(one)]
    if not short:
        return
    asked = max((pod.requests.get(EFA, 0) for pod in evidence.pods), default=0)
    most = max((int(number(node.allocatable.get(EFA)) or 0) for node in evidence.nodes), default=0)
    who = names_ask(short)
    if asked and evidence.nodes and asked > most:
        headline = f"{who} {asked} EFA adapters; these nodes offer {most or 'none'}"
        step = "Ask for no more than a node has (4 on p4d and p4de, 8 on trn1.32xlarge, 32 on p5.48xlarge, 1 on g5)."
    else:
        nodes = max(one.short_of()[EFA] for one in short)
        wants = f"the {asked} EFA adapters" if asked else "the EFA adapters"
        headline = f"No node has {wants} free that {who} ({nodes} are short of them)"
        step = "Wait for the job that holds them, ask for fewer, or add nodes."
    types = [node.instance_type for node in evidence.nodes if node.instance_type]
    yield finding(
        Code.EFA_SHORTAGE,
        headline,
        [*quotes_of(short), *types[:2]],
        f"{step} Check the EFA device plugin DaemonSet if allocatable shows none.",
    )


def _is_about_adapters(refusal: SchedulingRefusal) -> bool:
    """Return whether more nodes lack adapters than lack accelerators."""
    short = refusal.short_of()
    return not refusal.is_misfit and short.get(EFA, 0) > max((short.get(name, 0) for name in ACCELERATORS), default=0)


def _lacks_accelerators(refusal: SchedulingRefusal) -> bool:
    return not refusal.is_misfit and any(map(is_accelerator, refusal.short_of()))


_BRANCH_INTERFACE = "vpc.amazonaws.com/pod-eni"


def _is_device(resource: str) -> bool:
    """Return whether a device plugin or controller counts it, as the names with a domain show; adapters are apart."""
    return "/" in resource and resource != EFA


def _lacks_devices(refusal: SchedulingRefusal) -> bool:
    return not refusal.is_misfit and any(map(_is_device, refusal.short_of()))


def _no_interface(short: list[SchedulingRefusal]) -> Finding:
    return finding(
        Code.NO_POD_IP,
        f"No node has a branch network interface (pod-eni) free for {pod_names(short)}, which needs one for its"
        f" security groups ({short[0].short_of()[_BRANCH_INTERFACE]} of {short[0].nodes} nodes are short of them)",
        quotes_of(short),
        "Add nodes or use larger ones, whose types have more of them; see that ENABLE_POD_ENI is on in aws-node,"
        " or take the pod out of its SecurityGroupPolicy.",
    )


def _taints(evidence: Evidence, refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    keys: dict[str, list[SchedulingRefusal]] = {}
    for one in refused:
        for key in one.taints():
            keys.setdefault(key or _only_taint(evidence, one), []).append(one)
    lost = [key for key in keys if key in LOST_TAINTS]
    blamed = [key for key in keys if not _PASSING.search(key) and _explains(evidence, key, keys[key])]
    if blamed:
        yield _taint(evidence, blamed, keys, lost)
    elif lost and not any(map(_lacks_accelerators, keys[lost[0]])):
        yield finding(
            Code.NODE_LOST,
            f"Nodes that could take {pod_names(keys[lost[0]])} do not answer",
            quotes_of(keys[lost[0]]),
            "Look at the nodes: kubectl get nodes; replace those that stay NotReady.",
        )
    starting = [key for key in keys if _STARTING.search(key)]
    if starting and not blamed:
        yield finding(
            Code.WAITING_FOR_NODE,
            f"No node yet for {pod_names(keys[starting[0]])}: one is still starting and keeps the taint {starting[0]}",
            quotes_of(keys[starting[0]]),
            "Wait a minute; if the taint stays, see why that DaemonSet's pod does not run on the node.",
        )
    leaving = [key for key in keys if key.startswith(_LEAVING)]
    if leaving and not (blamed or starting or lost):
        yield finding(
            Code.WAITING_FOR_NODE,
            f"No node yet for {pod_names(keys[leaving[0]])}: Karpenter is replacing the nodes that could take it",
            quotes_of(keys[leaving[0]]),
            "Wait for their replacement; if none comes, see the NodePool's limits and Karpenter's log.",
        )
    if _DISK_TAINT in keys:
        yield finding(
            Code.NODE_DISK_FULL,
            f"Nodes that could take {pod_names(keys[_DISK_TAINT])} have a full disk",
            quotes_of(keys[_DISK_TAINT]),
            "Free disk on the nodes, or give them larger root volumes.",
        )


def _only_taint(evidence: Evidence, refusal: SchedulingRefusal) -> str:
    """Return the taint of a message that names none (1.34); empty if it may be any.

    It is known if all nodes that the pod selects have one, or if nodes have no others than those of lost nodes.
    """
    pod = evidence.pod("", refusal.pod)
    wanted = pod.selector.items() if pod is not None else ()
    selected = [node for node in evidence.nodes if wanted and wanted <= node.labels.items()]
    if selected and all(node.taints for node in selected):
        return min(key for node in selected for key in node.taints)
    known = {key for node in evidence.nodes for key in node.taints}
    return min(known) if known and known <= set(LOST_TAINTS) else ""


def _explains(evidence: Evidence, key: str, refused: list[SchedulingRefusal]) -> bool:
    """Return whether the pod waits because of the taint, and not because other nodes lack resources.

    Nodes without any accelerator are also `Insufficient` of it: a taint of the nodes with accelerators explains that.
    Any other taint (of the control plane, of another team) explains a wait only if no resource is lacking, and one
    that the scheduler does not name only if there is no other reason.
    """
    asks = any(pod.requests.get(name) for pod in evidence.pods for name in ACCELERATORS)
    tainted = _tainted_accelerators(evidence) if asks else []
    if key in ACCELERATORS or key in tainted or (not key and tainted):
        return any(not _is_about_adapters(one) for one in refused)
    if not key or _OF_SYSTEMS.search(key):
        return any(len(one.reasons) == 1 for one in refused)
    return any(not one.short_of() for one in refused)


def _tainted_accelerators(evidence: Evidence) -> list[str]:
    """Return the keys of taints of nodes with accelerators, if all of these nodes have taints."""
    equipped = [node for node in evidence.nodes if any(map(is_accelerator, node.allocatable))]
    return [key for node in equipped for key in node.taints] if all(node.taints for node in equipped) else []


def _taint(evidence: Evidence, blamed: list[str], keys: dict[str, list[SchedulingRefusal]], lost: list[str]) -> Finding:
    key = min(blamed, key=lambda one: one not in ACCELERATORS)
    refused = keys[key]
    nodes = max(one.taints().get(key, 0) for one in refused)
    further = sum(max(one.taints().get(other, 0) for one in keys[other]) for other in lost)
    named = key or next(
        iter(_tainted_accelerators(evidence) or [key for node in evidence.nodes for key in node.taints]), ""
    )
    also = f" {further} further node{'s are' if further > 1 else ' is'} unreachable." if further else ""
    return finding(
        Code.TAINT,
        f"{pod_names(refused)} does not tolerate the taint{f' {named}' if named else ''} of {nodes} nodes",
        quotes_of(refused),
        f"Add a toleration for {named or 'the taint of those nodes'} to the pod.{also}",
    )


_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"\n]{1,253})" (not found|is being deleted)')


def _claims(refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    unbound = [
        one
        for one in refused
        if one.has(
            "unbound immediate PersistentVolumeClaims",
            "persistentvolumeclaim",
            "persistent volumes to bind",
            "binding volumes:",
        )
    ]
    if unbound:
        absent = next((found for one in unbound if (found := _NO_CLAIM.search(one.message))), None)
        yield finding(
            Code.PVC_UNBOUND,
            f"The volume claim {absent[1]} of {pod_names(unbound)} is {absent[2].removeprefix('is ')}"
            if absent
            else f"A volume claim of {pod_names(unbound)} is not bound",
            quotes_of(unbound),
            "Make the claim in the pod's namespace, or correct its name in the pod: kubectl get pvc."
            if absent
            else "kubectl describe pvc: do StorageClass and CSI driver exist, does the volume name this claim?",
        )
    apart = [one for one in refused if one.has("volume node affinity conflict")]
    if apart:
        yield finding(
            Code.VOLUME_MOUNT,
            f"The volume of {pod_names(apart)} is in another zone than the nodes",
            quotes_of(apart),
            "Let the pod run in the volume's zone, or make the volume where the nodes are.",
        )


def _accelerators(evidence: Evidence, refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    claimed = [one for one in refused if one.has("cannot allocate all claims")]
    if claimed:
        yield finding(
            Code.GPU_SHORTAGE,
            f"No node has the devices free that the resource claims of {pod_names(claimed)} name",
            quotes_of(claimed),
            "kubectl get resourceclaims,resourceslices: wait for the job that holds the devices, or add nodes.",
        )
    refused = [one for one in refused if not one.has_free(is_accelerator)]
    short = [one for one in refused if _lacks_accelerators(one)] or [one for one in refused if _lacks_devices(one)]
    if not short:
        return
    resource = min(filter(_is_device, short[0].short_of()), key=lambda name: not is_accelerator(name))
    if resource == _BRANCH_INTERFACE:
        yield _no_interface(short)
        return
    full = full_groups(evidence)
    too_much = _asks_too_much(evidence, short[0], resource)
    if too_much:
        yield finding(
            Code.GPU_SHORTAGE,
            too_much,
            [*quotes_of(short), *(event.message for event in full[:1])],
            "Add nodes that have it; on those that should, see that its device plugin runs."
            if "none of the" in too_much
            else "Ask for what one node has, and spread the job over more pods; or add nodes that have it.",
        )
        return
    yield finding(
        Code.GPU_SHORTAGE,
        f"No node has the {resource} free that {names_ask(short)}"
        f" ({short[0].short_of()[resource]} of {short[0].nodes} nodes are short of it), and "
        + ("their node group has reached its greatest size" if full else "no nodes are being added"),
        [*quotes_of(short), *(event.message for event in full[:1])],
        RAISE_MAXIMUM
        if full
        else "Wait for the job that holds them, or stop it; else scale the node group, or give Karpenter a NodePool.",
    )


def _asks_too_much(evidence: Evidence, refusal: SchedulingRefusal, resource: str) -> str:
    """Return a sentence if no node has as many of a resource as the pod asks for, used or free; else an empty text.

    Only nodes whose amounts are all known tell it.
    """
    pod = next((pod for pod in evidence.pods if pod.name == refusal.pod), None)
    asked = pod.requests.get(resource, 0) if pod is not None else 0
    known = [node.allocatable for node in evidence.nodes if "pods" in node.allocatable]
    if not asked or not known or len(known) < refusal.nodes:
        return ""
    most = max(int(number(amounts.get(resource)) or 0) for amounts in known)
    if asked <= most:
        return ""
    offer = f"the nodes have at most {most}" if most else f"none of the {len(known)} nodes has any"
    return f"{refusal.pod} asks for {asked} {resource}; {offer}"


_MANY_CLAIMS = 3
_NOMINATED = re.compile(r"should schedule on: (.+)|pod triggered scale-up: (.+)")


def _nominations(evidence: Evidence, refused: list[SchedulingRefusal]) -> Iterator[Finding]:
    """Yield nodes that are being made, and pods that are being preempted, for a waiting pod."""
    made: dict[str, dict[str, str]] = {}
    for event in evidence.events:
        found = _NOMINATED.search(event.message)
        if found and event.reason in ("Nominated", "TriggeredScaleUp") and is_unscheduled(evidence, event):
            made.setdefault(event.name, {})[(found[1] or found[2]).strip()] = event.message
    for waiting in evidence.pods:
        if waiting.is_unscheduled and waiting.nominated:
            yield finding(
                Code.WAITING_FOR_NODE,
                f"No node yet for {waiting.name}; pods of a lower priority make room for it on {waiting.nominated}",
                [*quotes_of([one for one in refused if one.pod == waiting.name]), waiting.nominated],
                "Wait until they have ended: their grace period is the longest that it takes.",
            )
            return
    for pod, targets in list(made.items())[:1]:
        short = quotes_of([one for one in refused if one.pod in ("", pod)])
        first = next(iter(targets))
        claims = [target for target in targets if target.startswith(("nodeclaim/", "machine/"))]
        if len(claims) < _MANY_CLAIMS:
            yield finding(
                Code.WAITING_FOR_NODE,
                f"No node yet for {pod or 'the pod'}; one is being made: {first}",
                [*short, targets[first]],
                f"Wait 1 to 5 minutes for {first.split(',')[0]}, longer for accelerated instances.",
            )
        else:
            yield finding(
                Code.WAITING_FOR_NODE,
                f"No node yet for {pod or 'the pod'}: {len(claims)} were started one after the other, none came up",
                [*short, *(targets[claim] for claim in claims)],
                "See why they end: kubectl get nodeclaims, kubectl describe nodeclaim, the log of Karpenter.",
            )
