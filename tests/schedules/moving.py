"""A run that moves to the other machine: the takeover, repeated until it is done."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.process import ProcessIdentity, is_alive
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.run.journal.folder import terraform_path
from actions.run.journal.journal_file import RecordRow
from actions.run.state.view import RunView
from actions.run.store.rows import read_rows
from actions.run.store.s3 import open_store
from actions.terraform.detached import DetachedOperation
from tests.schedules.audited import length_of_log
from tests.schedules.host import Command, Host
from tests.schedules.machine import Machine
from tests.support.stores import URL

_LOCKED = re.compile(r"state is locked by .*?\(lock ([0-9a-f-]{36})\)")
_OPERATIONS = ("apply", "destroy")
_MOST_TRIES = 25
_PAUSE_SECONDS = 1.0
_WITHOUT_RECORD = "has no record of"
"""Of the sentence that is shown while no record of the run has reached the home."""
_WITHOUT_LEASE = "There is no run"
"""Of that which is shown before its first runner has taken the lease there, which one that is dead never will."""


class Moved(msgspec.Struct, frozen=True):
    """A takeover that is done."""

    began_at: float
    at: float
    """Begin of the first command for it, which may have taken the lease and failed, and end of the one that did it;
    seconds since the epoch."""
    origin: Host
    folder: Path
    """The run's on the machine that had it."""
    runner: ProcessIdentity | None
    """The last runner there that is known."""
    records: int
    """Number of records there that the runner had written when the takeover was done."""
    target: Host
    began_line: int = 0
    line: int = 0
    """The length of the audit log at both times."""
    was_cut_off: bool = False
    """The machine that had the run reached neither cluster nor home when it was taken over, and could not know."""


class Move:
    """One takeover.

    Args:
        machine: The life's.
        target: The machine that gets the run.
        run: Its id.
        is_gone: The operator states that the other machine does not exist any more.
        has_own_way: The target reaches the cluster by its own kubeconfig.
    """

    def __init__(self, machine: Machine, target: Host, run: str, *, is_gone: bool, has_own_way: bool = False) -> None:
        self._machine = machine
        self.target = target
        self._run = run
        self._options = ("--machine-is-gone",) if is_gone else ()
        self._ways = _way_of(target) if has_own_way else ()
        self._tries = 0
        self._command: Command | None = None
        self._next_at = 0.0
        self.began_at = 0.0
        """The begin of the first try, seconds since the epoch."""
        self.began_line = 0
        """The length of the audit log then."""
        self.is_done = False
        self.is_given_up = False

    def go_on(self) -> str:
        """Look after it. Returns what is new, for the protocol."""
        if self._command is None:
            if time.monotonic() >= self._next_at:
                self._tries += 1
                if not self.began_at:
                    self.began_at, self.began_line = time.time(), length_of_log(self._machine)
                words = ("runs", "takeover", self._run, "--from", URL, "--confirm", self._run, *self._options)
                self._command = self._machine.begin(self.target, *words, *self._ways)
            return ""
        code = self._command.code()
        if code is None:
            return ""
        text, self._command = self._command.text(), None
        self.is_done = code == 0
        is_missing = _WITHOUT_RECORD in text or (bool(self._options) and _WITHOUT_LEASE in text)
        self.is_given_up = not self.is_done and (is_missing or self._tries >= _MOST_TRIES)
        self._next_at = time.monotonic() + _PAUSE_SECONDS
        return f"{self.target.user}: takeover: {code} {text}"


def _way_of(host: Host) -> tuple[str, ...]:
    """Return the options by which a command on a machine takes its own kubeconfig for the run."""
    target = ClusterTarget(host.kubeconfig)
    return ("--kubeconfig", str(host.kubeconfig), "--context", load_context(target).context)


def rows_in_store(account: str, run: str) -> Sequence[RecordRow]:
    """Return the records of a run in its home, past all faults.

    Args:
        account: The address of the account that has it.
        run: Its id.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL_S3", account)
        store = open_store(URL, region="us-west-2")
        try:
            return asyncio.run(read_rows(store, run))
        finally:
            store.close()


def is_at_work(moved: Moved) -> bool:
    """Return whether the runner of the machine that had the run before is alive."""
    return moved.runner is not None and is_alive(moved.runner)


def lock_to_remove(view: RunView, folders: Sequence[Path]) -> str:
    """Return the lock of a state that a stage waits for, if no Terraform of any machine is alive that could have it.

    Args:
        view: The run.
        folders: The run's on all machines.
    """
    told = " ".join(step.message for step in (*view.stages, *view.teardown))
    found = _LOCKED.search(told)
    works = [terraform_path(folder, "network") for folder in folders]
    operations = [DetachedOperation(work, name, clock=SystemClock()) for work in works for name in _OPERATIONS]
    is_held = any(operation.identity() is not None for operation in operations)
    return found[1] if found and not is_held else ""
