"""The catalogue of blueprints, read once in a thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.executors import Offload

if TYPE_CHECKING:
    from actions.blueprint.catalogue import BrokenBlueprint, Catalogue
    from actions.blueprint.model import Blueprint


class BlueprintFeed:
    """What can be launched. Used on the loop only.

    Args:
        folders: Where blueprints are looked for; empty for the usual places.
        changed: Called when the catalogue has been read.
    """

    def __init__(self, folders: tuple[Path, ...], changed: Callable[[], None]) -> None:
        self.found: tuple[Blueprint, ...] = ()
        self.broken: tuple[BrokenBlueprint, ...] = ()
        self._folders = folders
        self._changed = changed
        self._disk = Offload("blueprints")

    async def run(self) -> None:
        """Read the catalogue."""
        catalogue = await self._disk.call(_catalogue, self._folders)
        self.found, self.broken = await self._disk.call(catalogue.read)
        self._changed()

    async def find(self, blueprint_id: str) -> Blueprint:
        """The blueprint with this id, read anew.

        Raises:
            MissingError: There is none.
            BlueprintError: It is broken.
        """
        catalogue = await self._disk.call(_catalogue, self._folders)
        return await self._disk.call(catalogue.find, blueprint_id)

    def close(self) -> None:
        """Read no more."""
        self._disk.close()


def _catalogue(folders: tuple[Path, ...]) -> Catalogue:
    from actions.blueprint.catalogue import Catalogue

    return Catalogue(folders) if folders else Catalogue.usual()
