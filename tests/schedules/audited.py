"""All that the API server and the account were asked to change, by their own audit log, and by which machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import msgspec

from actions.base.errors import ConsoleError
from actions.run.state.records import JournalRecord, Owned
from actions.run.store.lease_object import NAMESPACE as STORE_NAMESPACE
from actions.run.store.lease_object import lease_name
from actions.sandbox.apiserver.requests.request_info import request_info_of
from actions.sandbox.audit import AUDIT_LOG
from actions.sandbox.clientkit.kinds import NAMESPACES, PODS, kind_named
from tests.schedules.history import Seen
from tests.schedules.host import Host
from tests.schedules.machine import Machine

_AGENT = "eksml-tui"
"""In the user agent of each request of the program, before `PID@HOST`."""
_METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}
_QUESTIONS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})
"""Groups whose objects are questions: to make one changes nothing."""


class Change(msgspec.Struct, frozen=True):
    """A request that changed something, or that may have: it was cut off before its answer."""

    line: int
    """Its place in the log, from 0."""
    pid: int
    """The process of ours that sent it; 0 if none did."""
    text: str
    """Verb and address."""
    key: str
    """`PLURAL NAMESPACE/NAME` of the object; empty for a call of AWS."""
    code: int


def length_of_log(machine: Machine) -> int:
    """Return the number of lines that the audit log has now."""
    return len(_lines(machine))


def changes(machine: Machine) -> Sequence[Change]:
    """Return what the program's processes have changed in cluster and account, in the order of the answers."""
    found = (_change(line, json.loads(text)) for line, text in enumerate(_lines(machine)))
    return [change for change in found if change is not None and change.pid and change.code < 400]


def changes_of(machine: Machine, host: Host) -> Sequence[Change]:
    """Return what the processes of one machine have changed."""
    pids = host.pids()
    return [change for change in changes(machine) if change.pid in pids]


def unknown_senders(machine: Machine) -> Iterator[str]:
    """Yield changes of processes that are on no machine: what is sent by one would else be looked for in vain."""
    pids = frozenset[int]().union(*(host.pids() for host in machine.hosts))
    yield from (f"{change.text} by process {change.pid}" for change in changes(machine) if change.pid not in pids)


def changes_of_foreign(machine: Machine, journals: Sequence[Sequence[JournalRecord]], run: str) -> Iterator[str]:
    """Yield what was changed that no journal has as made by the run: not its objects, their pods or its store."""
    allowed = {f"{NAMESPACES.plural} /{STORE_NAMESPACE}"}
    for records in journals:
        allowed |= set(_owned_keys(records))
    pods = {_key_of(seen) for seen in machine.history.seen() if seen.kind == PODS.kind and seen.run == run}
    for change in changes(machine):
        is_stored = change.key.rpartition("/")[2].startswith(lease_name(run))
        if change.key not in allowed and change.key not in pods and not is_stored:
            yield change.text


def _owned_keys(records: Sequence[JournalRecord]) -> Iterator[str]:
    for record in records:
        match record.body:
            case Owned(existed=False, object_kind=kind, namespace=namespace, name=name):
                yield f"{kind_named(kind).plural} {namespace}/{name}"


def _key_of(seen: Seen) -> str:
    return f"{kind_named(seen.kind).plural} {seen.namespace}/{seen.name}"


def _lines(machine: Machine) -> Sequence[str]:
    path = Path(machine.sandbox.kubeconfig).parent / AUDIT_LOG
    if path.with_suffix(".1.jsonl").exists():
        raise ConsoleError("The audit log of the sandbox has begun anew: what it had is gone.")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def _change(line: int, event: dict[str, object]) -> Change | None:
    """Decode a line; `None` for a question."""
    verb, uri = str(event["verb"]), urlsplit(str(event["requestURI"]))
    info = request_info_of(_METHODS.get(verb, "POST"), uri.path, dict(parse_qsl(uri.query)))
    if info.group in _QUESTIONS:
        return None
    named = msgspec.convert(event.get("objectRef", {}), dict[str, str])  # of a creation the address has no name
    namespace = "" if info.resource == NAMESPACES.plural else info.namespace  # a server counts one as in itself
    key = f"{info.resource} {namespace}/{info.name or named.get('name', '')}" if info.is_api else ""
    status = msgspec.convert(event["responseStatus"], dict[str, int])
    return Change(line, _pid_in(str(event["userAgent"])), f"{verb} {uri.path}", key, status["code"])


def _pid_in(agent: str) -> int:
    """Return the pid of ours in a user agent, which boto3 begins with words of its own."""
    for word in agent.split():
        program, _, rest = word.partition("/")
        pid = rest.partition("@")[0]
        if program.startswith(_AGENT) and pid.isdigit():
            return int(pid)
    return 0
