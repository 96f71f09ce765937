"""Rules for programs that end with an error of their own, and for training whose loss is not a number."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator

from actions.base.wording import counted
from actions.cluster.diagnose.codes import QUOTE_LIMIT, Code, Finding, Severity, field_quote, finding
from actions.cluster.diagnose.evidence import (
    STARTING,
    Condition,
    Container,
    Evidence,
    Log,
    Node,
    ObservedState,
    Pod,
    is_failed,
    number,
)
from actions.cluster.diagnose.log_patterns import (
    Hit,
    LogPattern,
    all_messages,
    match_patterns,
    pattern,
    pod_suffix,
    unresolved_log_text,
)
from actions.cluster.diagnose.rules.images import PULL_REASONS
from actions.cluster.diagnose.rules.last_error import (
    end_by_signal,
    is_echo,
    last_error,
    on_one_line,
    signal_of_exit_code,
    was_killed,
)
from actions.cluster.diagnose.rules.probes import killed_by_probe
from actions.cluster.diagnose.rules.remedies import remedy_of
from actions.fleet.accelerators import EFA, GPU, NEURON, is_accelerator
from actions.fleet.instance_types import InstanceTable
from actions.telemetry.curves import Curves, Divergence, divergence_of
from actions.telemetry.log_reader import LogReader
from actions.telemetry.points import Point

_MODEL = re.compile(
    r"huggingface\.co/(?:api/(?:models|datasets)/|datasets/)?(?!(?:api|docs|settings|blog|spaces|papers)/)([\w.-]+/[\w.-]+)"
    r"|(?:model|repo) ([\w.-]+/[\w.-]+) is restricted"
)
_NO_SUCH_REPOSITORY = re.compile(r"RepositoryNotFoundError|Repository Not Found")


def _gated(hit: Hit) -> str:
    found = _MODEL.search(hit.match.string)
    name = (found[1] or found[2]).rstrip(".") if found else ""
    if _NO_SUCH_REPOSITORY.search(hit.match.string):
        return f"Hugging Face does not show {name or 'the model'}{pod_suffix(hit)}: private, gated, or no such name"
    return f"The Hugging Face token{pod_suffix(hit)} has no access to {name or 'the model'}: it is gated"


_PATTERNS = (
    LogPattern(
        Code.HF_GATED,
        pattern(
            r"Invalid user token",
            r"401 Client Error[^\n]{0,120}huggingface\.co/api/whoami",
            r"Invalid credentials in Authorization header",
        ),
        lambda hit: f"Hugging Face refuses the token{pod_suffix(hit)}: it is wrong, expired or revoked",
        "Make a new token (hf auth login shows whether it is right), and put it into the Secret of HF_TOKEN.",
    ),
    LogPattern(
        Code.HF_GATED,
        pattern(
            r"[Cc]annot access gated repo",
            r"GatedRepoError",
            r"trying to access a (?:private or )?gated repo",
            r"40[13] Client Error[^\n]{0,120}huggingface\.co/(?!api/(?:whoami|repos))",
            r"Access to (?:model|dataset) \S{1,200} is restricted",
            r"you are not in the authorized list",
        ),
        _gated,
        "Accept the licence on the model's page with the account of this token, or use a token of one that has.",
    ),
    LogPattern(
        Code.GPU_RUNTIME,
        pattern(
            r"unsatisfied condition: [\w>=<., ]+",
            r"CUDA driver version is insufficient",
            r"NVIDIA driver on your system is too old",
            r"forward compatibility was attempted on non supported HW",
        ),
        lambda hit: f"The NVIDIA driver of the node is too old for the CUDA{f' of {hit.pod}' if hit.pod else ''}",
        "Use a newer AMI (driver), or an image with an older CUDA; nvidia-smi on the node names the newest one.",
    ),
    LogPattern(
        Code.GPU_RUNTIME,
        pattern(r"no kernel image is available for execution"),
        lambda hit: f"The program{f' of {hit.pod}' if hit.pod else ''} was not built for this type of GPU",
        "Use an image whose PyTorch and CUDA know this GPU, or build its extensions for it (TORCH_CUDA_ARCH_LIST).",
    ),
    LogPattern(
        Code.GPU_RUNTIME,
        pattern(
            r"nvidia-container-cli: (?!requirement error)[^\n]+",
            r"Failed to initialize NVML",
            r"couldn't communicate with the NVIDIA driver",
            r"[Nn]o NVIDIA (?:driver|GPU)[^\n]{0,40}(?:found|detected)",
            r"Found no NVIDIA driver",
            r"no runtime for \"?nvidia\"? is configured",
            r"could not select device driver",
            r"CUDA unknown error",
            r"MPS client failed to connect",
            r"CUDA driver initialization failed",
            r"CUDA-capable device\(s\) is/are busy or unavailable",
            r"CUDA initialization:(?! The NVIDIA driver on your system is too old)",
            r"Unexpected error from cudaGetDeviceCount",
            r"libcuda\.so\.1: cannot open shared object",
            r"libnvidia-ml\.so[^\n]{0,40}(?:cannot open|not found)",
            r"[Ee]rror 802: system not yet initialized",
            r"Driver/library version mismatch",
            r"RuntimeHandler \"nvidia\" not supported",
            r"unresolvable CDI devices",
        ),
        lambda hit: f"The NVIDIA driver cannot be reached{f' from {hit.pod}' if hit.pod else ''}",
        "Check that the pod requests nvidia.com/gpu, that driver and image fit, and the NVIDIA runtime of the node.",
    ),
    LogPattern(
        Code.GPU_RUNTIME,
        pattern(
            r"No CUDA GPUs are available",
            r"[Nn]o CUDA-capable device is detected",
            r"ProcessGroupNCCL is only supported with GPUs, no GPUs found",
            r"\bnccl2? requires at least one CUDA device",
            r"No supported gpu backend found",
            r"Error: Unable to initialize backend '(?:cuda|gpu)'[^\n]{0,200}No visible GPU devices",
        ),
        lambda hit: f"The program{pod_suffix(hit)} sees no GPU",
        "Check that the pod requests nvidia.com/gpu, and that CUDA_VISIBLE_DEVICES is not set to nothing.",
    ),
    LogPattern(
        Code.GPU_RUNTIME,
        pattern(
            r"CUDA error: invalid device ordinal",
            r"Invalid number of GPUs: \d{1,6} requested but only \d{1,6} were found",
            r"You requested gpu: \[[^]\n]{0,200}\]\s{1,8}But your machine only has",
        ),
        lambda hit: f"More ranks are started{f' in {hit.pod}' if hit.pod else ''} than there are GPUs for them",
        "Start one process for each GPU of the pod: make --nproc-per-node what nvidia.com/gpu requests.",
    ),
)

_DAMAGED = LogPattern(
    Code.CHECKPOINT_DAMAGED,
    pattern(
        r"PytorchStreamReader failed (?:reading zip archive|reading file|locating file)[^\n]{0,200}",
        r"unexpected EOF, expected \d{1,20} more bytes\. The file might be corrupted",
        r"SafetensorError: Error while deserializing header: "
        r"(?:[\w ]{0,40}incomplete|[\w ]{0,40}too (?:large|small)|MetadataIncomplete|Header|Invalid)[^\n]{0,120}",
        r"torch/(?:serialization|_weights_only_unpickler)\.py\", line \d{1,6}, in \w{1,60}\n[^\n]{0,200}\n"
        r"(?:[ ^~]{1,200}\n)?(?:\[rank\d{1,6}\]: )?EOFError[^\n]{0,80}",
        r"UnpicklingError: (?:pickle data was truncated|invalid load key)[^\n]{0,80}",
    ),
    lambda hit: f"A checkpoint or weights file{pod_suffix(hit)} is damaged or was not written whole",
    "Resume from the checkpoint before it, or download the weights again; look whether the disk was full meanwhile.",
)
"""Source: PyTorch `inline_container.cc`, `serialization.py` (old format, no bytes); safetensors, `SafeTensorError`."""


WAY_OUT = "Stop it, and continue from a checkpoint before that, with a lower learning rate or a higher precision."
_DIVERGED = LogPattern(
    Code.LOSS_DIVERGED,
    pattern(
        r"loss scale already at minimum[^\n]{0,80}",
        r"Minimum loss scale reached[^\n]{0,80}",
        r"[Ff]ound NaN in (?:local )?(?:forward |backward )?(?:loss|grad)[^\n]{0,120}",
        r"(?:[Ll]oss|[Gg]radient)(?:es|s)? (?:norm )?(?:is|are|became) (?:nan|NaN|inf|infinite)\b[^\n]{0,80}",
        r"[Nn]on-finite (?:loss|gradients?|norm)[^\n]{0,80}",
        r"\bINFER_ERROR_SUBTYPE_NUMERICAL\b",
        r"returned nan values in its \d{1,3}th output",
        r"FloatingPointError: invalid value \((?:nan|inf)\) encountered in[^\n]{0,80}",
        r"The loss returned in `training_step` is (?:nan|-?inf)\b",
        r"Detected nan and/or inf values in `[^\n]{1,120}",
    ),
    lambda hit: f"The training{pod_suffix(hit)} has ended itself: its loss or gradients are no numbers any more",
    WAY_OUT,
    Severity.ERROR,
)
"""Source: DeepSpeed and fairseq loss scalers, Megatron-LM `rerun_state_machine`, PyTorch `clip_grad_norm_` and
`detect_anomaly`, JAX `jax_debug_nans`, Lightning `detect_nan_parameters` and its check of the loss."""


def find_damaged_checkpoints(evidence: Evidence) -> Iterator[Finding]:
    """Yield files that could not be loaded, and numbers that are none, which ended a program.

    Some programs fall back to an older checkpoint, or skip the step.
    """
    yield from match_patterns(unresolved_log_text(evidence), (_DAMAGED,))
    for pod in evidence.pods:
        if not pod.is_fine and any(one.exit_code for container in pod.containers for one in container.endings):
            yield from match_patterns([(last_error(evidence, pod), pod.name)], (_DIVERGED,))


def find_failed_programs(evidence: Evidence) -> Iterator[Finding]:
    """Yield the failures of programs."""
    yield from match_patterns(all_messages(evidence), _PATTERNS)
    for pod in sorted(evidence.pods, key=lambda one: is_echo(last_error(evidence, one))):
        for container in pod.containers:
            yield from _ending(evidence, pod, container)
        yield from _rejection(evidence, pod)


_NO_START_ERRORS = STARTING | {"CrashLoopBackOff"}
"""Reasons to wait that are none; any other keeps a container from its start."""


def _ending(evidence: Evidence, pod: Pod, container: Container) -> Iterator[Finding]:
    """Yield one finding for a container that failed, the most specific."""
    waiting = container.state if container.state.kind == "waiting" else ObservedState()
    if killed := killed_by_probe(evidence, pod, container):
        yield killed
        return
    if waiting.reason in PULL_REASONS or pod.is_fine or pod.reason == "Evicted":
        return
    failed = next((ending for ending in container.endings if ending.exit_code not in (0, None)), None)
    if pod.deleted_at and failed is not None and failed.exit_code in (137, 143) and failed.reason != "OOMKilled":
        return  # by its deletion
    if failed is not None and failed.reason in _NOT_STARTED and container.state.kind == "running":
        return  # what kept it from its start is over
    loops = waiting.reason == "CrashLoopBackOff"
    if failed is not None and (disruption := _disruption_of(pod)):
        yield _disrupted(pod, failed, disruption)
    elif failed is not None and failed.exit_code == 137 and failed.reason != "OOMKilled":
        yield _sigkill(evidence, pod, container, failed)
    elif loops or waiting.reason not in _NO_START_ERRORS or (failed is not None and _keeps_failing(container)):
        if failed is None or failed.reason != "OOMKilled":
            yield _crash(evidence, pod, container, failed)
    elif failed is not None and failed.reason != "OOMKilled" and container.state.kind == "terminated":
        yield _failure(evidence, pod, container, failed)


def _keeps_failing(container: Container) -> bool:
    return container.restarts >= 1 and not container.is_ready


_DISRUPTIONS = {
    "PreemptionByScheduler": "the scheduler preempted it for a pod of a higher priority",
    "EvictionByEvictionAPI": "it was evicted, as a drain or Karpenter does",
    "DeletionByTaintManager": "its node got a taint that it does not tolerate",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node ended it",
}
"""Reasons of the condition `DisruptionTarget`, which Kubernetes sets since 1.26.

Source: kubernetes.io, *Disruptions*, pod disruption conditions.
"""


def _disruption_of(pod: Pod) -> Condition | None:
    """Return the condition of a pod that was ended from outside."""
    target = pod.condition("DisruptionTarget")
    return target if target is not None and target.status == "True" and target.reason in _DISRUPTIONS else None


def _disrupted(pod: Pod, failed: ObservedState | None, disruption: Condition) -> Finding:
    is_lost = disruption.reason == "DeletionByPodGC"
    return finding(
        Code.NODE_LOST if is_lost else Code.KILLED_SIGKILL,
        f"{pod.name} did not end by itself: {_DISRUPTIONS[disruption.reason]}",
        [
            disruption.message,
            field_quote("reason", disruption.reason),
            *([field_quote("exitCode", failed.exit_code)] if failed is not None else []),
        ],
        "Resume from the last checkpoint on another node."
        if is_lost
        else "Resume from the last checkpoint; a PriorityClass, or karpenter.sh/do-not-disrupt, keeps it from others.",
    )


_KILLERS = re.compile(r"[Pp]reempt|[Ss]topping container|[Ee]vict|Killing|Deleting|drain")


def _sigkill(evidence: Evidence, pod: Pod, container: Container, failed: ObservedState) -> Finding:
    hooks = [one for one in evidence.events if one.name == pod.name and one.reason == "FailedPostStartHook"]
    if hooks:
        return finding(
            Code.CRASH_LOOP,
            f"The kubelet ends container {container.name} of {pod.name} each time: its postStart hook fails",
            [hooks[-1].message, hooks[-1].reason, field_quote("exitCode", 137)],
            "Run the command of lifecycle.postStart by hand, in a pod without it: the kubelet reports nothing of what"
            " it prints.",
        )
    error = last_error(evidence, pod)
    rank = end_by_signal(evidence, pod, error) if "noticed that process rank" in error else ""
    if rank:
        return finding(
            Code.KILLED_SIGKILL,
            f"{container.name} of {pod.name} ended with its ranks: {rank}",
            [error, field_quote("exitCode", 137)],
            "Compare limits.memory of the workers with what their ranks use; see the events of that worker.",
        )
    kills = [event.message for event in evidence.events if event.name == pod.name and _KILLERS.search(event.message)]
    return finding(
        Code.KILLED_SIGKILL,
        f"Container {container.name} of {pod.name} was killed by SIGKILL: {pod.message or 'not by the memory limit'}",
        [pod.message, field_quote("exitCode", 137), field_quote("reason", failed.reason), *kills[:3]],
        "Look in the events for an eviction, a preemption or a kubectl delete.",
    )


def _crash(evidence: Evidence, pod: Pod, container: Container, failed: ObservedState | None) -> Finding:
    waiting = container.state
    lines = failed.message.strip().splitlines() if failed is not None else []
    is_started = failed is None or failed.reason not in _NOT_STARTED  # a log is that of an earlier start, if any
    error = (last_error(evidence, pod) if is_started else "") or (lines[-1] if lines else _detail(waiting))
    cause = (
        end_by_signal(evidence, pod, error)
        or error
        or signal_of_exit_code(failed.exit_code if failed is not None else None)
    )
    code = f" with exit code {failed.exit_code}" if failed is not None else ""
    headline = f"{container.name} of {pod.name} fails at once{code}, {counted(container.restarts, 'restart')}"
    if failed is None and waiting.reason not in _NO_START_ERRORS:
        headline = f"{container.name} of {pod.name} cannot be started"
    quotes = [error, waiting.reason]
    if failed is not None and failed.exit_code is not None:
        quotes.append(field_quote("exitCode", failed.exit_code))
    is_first = not is_started and container.restarts < _LOOP_RESTARTS
    return finding(
        Code.NOT_READY if is_first else Code.KILLED_SIGKILL if was_killed(error) else Code.CRASH_LOOP,
        f"{headline}: {on_one_line(cause)}" if cause else headline,
        quotes,
        remedy_of(error) or _next_step(pod, container, failed, is_told=bool(error)),
    )


_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
_LOOP_RESTARTS = 2
"""From so many on, a container that its runtime could not start is in a loop: one such start is often the node's."""
_NO_PROGRAM = frozenset({126, 127})
"""Exit codes of a shell that cannot run, or does not find, a program."""


def _next_step(pod: Pod, container: Container, failed: ObservedState | None, *, is_told: bool) -> str:
    """Return where to look for an error of no known family."""
    if failed is None and container.state.reason not in _NO_START_ERRORS:
        return "Correct what it names in the pod template or the image; the kubelet tries again by itself."
    if failed is not None and failed.reason in _NOT_STARTED:
        return "Correct what it names, in the image, the command or the node: the program never ran, so no log has it."
    if failed is not None and failed.exit_code in _NO_PROGRAM:
        step = "Correct the image or the command"
    else:
        step = "Read its whole error" if is_told else "Its reason is in its log, which was not read"
    return f"{step}: kubectl logs --previous {pod.name} (restart count {container.restarts})."


_TOLD_ELSEWHERE = frozenset({"DeadlineExceeded", "NodeLost"})
_NO_DEVICES = re.compile(
    r"devices unavailable for (?P<resource>[\w./-]+)|no healthy devices present"
    r"|didn't have enough resource: (?P<taken>[\w.-]+/[\w.-]+|hugepages-\w+)|Allocate failed due to (?P<why>.+)",
    re.DOTALL,
)
"""Source: kubelet's `devicemanager` and `lifecycle` (v1.2x–1.34)."""


def _rejection(evidence: Evidence, pod: Pod) -> Iterator[Finding]:
    """Yield a pod that its node ended, or did not start: the reason is in the pod, not in a container."""
    endings = (ending for one in pod.containers for ending in one.endings)
    if (
        pod.phase != "Failed"
        or pod.reason in _TOLD_ELSEWHERE
        or (pod.reason != "Evicted" and any(one.exit_code for one in endings))
    ):
        return
    if disruption := _disruption_of(pod):
        yield _disrupted(pod, None, disruption)
        return
    short = _NO_DEVICES.search(pod.message)
    if short:
        device = short["resource"] or short["taken"] or next(filter(is_accelerator, pod.requests), "device")
        node = next((one for one in evidence.nodes if one.name == pod.node), None)
        offer = _reduced_offer(node, device) if node is not None else ""
        why = f": {on_one_line(short['why']).removesuffix(', which is unexpected')}" if short["why"] else ""
        healthy = "" if short["taken"] else "healthy "
        yield finding(
            Code.GPU_SHORTAGE,
            f"{pod.name} was placed on a node that has no {healthy}{device} free for it{offer}{why}",
            [pod.message, field_quote("reason", pod.reason)],
            "Make the pod again, without a node's name in it: the scheduler finds one with room; ask for no more than a"
            " node has."
            if short["taken"] and not offer
            else "Look for the device that is missing (nvidia-smi or neuron-ls on the node, Xid lines in dmesg);"
            " cordon the node and replace the instance. The pod must be made again."
            if offer
            else "Look at the device plugin and the health of the devices on that node; the pod must be made again.",
        )
        return
    goes_on = any(not is_failed(job) for job in evidence.jobs) and not any(is_failed(job) for job in evidence.jobs)
    verb = "refused" if "rejected" in pod.message or pod.reason.startswith("OutOf") else "ended"
    yield finding(
        Code.JOB_FAILED,
        f"{pod.name} was {verb} by its node: {pod.message or pod.reason}"
        if pod.reason
        else f"{pod.name} has failed" + (f": {pod.message}" if pod.message else ", without a reason in its status"),
        [pod.message, field_quote("reason", pod.reason) if pod.reason else field_quote("phase", pod.phase)],
        "Look at the node and its events; a Job makes a new pod, a pod by itself must be made again.",
        severity=Severity.WARNING if goes_on else None,
    )


def _reduced_offer(node: Node, device: str) -> str:
    """Return how many devices a node lacks of those that its type, or its own capacity, has; empty if none."""
    kind = InstanceTable.load().find(node.instance_type)
    built_in = {GPU: kind.gpus, NEURON: kind.neuron_devices, EFA: kind.efa_interfaces or 0} if kind else {}
    has = max(built_in.get(device, 0), int(number(node.capacity.get(device)) or 0))
    offered = number(node.allocatable.get(device))
    if offered is None or offered >= has:
        return ""
    return f"; {node.name}{f' ({node.instance_type})' if kind else ''} offers {offered:.0f} of its {has}"


def _detail(waiting: ObservedState) -> str:
    """Return a waiting state's message, unless it is only about the back-off."""
    return "" if waiting.message.startswith("back-off") else waiting.message[:QUOTE_LIMIT]


def _failure(evidence: Evidence, pod: Pod, container: Container, failed: ObservedState) -> Finding:
    """Return the finding of a container that has ended for good; it is a warning while its job is known to continue."""
    error = last_error(evidence, pod) or (failed.message or pod.message).strip()[:QUOTE_LIMIT]
    cause = end_by_signal(evidence, pod, error) or error or signal_of_exit_code(failed.exit_code)
    goes_on = any(not is_failed(job) for job in evidence.jobs) and not any(is_failed(job) for job in evidence.jobs)
    headline = f"{container.name} of {pod.name} ended with exit code {failed.exit_code}"
    headline += " while its job continues" if goes_on else ""
    code = Code.CRASH_LOOP if goes_on else Code.JOB_FAILED
    return finding(
        Code.KILLED_SIGKILL if was_killed(error) else code,
        f"{headline}: {on_one_line(cause)}" if cause else headline,
        [error, field_quote("exitCode", failed.exit_code), field_quote("reason", failed.reason)],
        f"Compare limits.memory with what its ranks use; read the end of its log: kubectl logs {pod.name}."
        if was_killed(error)
        else remedy_of(error) or f"Read the end of its log: kubectl logs {pod.name}.",
        severity=Severity.WARNING if goes_on else None,
    )


_LINES_BACK = 20
"""Lines with a loss; further above the step of a loss is none of it."""


def find_diverged_training(evidence: Evidence) -> Iterator[Finding]:
    """Yield the first log whose loss is not a number; those of other ranks are the same."""
    for log in evidence.logs:
        reader, curves = LogReader(), Curves()
        quotes: dict[bool, str] = {}
        told: deque[str] = deque(maxlen=_LINES_BACK)
        for line in log.text.splitlines():
            if "oss" in line and "loss" in line.lower():
                told.appendleft(line)
            for point in reader.feed(line):
                if isinstance(point, Point):
                    curves.add(point)
                    if point.metric.endswith("_loss"):
                        quotes[math.isfinite(point.value)] = _line_of(point, line, told)
        found = divergence_of(curves)
        if found is not None:
            yield _told(found, log, [quotes[kind] for kind in (True, False) if kind in quotes])
            return


def _line_of(point: Point, line: str, told: Iterable[str]) -> str:
    """Return the line that holds a point's number: its step may be on a line below that, as in the bar of a trainer.

    Args:
        point: The point.
        line: The line with which it was complete.
        told: The newest lines with a loss, newest first.
    """
    printed = re.compile(rf"(?<![\w.]){re.escape(point.raw)}(?![\w.])") if point.raw else None
    return next((each for each in (line, *told) if printed and printed.search(each)), line)


def _told(found: Divergence, log: Log, quotes: list[str]) -> Finding:
    whose = f" of {log.pod}" if log.pod else ""
    before = "" if found.last_good is None else f"; the last number was {found.last_good.y:.4g}"
    return finding(Code.LOSS_DIVERGED, f"{found.metric}{whose} is {found.word}{before}", quotes, WAY_OUT)
