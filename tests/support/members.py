"""Members of a team: the same program on machines of their own, with one cluster, one account and one home."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actions.base.process import ProcessIdentity
from actions.run.journal.store import JournalLockedError
from actions.sandbox.audit import AUDIT_LOG
from actions.sandbox.locate import RunningSandbox
from tests.support.account import REGION
from tests.support.journals import locked_here
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.stores import URL, Proxy


@dataclass(frozen=True)
class Member(Program):
    """The program of one member.

    Args:
        home: Of the user, and the machine: state and settings lie in it.
        cloud: Cluster and account.
        store: The S3 of the home.
    """

    cloud: RunningSandbox
    store: Proxy

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            **super().environment,
            "LOGNAME": self.home.name,
            "PATH": f"{self.cloud.programs}:/usr/bin:/bin",  # terraform is the sandbox's own
            "AWS_REGION": REGION,
            "AWS_SHARED_CREDENTIALS_FILE": str(self.cloud.credentials),
            "AWS_ENDPOINT_URL": self.cloud.process.aws_endpoint_url,
            "AWS_ENDPOINT_URL_S3": self.store.address,
            "KUBECONFIG": str(self.cloud.kubeconfig),
        }


@contextmanager
def a_member(folder: Path, cloud: RunningSandbox, store: Proxy) -> Iterator[Member]:
    """A member whose runs are the team's by their settings; what they have started ends with the context."""
    (folder / "config/eksml-tui").mkdir(parents=True)
    (folder / "config/eksml-tui/config.yaml").write_text(f"store: {URL}\n")
    member = Member(folder, cloud, store)
    try:
        yield member
    finally:
        member.end_all()


def audited(cloud: RunningSandbox, pid: int = 0) -> Sequence[dict[str, Any]]:
    """Return the events of the audit log of cluster and account.

    Args:
        cloud: Whose log.
        pid: Only of this process on this machine; 0 for all.
    """
    path = cloud.kubeconfig.parent / AUDIT_LOG
    text = path.read_text() if path.exists() else ""
    events = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # the last may be half written
    return [event for event in events if not pid or is_of(event["userAgent"], pid)]


def is_of(agent: str, pid: int) -> bool:
    """Return whether a request was sent by this process of this machine, by its user agent."""
    return f"/{pid}@{os.uname().nodename}" in agent


def stop_between_records(process: ProcessIdentity, folder: Path) -> None:
    """Stop a runner with SIGSTOP at a moment at which it does not hold the lock of its journal.

    Args:
        process: The runner.
        folder: The run's.
    """

    def is_stopped() -> bool:
        os.kill(process.pid, signal.SIGSTOP)
        with suppress(JournalLockedError), locked_here(folder):
            return True
        os.kill(process.pid, signal.SIGCONT)
        return False

    wait(is_stopped, "a moment between two records")
