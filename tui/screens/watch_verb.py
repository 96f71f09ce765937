"""The verb that watches a job of the cluster: its pods, logs, accelerators and curves, without a run."""

from __future__ import annotations

from collections.abc import Mapping

from actions.base.errors import MissingError
from actions.cluster.job_pods import WATCHABLE, JobRef, job_named, job_of
from actions.command import verbs as registry
from tui.live.desk import Desk
from tui.present.subject import Subject, parse_subject
from tui.screens.carrier import Verb
from tui.screens.workspace import Workspace

_THE_RUN = "run"


class WatchVerb:
    """Points the panes at a job: the named one, or the one that the selected pod is a part of.

    Args:
        workspace: The panes.
        desk: What they look at.
    """

    def __init__(self, workspace: Workspace, desk: Desk) -> None:
        self._workspace = workspace
        self._desk = desk

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        return {"watch": self._watch}

    async def _watch(self, arguments: registry.Watch) -> None:
        if arguments.job == _THE_RUN:
            self._desk.unwatch()
            self._workspace.arrange("watch")
            return
        await self._desk.cluster.wait_connected()
        await self._desk.watch(self._job(arguments.job))
        self._workspace.arrange("job")
        self._workspace.open("pods", "job")
        self._workspace.focus("logs")

    def _job(self, typed: str) -> JobRef:
        if typed:
            subject: Subject | None = parse_subject(typed, default_namespace=self._desk.cluster.namespace)
        else:
            subject = self._workspace.current.subject()
        if subject is None:
            raise MissingError("Nothing is selected.", hint="Say which: :watch pytorchjob/NAME.")
        if subject.kind in WATCHABLE:
            return JobRef(subject.kind, subject.namespace, subject.name)
        found = self._found(subject)
        if found is None:
            raise MissingError(
                f"{subject.title()} is no part of a job.", hint=f"Watch one of {', '.join(WATCHABLE)}: kind/name."
            )
        return found

    def _found(self, subject: Subject) -> JobRef | None:
        """The job of a pod, or the one that has the name that was typed without a kind."""
        snapshot = self._desk.cluster.snapshot()
        if snapshot is None or subject.kind != "Pod":
            return None
        pod = snapshot.pods.get(f"{subject.namespace}/{subject.name}")
        if pod is not None:
            return job_of(pod, snapshot.workloads)
        return job_named(subject.namespace, subject.name, snapshot.workloads)
