"""The objects that a change applies to: named, marked or selected; and the dialog before it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.errors import MissingError, RefusedError
from actions.base.wording import counted, folded, listed
from actions.command.arguments import (
    DeleteArguments,
    DrainArguments,
    LogsArguments,
    ObjectArguments,
    ScaleArguments,
    TargetArguments,
    WatchArguments,
)
from actions.command.verbs import Call
from tui.feeds.followed import FollowedCluster
from tui.feeds.services import ConsoleServices, default_namespace
from tui.present.cells import Cells, Span, Tone
from tui.present.subject import Subject, parse_subject
from tui.screens.confirm import BODY_COLUMNS, Confirmation
from tui.screens.status_lines import place_shown
from tui.screens.workspace import PaneWorkspace

if TYPE_CHECKING:
    from actions.cluster.objects.catalogue import ServedKind
    from actions.cluster.objects.operations import DrainPlan, Target

_MOST = 200
"""Objects of one command."""
_SHOWN = 10
_TYPED = {
    "namespaces": "Everything in the namespace is deleted with it.",
    "customresourcedefinitions.apiextensions.k8s.io": "All objects of the kind are deleted with it.",
    "persistentvolumeclaims": "Its volume, and the data on it, may be deleted with it.",
    "persistentvolumes": "The data on it may be deleted with it.",
}
"""Kinds with which data, or objects of others, are deleted: their name is typed."""
_OWNED = {
    "background": ("What it owns is deleted after it.", "What they own is deleted after them."),
    "foreground": (
        "What it owns is deleted first; it stays until that is gone.",
        "What they own is deleted first; they stay until it is gone.",
    ),
    "orphan": ("What it owns stays, without an owner.", "What they own stays, without an owner."),
}
"""The sentence on what is owned by one object, and by several."""

_ANY_KIND = "pods"
"""Of a name without a kind, for commands that take any kind, where no such object is on screen."""
KIND_OF_A_NAME = {"cordon": "nodes", "uncordon": "nodes", "drain": "nodes"}
"""By command, the kind of a name without one, if it is not a pod's."""
_ONE_CLUSTER = "Mark those of one, and later those of the other; :mark clear drops all marks."
_DRAIN_WAITS = "The drain waits for them, 30 minutes at most, while this console is open; :uncordon ends it."


def cluster_meant(services: ConsoleServices, context: str, chosen: Iterable[Subject] = ()) -> FollowedCluster:
    """Return the cluster that a command is about: its context's, else that of the chosen rows, else the one on screen.

    Args:
        services: The clusters that are followed.
        context: Named in the command; may be empty.
        chosen: The marked or selected objects, if the command names none.

    Raises:
        MissingError: The one that is named is not followed.
        RefusedError: They are several.
    """
    followed = services.followed
    meant = [followed.named(context)] if context else []
    meant += [followed.named(one.cluster) if one.cluster else followed.on_screen for one in chosen]
    keys = sorted({one.key for one in meant})
    if len(keys) > 1:
        raise RefusedError(f"This is meant for several clusters: {listed(keys, 3)}.", hint=_ONE_CLUSTER)
    return meant[0] if meant else followed.on_screen


async def resolve_targets(
    services: ConsoleServices,
    workspace: PaneWorkspace,
    arguments: TargetArguments | ScaleArguments,
    *,
    kind: str = _ANY_KIND,
) -> tuple[FollowedCluster, tuple[Target, ...]]:
    """Return the objects that are named; without names the marked ones, else the selected one; and their cluster.

    Args:
        services: The clusters that are followed.
        workspace: The panes.
        arguments: Names with commas between them: `kind/name`, `kind/namespace/name`; a name alone is of the kind on
            screen, else of `kind`.
        kind: The kind of a name without one; `pods` if the command is not of one kind.

    Returns:
        The cluster, and the objects, all with their uid.

    Raises:
        MissingError: Nothing is selected, or there is no such object or cluster.
        ConflictError: Another object has the name of one that was meant.
        RefusedError: They are too many, something else than objects of a cluster, of several clusters, or of one of
            which only a kept snapshot is on screen.
    """
    from actions.cluster.objects.operations import identify

    chosen = () if arguments.object else _chosen(workspace)
    cluster = cluster_meant(services, arguments.context, chosen)
    require_live(cluster)
    parts = [part for text in arguments.object.split(",") if (part := text.strip())]
    targets = [await _named(services, cluster, workspace, part, kind) for part in parts]
    targets += [await _target_of(cluster, subject) for subject in chosen]
    if len(targets) > _MOST:
        raise RefusedError(f"{len(targets)} objects at once are too many; {_MOST} is the most.")
    session = cluster.feed.session
    return cluster, tuple(await asyncio.gather(*(identify(session, target) for target in targets)))


def require_live(cluster: FollowedCluster) -> None:
    """Refuse to change what is only known from a kept snapshot.

    Raises:
        RefusedError: Nothing newer has been read of the cluster yet.
    """
    if words := cluster.as_of_words():
        raise RefusedError(
            f"The nodes and pods on screen are {words}: nothing was changed.", hint="Wait until they are live."
        )


def names_of_targets(targets: Sequence[Target]) -> str:
    """Return the text that means exactly these objects: `deployments.apps/work/web@UID`, with commas between."""
    return ",".join(
        "/".join(filter(None, (target.qualified, target.namespace, f"{target.name}@{target.uid}")))
        for target in targets
    )


async def confirmation_of_change(
    services: ConsoleServices, cluster: FollowedCluster, call: Call, targets: Sequence[Target]
) -> tuple[Confirmation, Call]:
    """Return the dialog before a change, and the call to carry out after a yes: with objects and cluster as now.

    Raises:
        ConsoleError: The pods of a node to drain cannot be read.
    """
    arguments = call.arguments
    lines = _names(targets)
    word, word_is = "", ""
    match arguments:
        case DeleteArguments():
            lines += _paragraph(_OWNED[arguments.propagation][len(targets) > 1], Tone.MUTED)
            for kind in sorted({target.qualified for target in targets if target.qualified in _TYPED}):
                word, word_is = _word(targets)
                lines += _paragraph(_TYPED[kind], Tone.BAD)
        case DrainArguments():
            plans = [await _plan(cluster, target) for target in targets]
            lines += [line for plan in plans for line in _plan_lines(plan)]
            if any(plan.objections() for plan in plans):
                word, word_is = _word(targets)
                arguments = replace(arguments, even_if_lost=True)
        case _:
            lines += _paragraph(call.command.help, Tone.MUTED)
    lines += [(Span(""),), *_paragraph(place_of_changes(services, cluster), Tone.STRONG)]
    to = f" to {arguments.replicas}" if isinstance(arguments, ScaleArguments) else ""
    title = f"{call.command.id.capitalize()} {_counted(targets)}{to}?"
    if isinstance(arguments, TargetArguments | ScaleArguments):
        context = cluster.key if len(services.clusters) > 1 else ""
        arguments = replace(arguments, object=names_of_targets(targets), context=context)
    return Confirmation(title, lines, word=word, word_is=word_is), Call(call.command, arguments)


def _chosen(workspace: PaneWorkspace) -> Sequence[Subject]:
    """Return the marked objects, else the selected one.

    Raises:
        MissingError: Nothing is selected.
    """
    subject = workspace.current.subject()
    chosen = workspace.current.marked() or ((subject,) if subject is not None else ())
    if not chosen:
        raise MissingError("Nothing is selected.", hint="Put the cursor on an object, or name it: kind/name.")
    return chosen


async def _target_of(cluster: FollowedCluster, subject: Subject) -> Target:
    row = subject.row
    api_version = subject.api_version or (row.api_version if row is not None else "")
    kind = (await cluster.kinds.read()).named(api_version, subject.kind.partition(".")[0]) if api_version else None
    if kind is None:
        raise RefusedError(f"{subject.title()} is not an object of the cluster.", hint="Put the cursor on one.")
    return _target(kind, subject.namespace, subject.name, subject.uid)


async def _named(
    services: ConsoleServices, cluster: FollowedCluster, workspace: PaneWorkspace, text: str, kind: str
) -> Target:
    found = subject_named(services, cluster, workspace, text) if kind == _ANY_KIND else None
    return await (_parsed(services, cluster, text, kind) if found is None else _target_of(cluster, found))


def subject_meant(
    services: ConsoleServices, workspace: PaneWorkspace, arguments: ObjectArguments | LogsArguments | WatchArguments
) -> tuple[FollowedCluster, Subject]:
    """Return the object that is named, else the selected one, and its cluster.

    Raises:
        MissingError: Nothing is selected, or no cluster of that context is followed.
        RefusedError: The selected object is of another cluster than the one that is named.
    """
    text = arguments.job if isinstance(arguments, WatchArguments) else arguments.object
    if text:
        cluster = cluster_meant(services, arguments.context)
        default = default_namespace(services, cluster)
        named = subject_named(services, cluster, workspace, text)
        return cluster, named or parse_subject(text, default_namespace=default)
    pane, is_log = workspace.current, isinstance(arguments, LogsArguments)
    subject = pane.subject_in_sight() if is_log else pane.subject()
    if subject is None:
        raise MissingError("Nothing is selected.", hint=_SELECT[type(arguments)])
    return cluster_meant(services, arguments.context, (subject,)), subject


_SELECT = {
    ObjectArguments: "Put the cursor on a pod or a node.",
    LogsArguments: "Put the cursor on a run, a problem or a pod.",
    WatchArguments: "Name a job: :watch pytorchjob/NAME.",
}


def subject_named(
    services: ConsoleServices, cluster: FollowedCluster, workspace: PaneWorkspace, text: str
) -> Subject | None:
    """Return the object on screen that a name without a kind stands for; `None` if it is none of that cluster."""
    return workspace.current.named(text) if cluster is services.followed.on_screen else None


async def _parsed(services: ConsoleServices, cluster: FollowedCluster, text: str, kind: str) -> Target:
    path, _, uid = text.partition("@")
    default, kinds = default_namespace(services, cluster), cluster.kinds
    match path.split("/"):
        case [word, namespace, name]:
            return _target(await kinds.find(word), namespace, name, uid)
        case [word, name] if (await kinds.read()).has(word):
            found = await kinds.find(word)
            return _target(found, default, _whole_name(cluster, found, name), uid)
        case [namespace, name]:
            return _target(await kinds.find("pods"), namespace, name, uid)
        case [name]:
            found = await kinds.find(kind)
            return _target(found, default, _whole_name(cluster, found, name), uid)
        case _:
            raise MissingError(f"{text!r} names no object.", hint="Name it as kind/name or kind/namespace/name.")


def _whole_name(cluster: FollowedCluster, kind: ServedKind, name: str) -> str:
    """Return the name of the one node that is shown as `name`, which is its own without the domain."""
    snapshot = cluster.feed.snapshot()
    if kind.qualified != "nodes" or snapshot is None:
        return name
    names = [node.name for node in snapshot.nodes.values()]
    fitting = [whole for whole in names if whole.partition(".")[0] == name]
    return fitting[0] if name not in names and len(fitting) == 1 else name


def _target(kind: ServedKind, namespace: str, name: str, uid: str) -> Target:
    from actions.cluster.objects.operations import Target

    return Target(kind.resource, namespace if kind.is_namespaced else "", name, uid)


async def _plan(cluster: FollowedCluster, target: Target) -> DrainPlan:
    from actions.cluster.objects.operations import plan_drain, with_protected

    if target.qualified != "nodes":
        raise RefusedError(f"{target.title()} is not a node.", hint="Put the cursor on a node.")
    session = cluster.feed.session
    return await with_protected(session, await plan_drain(session, target.name))


def _plan_lines(plan: DrainPlan) -> list[Cells]:
    stay = f"; {counted(plan.daemons, 'pod')} of daemons stay" if plan.daemons else ""
    lines = _paragraph(f"{counted(len(plan.evicted), 'pod')} to evict{stay}.", Tone.PLAIN)
    lines += [line for text in plan.objections() for line in _paragraph(text, Tone.BAD)]
    if not plan.protected:
        return lines
    lines += [line for text in plan.waits() for line in _paragraph(text, Tone.WARN)]
    return lines + _paragraph(_DRAIN_WAITS, Tone.MUTED)


def _names(targets: Sequence[Target]) -> list[Cells]:
    if len(targets) == 1:
        return []
    lines: list[Cells] = [(Span(f"  {target.title()}"[:BODY_COLUMNS]),) for target in targets[:_SHOWN]]
    if len(targets) > _SHOWN:
        lines.append((Span(f"  … {len(targets) - _SHOWN} more", Tone.MUTED),))
    return lines


def _counted(targets: Sequence[Target]) -> str:
    if len(targets) == 1:
        return targets[0].title()
    kinds = {target.resource.plural for target in targets}
    return f"{len(targets)} {kinds.pop() if len(kinds) == 1 else 'objects'}"


def _word(targets: Sequence[Target]) -> tuple[str, str]:
    if len(targets) == 1:
        return targets[0].name, "its name"
    return str(len(targets)), "their number"


def place_of_changes(services: ConsoleServices, cluster: FollowedCluster) -> str:
    """Return where a change is made: cluster, region, account and context.

    What is not known is left out; where several clusters are followed it is `?`.
    """
    place, unknown = place_shown(services, cluster), "?" if len(services.clusters) > 1 else ""
    known = (("cluster", place.cluster), ("region", place.region or unknown), ("account", place.account or unknown))
    parts = [f"{name} {value}" for name, value in known if value]
    return " · ".join([*parts, f"context {cluster.feed.context_name}"])


def _paragraph(text: str, tone: Tone) -> list[Cells]:
    return [(Span(line, tone),) for line in folded(text, BODY_COLUMNS - 2)]
