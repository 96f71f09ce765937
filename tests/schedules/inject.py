"""Injecting a fault, and ending it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError
from actions.base.process import ProcessIdentity
from actions.blueprint.render import RUN_LABEL
from actions.run.client import send_request
from actions.run.journal.folder import terraform_path
from actions.run.state.records import RequestKind
from actions.sandbox.clientkit.kinds import CONFIG_MAPS, NODES, SECRETS, Document, Kind
from actions.terraform.detached import DetachedOperation
from tests.schedules.blueprint import NAMESPACE
from tests.schedules.host import Console, Host
from tests.schedules.machine import Machine
from tests.schedules.partition import Relay
from tests.schedules.schedule import Fault, FaultKind
from tests.support.leftover import send
from tests.support.stores import DENIED, EXPIRED, SLOW_DOWN, Proxy

FOREIGN_DATA = {"of": "c29tZWJvZHk="}
TERRAFORM_OPERATIONS = ("apply", "destroy")

_SANDBOX: Mapping[FaultKind, Mapping[str, Any]] = {
    FaultKind.BROKEN: {"kind": "broken"},
    FaultKind.UNAUTHORIZED: {"kind": "unauthorized"},
    FaultKind.FORBIDDEN: {"kind": "forbidden"},
    FaultKind.THROTTLED: {"kind": "throttled"},
    FaultKind.EXPIRED: {"kind": "expired", "verbs": ["watch"]},
    FaultKind.CUT: {"kind": "cut", "verbs": ["watch", "log"], "after_bytes": 300},
    FaultKind.SHORT_LOG: {"kind": "short-log", "verbs": ["log"], "after_bytes": 500, "count": 4},
}
_VERBS: Mapping[FaultKind, tuple[str, ...]] = {
    FaultKind.CANCEL: ("cancel",),
    FaultKind.RETRY: ("resume",),
    FaultKind.PARK: ("park",),
    FaultKind.APPROVE: ("approve",),
    FaultKind.RESUME: ("resume",),
}


def _lose_answers(proxy: Proxy) -> None:
    proxy.loses_answers = True
    # Not of Terraform: it asks again for a lock whose answer was lost, finds its own, and waits for a person.
    proxy.applies = lambda method, path: method == "PUT" and "/terraform/" not in path


_OF_OTHERS: Mapping[FaultKind, tuple[str, ...]] = {
    FaultKind.OTHER_APPROVE: ("approve",),
    FaultKind.OTHER_TEARDOWN: ("teardown", "--confirm", "bionemo-on-eks"),
}
_HOME: Mapping[FaultKind, Callable[[Proxy], None]] = {
    FaultKind.STORE_AWAY: lambda proxy: setattr(proxy, "is_away", True),
    FaultKind.HOME_BROKEN: lambda proxy: setattr(proxy, "fault", SLOW_DOWN),
    FaultKind.STORE_REFUSED: lambda proxy: setattr(proxy, "fault", DENIED),
    FaultKind.HOME_EXPIRED: lambda proxy: setattr(proxy, "fault", EXPIRED),
    FaultKind.HOME_SLOW: lambda proxy: setattr(proxy, "delay_seconds", 1.5),
    FaultKind.HOME_LOST: _lose_answers,
}
_SIGNALS = {
    FaultKind.KILL_RUNNER: signal.SIGKILL,
    FaultKind.TERMINATE: signal.SIGTERM,
    FaultKind.HANG_UP: signal.SIGHUP,
}


class Elsewhere(msgspec.Struct, frozen=True):
    """A request from the machine that does not carry the run out."""

    user: str
    verb: str
    code: int
    has_folder: bool
    """It had the run before."""


class Foreign:
    """An object of somebody else."""

    def __init__(self, kind: Kind, name: str, uid: str) -> None:
        self.kind = kind
        self.name = name
        self.uid = uid
        self.is_withdrawn = False
        """Its owner has removed it."""


class Injector:
    """Injects the faults of one life.

    Args:
        machine: What they hit.
        folder: The run's.
    """

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine = machine
        self.host = machine.hosts[0]
        """The machine that carries the run out."""
        self.folder = folder
        """The run's there."""
        self.runner: ProcessIdentity | None = None
        """The process that carries the run out, as far as is known."""
        self._stopped: list[ProcessIdentity] = []
        self._consoles: list[Console] = []
        self._cut_off_hosts: list[Host] = []
        self.foreign: list[Foreign] = []
        self.elsewhere: list[Elsewhere] = []

    @property
    def other(self) -> Host:
        """The machine that does not carry the run out."""
        return next(host for host in self._machine.hosts if host is not self.host)

    @property
    def is_cut_off(self) -> bool:
        """The machine that carries the run out reaches neither cluster nor home."""
        return self.host in self._cut_off_hosts

    def terraform(self) -> ProcessIdentity | None:
        """The Terraform process that makes or destroys."""
        folder = terraform_path(self.folder, "network")
        found = (DetachedOperation(folder, name, clock=SystemClock()).identity() for name in TERRAFORM_OPERATIONS)
        return next((identity for identity in found if identity), None)

    def begin(self, fault: Fault, number: int) -> str:
        """Inject it. Returns what came of it, for the protocol."""
        kind = fault.kind
        if kind in _SIGNALS:
            return self._signal(self.runner, _SIGNALS[kind])
        if kind in _SANDBOX:
            self._machine.history.fault(name=_name(fault, number), **_SANDBOX[kind])
            return "on"
        if kind in _VERBS:
            done = self.host.command("runs", *_VERBS[kind], self.folder.name)
            return _said(done.returncode, done.stdout + done.stderr)
        if kind in _HOME:
            return self._at_home(_HOME[kind])
        if kind in _OF_OTHERS:
            return self._ask_elsewhere(*_OF_OTHERS[kind])
        others: Mapping[FaultKind, Callable[[], str]] = {
            FaultKind.KILL_TERRAFORM: lambda: self._signal(self.terraform(), signal.SIGKILL),
            FaultKind.KILL_BOTH: self._kill_both,
            FaultKind.STOP: self._stop,
            FaultKind.TAKE_OVER: lambda: "wanted",
            FaultKind.TAKE_OVER_LOST: self._kill_both,
            FaultKind.TAKE_OVER_STOPPED: self._stop,
            FaultKind.KILL_CONSOLE: self._open_console,
            FaultKind.FULL_DISK: lambda: _told(self.host.fill_disk),
            FaultKind.REFUSED: lambda: self._on_the_way(Relay.refuse),
            FaultKind.RESET: lambda: self._on_the_way(Relay.reset),
            FaultKind.SILENT: lambda: self._on_the_way(Relay.hush),
            FaultKind.TAKE_OVER_CUT_OFF: self._cut_off,
            FaultKind.SKEW: lambda: self._skew(fault, number),
            FaultKind.CLOCK: lambda: self._jump(fault.amount),
            FaultKind.PAUSE: self._pause,
            FaultKind.TEARDOWN: self._tear_down,
            FaultKind.FOREIGN: lambda: self._put(SECRETS, f"foreign-{number}", {}),
            FaultKind.FOREIGN_LABEL: lambda: self._put(
                CONFIG_MAPS, f"labelled-{number}", {"labels": {RUN_LABEL: self.folder.name}}
            ),
            FaultKind.FOREIGN_OWNED: lambda: self._put(CONFIG_MAPS, f"owned-{number}", self._owned()),
        }
        return others[kind]()

    def end(self, fault: Fault, number: int) -> None:
        """End what lasts."""
        match fault.kind:
            case FaultKind.STOP | FaultKind.TAKE_OVER_STOPPED:
                self._go_on()
            case FaultKind.KILL_CONSOLE:
                self._kill_consoles()
            case FaultKind.FULL_DISK:
                self._free_disks()
            case FaultKind.REFUSED | FaultKind.RESET:
                self._on_the_way(Relay.accept)
            case FaultKind.SILENT:
                self._on_the_way(Relay.flow)
            case FaultKind.TAKE_OVER_CUT_OFF:
                self._reconnect()
            case FaultKind.CLOCK:
                self._jump(0.0)
            case kind if kind in _HOME:
                self._at_home(Proxy.mend)
            case _:
                self._machine.history.lift(_name(fault, number))

    def withdraw(self) -> list[str]:
        """Remove somebody else's objects, as their owner; their names."""
        there = [item for item in self.foreign if not item.is_withdrawn]
        for item in there:
            item.is_withdrawn = self._machine.history.objects[item.uid].deletion_at == 0
            self._machine.history.remove(item.kind, f"{NAMESPACE}/{item.name}")
        return [item.name for item in there]

    def unpause(self) -> None:
        """As the console does."""
        send_request(self.folder, RequestKind.UNPAUSE, environment=self.host.environment)

    def _signal(self, process: ProcessIdentity | None, number: signal.Signals) -> str:
        if process is None or not send(process, number):
            return "nobody there"
        return f"sent to {process.pid}"

    def _kill_both(self) -> str:
        terraform = self.terraform()
        return f"{self._signal(self.runner, signal.SIGKILL)}; {self._signal(terraform, signal.SIGKILL)}"

    def _stop(self) -> str:
        if self.runner is not None:
            self._stopped.append(self.runner)
        return self._signal(self.runner, signal.SIGSTOP)

    def _go_on(self) -> None:
        for process in self._stopped:
            self._signal(process, signal.SIGCONT)
        self._stopped = []

    def _kill_consoles(self) -> None:
        for console in self._consoles:
            console.kill()
        self._consoles = []

    def _open_console(self) -> str:
        self._consoles.append(self._machine.open_console(self.host, self.folder.name))
        return "opened"

    def _skew(self, fault: Fault, number: int) -> str:
        self._machine.history.fault(kind="skew", name=_name(fault, number), offset_seconds=fault.amount)
        return "on"

    def _jump(self, seconds: float) -> str:
        scratch = self._machine.clock.with_suffix(".new")
        scratch.write_text(str(seconds), encoding="utf-8")
        scratch.replace(self._machine.clock)
        return "on"

    def _pause(self) -> str:
        try:
            send_request(self.folder, RequestKind.PAUSE, environment=self.host.environment)
        except ConsoleError as error:
            return error.sentence()
        return "asked"

    def _tear_down(self) -> str:
        done = self.host.command("runs", "teardown", self.folder.name, "--confirm", "bionemo-on-eks")
        return _said(done.returncode, done.stdout + done.stderr)

    def _on_the_way(self, change: Callable[[Relay], None]) -> str:
        for host in self._machine.hosts:
            if change is not Relay.flow or host not in self._cut_off_hosts:
                change(host.relay)
        return "on"

    def _cut_off(self) -> str:
        self._cut_off_hosts.append(self.host)
        self.host.cut_off()
        return f"{self.host.user} reaches nobody"

    def _reconnect(self) -> None:
        for host in self._cut_off_hosts:
            host.reconnect()
        self._cut_off_hosts = []

    def _free_disks(self) -> None:
        for host in self._machine.hosts:
            host.free_disk()

    def _at_home(self, change: Callable[[Proxy], None]) -> str:
        for host in self._machine.hosts:
            assert host.proxy is not None
            change(host.proxy)
        return "on"

    def _ask_elsewhere(self, verb: str, *options: str) -> str:
        other, run = self.other, self.folder.name
        has_folder = other.folder(run).exists()
        done = other.command("--kubeconfig", str(self._machine.kubeconfig), "runs", verb, run, *options)
        self.elsewhere.append(Elsewhere(other.user, verb, done.returncode, has_folder))
        return f"{other.user}: {_said(done.returncode, done.stdout + done.stderr)}"

    def _owned(self) -> Document:
        node = self._machine.history.first(NODES)["metadata"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"]}
        return {"ownerReferences": [owner]}

    def _put(self, kind: Kind, name: str, metadata: Document) -> str:
        document = {"metadata": {"name": name, "namespace": NAMESPACE, **metadata}, "data": FOREIGN_DATA}
        try:
            uid = self._machine.history.put(kind, document)
        except ConsoleError as error:
            return error.sentence()
        self.foreign.append(Foreign(kind, name, uid))
        return f"made {uid}"


def _name(fault: Fault, number: int) -> str:
    return f"{fault.kind.name.lower()}-{number}"


def _said(code: int, text: str) -> str:
    return f"{code}: {' '.join(text.split())}"


def _told(call: Callable[[], None]) -> str:
    call()
    return "on"
