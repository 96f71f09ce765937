"""Rules for programs that end with an error of their own, and for training whose loss is not a number."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator

from actions.cluster.diagnose.codes import QUOTE_LIMIT, Code, Finding, Severity, field_quote, finding
from actions.cluster.diagnose.evidence import Condition, Container, Evidence, Log, ObservedState, Pod, is_failed
from actions.cluster.diagnose.patterns import (
    STEP,
    Hit,
    LogPattern,
    all_messages,
    match_patterns,
    pattern,
    pod_suffix,
    unresolved_log_text,
)
from actions.cluster.diagnose.rules.remedies import remedy_of
from actions.telemetry.curves import Curves, Divergence, divergence_of
from actions.telemetry.log_reader import LogReader
from actions.telemetry.points import Point

_MODEL = re.compile(
    r"huggingface\.co/(?:api/(?:models|datasets)/|datasets/)?(?!api/)([\w.-]+/[\w.-]+)"
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
    for pod in sorted(evidence.pods, key=lambda one: bool(_ECHO.search(last_error(evidence, one)))):
        for container in pod.containers:
            yield from _ending(evidence, pod, container)
        yield from _rejection(evidence, pod)


_PULLING = ("ErrImagePull", "ImagePullBackOff")
_NO_START_ERRORS = frozenset(
    {
        "",
        "ContainerCreating",
        "PodInitializing",
        "CrashLoopBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
    }
)
"""Reasons to wait that are none, or that other rules read; any other keeps a container from its start."""


def _ending(evidence: Evidence, pod: Pod, container: Container) -> Iterator[Finding]:
    """Yield one finding for a container that failed, the most specific."""
    waiting = container.state if container.state.kind == "waiting" else ObservedState()
    if waiting.reason in _PULLING or pod.is_fine or pod.reason == "Evicted":
        return
    failed = next((ending for ending in container.endings if ending.exit_code not in (0, None)), None)
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


_KILLERS = re.compile(
    r"[Ll]iveness probe|[Pp]reempt|[Ss]topping container|[Ee]vict|failed liveness|Killing|Deleting|drain"
)


def _sigkill(evidence: Evidence, pod: Pod, container: Container, failed: ObservedState) -> Finding:
    error = last_error(evidence, pod)
    rank = _ended_by_signal(evidence, pod, error) if "noticed that process rank" in error else ""
    if rank:
        return finding(
            Code.KILLED_SIGKILL,
            f"{container.name} of {pod.name} ended with its ranks: {rank}",
            [error, field_quote("exitCode", 137)],
            "Compare limits.memory of the workers with what their ranks use; see the events of that worker.",
        )
    kills = [event.message for event in evidence.events if event.name == pod.name and _KILLERS.search(event.message)]
    by = "its liveness probe failed" if any("iveness" in message for message in kills) else "not by the memory limit"
    return finding(
        Code.KILLED_SIGKILL,
        f"Container {container.name} of {pod.name} was killed by SIGKILL: {pod.message or by}",
        [pod.message, field_quote("exitCode", 137), field_quote("reason", failed.reason), *kills[:3]],
        "Look in the events for an eviction, a preemption, a liveness probe or a kubectl delete.",
    )


_CHILD_KILLED = re.compile(r"exited on signal 9\b|Signal 9 \(SIGKILL\) received|return code = -9\b")
"""Messages of launchers about a rank that was killed."""


def _crash(evidence: Evidence, pod: Pod, container: Container, failed: ObservedState | None) -> Finding:
    waiting = container.state
    lines = failed.message.strip().splitlines() if failed is not None else []
    error = last_error(evidence, pod) or (lines[-1] if lines else _detail(waiting))
    cause = _ended_by_signal(evidence, pod, error) or error
    code = f" with exit code {failed.exit_code}" if failed is not None else ""
    headline = f"{container.name} of {pod.name} fails at once{code}, {container.restarts} restarts"
    if failed is None and waiting.reason not in _NO_START_ERRORS:
        headline = f"{container.name} of {pod.name} cannot be started"
    quotes = [error, waiting.reason]
    if failed is not None and failed.exit_code is not None:
        quotes.append(field_quote("exitCode", failed.exit_code))
    return finding(
        Code.KILLED_SIGKILL if _CHILD_KILLED.search(error) else Code.CRASH_LOOP,
        f"{headline}: {_on_one_line(cause)}" if cause else headline,
        quotes,
        remedy_of(error)
        or (
            f"Correct the image or the command; kubectl logs --previous {pod.name} shows all of it"
            if error
            else f"Its reason is in its log, which was not read: kubectl logs --previous {pod.name}"
        )
        + f" (restart count {container.restarts}).",
    )


_TOLD_ELSEWHERE = frozenset({"DeadlineExceeded", "NodeLost"})
_NO_DEVICES = re.compile(
    r"devices unavailable for (?P<resource>[\w./-]+)|no healthy devices present"
    r"|didn't have enough resource: (?P<taken>(?:nvidia\.com|aws\.amazon\.com)/[\w-]+)"
)


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
        device = short["resource"] or short["taken"] or "device"
        yield finding(
            Code.GPU_SHORTAGE,
            f"{pod.name} was placed on a node that has no healthy {device} free for it",
            [pod.message, field_quote("reason", pod.reason)],
            "Look at the device plugin and the health of the devices on that node; the pod must be made again.",
        )
        return
    goes_on = any(not is_failed(job) for job in evidence.jobs) and not any(is_failed(job) for job in evidence.jobs)
    yield finding(
        Code.JOB_FAILED,
        f"{pod.name} was ended by its node: {pod.message or pod.reason}"
        if pod.reason
        else f"{pod.name} has failed" + (f": {pod.message}" if pod.message else ", without a reason in its status"),
        [pod.message, field_quote("reason", pod.reason) if pod.reason else field_quote("phase", pod.phase)],
        "Look at the node and its events; a Job makes a new pod, a pod by itself must be made again.",
        severity=Severity.WARNING if goes_on else None,
    )


def _detail(waiting: ObservedState) -> str:
    """Return a waiting state's message, unless it is only about the back-off."""
    return "" if waiting.message.startswith("back-off") else waiting.message[:QUOTE_LIMIT]


def _failure(evidence: Evidence, pod: Pod, container: Container, failed: ObservedState) -> Finding:
    """Return the finding of a container that has ended for good; it is a warning while its job is known to continue."""
    error = last_error(evidence, pod) or (failed.message or pod.message).strip()[:QUOTE_LIMIT]
    cause = _ended_by_signal(evidence, pod, error) or error
    goes_on = any(not is_failed(job) for job in evidence.jobs) and not any(is_failed(job) for job in evidence.jobs)
    headline = f"{container.name} of {pod.name} ended with exit code {failed.exit_code}"
    headline += " while its job continues" if goes_on else ""
    code = Code.CRASH_LOOP if goes_on else Code.JOB_FAILED
    return finding(
        Code.KILLED_SIGKILL if _CHILD_KILLED.search(error) else code,
        f"{headline}: {_on_one_line(cause)}" if cause else headline,
        [error, field_quote("exitCode", failed.exit_code), field_quote("reason", failed.reason)],
        f"Compare limits.memory with what its ranks use; read the end of its log: kubectl logs {pod.name}."
        if _CHILD_KILLED.search(error)
        else remedy_of(error) or f"Read the end of its log: kubectl logs {pod.name}.",
        severity=Severity.WARNING if goes_on else None,
    )


_EXCEPTION = re.compile(r"\b(?:[\w.]{1,200}\.)?[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Failure)\b(?::|$)")
_COMPLAINT = re.compile(
    r"\b(?:error|fatal|panic|abort|failed|cannot|can't|not found|no such file|denied|unrecognized|invalid|segmentation"
    r"|core dumped|killed)\b",
    re.IGNORECASE,
)
_SIGNALLED = re.compile(
    r"Signal \d{1,2} \((?!SIGTERM)(?P<name>SIG\w{1,12})\) received by PID (?P<pid>\d{1,10})"
    r"|noticed that process rank (?P<rank>\d{1,6}) with PID \d{1,10} on node (?P<node>\S{1,120}) exited on"
    r" signal (?P<number>\d{1,2})\b"
)
"""torchrun and mpirun about a rank; the others, which torchrun ends itself, get SIGTERM."""
_NUMBERS = {
    "4": "SIGILL",
    "6": "SIGABRT",
    "7": "SIGBUS",
    "8": "SIGFPE",
    "9": "SIGKILL",
    "11": "SIGSEGV",
    "15": "SIGTERM",
}
_ASKED_TO_STOP = re.compile(r"SignalException: Process \d{1,10} got signal: (?P<launcher>\d{1,2})\b")
"""torchrun about itself."""
_EXIT_CODE = re.compile(r"^\s{0,8}exitcode\s{1,4}: (?P<status>[1-9]\d{0,2}) \(pid: (?P<ended>\d{1,10})\)")
"""torchrun about a rank that printed nothing; of those that it names, the last one is the first that ended."""
_NOT_REACHED = re.compile(
    r"\bssh: (?:Could not resolve hostname|connect to host)|Host key verification failed|Permission denied \(publickey"
)
_NOT_STARTED = re.compile(r"\b(?:mpirun|orterun|prterun|mpiexec|ORTE|PRTE)\b[^\n]{0,20} (?:was unable to|could not) \w")
"""mpirun about itself."""
_RANK_OF = r"rank\s{{1,8}}: (\d{{1,6}}) \(local_rank: \d{{1,6}}\)\s{{1,8}}exitcode\s{{1,4}}: -?\d{{1,3}} \(pid: {}\)"
_SIGNAL_MEANS = {
    "SIGKILL": "was killed (SIGKILL), as the kernel does when memory runs short",
    "SIGSEGV": "crashed in native code (SIGSEGV)",
    "SIGBUS": "crashed (SIGBUS), as it happens when /dev/shm is full",
    "SIGABRT": "aborted (SIGABRT)",
}
_SECOND_HAND = (
    "ChildFailedError",
    "TrainingFailedError",
    "torch.distributed.elastic.multiprocessing.api",
    "torch/distributed/elastic/multiprocessing/api.py",
    "NCCL INFO Failed to initialize NET plugin",
    ".py FAILED",
    "mpirun detected that",
    "prterun detected that",
    "Primary job  terminated normally",
    "returned non-zero exit status",
    "Please use a different submission_id",
)
"""Messages of launchers and drivers about their children, of submitters whose job exists already, and of NCCL about a
network that it then does without."""
_ECHO = pattern(
    r"Connection (?:closed|reset) by (?:remote )?peer",
    r"\bDist(?:Backend|Network|Store)Error\b",
    r"NCCL [Ee]rror\b",
    r"NCCL communicator was aborted",
    r"[Cc]ollective operation timeout",
    r"gloo/transport/",
    r"Broken pipe",
    r"\bTCPStore\b",
)
"""Exceptions of a rank about the end or silence of another one."""
_UNCAUGHT = re.compile(r"\[rank\d{1,6}\]: (?:[\w.]{1,200}\.)?[A-Z]\w{0,80}(?:Error|Exception)\b")
"""An exception that ended a rank, as PyTorch prints it."""
_ABORTED = "SIGABRT"
"""The watchdog of NCCL ends its process by that."""
_TAIL_LINES = 400


def last_error(evidence: Evidence, pod: Pod | None = None) -> str:
    """Return the line that explains a program's end; empty if it printed nothing.

    An exception of Python counts more than the signal that ended a rank, that more than other complaints, those more
    than the last line; of several the last one counts, but not one about another program's end, and one about a broken
    connection only where there is no other.
    """
    logs = list(evidence.logs_of(pod)) if pod is not None else list(evidence.logs)
    lines = [line for log in logs for line in _without_advice(log.text.splitlines()[-_TAIL_LINES:]) if line.strip()]
    own = [at for at, line in enumerate(lines) if not any(words in line for words in _SECOND_HAND)]
    original = [at for at in own if not _ECHO.search(lines[at])]
    for candidates, expression in (
        *((original, one) for one in (_EXCEPTION, _SIGNALLED)),
        (range(len(lines)), _ASKED_TO_STOP),
        *((own, one) for one in (_EXCEPTION, _NOT_REACHED, _NOT_STARTED, _COMPLAINT, _EXIT_CODE)),
    ):
        if found := [(at, match) for at in candidates if (match := expression.search(lines[at]))]:
            at, match = found[-1]
            start = max(0, match.start() - QUOTE_LIMIT // 2)
            return _continued(lines[at][start : start + QUOTE_LIMIT].strip(), lines[at + 1 : at + 2])
    worded = (line for line in reversed(lines) if _WORD.search(line))
    return next(worded, "").strip()[:QUOTE_LIMIT]


_WORD = re.compile(r"\w")
_RULE = re.compile(r"-{60,400}\s{0,8}\Z")


def _without_advice(lines: list[str]) -> Iterator[str]:
    """Yield the lines; of a message that Open MPI puts between two rules only its first paragraph."""
    is_inside = is_advice = False
    for line in lines:
        if _RULE.match(line):
            is_inside, is_advice = not is_inside, False
            continue
        is_advice = is_advice or (is_inside and not line.strip())
        if not (is_inside and is_advice):
            yield line
        is_advice = is_advice or any(words in line for words in _SECOND_HAND)


def _on_one_line(text: str) -> str:
    return " ".join(part.strip() for part in text.splitlines())


def _continued(line: str, following: list[str]) -> str:
    """Return a line, with the one below it if it ends in a colon, as the errors of `load_state_dict` do."""
    below = following[0].strip() if following and line.endswith(":") else ""
    return f"{line}\n{below[:QUOTE_LIMIT]}" if below else line


def has_original_error(log: Log) -> bool:
    """Return whether the log has the end of a rank that is not an echo of another one's, below its last step."""
    begin = max((step.end() for step in STEP.finditer(log.text)), default=0)
    rest = log.text[begin:]
    lines = (rest[match.start() :].partition("\n")[0] for match in _UNCAUGHT.finditer(rest))
    return any(not _ECHO.search(line) for line in lines) or any(
        match["name"] != _ABORTED for match in _SIGNALLED.finditer(rest)
    )


def _ended_by_signal(evidence: Evidence, pod: Pod, error: str) -> str:
    """Return which rank ended by which signal or silently, or that torchrun was ended; empty for another error."""
    if asked := _ASKED_TO_STOP.search(error):
        return f"torchrun was ended from outside ({_NUMBERS.get(asked['launcher'], 'signal ' + asked['launcher'])})"
    if silent := _EXIT_CODE.search(error):
        rank = _rank_of(evidence, pod, silent["ended"])
        return f"{rank} ended with exit code {silent['status']} and printed no error"
    signal = _SIGNALLED.search(error)
    if signal is None:
        return ""
    if signal["rank"]:
        number = signal["number"]
        who, name = f"rank {signal['rank']} on {signal['node']}", _NUMBERS.get(number, f"signal {number}")
    else:
        who, name = _rank_of(evidence, pod, signal["pid"]), signal["name"]
    return f"{who} {_SIGNAL_MEANS.get(name, f'was ended by {name}')}"


def _rank_of(evidence: Evidence, pod: Pod, pid: str) -> str:
    rank_of = re.compile(_RANK_OF.format(pid))
    rank = next((match[1] for log in evidence.logs_of(pod) if (match := rank_of.search(log.text))), None)
    return f"process {pid}" if rank is None else f"rank {rank}"


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
    number = re.compile(rf"(?<![\w.]){re.escape(point.raw)}(?![\w.])") if point.raw else None
    return next((each for each in (line, *told) if number and number.search(each)), line)


def _told(found: Divergence, log: Log, quotes: list[str]) -> Finding:
    whose = f" of {log.pod}" if log.pod else ""
    before = "" if found.last_good is None else f"; the last number was {found.last_good.y:.4g}"
    return finding(Code.LOSS_DIVERGED, f"{found.metric}{whose} is {found.word}{before}", quotes, WAY_OUT)
