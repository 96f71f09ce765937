"""Commands that change objects of the cluster: delete, scale, restart, suspend, cordon, drain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from actions.base.errors import ConsoleError, RefusedError
from actions.base.wording import counted
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.commands.targets import resolve_targets
from tui.feeds.services import ConsoleServices
from tui.screens.workspace import PaneWorkspace

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.objects.operations import Target

_DRAIN_SECONDS = 1800.0
_HOW_TO_END = ":uncordon ends the drain."


class ObjectChanges:
    """The handlers of commands that change objects, each meant by its uid.

    Args:
        workspace: The panes; marked or selected objects are meant if none are named.
        services: The cluster's session.
        actions: Shows notifications.
    """

    def __init__(self, workspace: PaneWorkspace, services: ConsoleServices, actions: AppActions) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions
        self._drains: dict[str, asyncio.Task[str]] = {}
        """The drains under way, by the uid of their node."""

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {
            "delete": self._delete,
            "scale": self._scale,
            "restart": self._restart,
            "suspend": self._suspend,
            "unsuspend": self._unsuspend,
            "cordon": self._cordon,
            "uncordon": self._uncordon,
            "drain": self._drain,
        }

    async def _delete(self, arguments: args.DeleteArguments) -> None:
        from actions.cluster.objects.operations import delete_target

        async def delete(session: KubeSession, target: Target) -> str:
            await delete_target(session, target, propagation=arguments.propagation)
            return f"{target.title()} is being deleted."

        await self._each(arguments, delete, "are being deleted")

    async def _scale(self, arguments: args.ScaleArguments) -> None:
        from actions.cluster.objects.operations import scale_target

        async def scale(session: KubeSession, target: Target) -> str:
            former = await scale_target(session, target, arguments.replicas)
            return f"{target.title()}: {former} → {arguments.replicas} replicas."

        await self._each(arguments, scale, f"have {arguments.replicas} replicas now")

    async def _restart(self, arguments: args.TargetArguments) -> None:
        from actions.cluster.objects.operations import restart_target

        async def restart(session: KubeSession, target: Target) -> str:
            await restart_target(session, target, clock=self._services.clock)
            return f"{target.title()} is being restarted."

        await self._each(arguments, restart, "are being restarted")

    async def _suspend(self, arguments: args.TargetArguments) -> None:
        await self._set_suspended(arguments, is_suspended=True)

    async def _unsuspend(self, arguments: args.TargetArguments) -> None:
        await self._set_suspended(arguments, is_suspended=False)

    async def _set_suspended(self, arguments: args.TargetArguments, *, is_suspended: bool) -> None:
        from actions.cluster.objects.operations import suspend_target

        ends, word = ("pods end", "suspended") if is_suspended else ("pods are made again", "not suspended")

        async def set_suspended(session: KubeSession, target: Target) -> str:
            is_change = await suspend_target(session, target, is_suspended=is_suspended)
            return f"{target.title()} is {word}: its {ends}." if is_change else f"{target.title()} was {word} already."

        await self._each(arguments, set_suspended, f"are {word}")

    async def _cordon(self, arguments: args.TargetArguments) -> None:
        await self._set_cordoned(arguments, is_cordoned=True)

    async def _uncordon(self, arguments: args.TargetArguments) -> None:
        await self._set_cordoned(arguments, is_cordoned=False)

    async def _set_cordoned(self, arguments: args.TargetArguments, *, is_cordoned: bool) -> None:
        from actions.cluster.objects.operations import cordon_node

        word = "cordoned" if is_cordoned else "uncordoned"

        async def set_cordoned(session: KubeSession, target: Target) -> str:
            drain = None if is_cordoned else self._drains.pop(target.uid, None)
            if drain is not None:
                drain.cancel()
            is_change = await cordon_node(session, target, is_cordoned=is_cordoned)
            end = "; its drain has ended" if drain is not None else ""
            return f"{target.title()} is {word}{end}." if is_change else f"{target.title()} was {word} already{end}."

        await self._each(arguments, set_cordoned, f"are {word}", kind="nodes")

    async def _drain(self, arguments: args.DrainArguments) -> None:
        async def drain(session: KubeSession, target: Target) -> str:
            if target.uid in self._drains:
                raise RefusedError(f"{target.title()} is being drained already.", hint=_HOW_TO_END)
            evicting = asyncio.create_task(self._evict(session, target, even_if_lost=arguments.even_if_lost))
            self._drains[target.uid] = evicting
            try:
                return await evicting
            except asyncio.CancelledError:
                if target.uid in self._drains:
                    raise
                return ""  # the node was uncordoned
            finally:
                self._drains.pop(target.uid, None)
                if self._services.drains.pop(target.name, None) is not None:
                    self._services.ticker.request_paint()  # nothing else may change any more

        await self._each(arguments, drain, "are drained", kind="nodes")

    async def _evict(self, session: KubeSession, target: Target, *, even_if_lost: bool) -> str:
        """Cordon a node and evict its pods; the footer shows what is left.

        Raises:
            RefusedError: Something would be lost, and the operator has not agreed to that.
            ConsoleError: An eviction is forbidden, or pods are left after half an hour.
        """
        from actions.cluster.objects.operations import cordon_node, evict_all, plan_drain

        told = ""

        def progress(left: int, text: str) -> None:
            nonlocal told
            if not told:
                told = f"{target.title()}: {text} {_HOW_TO_END}"
                self._app.notify_plainly(told)
            self._services.drains[target.name] = left
            self._services.ticker.request_paint()

        await cordon_node(session, target, is_cordoned=True)
        plan = await plan_drain(session, target.name)
        if plan.objections() and not even_if_lost:
            raise RefusedError(
                f"{target.title()} is cordoned, but not drained. {' '.join(plan.objections())}",
                hint="To evict them anyway: even_if_lost=true.",
            )
        try:
            await evict_all(
                session, plan.evicted, clock=self._services.clock, deadline_seconds=_DRAIN_SECONDS, progress=progress
            )
        finally:
            self._app.withdraw_notification(told)  # what it counts is no longer left
        return f"{target.title()} is drained: {counted(len(plan.evicted), 'pod')} evicted."

    async def _each(
        self,
        arguments: args.TargetArguments | args.ScaleArguments,
        change: Callable[[KubeSession, Target], Awaitable[str]],
        done: str,
        *,
        kind: str = "pods",
    ) -> None:
        """Change all objects that are meant; one that fails does not keep the others from being changed.

        Raises:
            ConsoleError: One failed; of several the first one's error, with their number.
        """
        cluster, targets = await resolve_targets(self._services, self._workspace, arguments, kind=kind)
        session = cluster.feed.session
        results = await asyncio.gather(*(change(session, target) for target in targets), return_exceptions=True)
        self._workspace.current.clear_marks()
        failed = [result for result in results if isinstance(result, BaseException)]
        said = [result for result in results if isinstance(result, str) and result]
        if said:
            self._app.notify_plainly(said[0] if len(said) == 1 else f"{len(said)} objects {done}.")
        _raise_first(failed, len(targets))


def _raise_first(failed: Sequence[BaseException], count: int) -> None:
    if not failed:
        return
    first = failed[0]
    if isinstance(first, ConsoleError) and len(failed) > 1:
        raise RefusedError(f"{len(failed)} of {count} failed. {first.message}", hint=first.hint) from first
    raise first
