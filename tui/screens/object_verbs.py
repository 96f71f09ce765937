"""The verbs on objects of the cluster: describe, YAML, why, logs, shell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actions.base.errors import MissingError, RefusedError
from actions.command import verbs as registry
from actions.fleet.facts import PodFacts
from tui.live.desk import Desk
from tui.modals.viewer import Viewer
from tui.present.describe import object_page, object_yaml
from tui.present.events import EventScope, events_in
from tui.present.subject import API_VERSIONS, Subject, parse_subject
from tui.screens.carrier import Verb
from tui.screens.why_verb import WhyVerb
from tui.screens.workspace import Workspace


class ObjectVerbs:
    """Looks at one object: the named one, or the one under the cursor.

    Args:
        workspace: The panes.
        desk: Where facts and the session are.
        show: Puts a viewer in front.
        open_shell: Puts a shell in a container in front.
    """

    def __init__(
        self,
        workspace: Workspace,
        desk: Desk,
        *,
        show: Callable[[Viewer], None],
        open_shell: Callable[[PodFacts, str], None],
    ) -> None:
        self._workspace = workspace
        self._desk = desk
        self._show = show
        self._open_shell = open_shell

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        own: dict[str, Verb] = {
            "describe": self._describe,
            "yaml": self._yaml,
            "logs": self._logs,
            "shell": self._shell,
        }
        return own | dict(WhyVerb(self._workspace, self._desk, show=self._show).verbs())

    async def _describe(self, arguments: registry.OnObject) -> None:
        subject = self._subject(arguments)
        document = await self._fetch(subject)
        snapshot = self._desk.cluster.snapshot()
        events = events_in(snapshot.events if snapshot else (), EventScope(subject.namespace, subject.name))
        page = object_page(document, events, now=self._desk.clock.now().timestamp())
        self._show(Viewer(subject.title(), page))

    async def _yaml(self, arguments: registry.OnObject) -> None:
        subject = self._subject(arguments)
        self._show(Viewer(f"{subject.title()}, YAML", object_yaml(await self._fetch(subject))))

    async def _logs(self, arguments: registry.OnObject) -> None:
        pod, container = self._pod(arguments)
        from tui.panes.logs import LogsPane

        pane = self._workspace.pane("logs")
        if isinstance(pane, LogsPane):
            pane.show_pod(pod, container)
        self._workspace.focus("logs")

    async def _shell(self, arguments: registry.OnObject) -> None:
        pod, container = self._pod(arguments)
        if pod.phase != "Running":
            raise RefusedError(f"Pod {pod.key} is {pod.phase or 'not running'}: there is nothing to open a shell in.")
        self._open_shell(pod, container or (pod.containers[0] if pod.containers else ""))

    def _subject(self, arguments: registry.OnObject) -> Subject:
        if arguments.object:
            return parse_subject(arguments.object, default_namespace=self._desk.cluster.namespace)
        subject = self._workspace.current.subject()
        if subject is None:
            raise MissingError("Nothing is selected.", hint="Put the cursor on a pod or a node.")
        return subject

    def _pod(self, arguments: registry.OnObject) -> tuple[PodFacts, str]:
        subject = self._subject(arguments)
        if subject.kind != "Pod":
            raise RefusedError(f"{subject.title()} is no pod.", hint="Put the cursor on a pod.")
        snapshot = self._desk.cluster.snapshot()
        pod = snapshot.pods.get(f"{subject.namespace}/{subject.name}") if snapshot else None
        if pod is None:
            raise MissingError(f"There is no pod {subject.namespace}/{subject.name}.", hint="It may be gone already.")
        if arguments.container and arguments.container not in pod.containers:
            known = ", ".join(pod.containers)
            raise MissingError(f"Pod {pod.key} has no container {arguments.container!r}.", hint=f"It has: {known}.")
        return pod, arguments.container or subject.container

    async def _fetch(self, subject: Subject) -> Mapping[str, Any]:
        from actions.cluster.objects.client import Discovery, ObjectRef, fetch

        version = API_VERSIONS.get(subject.kind)
        if version is None:
            raise RefusedError(f"{subject.kind} cannot be described.", hint=f"Known: {', '.join(API_VERSIONS)}.")
        session = self._desk.cluster.session
        ref = ObjectRef(version, subject.kind, subject.namespace, subject.name)
        return await fetch(session, Discovery(session), ref)
