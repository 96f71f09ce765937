"""The line of a log that explains the end of a program, and what it says about a rank that ended by a signal.

Source: torchrun (`ChildFailedError`, 1.9–2.x), DeepSpeed's launcher, Open MPI 4 and 5, MPICH's Hydra, UCX, bash and
`subprocess` for ends by a signal; PyTorch, JAX and Hydra for the advice that they print below an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from signal import Signals

from actions.cluster.diagnose.codes import QUOTE_LIMIT
from actions.cluster.diagnose.evidence import Evidence, Log, Pod
from actions.cluster.diagnose.log_patterns import STEP, pattern

_EXCEPTION = re.compile(r"\b(?:[\w.]{1,200}\.)?[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Failure)\b(?::|$)")
_COMPLAINT = re.compile(
    r"\b(?:error|fatal|panic|abort|failed|cannot|can't|not found|no such file|denied|unrecognized|invalid|segmentation"
    r"|core dumped|killed)\b",
    re.IGNORECASE,
)
_BY_SIGNAL = re.compile(
    r"Signal \d{1,2} \((?!SIGTERM)(?P<torchrun>SIG\w{1,12})\) received by PID (?P<pid>\d{1,10})"
    r"|noticed that process rank (?P<rank>\d{1,6}) with PID \d{1,10} on node (?P<node>\S{1,120}) exited on"
    r" signal (?P<mpirun>\d{1,2})\b"
    r"|\bexitcode\s{0,4}: -(?P<minus>(?!15\b)\d{1,2})\)?(?: local_rank: (?P<local>\d{1,6}))? \(pid: (?P<old>\d{1,10})\)"
    r"|\bexits? with (?:return|exit) code = -(?P<deepspeed>(?!15\b)\d{1,2})\b"
    r"|\b(?:died with|killed by|KILLED BY|terminated by) (?:<Signals\.|[Ss]ignal:? |SIGNAL: )"
    r"(?P<died>(?!SIGTERM|15\b)(?:SIG[A-Z]{2,10}|\d{1,2}))\b"
    r"|\b[Cc]aught signal (?P<ucx>(?!15\b)\d{1,2}) \("
    r"|\*{3} Signal: [\w ]{1,40} \((?P<handler>(?!15\b)\d{1,2})\)"
    r"|: line \d{1,6}: {1,8}\d{1,10} (?P<shell>Killed|Segmentation fault|Bus error|Aborted|Illegal instruction)\b"
)
"""Launchers, libraries and shells about a process; the others, which torchrun ends itself, get SIGTERM."""
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
_SHELL_WORDS = {
    "Killed": "SIGKILL",
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Aborted": "SIGABRT",
    "Illegal instruction": "SIGILL",
}
_SIGNAL_MEANS = {
    "SIGKILL": "was killed (SIGKILL), as the kernel does when memory runs short",
    "SIGSEGV": "crashed in native code (SIGSEGV)",
    "SIGBUS": "crashed (SIGBUS), as it happens when /dev/shm is full",
    "SIGABRT": "aborted (SIGABRT)",
    "SIGILL": "was ended by SIGILL: the node's processor lacks an instruction that it was built for",
}
_SECOND_HAND = (
    "ChildFailedError",
    "TrainingFailedError",
    "torch.distributed.elastic.multiprocessing.",
    "torch/distributed/elastic/multiprocessing/",
    "NCCL INFO Failed to initialize NET plugin",
    ".py FAILED",
    "mpirun detected that",
    "prterun detected that",
    "Primary job  terminated normally",
    "returned non-zero exit status",
    "Please use a different submission_id",
    ": Traceback (most recent call last):",
)
"""Messages of launchers and drivers about their children, of submitters whose job exists already, of NCCL about a
network that it then does without; and of an exception about another one, which stands below it."""
_ADVICE = re.compile(
    r"^\W{0,3}(?:INFO|DEBUG)\b|^\W{0,3}\S{0,40} (?:INFO|DEBUG)[: ]|\[(?:INFO|DEBUG)\]"
    r"|^\s{0,8}(?:[Hh]int|HINT|[Nn]ote|NOTE): "
    r"|HYDRA_FULL_ERROR|CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|RUST_BACKTRACE|JAX_TRACEBACK_FILTERING"
    r"|might be asynchronously reported|^\W{0,3}(?:[Ff]or|[Tt]o) (?:more|further|get|help|debugging)\b"
    r"|^\W{0,3}[Pp]lease (?:see|file|report|open|refer|check out) "
)
"""Advice and information, whatever words are in it."""
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
_BELOW = re.compile(r"\bLast error:\s*$|^\W{0,8}(?:Caused by|Cause|Reason|Details?|Original \w{1,20})\b:? ?\S?")
"""Begins of a cause that stands below its exception."""
_GENERAL = re.compile(r":\s*$|\bvalidation errors? for \S{1,80}$")
_ABORTED = "SIGABRT"
"""The watchdog of NCCL ends its process by that."""
_TAIL_LINES = 400
_LINES_BELOW = 8
_WORD = re.compile(r"\w")
_RULE = re.compile(r"-{60,400}\s{0,8}\Z")


def last_error(evidence: Evidence, pod: Pod | None = None) -> str:
    """Return the line that explains a program's end; empty if it printed nothing.

    An exception of Python counts more than the signal that ended a rank, that more than other complaints, those more
    than the last line; of several the last one counts, but not one about another program's end, and one about a broken
    connection only where there is no other. Advice does not count.
    """
    logs = evidence.logs if pod is None else evidence.logs_of(pod)
    lines = [line for log in logs for line in _without_advice(log.text.splitlines()[-_TAIL_LINES:]) if line.strip()]
    own = [at for at, line in enumerate(lines) if not any(words in line for words in _SECOND_HAND)]
    errors = [at for at in own if not _ADVICE.search(lines[at])]
    original = [at for at in own if not _ECHO.search(lines[at])]
    everywhere = range(len(lines))
    for candidates, expression in (
        (original, _EXCEPTION),
        (everywhere, _BY_SIGNAL),
        (everywhere, _ASKED_TO_STOP),
        (own, _EXCEPTION),
        *((errors, one) for one in (_NOT_REACHED, _NOT_STARTED, _COMPLAINT, _EXIT_CODE)),
    ):
        if found := [(at, match) for at in candidates if (match := expression.search(lines[at]))]:
            at, match = found[-1]
            start = max(0, match.start() - QUOTE_LIMIT // 2)
            return _continued(lines[at][start : start + QUOTE_LIMIT].strip(), lines[at + 1 : at + 1 + _LINES_BELOW])
    worded = (lines[at] for at in reversed(errors or own) if _WORD.search(lines[at]))
    return next(worded, "").strip()[:QUOTE_LIMIT]


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


def _continued(line: str, following: Sequence[str]) -> str:
    """Return a line, with the cause that stands below it, as NCCL's *Last error* or that of `load_state_dict`."""
    for at, below in enumerate(following):
        if (at == 0 and _GENERAL.search(line)) or _BELOW.search(below):
            cause = following[at : at + 2] if below.rstrip().endswith(":") or line.endswith(below) else [below]
            return "\n".join([line, *(part.strip()[:QUOTE_LIMIT] for part in cause)])
    return line


def on_one_line(text: str) -> str:
    """Return a text of several lines as one."""
    return " ".join(part.strip() for part in text.splitlines())


def is_echo(error: str) -> bool:
    """Return whether it is about the end or silence of another rank."""
    return _ECHO.search(error) is not None


def has_original_error(log: Log) -> bool:
    """Return whether the log has the end of a rank that is not an echo of another one's, below its last step."""
    begin = max((step.end() for step in STEP.finditer(log.text)), default=0)
    rest = log.text[begin:]
    lines = (rest[match.start() :].partition("\n")[0] for match in _UNCAUGHT.finditer(rest))
    return any(not _ECHO.search(line) for line in lines) or any(
        _name_of(match) != _ABORTED for match in _BY_SIGNAL.finditer(rest)
    )


def signal_name(number: int) -> str:
    """Return the name of a signal: `SIGSEGV`."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_of_exit_code(code: int | None) -> str:
    """Return which signal an exit code of a container means, in words; empty for any other code.

    137 and 143 are left out: the container is killed or asked to stop from outside.
    """
    name = signal_name(code - 128) if code is not None and 128 < code < 160 and code not in (137, 143) else ""
    return f"its program {_SIGNAL_MEANS.get(name, f'was ended by {name}')}" if name else ""


def was_killed(error: str) -> bool:
    """Return whether it is about a process that ended by SIGKILL."""
    match = _BY_SIGNAL.search(error)
    return match is not None and _name_of(match) == "SIGKILL"


def _name_of(match: re.Match[str]) -> str:
    word = next(match[name] for name in _SENDERS if match[name])
    return signal_name(int(word)) if word.isdigit() else _SHELL_WORDS.get(word, word)


_SENDERS = ("torchrun", "mpirun", "minus", "deepspeed", "died", "ucx", "handler", "shell")


def end_by_signal(evidence: Evidence, pod: Pod | None, error: str) -> str:
    """Return which rank ended by which signal or silently, or that torchrun was ended; empty for another error."""
    if asked := _ASKED_TO_STOP.search(error):
        return f"torchrun was ended from outside ({signal_name(int(asked['launcher']))})"
    if silent := _EXIT_CODE.search(error):
        rank = _rank_of(evidence, pod, silent["ended"])
        return f"{rank} ended with exit code {silent['status']} and printed no error"
    match = _BY_SIGNAL.search(error)
    if match is None:
        return ""
    name = _name_of(match)
    if match["rank"]:
        who = f"rank {match['rank']} on {match['node']}"
    elif match["local"]:
        who = f"local rank {match['local']}"
    else:
        pid = match["pid"] or match["old"]
        who = _rank_of(evidence, pod, pid) if pid else "a process"
    return f"{who} {_SIGNAL_MEANS.get(name, f'was ended by {name}')}"


def _rank_of(evidence: Evidence, pod: Pod | None, pid: str) -> str:
    rank_of = re.compile(_RANK_OF.format(pid))
    logs = evidence.logs if pod is None else evidence.logs_of(pod)
    rank = next((match[1] for log in logs if (match := rank_of.search(log.text))), None)
    return f"process {pid}" if rank is None else f"rank {rank}"
