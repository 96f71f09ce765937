"""Rules for ranks that cannot communicate: NCCL, EFA and the rendezvous of torchrun and mpirun.

Source: PyTorch `ProcessGroupNCCL.cpp` and elastic rendezvous 2.x, NCCL 2.2x, aws-ofi-nccl, libfabric's efa provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from actions.base.wording import listed
from actions.cluster.diagnose.codes import Code, Finding, Severity, finding
from actions.cluster.diagnose.evidence import Evidence, Log, Pod
from actions.cluster.diagnose.log_patterns import (
    Hit,
    LogPattern,
    all_messages,
    find_hits,
    finding_of_pattern,
    log_texts,
    match_patterns,
    pattern,
    pod_suffix,
    unresolved_log_text,
)
from actions.cluster.diagnose.rules.last_error import end_by_signal, has_original_error, last_error, was_killed
from actions.fleet.accelerators import EFA


def _memory_step(line: str) -> str:
    """Return what to do about memory that EFA does not register, by its error."""
    if "rdma-read" in line:
        return "Set FI_EFA_USE_DEVICE_RDMA=0, as G5 needs it."
    if re.search(
        r"RC: -12\b|\(-12\)|Cannot allocate memory|[Hh]uge ?[Pp]age|(?i:memlock|locked memory|ulimit -l)", line
    ):
        return (
            "Raise the locked-memory limit (IPC_LOCK, memlock) and the hugepages of the pod; where fork() fails set"
            " FI_EFA_USE_HUGE_PAGE=0."
        )
    return (
        "With an efa-installer before 1.29.1 and NCCL 2.19 or later upgrade it, or set"
        " FI_EFA_SET_CUDA_SYNC_MEMOPS=0; else raise the locked-memory limit (IPC_LOCK, memlock) of the pod."
    )


_PATTERNS = (
    LogPattern(
        Code.NCCL_DUPLICATE_GPU,
        pattern(r"Duplicate GPU detected(?: : rank (?P<one>\d+) and rank (?P<two>\d+))?"),
        lambda hit: (
            f"Ranks {hit.match['one']} and {hit.match['two']} use the same GPU"
            if hit.match["one"]
            else "Two ranks use the same GPU"
        ),
        "Give every rank its own GPU: set the device from LOCAL_RANK, and start one process per GPU.",
    ),
    LogPattern(
        Code.NCCL_NO_INTERFACE,
        pattern(
            r"NCCL WARN Bootstrap ?: no socket interface found", r"NCCL WARN[^\n]{0,80}No (?:socket )?interface found"
        ),
        "NCCL found no network interface: NCCL_SOCKET_IFNAME names none that the pod has",
        "Correct or unset NCCL_SOCKET_IFNAME; a pod with a network of its own has eth0. An EFA adapter is not"
        " an interface.",
    ),
    LogPattern(
        Code.EFA_NOT_USED,
        pattern(
            r"NCCL WARN Failed to initialize any NET plugin",
            r"NCCL WARN Error: network [^\n]{1,80} not found",
            r"\n(?:\[rank\d{1,6}\]: )?Last error:\s{1,4}(?:\[rank\d{1,6}\]: )?(?:Failed to initialize any NET plugin"
            r"|Error: network [^\n]{1,80} not found)",
        ),
        lambda hit: f"NCCL{pod_suffix(hit)} does not find the network that NCCL_NET asks for",
        "Have its plugin (aws-ofi-nccl: libnccl-net.so) on LD_LIBRARY_PATH and request vpc.amazonaws.com/efa, or unset"
        " NCCL_NET.",
        Severity.ERROR,
    ),
    LogPattern(
        Code.EFA_MEMORY,
        pattern(
            r"NET/OFI [Uu]nable to register memory",
            r"(?:EFA|efa|OFI|libfabric)[^\n]{0,120}(?:nable|ailed|annot|ould not)(?: to)? reg(?:ister)? "
            r"(?:MR|mr|memory)",
            r"fi_mr_reg\w*(?:\(\))? failed",
            r"(?:ibv_reg_mr|fi_mr_reg)[^\n]{0,200}(?:fail|Cannot allocate memory)",
            r"(?:NET/OFI|[Ll]ibfabric)[^\n]{0,120}\b(?:RC: -12\b|\(-12\)|Cannot allocate memory)",
            r"(?:RLIMIT_MEMLOCK|max locked memory|ulimit -l|memlock)[^\n]{0,120}"
            r"(?:too (?:low|small)|limit|increase|unlimited)",
            r"(?:too (?:low|small)|insufficient|limit)[^\n]{0,80}(?:RLIMIT_MEMLOCK|locked memory|memlock)",
            r"EFA device has no rdma-read capability",
            r"(?:efa|EFA|libfabric)[^\n]{0,120}[Hh]uge ?[Pp]age[^\n]{0,80}"
            r"(?:fail|unable|not enough|exhaust|Cannot allocate)",
        ),
        lambda hit: (
            "This EFA device has no RDMA read, yet FI_EFA_USE_DEVICE_RDMA=1 demands it"
            if "rdma-read" in hit.line
            else f"EFA cannot register the memory{pod_suffix(hit)} that the ranks exchange"
        ),
        lambda hit: _memory_step(hit.line),
    ),
)


_NO_HUGEPAGES = LogPattern(
    Code.EFA_MEMORY,
    pattern(r"\bInsufficient hugepages-\w+"),
    "No node has the hugepages free that the pod asks for; EFA exchanges memory through them",
    "Ask for fewer hugepages, or reserve them on the nodes (vm.nr_hugepages in the user data of the node class).",
)
_FORK_FAILED = LogPattern(
    Code.EFA_MEMORY,
    pattern(r"OSError: (?:\[Errno 12\] )?Cannot allocate memory"),
    lambda hit: f"A process{pod_suffix(hit)} cannot be forked: EFA has locked the memory, or there is none left",
    "Set FI_EFA_USE_HUGE_PAGE=0 where fork() fails under EFA; otherwise raise limits.memory, or start fewer workers.",
)


def find_network_faults(evidence: Evidence) -> Iterator[Finding]:
    """Yield faults of the network that the ranks print."""
    found = list(match_patterns(all_messages(evidence), (*_PATTERNS, _NO_HUGEPAGES)))
    yield from found
    if not found and _may_use_efa(evidence):
        yield from match_patterns(log_texts(evidence), (_FORK_FAILED,))
    yield from _collectives(evidence)
    yield from _rendezvous(evidence)
    yield from _sockets(evidence)


_TIMEOUT = pattern(
    r"[Ww]atchdog caught collective operation timeout",
    r"Caught collective operation timeout",
    r"NCCL watchdog[^\n]{0,80}timed? ?out",
    r"(?:WorkNCCL|NCCL)[^\n]{0,200}ran for \d+ milliseconds before timing out",
    r"watchdog got stuck for \d+ seconds",
    r"due to ProcessGroupNCCL watchdog hang",
    r"Heartbeat monitor timed out",
    r"dump signal due to a collective timeout",
    r"Timeout at NCCL work: \d",
    r"detected by watchdog at work(?: sequence id)?: \d",
    r"gloo/\S{1,80}\] Timed out waiting \d{1,12}ms for \w{1,12} operation",
)
_TIMEOUT_DETAIL = pattern(r"last completed (?:NCCL )?work: -?\d+", r"OpType=\w+")
_BROKEN = (
    r": (?:Connection reset by peer|Broken pipe|Connection was (?:closed|likely closed)|failed to recv, got 0 bytes)"
)
_PEER = pattern(
    r"ncclRemoteError",
    r"Connection closed by remote peer",
    r"remote process exited or there was a network error",
    r"NCCL WARN[^\n]{0,160}(?:Connection reset by peer|Broken pipe|Connection refused"
    r"|Connection timed out|Software caused connection abort|No route to host)",
    r"socket(?:Start|Poll)?Connect\w*: (?:c|C)onnect[^\n]{0,120} failed ?: [^\n]{0,80}",
    r"TCPStore server has shut down too early",
    rf"retrieving ncclUniqueId[^\n]{{0,160}}got error{_BROKEN}",
    r"DistNetworkError: (?:failed to recv, got 0 bytes|Connection reset by peer|Broken pipe)",
    r"Connection closed by peer \[",
    r"gloo/\S{1,80}\] (?:Read|Write) error \[",
    r"RX, connection closed by remote peer",
    r"NCCL WARN NET/IB ?: Got completion (?:from peer|with error)",
    r"NET/OFI[^\n]{0,200}completed with error",
    r"Unresponsive receiver",
    r"JAX distributed service detected fatal errors(?![^\n]{0,400}\s{1,4}RPC: /\S{1,80}/RegisterTask\b)",
)
_SEQUENCE = re.compile(r"SeqNum=(\d{1,15})|[Tt]imeout at NCCL work: (\d{1,15})|\bat work(?: sequence id)?: (\d{1,15})")
_OPERATION = re.compile(r"OpType=(\w{1,40})")
_RANK = re.compile(r"\[(?:PG [^]\n]{0,160})?Rank (\d{1,6})\]|\[rank(\d{1,6})\]:")
_GROUP = re.compile(r"\bPG GUID (\w{1,40})|\bPG(?: ID)? (\d{1,6})\b")
_COMPLETED = re.compile(r"last completed (?:NCCL )?work: (-?\d{1,15})")
_RAN = re.compile(r"ran for (\d{1,15}) milliseconds|Timeout\(ms\)=(\d{1,15})|Timed out waiting (\d{1,15})ms")
_MOST_RANKS = 4


def _collectives(evidence: Evidence) -> Iterator[Finding]:
    """Yield a timeout or a lost peer, whichever came first: the other is its consequence.

    Both are consequences where a rank is known to have ended by an error of its own, or by a signal.
    """
    if ended := [log for log in evidence.logs if has_original_error(log)]:
        yield from _killed(evidence, ended)
        return
    texts = list(log_texts(evidence))
    timeouts, peers = list(find_hits(texts, _TIMEOUT)), list(find_hits(texts, _PEER))
    if timeouts and (not peers or timeouts[0].position <= peers[0].position):
        yield _timeout(timeouts, list(find_hits(texts, _TIMEOUT_DETAIL)))
    elif peers:
        peer = next((found[1] for hit in peers if (found := _PEER_NAME.search(hit.line))), "") or _tasks_of(texts)
        yield finding(
            Code.NCCL_PEER_DIED,
            f"Another rank went away{f' ({peer})' if peer else ''}; this one{pod_suffix(peers[0])} only reports"
            " the broken connection",
            [hit.line for hit in peers[:4]],
            f"Look at the rank of {peer} first: its log, its memory, its node."
            if peer
            else "Find the first error in time over all ranks; this one is an echo of it.",
        )


def _killed(evidence: Evidence, ended: Iterable[Log]) -> Iterator[Finding]:
    """Yield a rank that was killed in a pod that runs again; one that has ended has a finding of its own."""
    for log in ended:
        if any(pod.name == log.pod and pod.is_fine for pod in evidence.pods):
            alone = Evidence(logs=(log,))
            error = last_error(alone)
            if was_killed(error):
                yield finding(
                    Code.KILLED_SIGKILL,
                    f"{end_by_signal(alone, None, error)} in {log.pod}, which runs again; others only report its end",
                    [error],
                    "Compare limits.memory with what its ranks use; see the events of that pod and its node.",
                )


_PEER_NAME = re.compile(r"(?:remote peer|from peer|Connect to|to peer) ([\w.-]{1,253})<\d{1,5}>")
_TASKS = re.compile(
    r"(?:[Tt]imed out task names|tasks are unhealthy \(stopped sending heartbeats\)):\s{1,4}"
    r"((?:/job:\S{1,200}\s{0,4}){1,64})"
)
"""JAX about the tasks that did not come, or went."""


def _tasks_of(texts: Iterable[tuple[str, str]]) -> str:
    """Return the tasks that JAX misses: `task 4, task 17`; empty if it names none."""
    names = [
        name for text, _ in texts for found in _TASKS.finditer(text) for name in re.findall(r"task:(\d+)", found[1])
    ]
    return listed([f"task {name}" for name in dict.fromkeys(names)], _MOST_RANKS)


def _timeout(timeouts: list[Hit], details: list[Hit]) -> Finding:
    lines = [timeouts[0].line, *(hit.line for hit in details if hit.line != timeouts[0].line)]
    together = "\n".join(lines)
    ran = _RAN.search(together)
    waited = f" for {_waited(int(ran[1] or ran[2] or ran[3]) / 1000)}" if ran else ""
    what = "A Gloo" if "gloo/" in timeouts[0].line else "An NCCL"
    completed, sequence = _COMPLETED.search(together), _number_in(together)
    if (completed is not None and int(completed[1]) < 0) or (sequence is not None and sequence <= 1):
        headline = f"NCCL hung on its very first collective{waited}: the ranks cannot reach each other"
        step = "Check the network (security group, EFA, NCCL_SOCKET_IFNAME) and GPU peer access: nothing ever worked."
    elif apart := _apart([*timeouts, *details]):
        told, first, lines = apart
        headline = f"{what} collective did not end{waited}: {told}"
        step = f"Look at {first} first: its log, its stack (py-spy dump), its data loader, the Xid lines of its node."
    else:
        number = f" (number {sequence})" if sequence else ""
        headline = f"{what} collective{number} did not end{waited}: a rank died, hangs or lags behind"
        step = "Find the rank whose log stops first, or whose SeqNum is lowest; look for its error, OOM or Xid."
    detail = next((line for line in lines[1:] if "last completed" in line), "")
    return finding(Code.NCCL_TIMEOUT, headline, [lines[0], detail, *lines[1:3]], step)


def _number_in(line: str) -> int | None:
    found = _SEQUENCE.search(line)
    return int(next(filter(None, found.groups()))) if found else None


class _Wait(msgspec.Struct, frozen=True):
    """The oldest collective for which a rank waits."""

    number: int
    operation: str
    line: str


def _apart(hits: list[Hit]) -> tuple[str, str, list[str]] | None:
    """Return which ranks are behind the others and by how much, or do something else; the ranks, and their lines.

    Collectives are numbered in each group of ranks by itself; the group with the most ranks is looked at.
    """
    groups: dict[str, dict[str, _Wait]] = {}
    for hit in hits:
        number, operation, group = _number_in(hit.line), _OPERATION.search(hit.line), _GROUP.search(hit.line)
        named = _RANK.search(hit.line)
        rank = f"rank {named[1] or named[2]}" if named else hit.pod
        if number is None or not rank:
            continue
        waits = groups.setdefault((group[1] or group[2]) if group else "", {})
        if rank not in waits or number < waits[rank].number:
            waits[rank] = _Wait(number, operation[1] if operation else "", hit.line)
    named_groups = [waits for group, waits in groups.items() if group]
    waits = max(named_groups or groups.values(), key=len, default={})
    if len(waits) < 2:
        return None
    least, most = (extreme(wait.number for wait in waits.values()) for extreme in (min, max))
    operations = [wait.operation for wait in waits.values() if wait.operation]
    usual = max(operations, key=operations.count, default="")
    if least < most:
        late = [rank for rank, wait in waits.items() if wait.number == least]
        others = (
            "the others wait"
            if len(waits) - len(late) > 1
            else f"{next(one for one in waits if one not in late)} waits"
        )
        told = f"at number {least}, {most - least} behind: {others} at {most}"
    elif odd := [rank for rank, wait in waits.items() if wait.operation and wait.operation != usual]:
        late = odd
        told = f"in {waits[late[0]].operation} as number {least}, the others in {usual}: they do different things"
    else:
        return None
    who = listed(late, _MOST_RANKS)
    ahead = next(rank for rank in waits if rank not in late)
    lines = [waits[late[0]].line, waits[ahead].line]
    return f"{who} {'is' if len(late) == 1 else 'are'} {told}", who, lines


def _waited(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 2 * 60 else f"{seconds:.0f} seconds"


_RENDEZVOUS = pattern(
    r"Rendezvous(?:Timeout|Connection|Closed)?Error",
    r"client socket has (?:timed out|failed to connect)",
    r"connection to the C10d store has failed",
    r"DistStoreError",
    rf"retrieving ncclUniqueId[^\n]{{0,160}}got error(?!{_BROKEN})",
    r"Timed out after \d+ seconds waiting for clients",
    r"\b\d{1,7}/\d{1,7} clients joined",
    r"of tasks (?:that reached|at) the barrier: \d{1,7}/\d{1,7}",
    r"rendezvous[^\n]{0,80}(?:timed out|timeout)",
    r"Timed out waiting for (?:all )?(?:nodes|workers) to (?:join|register)",
    r"Barrier timed out\. Id: (?:\[Init\]|PjRT_Client_Connect)",
    r"RPC: /\S{1,80}/RegisterTask\b",
    r"store based barrier[^\n]{0,160}worker_count=\d+",
)
_JOINED = re.compile(
    r"\b(?P<came>\d{1,7})/(?P<all>\d{1,7}) clients joined"
    r"|world_size=(?P<world>\d{1,7}), worker_count=(?P<workers>\d{1,7})"
    r"|tasks (?:that reached|at) the barrier: (?P<reached>\d{1,7})/(?P<tasks>\d{1,7})"
)
_ADDRESS = re.compile(
    r"(?:trying to connect to|connect to any network address of) \((?P<host>[^,\s)]{1,253}), (?P<port>\d{1,5})\)"
)
_NO_ADDRESS = re.compile(r"network addresses of \((?P<host>[^,\s)]{1,253}), \d{1,5}\) cannot be retrieved")
"""Of `socket.cpp`, which asks again and again, at most 90 s apart."""
_OTHER_ERROR = re.compile(r"\b(?!SignalException)\w{0,80}(?:Error|Exception)\b")
_ASKED_OFTEN = 3
"""A worker that starts before its master has that name twice without an address."""
_ASKS_WITHIN_SECONDS = 180.0
_STRAGGLERS = 4


_NO_RAY_HEAD = LogPattern(
    Code.RENDEZVOUS,
    pattern(
        r"Failed to connect to GCS[^\n]{0,160}",
        r"Unable to connect to GCS[^\n]{0,160}",
        r"ConnectionError: Could not (?:find any running Ray instance|connect to Ray)[^\n]{0,120}",
    ),
    lambda hit: f"The head of the Ray cluster does not answer{f' {hit.pod}' if hit.pod else ''}",
    "See why the head's pod does not run, or whether it has restarted: it ends with its memory, or its node.",
)


_NO_SLOTS = LogPattern(
    Code.RENDEZVOUS,
    pattern(r"not enough slots available in the system"),
    lambda hit: f"mpirun{pod_suffix(hit)} is to start more processes than its hosts have slots",
    "Make -np what slotsPerWorker times the number of workers is; the hostfile lists the slots of each.",
)


_NO_NEURON_PEER = LogPattern(
    Code.RENDEZVOUS,
    pattern(r"CCOM WARN Timeout waiting for (?:RX|incoming connection)[^\n]{0,120}"),
    lambda hit: f"Other workers of Neuron's collectives do not answer{f' {hit.pod}' if hit.pod else ''}",
    "Look for the worker that has ended or never started; let the nodes' security group take all traffic from and to"
    " itself, have EFA in the pods, and raise the limit of open files (ulimit -n) where a node runs many ranks.",
)
"""Source: aws-neuron-sdk issues 713 (open files) and 851 (EFA missing)."""


def _rendezvous(evidence: Evidence) -> Iterator[Finding]:
    yield from match_patterns(unresolved_log_text(evidence), (_NO_SLOTS, _NO_RAY_HEAD, _NO_NEURON_PEER))
    found = list(find_hits(unresolved_log_text(evidence), _RENDEZVOUS))
    if not found:
        yield from _nameless(evidence)
        return
    missing = [pod.name for pod in evidence.pods if not _has_started(pod)]
    running = len(evidence.pods) - len(missing)
    joined = next((match for hit in found if (match := _JOINED.search(hit.line))), None)
    if joined:
        came, world = (value for value in joined.groups() if value)
        count = f"{world} of {came} processes" if joined["world"] else f"{came} of {world} processes"
    elif missing:
        count = f"{running} of {len(evidence.pods)} workers"
    elif unanswered := _unanswered(found, unresolved_log_text(evidence)):
        yield unanswered
        return
    else:
        count = "Only some of the workers"
    tasks = _tasks_of(unresolved_log_text(evidence))
    absent = (
        f" (not running: {', '.join(missing[:_STRAGGLERS])})" if missing else f" (missing: {tasks})" if tasks else ""
    )
    yield finding(
        Code.RENDEZVOUS,
        f"{count} arrived at the rendezvous{absent}; the launcher stopped waiting",
        [hit.line for hit in found[:3]],
        f"Ask why {missing[0]} does not run."
        if missing
        else "Are all worker pods Running, and can they reach the rendezvous endpoint by name and port?",
    )


def _unanswered(found: list[Hit], texts: Iterable[tuple[str, str]]) -> Finding | None:
    """Return the finding of a worker that reached no rendezvous at all; `None` unless its log says so."""
    address = next((match for hit in found if (match := _ADDRESS.search(hit.line))), None)
    quotes = [hit.line for hit in found[:3]]
    if address is None and not any("RegisterTask" in hit.line for hit in found):
        return None
    step = "Look at the pod that listens there: it does not run, has ended, or a network policy keeps it apart."
    if address is None:
        return finding(Code.RENDEZVOUS, "The coordinator of the JAX processes does not answer", quotes, step)
    host = address["host"]
    unknown = [hit for hit in find_hits(texts, _NO_ADDRESS) if hit.match["host"] == host]
    if unknown:
        return _no_address(host, [unknown[0].line, *quotes])
    return finding(Code.RENDEZVOUS, f"The rendezvous at {host}:{address['port']} does not answer", quotes, step)


def _nameless(evidence: Evidence) -> Iterator[Finding]:
    """Yield the name without an address for which a worker goes on asking, or asked until it was ended.

    It is over where the log has gone on, or is silent for longer than one waits between two questions.
    """
    asks = evidence.last_log_age_s is None or evidence.last_log_age_s <= _ASKS_WITHIN_SECONDS
    for text, pod in unresolved_log_text(evidence):
        found = list(find_hits([(text, pod)], _NO_ADDRESS))
        if not found:
            continue
        rest = text[found[-1].match.end() :].partition("\n")[2]
        goes_on = any(line.strip() and "[c10d]" not in line for line in rest.splitlines())
        if any(one.phase == "Running" for one in evidence.pods if pod in ("", one.name)):
            if asks and len(found) >= _ASKED_OFTEN and not goes_on:
                yield _no_address(found[-1].match["host"], [found[-1].line], Severity.WARNING)
                return
        elif not _OTHER_ERROR.search(rest):
            yield _no_address(found[-1].match["host"], [found[-1].line])
            return


def _no_address(host: str, quotes: Iterable[str], severity: Severity | None = None) -> Finding:
    return finding(
        Code.RENDEZVOUS,
        f"The name of the rendezvous, {host}, has no address",
        quotes,
        "Look for its Service (headless, with that name and namespace) and for the pod that it selects.",
        severity=severity,
    )


def _has_started(pod: Pod) -> bool:
    """Return whether its program runs or has run."""
    return pod.phase in ("Running", "Succeeded") or any(one.endings for one in pod.containers if not one.is_init)


_USES_EFA = pattern(
    r"Selected [Pp]rovider is efa", r"Using network (?:AWS )?[Ll]ibfabric", r"NET/OFI[^\n]{0,200}completed with error"
)
_OFI_FAILED = pattern(
    r"NET/OFI[^\n]{0,160}(?:[Ff]ailed|[Cc]ould(?:n't| not)|[Nn]o eligible|not found|[Ii]nitialization failed)",
    r"NET/OFI Selected [Pp]rovider is (?:tcp|sockets|shm)\b",
    r"NET/Plugin ?:[^\n]{0,160}(?:[Nn]o plugin found|[Cc]ould not find|cannot open|[Nn]ot found)",
    r"libnccl-net\.so[^\n]{0,80}cannot open shared object",
    r"fi_getinfo[^\n]{0,60}No data available",
    r"OFI plugin initNet\(\) failed",
    r"Ofi plugin is not installed or EFA is not enabled",
    r"requires setting FI_EFA_FORK_SAFE=1[^\n]{0,120}",
)
_OF_NEURON = re.compile(r"CCOM WARN|Unable to run multi-instance workload|Multi-node support will be disabled")
"""In what Neuron's collectives print: they know no network between nodes but EFA."""
_SOCKETS = pattern(r"Using network Socket", r"NET/Socket : Using ", r"\bvia NET/Socket/\d")
_ON_NODES = pattern(r"\bnNodes (?P<count>\d{1,6})\b")
"""The number of machines of a communicator, in its line about ranks."""
_EFA_MEANT = pattern(r"FI_PROVIDER[= ]+\"?efa", r"FI_EFA_\w+", r"NET/OFI", r"aws-ofi-nccl")


def _may_use_efa(evidence: Evidence) -> bool:
    """Return whether a pod requests EFA or a log names it, or the requests of the pods are not known."""
    if any(pod.requests.get(EFA) for pod in evidence.pods) or not any(pod.requests for pod in evidence.pods):
        return True
    return next(find_hits(log_texts(evidence), _EFA_MEANT), None) is not None


def _sockets(evidence: Evidence) -> Iterator[Finding]:
    """Yield the use of TCP instead of EFA: a pod requests EFA, the log names it, or the pods are not known.

    Ranks of one machine exchange nothing over a network, whatever NCCL has set up for it.
    """
    texts = list(log_texts(evidence))
    if next(find_hits(texts, _USES_EFA), None) is not None:
        return
    sockets, failed = list(find_hits(texts, _SOCKETS)), list(find_hits(texts, _OFI_FAILED))
    was_asked = any(pod.requests.get(EFA) for pod in evidence.pods)
    nodes = [hit.match["count"] for hit in find_hits(texts, _ON_NODES)]
    if nodes and set(nodes) == {"1"} and not was_asked:
        return
    if not (sockets or failed) or not _may_use_efa(evidence):
        return
    is_needed = not sockets and any(_OF_NEURON.search(hit.line) for hit in failed)
    log_pattern = LogPattern(
        Code.EFA_NOT_USED,
        _SOCKETS,
        lambda hit: (
            f"EFA cannot be used{f' in {hit.pod}' if hit.pod else ''}: Neuron has no other network between nodes"
            if is_needed
            else f"NCCL{pod_suffix(hit)} runs over TCP sockets, not over EFA: expect a tenth of the bandwidth"
            if sockets
            else f"EFA cannot be used{f' in {hit.pod}' if hit.pod else ''}: NCCL would fall back to TCP sockets"
        ),
        "Request vpc.amazonaws.com/efa in the pod, have aws-ofi-nccl on LD_LIBRARY_PATH, and set FI_PROVIDER=efa.",
        Severity.ERROR if is_needed else None,
    )
    yield finding_of_pattern(log_pattern, [*sockets[:2], *failed[:2]])
