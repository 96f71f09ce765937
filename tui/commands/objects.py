"""Commands on objects of the cluster: describe, yaml, logs, shell, why, forward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actions.base.errors import MissingError, ParameterError, RefusedError, UnreachableError
from actions.base.wording import seconds_in
from actions.cluster.job_pods import JobRef
from actions.cluster.kinds import find_word, full_name
from actions.command import arguments as args
from actions.fleet.facts import PodFacts
from actions.run.state.view import TEARDOWN_PREFIX
from tui.commands.accelerators import DeviceDetails
from tui.commands.app_actions import AppActions, Handler
from tui.commands.targets import cluster_meant, require_live, subject_meant
from tui.feeds.logs import LogBegin
from tui.feeds.port_forwards import SERVICES, Forwards, WebInterface, parse_port, served_by
from tui.feeds.services import ConsoleServices, default_namespace, explain_run, explain_stage
from tui.panes.clusters import title_in
from tui.present.describe import object_page, object_yaml
from tui.present.events import EventScope, events_in
from tui.present.pods import PodOwner
from tui.present.rail import title_of
from tui.present.subject import Subject, parse_subject
from tui.present.text import console_words
from tui.screens.viewer import Viewer
from tui.screens.workspace import PaneWorkspace

if TYPE_CHECKING:
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.diagnose.select import ObjectSelector
    from actions.run.state.view import RunView
    from tui.feeds.cluster import ClusterFeed
    from tui.feeds.followed import FollowedCluster


_STAGE = "Stage"
_RUN = "Run"
_WITHOUT_DIAGNOSIS = ("Blueprint", "Cluster")


def _findings_page(found: Sequence[Finding], width: int) -> str:
    from actions.cluster.diagnose.codes import findings_text

    return findings_text(found, width=width)


class WhyCommand:
    """The handler of `why`: shows a diagnosis, with its causes, their evidence and the next step.

    Args:
        workspace: The panes; the selected object is explained if none is named.
        services: The cluster's session, and the run on screen.
        actions: Shows the page.
    """

    def __init__(self, workspace: PaneWorkspace, services: ConsoleServices, actions: AppActions) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"why": self._why}

    async def _why(self, arguments: args.ObjectArguments) -> None:
        cluster, subject = self._subject(arguments)
        page: Callable[[int], str]
        view = self._services.runs.view
        step = view.step(subject.name) if view is not None and subject is not None and subject.kind == _STAGE else None
        title = f"Why: {subject.title()}" if subject is not None else "Why: the whole cluster"
        if subject is not None and step is not None and step.id != subject.name:
            title = f"Why: {title_of(subject.name, step)}"
        if subject is not None and subject.kind == _STAGE:
            page = await self._stage_page(subject)
        elif subject is not None and subject.kind == _RUN:
            title, page = await self._run_page(subject.name)
        else:
            page = partial(_findings_page, await self._explained(cluster, subject))
        self._app.show(Viewer(title_in(self._services, cluster, title), page))

    async def _run_page(self, run_id: str) -> tuple[str, Callable[[int], str]]:
        """Return title and page on the stage of a run that is under way or has failed.

        Raises:
            MissingError: It has no such stage.
            RefusedError: It is on another machine.
        """
        run = self._services.runs.find(run_id)
        if not run.stage:
            raise MissingError(
                f"No stage of {run.id} is at work or has failed.", hint="Ask of an object: why kind/name."
            )
        view, found = await explain_run(self._services, run)
        head = _stage_line(view, run.stage, found)
        return f"Why: {run.id}, stage {run.stage}", lambda width: f"{head}\n\n{_findings_page(found, width)}"

    async def _stage_page(self, subject: Subject) -> Callable[[int], str]:
        """Return the stage's state, then its diagnosis; without a cluster, from what the run has kept on disk.

        The page is laid out for the number of columns that it is called with.
        """
        parts: list[str] = []
        try:
            _ = self._services.cluster.session
        except UnreachableError as error:
            parts.append(error.sentence())
        found: list[Finding] = []
        try:
            found = await explain_stage(self._services, subject.name)
        except MissingError as error:
            parts.append(error.sentence())
            return lambda _: "\n\n".join([_stage_line(self._services.runs.view, subject.name, []), *parts])
        head = "\n\n".join([_stage_line(self._services.runs.view, subject.name, found), *parts])
        if not found and subject.name.startswith(TEARDOWN_PREFIX):  # its objects were looked at, and nothing else
            return lambda _: head
        found = [replace(one, next_step=console_words(one.next_step, self._services)) for one in found]
        return lambda width: f"{head}\n\n{_findings_page(found, width)}"

    async def _explained(self, cluster: FollowedCluster, subject: Subject | None) -> list[Finding]:
        from actions.cluster.diagnose.collect import explain

        selector = _selector_of(subject) if subject is not None else None
        return await explain(cluster.feed.session, selector, clock=self._services.clock)

    def _subject(self, arguments: args.ObjectArguments) -> tuple[FollowedCluster, Subject | None]:
        """Return the named object, or the one under the cursor; `None` for the whole cluster; with its cluster."""
        stage = self._stage_named(arguments.object)
        if stage is not None:
            return self._services.followed.on_screen, stage
        subject = None if arguments.object else self._workspace.current.subject()
        if not arguments.object and (subject is None or subject.kind in _WITHOUT_DIAGNOSIS):
            return cluster_meant(self._services, arguments.context, filter(None, (subject,))), None
        return subject_meant(self._services, self._workspace, arguments)

    def _stage_named(self, text: str) -> Subject | None:
        """Return the stage of the run on screen that `stage/NAME` names; `None` if it has none of that name."""
        word, _, name = text.partition("/")
        view = self._services.runs.view
        is_one = word == "stage" and view is not None and view.step(name) is not None
        return Subject(_STAGE, name) if is_one else None


def _stage_line(view: RunView | None, name: str, found: Sequence[Finding]) -> str:
    """Return the stage's state, from the run's journal, and its message unless a finding quotes that."""
    stage = view.step(name) if view is not None else None
    if stage is None:
        return f"Stage {name}"
    is_quoted = any(stage.message in (*one.evidence, one.headline) for one in found)
    message = f": {stage.message}" if stage.message and not is_quoted else ""
    what = f"Stage {stage.id}" if name == stage.id else title_of(name, stage)
    return f"{what}, {stage.state.value.replace('_', ' ')}{message}"


def _selector_of(subject: Subject) -> ObjectSelector:
    from actions.cluster.diagnose.select import ObjectSelector

    return ObjectSelector(subject.kind, subject.name, subject.namespace)


class ObjectCommands:
    """The handlers of commands on one object: the named one, or the one under the cursor.

    Args:
        workspace: The panes.
        services: The facts of pods, and the cluster's session.
        actions: Shows pages and shells.
    """

    def __init__(self, workspace: PaneWorkspace, services: ConsoleServices, actions: AppActions) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions
        self._devices = DeviceDetails()

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        own: dict[str, Handler] = {
            "describe": self._describe,
            "yaml": self._yaml,
            "logs": self._logs,
            "shell": self._shell,
        }
        return own | dict(WhyCommand(self._workspace, self._services, self._app).handlers())

    async def _describe(self, arguments: args.ObjectArguments) -> None:
        cluster, subject = await self._any_subject(arguments)
        document = await self._fetch(cluster, subject)
        snapshot = cluster.feed.snapshot()
        events = events_in(snapshot.events if snapshot else (), EventScope(subject.namespace, subject.name))
        devices = await self._devices.section(cluster.feed, subject)
        page = object_page(document, events, now=self._services.clock.now().timestamp(), devices=devices)
        self._app.show(Viewer(title_in(self._services, cluster, subject.title()), page))

    async def _yaml(self, arguments: args.ObjectArguments) -> None:
        cluster, subject = await self._any_subject(arguments)
        title = title_in(self._services, cluster, f"{subject.title()}, YAML")
        self._app.show(Viewer(title, object_yaml(await self._fetch(cluster, subject))))

    async def _logs(self, arguments: args.LogsArguments) -> None:
        cluster, subject = subject_meant(self._services, self._workspace, arguments)
        self._services.put_on_screen(cluster)
        begin = self._begin(arguments)
        is_job = subject.row is not None and subject.row.is_watched
        failing = self._failing_pod_of(subject)
        if (
            failing is None
            and (is_job or subject.kind == _RUN)
            and arguments != args.LogsArguments(object=arguments.object)
        ):
            raise RefusedError(
                f"The lines of all pods of {subject.title()} are shown as they come.",
                hint="Name one of its pods: :logs NAMESPACE/POD --previous.",
            )
        if subject.kind == _RUN:
            view = self._services.runs.view
            if self._services.watched is not None or view is None or view.id != subject.name:
                self._services.unwatch()
                self._services.open_run(subject.name)
            self._workspace.open("logs", "", is_of_it=True)
            return
        if failing is not None:
            self._show_log(failing, arguments.container, begin)
        elif subject.kind == "Pod":
            self._show_log(*self._pod(cluster, subject, arguments.container), begin)
        else:
            await self._show_logs_of(subject, begin)

    def _show_log(self, pod: PodFacts, container: str, begin: LogBegin) -> None:
        from tui.panes.logs import LogsPane

        if begin.is_previous and not pod.restarts:
            raise MissingError(
                f"Pod {pod.key} has not restarted: it has no log before a restart.", hint=f"Its log: :logs {pod.key}."
            )
        pane = self._workspace.pane("logs")
        if isinstance(pane, LogsPane):
            pane.show_pod(pod, container, begin)
        self._workspace.focus("logs", is_of_it=True)

    def _begin(self, arguments: args.LogsArguments) -> LogBegin:
        if not arguments.since:
            return LogBegin(tail=arguments.tail, is_previous=arguments.previous)
        seconds = seconds_in(arguments.since)
        if seconds is None:
            raise ParameterError(f"since: {arguments.since!r} is not a duration.", hint="Write 10m, 1h30m or 2d.")
        since = self._services.clock.now().timestamp() - seconds
        return LogBegin(since_ns=int(since * 1e9), is_previous=arguments.previous)

    async def _show_logs_of(self, subject: Subject, begin: LogBegin) -> None:
        """Show the logs of a workload: all of a job together, of anything else those of its pods, to choose one.

        Raises:
            RefusedError: It has no pods.
        """
        snapshot = self._services.cluster.snapshot()
        if subject.row is not None and subject.row.is_watched:
            await self._services.watch(JobRef(subject.kind, subject.namespace, subject.name))
            self._workspace.focus("logs", is_of_it=True)
            return
        owner = PodOwner(subject.kind, subject.namespace, subject.name)
        pods = [pod for pod in snapshot.pods.values() if owner.owns(pod, snapshot.workloads)] if snapshot else []
        if not pods:
            raise RefusedError(f"{subject.title()} is not a pod, and has none.", hint="Put the cursor on a pod.")
        if len(pods) == 1:
            self._show_log(pods[0], subject.container, begin)
        else:
            self._workspace.open("pods", owner.text())

    async def _any_subject(self, arguments: args.ObjectArguments) -> tuple[FollowedCluster, Subject]:
        """Return the named object, also of a kind that only the cluster has, or the one under the cursor."""
        cluster, subject = subject_meant(self._services, self._workspace, arguments)
        words = arguments.object.split("/")
        if len(words) < 2 or find_word(words[0]) is not None or not cluster.kinds.knows(words[0]):
            return cluster, subject
        kind = await cluster.kinds.find(words[0])
        if len(words) == 2 and kind.is_namespaced and _pod_named(cluster.feed, arguments.object) is not None:
            return cluster, subject  # people call namespaces `jobs` and `services`
        namespace = words[1] if len(words) > 2 else default_namespace(self._services, cluster)
        return cluster, Subject(
            full_name(kind.api_version, kind.kind),
            words[-1],
            namespace if kind.is_namespaced else "",
            api_version=kind.api_version,
        )

    async def _shell(self, arguments: args.ObjectArguments) -> None:
        cluster, subject = subject_meant(self._services, self._workspace, arguments)
        require_live(cluster)
        pod, container = self._pod(cluster, subject, arguments.container)
        if pod.phase != "Running":
            raise RefusedError(f"Pod {pod.key} is {pod.phase or 'not running'}. A shell needs a running one.")
        self._app.open_shell(cluster, pod, container or (pod.containers[0] if pod.containers else ""))

    def _pod(self, cluster: FollowedCluster, subject: Subject, wanted: str) -> tuple[PodFacts, str]:
        """Return a pod and one of its containers: the wanted one, if there is a wish, else the selected one."""
        if subject.kind != "Pod":
            raise RefusedError(f"{subject.title()} is not a pod.", hint="Put the cursor on a pod.")
        pod = _pod_named(cluster.feed, f"{subject.namespace}/{subject.name}")
        if pod is None:
            raise MissingError(f"There is no pod {subject.namespace}/{subject.name}.", hint="It may be gone already.")
        if wanted and wanted not in pod.containers:
            known = ", ".join(pod.containers)
            raise MissingError(f"Pod {pod.key} has no container {wanted!r}.", hint=f"It has: {known}.")
        return pod, wanted or subject.container

    def _failing_pod_of(self, owner: Subject) -> PodFacts | None:
        """Return a pod of a workload that has begun and is not fine: its log has the reason."""
        snapshot, key = self._services.cluster.snapshot(), (owner.namespace, owner.kind, owner.name)
        pods = snapshot.pods.values() if snapshot else ()
        own = (pod for pod in pods if (pod.namespace, pod.owner_kind, pod.owner_name) == key)
        return next((pod for pod in own if not pod.is_fine and pod.node), None)

    async def _fetch(self, cluster: FollowedCluster, subject: Subject) -> Mapping[str, Any]:
        from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object

        row = subject.row
        api_version = subject.api_version or (row.api_version if row is not None else "")
        if not api_version or (row is not None and not row.is_shown):
            hint = "Name a pod, a node, a job or another object: kind/name."
            raise RefusedError(f"{subject.kind} cannot be described.", hint=hint)
        session = cluster.feed.session
        ref = ObjectRef(api_version, subject.kind.partition(".")[0], subject.namespace, subject.name)
        return await fetch_object(session, Discovery(session), ref)


_LINK = ":forward shows the link for a browser, with its token."
_NOTES = (
    "",
    "The token is valid until the console ends; anyone who has it can use these ports as you.",
    "Only programs of your own user can connect. For protocols other than HTTP, such as ssh or TLS,",
    "that is the only protection: they need no token.",
)


class ForwardCommand:
    """The handler of `forward`. Ports stay open as long as the console.

    Args:
        services: The facts of pods, and the cluster's session.
        actions: Shows the page of ports, and notifications.
    """

    def __init__(self, services: ConsoleServices, actions: AppActions) -> None:
        self._services = services
        self._app = actions
        self._forwards = Forwards(services.supervisor, actions.notify_plainly)

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"forward": self._forward}

    async def _forward(self, arguments: args.ForwardArguments) -> None:
        if not arguments.to:
            self._app.show(Viewer("forward", self._page()))
            return
        if arguments.stop:
            if not self._forwards.close(arguments.to):
                raise MissingError(f"Nothing is forwarded as {arguments.to!r}.")
            self._app.notify_plainly(f"{arguments.to} is no longer forwarded.")
            return
        cluster = cluster_meant(self._services, arguments.context)
        await cluster.feed.wait_connected()
        service = next((service for service in SERVICES if service.name == arguments.to), None)
        if service is not None:
            await self._open(cluster.feed, service, arguments.local)
        else:
            await self._open_port(cluster, arguments)

    async def _open(self, cluster: ClusterFeed, service: WebInterface, local: int) -> None:
        pod = served_by(service, self._pods(cluster))
        if pod is None:
            raise MissingError(f"No running pod serves the {service.title}.", hint="Wait until its stage runs.")
        address = await self._forwards.open(
            cluster.session,
            service.name,
            pod.namespace,
            lambda: served_by(service, self._pods(cluster)),
            port=service.port,
            local=local,
        )
        self._app.notify_plainly(
            f"{service.title}: {address} leads to {pod.key}:{service.port} while the console is open. {_LINK}"
        )

    async def _open_port(self, cluster: FollowedCluster, arguments: args.ForwardArguments) -> None:
        target, port = parse_port(arguments.to)
        subject = parse_subject(target, default_namespace=default_namespace(self._services, cluster))
        find = partial(_pod_named, cluster.feed, f"{subject.namespace}/{subject.name}")
        if subject.kind != "Pod" or find() is None:
            raise MissingError(f"There is no pod {target}.", hint="Open pods to choose one.")
        address = await self._forwards.open(
            cluster.feed.session, arguments.to, subject.namespace, find, port=port, local=arguments.local
        )
        self._app.notify_plainly(f"{address} leads to {target}:{port} while the console is open. {_LINK}")

    def _pods(self, cluster: ClusterFeed) -> list[PodFacts]:
        """Return all pods, those of the run on screen first."""
        snapshot, run = cluster.snapshot(), self._services.runs.view
        pods = list(snapshot.pods.values()) if snapshot else []
        return sorted(pods, key=lambda pod: (run is None or pod.run != run.id, pod.key))

    def _page(self) -> str:
        lines = ["Available:", ""]
        for service in SERVICES:
            pod = served_by(service, self._pods(self._services.cluster))
            address = f"{pod.key}:{service.port}" if pod else "no pod serves it at present"
            lines.append(f"  :forward {service.name:<12} {service.title}: {address}")
        lines += ["  :forward NAMESPACE/POD:PORT", "", "Forwarded now:", ""]
        opened = [f"  {name:<20} {port.link}" for name, port in self._forwards.opened.items()]
        return "\n".join([*lines, *(opened or ["  nothing"]), *(_NOTES if opened else ())])


def _pod_named(cluster: ClusterFeed, key: str) -> PodFacts | None:
    snapshot = cluster.snapshot()
    return snapshot.pods.get(key) if snapshot else None
