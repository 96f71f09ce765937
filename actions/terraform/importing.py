"""A lost state made whole: plans with `import` blocks, until nothing more can be imported, then one apply.

Nothing real is made, replaced or deleted: a plan that would do so is not applied, and what could be imported is
imported one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from actions.base.errors import ConsoleError, ToolError
from actions.base.files import write_private
from actions.base.readonly import refuse_if_readonly
from actions.terraform import arguments
from actions.terraform.driver import INIT_DEADLINE_SECONDS, TerraformDriver
from actions.terraform.protocol import Variables
from actions.terraform.working_directory import UPDATE_PLAN_FILE

IMPORTS_FILE = "eksml_adopted.tf"
_ROUNDS = 60
"""Plans at most: three lead to all parts, and each refused import costs one more, or some if it is not named."""

Choose = Callable[[bytes], Mapping[str, str]]
"""Returns the ids to import by address, from a plan as `terraform show -json` prints it."""
Blocks = Callable[[Mapping[str, str]], str]


class ImportResult(msgspec.Struct, frozen=True):
    """The state after an import."""

    imported: Mapping[str, str]
    """Ids by address."""
    refused: Mapping[str, str]
    """By address: the reason why it could not be imported."""
    missing: tuple[str, ...] = ()
    """Addresses that an apply would really make: they are not in the state."""


class StateImporter(TerraformDriver):
    """The `terraform` program for a root whose state is lost."""

    async def import_all(
        self, variables: Variables, *, choose: Choose, blocks: Blocks, makes: Callable[[bytes], tuple[str, ...]]
    ) -> ImportResult:
        """Import everything that can be.

        Args:
            variables: The root's.
            choose: Called with each plan.
            blocks: Makes the text of `import` blocks.
            makes: Returns what the apply of a plan would really make, replace or delete.

        Raises:
            ConsoleError: No plan is possible, whatever is imported.
        """
        refuse_if_readonly("terraform import")
        self._require_idle()
        self._directory.write_variables(variables)
        ids: dict[str, str] = {}
        refused: dict[str, str] = {}
        try:
            shown = await self._settled(ids, refused, choose, blocks)
            left = makes(shown)
            if not left:
                argv = arguments.apply_update_arguments(self._program)
                await self._query(argv, deadline_seconds=INIT_DEADLINE_SECONDS)
                return ImportResult(ids, refused)
        finally:
            (self._directory.folder / IMPORTS_FILE).unlink(missing_ok=True)
            (self._directory.folder / UPDATE_PLAN_FILE).unlink(missing_ok=True)
        for address, resource_id in list(ids.items()):
            try:
                await self.import_resource(address, resource_id, variables)
            except ConsoleError as error:
                refused[address] = error.message
                del ids[address]
        return ImportResult(ids, refused, left)

    async def _settled(self, ids: dict[str, str], refused: dict[str, str], choose: Choose, blocks: Blocks) -> bytes:
        """Plan again and again, with more imports each time, and leave out what is refused.

        Not every refusal names its import: then one half is tried, and the other half after it.

        Returns:
            The last plan, which has all of `ids`.
        """
        shown = await self._planned(blocks(ids))
        batches, is_newest = [_others(choose(shown), ids, refused)], True
        for _ in range(_ROUNDS):
            batch = batches.pop() if batches else {}
            if batch:
                try:
                    shown, is_newest = await self._planned(blocks({**ids, **batch})), True
                    ids.update(batch)
                except ConsoleError as error:
                    is_newest = False
                    batches += _smaller(batch, error, refused)
                    continue
            if not batches:
                more = _others(choose(shown), ids, refused)
                if not more:
                    break
                batches.append(more)
        return shown if is_newest else await self._planned(blocks(ids))

    async def _planned(self, blocks: str) -> bytes:
        write_private(self._directory.folder / IMPORTS_FILE, blocks.encode())
        argv = arguments.plan_update_arguments(self._program, ())
        await self._query(argv, deadline_seconds=INIT_DEADLINE_SECONDS)
        return await self._query(arguments.show_plan_arguments(self._program, UPDATE_PLAN_FILE))


def _others(chosen: Mapping[str, str], ids: Mapping[str, str], refused: Mapping[str, str]) -> dict[str, str]:
    return {address: name for address, name in chosen.items() if address not in ids and address not in refused}


def _smaller(batch: dict[str, str], error: ConsoleError, refused: dict[str, str]) -> list[dict[str, str]]:
    """Return what of a refused batch is to be tried again, and record what is refused for good."""
    text = _whole_text(error)
    names = list(batch.values())
    blamed = [
        address
        for address, name in batch.items()
        if f'"{address}"' in text or f"{address}," in text or (f"({name})" in text and names.count(name) == 1)
    ]
    if not blamed and len(batch) > 1:
        items = list(batch.items())
        return [dict(items[len(items) // 2 :]), dict(items[: len(items) // 2])]
    for address in blamed or batch:
        refused[address] = error.message
    rest = {address: name for address, name in batch.items() if address not in refused}
    return [rest] if rest else []


def _whole_text(error: ConsoleError) -> str:
    """Return everything that Terraform has printed, without the frame of its messages and on one line."""
    cause = error.__cause__
    printed = cause.tail if isinstance(cause, ToolError) else ""
    return " ".join(f"{error.message} {error.hint} {printed}".replace("│", " ").split())
