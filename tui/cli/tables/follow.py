"""`--watch` of `nodes`, `pods` and `events`: the table once, then a line for each row that has changed."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from actions.base.clock import SystemClock
from actions.base.errors import UsageError
from actions.base.wording import aligned
from actions.cluster.auth.session import KubeSession
from actions.cluster.state.listing import ListedResource, events_in, nodes_of, pods_in
from actions.cluster.state.store import HasUid
from actions.cluster.watch.health import Health, SourceHealth
from actions.fleet.cost import CostModel
from actions.fleet.facts import UNUSED, EventFacts, NodeFacts, PodFacts, state_of
from actions.fleet.node_report import node_document
from actions.fleet.quantity import UNKNOWN
from tui.cli.tables.cluster import (
    EVENT_HEADS,
    POD_HEADS,
    ask_cluster,
    event_cells,
    event_document,
    is_wanted,
    pod_cells,
    pod_document,
)
from tui.cli.tables.output import json_line

FactT = TypeVar("FactT", bound=HasUid)

_FORMS = ("table", "name", "jsonl")


_Followed = tuple[ListedResource[FactT], "ChangedRows[FactT]"]


class ChangedRows(Generic[FactT]):
    """The sink of a reflector that prints each row that is new or differs, once.

    Args:
        form: `table`, `name` or `jsonl`.
        heads: Titles of the table; empty for none.
        cells: Returns the cells of a fact.
        document: Returns the document of a fact.
        noun: The kind that `name` puts before each name.
        is_wanted: Returns whether a fact is printed.
    """

    def __init__(
        self,
        form: str,
        heads: Sequence[str],
        cells: Callable[[FactT], Sequence[str]],
        document: Callable[[FactT], Any],
        *,
        noun: str,
        is_wanted: Callable[[FactT], bool],
    ) -> None:
        self._form = form
        self._heads = heads
        self._cells = cells
        self._document = document
        self._noun = noun
        self._is_wanted = is_wanted
        self._printed: dict[str, FactT] = {}
        self._widest: list[str] = []
        self._state = Health.SYNCING

    async def replace(self, items: Sequence[FactT]) -> None:
        """Print the rows of a list that differ."""
        differ = [item for item in items if self._printed.get(item.uid) != item]
        self._printed = {item.uid: item for item in items}
        self._print(differ)

    def upsert(self, item: FactT) -> None:
        """Print a row that differs."""
        if self._printed.get(item.uid) != item:
            self._printed[item.uid] = item
            self._print([item])

    def remove(self, item: FactT) -> None:
        """Print nothing for an object that is gone: its last state has been printed."""
        self._printed.pop(item.uid, None)

    def health(self, health: SourceHealth) -> None:
        """Print to stderr why nothing comes."""
        if health.state is not self._state and health.detail:
            sys.stderr.write(f"eksml-tui: {health.state.value}: {health.detail}\n")
        self._state = health.state

    def _print(self, changed: Sequence[FactT]) -> None:
        facts = [fact for fact in changed if self._is_wanted(fact)]
        if self._form == "jsonl":
            sys.stdout.writelines(json_line(self._document(fact)) for fact in facts)
        elif self._form == "name":
            sys.stdout.writelines(f"{self._noun}/{self._document(fact)['name']}\n" for fact in facts)
        elif facts:
            self._print_lines([list(self._cells(fact)) for fact in facts])
        sys.stdout.flush()

    def _print_lines(self, rows: list[list[str]]) -> None:
        """Print rows below the titles, which come first; columns are as wide as the widest cell so far."""
        is_first = not self._widest
        rows = [list(self._heads), *rows] if is_first and self._heads else rows
        columns = zip(*([self._widest] if self._widest else []), *rows, strict=True)
        self._widest = ["-" * max(map(len, column)) for column in columns]
        sys.stdout.writelines(f"{line}\n" for line in aligned([self._widest, *rows])[1:])


def follow_nodes(options: Namespace) -> NoReturn:
    """Print nodes, and each that changes, until interrupted; what pods request on them is left out."""
    heads = ("NAME", "TYPE", "ZONE", "CAPACITY", "POOL", "$/HOUR", "STATE")

    def rows_for(session: KubeSession) -> _Followed[NodeFacts]:
        model = CostModel.load(region=session.region or options.region)

        def cells(node: NodeFacts) -> list[str]:
            price = model.node_cost(node, UNUSED).price
            facts = (node.name, node.instance_type, node.zone, node.capacity_type, node.pool)
            return [*(fact or "-" for fact in facts), f"{price.usd_per_hour:.4f}" if price else UNKNOWN, state_of(node)]

        def document(node: NodeFacts) -> dict[str, Any]:
            whole = node_document(node, UNUSED, model.node_cost(node, UNUSED))
            return {name: value for name, value in whole.items() if name not in _OF_PODS}

        return nodes_of(session), _rows(options, heads, cells, document, noun="node")

    _follow(options, rows_for)


_OF_PODS = ("pods", "requested", "idle_accelerators", "idle_usd_per_hour")
"""What is known of a node only with the pods on it."""


def follow_pods(options: Namespace) -> NoReturn:
    """Print pods, and each that changes, until interrupted."""

    def rows_for(_session: KubeSession) -> _Followed[PodFacts]:
        def cells(pod: PodFacts) -> list[str]:
            return pod_cells(pod, SystemClock().now().timestamp(), {})

        rows = _rows(options, POD_HEADS, cells, pod_document, noun="pod", is_wanted=lambda pod: is_wanted(pod, options))
        return pods_in(options.namespace), rows

    _follow(options, rows_for)


def follow_events(options: Namespace) -> NoReturn:
    """Print events, and each that comes, until interrupted."""

    def rows_for(_session: KubeSession) -> _Followed[EventFacts]:
        def cells(event: EventFacts) -> list[str]:
            return event_cells(event, SystemClock().now().timestamp())

        def is_wanted_event(event: EventFacts) -> bool:
            return not options.warnings or event.type == "Warning"

        return events_in(options.namespace), _rows(
            options, EVENT_HEADS, cells, event_document, is_wanted=is_wanted_event
        )

    _follow(options, rows_for)


def _rows(
    options: Namespace,
    heads: Sequence[str],
    cells: Callable[[FactT], Sequence[str]],
    document: Callable[[FactT], Any],
    *,
    noun: str = "",
    is_wanted: Callable[[FactT], bool] = lambda _: True,
) -> ChangedRows[FactT]:
    shown = () if options.no_headers else heads
    return ChangedRows(options.output, shown, cells, document, noun=noun, is_wanted=is_wanted)


def _follow(options: Namespace, rows_for: Callable[[KubeSession], _Followed[FactT]]) -> NoReturn:
    """Follow a resource until interrupted.

    Raises:
        UsageError: An option does not go with `--watch`.
        AccessError: It may not be listed or watched.
    """
    if options.output not in _FORMS:
        raise UsageError(f"--watch prints lines, not {options.output}.", hint=f"Use -o {' or '.join(_FORMS)}.")
    if options.sort_by or getattr(options, "label_columns", ()):
        raise UsageError("--watch prints rows as they change.", hint="Omit --sort-by and --label-columns.")

    async def ask(session: KubeSession) -> NoReturn:
        resource, rows = rows_for(session)
        await resource.reflector(session, rows, labels=getattr(options, "selector", "")).run()

    ask_cluster(options, ask)
