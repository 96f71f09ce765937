"""`--watch` of `nodes`, `pods` and `events`: the table once, then a line for each row that has changed."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from actions.base.errors import UsageError
from actions.base.wording import aligned
from actions.cluster.auth.session import KubeSession
from actions.cluster.state.listing import ListedResource
from actions.cluster.state.store import HasUid
from actions.cluster.watch.health import Health, SourceHealth
from tui.cli.tables.output import json_line

FactT = TypeVar("FactT", bound=HasUid)

_FORMS = ("table", "name", "jsonl")


class ChangedRows(Generic[FactT]):
    """The sink of a reflector that prints each row that is new or differs, once.

    Args:
        options: Of a command that lists.
        heads: Titles of the table.
        cells: Returns the cells of a fact.
        document: Returns the document of a fact.
        noun: The kind that `name` puts before each name.
        is_wanted: Returns whether a fact is printed.

    Raises:
        UsageError: An option does not go with `--watch`.
    """

    def __init__(
        self,
        options: Namespace,
        heads: Sequence[str],
        cells: Callable[[FactT], Sequence[str]],
        document: Callable[[FactT], Any],
        *,
        noun: str = "",
        is_wanted: Callable[[FactT], bool] = lambda _: True,
    ) -> None:
        self._labels = getattr(options, "selector", "")
        if options.output not in _FORMS:
            raise UsageError(f"--watch prints lines, not {options.output}.", hint=f"Use -o {' or '.join(_FORMS)}.")
        if options.sort_by or getattr(options, "label_columns", ()):
            raise UsageError("--watch prints rows as they change.", hint="Omit --sort-by and --label-columns.")
        self._form = options.output
        self._heads = () if options.no_headers else heads
        self._cells = cells
        self._document = document
        self._noun = noun
        self._is_wanted = is_wanted
        self._printed: dict[str, FactT] = {}
        self._widest: list[str] = []
        self._state = Health.SYNCING

    async def follow(self, session: KubeSession, resource: ListedResource[FactT]) -> NoReturn:
        """Print rows until interrupted.

        Raises:
            AccessError: They may not be listed or watched.
        """
        await resource.reflector(session, self, labels=self._labels).run()

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
