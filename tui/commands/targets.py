"""The objects that a change applies to: named, marked or selected; and the dialog before it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.errors import MissingError, RefusedError
from actions.base.wording import counted, folded
from actions.command.arguments import (
    DeleteArguments,
    DrainArguments,
    ScaleArguments,
    TargetArguments,
)
from actions.command.verbs import Call
from tui.feeds.services import ConsoleServices, default_namespace
from tui.present.cells import Cells, Span, Tone
from tui.present.subject import Subject
from tui.screens.confirm import BODY_COLUMNS, Confirmation
from tui.screens.status_lines import header_facts
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
_DRAIN_WAITS = "The drain waits for them, 30 minutes at most, while this console is open; :uncordon ends it."


async def resolve_targets(
    services: ConsoleServices, workspace: PaneWorkspace, text: str, *, kind: str = _ANY_KIND
) -> tuple[Target, ...]:
    """Return the objects that are named; without names the marked ones, else the selected one. All have their uid.

    Args:
        services: The cluster's session and kinds.
        workspace: The panes.
        text: Names with commas between them: `kind/name`, `kind/namespace/name`; a name alone is of the kind on screen,
            else of `kind`.
        kind: The kind of a name without one; `pods` if the command is not of one kind.

    Raises:
        MissingError: Nothing is selected, or there is no such object.
        ConflictError: Another object has the name of one that was meant.
        RefusedError: They are too many, something else than objects of the cluster, or of another cluster than the one
            on screen, which may have changed while its connection was waited for.
    """
    from actions.cluster.objects.operations import identify

    cluster = services.cluster
    await cluster.wait_connected()
    services.followed.require_on_screen(cluster)
    if text:
        targets = [await _named(services, workspace, part.strip(), kind) for part in text.split(",") if part.strip()]
    else:
        targets = [await _target_of(services, subject) for subject in _chosen(services, workspace)]
    if len(targets) > _MOST:
        raise RefusedError(f"{len(targets)} objects at once are too many; {_MOST} is the most.")
    services.followed.require_on_screen(cluster)
    session = cluster.session
    return tuple(await asyncio.gather(*(identify(session, target) for target in targets)))


def names_of_targets(targets: Sequence[Target]) -> str:
    """Return the text that means exactly these objects: `deployments.apps/work/web@UID`, with commas between."""
    return ",".join(
        "/".join(filter(None, (target.qualified, target.namespace, f"{target.name}@{target.uid}")))
        for target in targets
    )


async def confirmation_of_change(
    services: ConsoleServices, call: Call, targets: Sequence[Target]
) -> tuple[Confirmation, Call]:
    """Return the dialog before a change, and the call to carry out after a yes: with the objects as they are now.

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
            plans = [await _plan(services, target) for target in targets]
            lines += [line for plan in plans for line in _plan_lines(plan)]
            if any(plan.objections() for plan in plans):
                word, word_is = _word(targets)
                arguments = replace(arguments, even_if_lost=True)
        case _:
            lines += _paragraph(call.command.help, Tone.MUTED)
    lines += [(Span(""),), *_paragraph(place_of_changes(services), Tone.STRONG)]
    to = f" to {arguments.replicas}" if isinstance(arguments, ScaleArguments) else ""
    title = f"{call.command.id.capitalize()} {_counted(targets)}{to}?"
    if isinstance(arguments, TargetArguments | ScaleArguments):
        arguments = replace(arguments, object=names_of_targets(targets))
    return Confirmation(title, lines, word=word, word_is=word_is), Call(call.command, arguments)


def _chosen(services: ConsoleServices, workspace: PaneWorkspace) -> Sequence[Subject]:
    """Return the marked objects, else the selected one: all of the cluster on screen.

    Raises:
        MissingError: Nothing is selected.
        RefusedError: One is of another cluster.
    """
    subject = workspace.current.subject()
    chosen = workspace.current.marked() or ((subject,) if subject is not None else ())
    if not chosen:
        raise MissingError("Nothing is selected.", hint="Put the cursor on an object, or name it: kind/name.")
    if any(one.cluster not in ("", services.followed.on_screen.key) for one in chosen):
        raise RefusedError("Another cluster is on screen now: nothing was changed.", hint="Begin again.")
    return chosen


async def _target_of(services: ConsoleServices, subject: Subject) -> Target:
    row = subject.row
    api_version = subject.api_version or (row.api_version if row is not None else "")
    kind = (await services.objects.kinds()).named(api_version, subject.kind.partition(".")[0]) if api_version else None
    if kind is None:
        raise RefusedError(f"{subject.title()} is not an object of the cluster.", hint="Put the cursor on one.")
    return _target(kind, subject.namespace, subject.name, subject.uid)


async def _named(services: ConsoleServices, workspace: PaneWorkspace, text: str, kind: str) -> Target:
    on_screen = workspace.current.named(text) if kind == _ANY_KIND else None
    return await (_parsed(services, text, kind) if on_screen is None else _target_of(services, on_screen))


async def _parsed(services: ConsoleServices, text: str, kind: str) -> Target:
    path, _, uid = text.partition("@")
    default = default_namespace(services)
    match path.split("/"):
        case [word, namespace, name]:
            return _target(await services.objects.find(word), namespace, name, uid)
        case [word, name] if (await services.objects.kinds()).has(word):
            found = await services.objects.find(word)
            return _target(found, default, _whole_name(services, found, name), uid)
        case [namespace, name]:
            return _target(await services.objects.find("pods"), namespace, name, uid)
        case [name]:
            found = await services.objects.find(kind)
            return _target(found, default, _whole_name(services, found, name), uid)
        case _:
            raise MissingError(f"{text!r} names no object.", hint="Name it as kind/name or kind/namespace/name.")


def _whole_name(services: ConsoleServices, kind: ServedKind, name: str) -> str:
    """Return the name of the one node that is shown as `name`, which is its own without the domain."""
    snapshot = services.cluster.snapshot()
    if kind.qualified != "nodes" or snapshot is None:
        return name
    names = [node.name for node in snapshot.nodes.values()]
    fitting = [whole for whole in names if whole.partition(".")[0] == name]
    return fitting[0] if name not in names and len(fitting) == 1 else name


def _target(kind: ServedKind, namespace: str, name: str, uid: str) -> Target:
    from actions.cluster.objects.operations import Target

    return Target(kind.resource, namespace if kind.is_namespaced else "", name, uid)


async def _plan(services: ConsoleServices, target: Target) -> DrainPlan:
    from actions.cluster.objects.operations import plan_drain, with_protected

    if target.qualified != "nodes":
        raise RefusedError(f"{target.title()} is not a node.", hint="Put the cursor on a node.")
    session = services.cluster.session
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


def place_of_changes(services: ConsoleServices) -> str:
    """Return where a change is made: cluster, region, account and context.

    What is not known is left out; where several clusters are followed it is `?`.
    """
    facts, unknown = header_facts(services), "?" if len(services.clusters) > 1 else ""
    known = (("cluster", facts.cluster), ("region", facts.region or unknown), ("account", facts.account or unknown))
    parts = [f"{name} {value}" for name, value in known if value]
    return " · ".join([*parts, f"context {services.cluster.context_name}"])


def _paragraph(text: str, tone: Tone) -> list[Cells]:
    return [(Span(line, tone),) for line in folded(text, BODY_COLUMNS - 2)]
