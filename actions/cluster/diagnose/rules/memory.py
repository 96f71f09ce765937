"""Rules for memory that ran out: of a container, of its children, of a GPU, of /dev/shm, of a node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, field_quote, finding
from actions.cluster.diagnose.evidence import Container, Evidence, Pod
from actions.cluster.diagnose.log_patterns import (
    Hit,
    LogPattern,
    all_messages,
    find_hits,
    log_texts,
    match_patterns,
    pattern,
    pod_suffix,
    unresolved_log_text,
)

_GPU_AMOUNTS = (
    ("asked", re.compile(r"[Tt]r(?:ied|ying) to allocate ([\d.]+ ?[KMGT]i?B)")),
    ("free", re.compile(r"(?:of which |; )([\d.]+ ?[KMGT]i?B) (?:is )?free")),
    ("total", re.compile(r"(?:total capacity of ([\d.]+ ?[KMGT]i?B)|([\d.]+ ?[KMGT]i?B) total capacity)")),
)


def _gpu_headline(hit: Hit) -> str:
    amounts = []
    for name, expression in _GPU_AMOUNTS:
        if found := expression.search(hit.line):
            amounts.append(f"{name} {next(group for group in found.groups() if group)}")
    return f"A GPU{pod_suffix(hit)} is out of memory" + (f": {', '.join(amounts)}" if amounts else "")


_PATTERNS = (
    LogPattern(
        Code.SHM_TOO_SMALL,
        pattern(
            r"insufficient shared memory",
            r"out of shared memory\. (?:Please )?try to raise",
            r"unable to (?:open|allocate|mmap) shared memory(?![^\n]{0,200}Too many open files)",
            r"unable to write to file </torch_",
            r"killed by signal: Bus error",
            r"[Ee]rror while creating shared memory segment",
            r"/dev/shm[^\n]{0,120}(?:[Nn]o space left|has only|too small|is full)",  # noqa: S108 - a text to find
            r"[Nn]o space left on device[^\n]{0,80}/dev/shm",
            r"shm_open[^\n]{0,80}(?:failed|No space)",
            r"posix_fallocate failed",
            r"Fatal Python error: Bus error",
            r"^Bus error \(core dumped\)|\n[^\n]{0,80}Bus error \(core dumped\)",
        ),
        lambda hit: f"The shared memory{pod_suffix(hit)} (/dev/shm, 64 MiB by default) is too small for its processes",
        "Mount an emptyDir with medium Memory at /dev/shm, and count it in limits.memory.",
    ),
    LogPattern(
        Code.GPU_OOM,
        pattern(
            r"CUDA out of memory",
            r"CUDA error: out of memory",
            r"CUDA_ERROR_OUT_OF_MEMORY",
            r"\bcudaErrorMemoryAllocation\b",
            r"C(?:uda|UDA) failure (?:\d+(?:: | ))?'?out of memory\b",
            r"CUBLAS_STATUS_ALLOC_FAILED",
            r"RESOURCE_EXHAUSTED: Out of memory",
            r"OOM when allocating tensor[^\n]{0,300}/device:GPU:\d",
            r"HIP out of memory",
            r"cupy\.cuda\.memory\.OutOfMemoryError",
        ),
        _gpu_headline,
        "Lower the micro batch size, turn on activation checkpointing, or shard the model over more GPUs.",
    ),
    LogPattern(
        Code.GPU_OOM,
        pattern(
            r"[Ff]ailed to alloc(?:ate)? (?:DEVICE|HBM|device) memory",
            r"\bNRT_RESOURCE\b",
            r"neuron:mc_alloc: device mempool",
            r"\bnrt_\w+ status=4\b",
        ),
        lambda hit: f"A Neuron device{pod_suffix(hit)} is out of memory",
        "Lower the micro batch size, turn on activation checkpointing, or raise the tensor parallel degree.",
    ),
)

_LIMIT_STEP = "Raise limits.memory, lower the number of data-loader workers or their prefetch, or stream the data."
_AT_THE_START = LogPattern(
    Code.OOM_KILLED,
    pattern(r"container init was OOM-killed[^\n]{0,80}"),
    lambda hit: f"A container{pod_suffix(hit)} was killed for memory before its program could start",
    "Raise limits.memory: it is less than the container runtime itself needs.",
)


def find_memory_faults(evidence: Evidence) -> Iterator[Finding]:
    """Yield everything that ran out of memory."""
    yield from match_patterns(unresolved_log_text(evidence), _PATTERNS)
    yield from match_patterns(all_messages(evidence), (_AT_THE_START,))
    for pod in evidence.pods:
        yield from _container_kills(evidence, pod)
    for pod, message in _evictions(evidence):
        yield from _eviction(pod, message)
    yield from _child_kills(evidence)


_PAST_SECONDS = 3600.0


def _container_kills(evidence: Evidence, pod: Pod) -> Iterator[Finding]:
    for container in pod.containers:
        killed = next((ending for ending in container.endings if ending.reason == "OOMKilled"), None)
        if killed is None or (pod.is_fine and (pod.phase == "Succeeded" or _is_past(evidence, container))):
            continue
        quotes = [field_quote("reason", killed.reason)]
        if killed.exit_code is not None:
            quotes.append(field_quote("exitCode", killed.exit_code))
        yield finding(
            Code.OOM_KILLED,
            f"Container {container.name} of {pod.name} exceeded its memory limit and was killed{_times(container)}",
            quotes,
            _LIMIT_STEP,
        )


def _is_past(evidence: Evidence, container: Container) -> bool:
    """Return whether it has run so long since that its previous end does not matter any more."""
    state = container.state
    return bool(state.kind == "running" and state.since and evidence.now and evidence.now - state.since > _PAST_SECONDS)


def _times(container: Container) -> str:
    return f" ({container.restarts} restarts)" if container.restarts else ""


_CHILD = pattern(
    r"DataLoader worker \(pid[^)\n]{0,80}\) is killed by signal: Killed",
    r"killed by signal: Killed",
    r"[Oo]ut of memory: Kill(?:ed)? process \d+",
    r"Memory cgroup out of memory: Kill",
    r"oom-kill:constraint=",
    r"ray\.exceptions\.OutOfMemoryError",
    r"killed due to the node running low on memory",
    r"\b[1-9]\d{0,8} Workers \(tasks / actors\) killed due to memory pressure",
    r"oom_kill(?:er)? event",
    r"was forcibly killed[^\n]{0,80}insufficient system memory",
)
_SYSTEM = pattern(r"System OOM encountered", r"OOM encountered, victim process")


def _child_kills(evidence: Evidence) -> Iterator[Finding]:
    lines = [hit.line for hit in find_hits(log_texts(evidence), _CHILD)]
    events = [
        event.message for event in evidence.events if event.reason in ("SystemOOM", "OOMKilling") and event.message
    ]
    events += [hit.line for hit in find_hits(((event.message, "") for event in evidence.events), _SYSTEM)]
    if lines or events:
        yield finding(
            Code.OOM_CHILD_KILLED,
            "A child process was killed for memory while its container lived on"
            if lines
            else "The kernel of the node killed a process for memory",
            [*lines[:3], *events[:2]],
            "Treat it as an exceeded memory limit: raise limits.memory, or use fewer data-loader workers.",
        )


_LOW = re.compile(r"low on resource: (?P<resource>[\w.-]+)|had condition: \[(?P<condition>\w+)")
_DISK_WORDS = ("ephemeral", "storage", "inodes", "nodefs", "imagefs", "DiskPressure", "disk", "EmptyDir")
_OWN_LIMIT = re.compile(r"exceed(?:s|ed) (?:its|the) [\w ]{0,40}\blimit\b")
_EMPTY_DIR = re.compile(r'EmptyDir volume "(?P<name>[^"]+)" exceeds')


def _evictions(evidence: Evidence) -> Iterator[tuple[Pod, str]]:
    """Yield pods that the kubelet evicted, with its messages; evictions by Karpenter are not of that kind."""
    for pod in evidence.pods:
        told = [event.message for event in evidence.events if event.name == pod.name and event.reason == "Evicted"]
        told = [message for message in told if _LOW.search(message) or _EMPTY_DIR.search(message)]
        if pod.reason == "Evicted" or (told and pod.phase == "Failed"):
            yield pod, pod.message or (told[0] if told else "")


def _eviction(pod: Pod, message: str) -> Iterator[Finding]:
    low = _LOW.search(message)
    resource = (low["resource"] or low["condition"]).rstrip(".") if low else ""
    volume = _EMPTY_DIR.search(message)
    is_shared_memory = volume is not None and volume["name"] in pod.memory_volumes
    is_disk = not is_shared_memory and any(word in (resource or message) for word in _DISK_WORDS)
    node = f" from {pod.node}" if pod.node else ""
    quotes = [field_quote("reason", pod.reason) if pod.reason else "Evicted", message]
    if is_disk:
        yield finding(
            Code.EVICTED_DISK,
            f"The kubelet evicted {pod.name}{node} for disk space{f' ({resource})' if resource else ''}",
            quotes,
            "Raise its limit, or write to the shared file system."
            if _OWN_LIMIT.search(message)
            else "Request ephemeral-storage, write to the shared file system, or give the nodes larger root volumes.",
        )
    elif is_shared_memory or "emory" in (resource or message):
        yield finding(
            Code.EVICTED_MEMORY,
            f"The kubelet evicted {pod.name}{node}: the node ran low on memory",
            quotes,
            "Set requests.memory to what the pod really uses, so that it gets a node that has it.",
        )
