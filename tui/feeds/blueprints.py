"""The feed of the blueprints that can be launched.

They are read on a thread, which also imports what reads them: the first frame needs no YAML.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.executors import NamedExecutor

if TYPE_CHECKING:
    from actions.blueprint.catalogue import BrokenBlueprint, Catalogue
    from actions.blueprint.model import Blueprint


class BlueprintFeed:
    """The feed of the catalogue of blueprints. Used on the loop only.

    Args:
        folders: Folders of blueprint folders; empty for the usual places.
        changed: Called when the catalogue has been read.
    """

    def __init__(self, folders: tuple[Path, ...], changed: Callable[[], None]) -> None:
        self.found: tuple[Blueprint, ...] = ()
        self.broken: tuple[BrokenBlueprint, ...] = ()
        self.is_read = False
        """True after the catalogue has been read once."""
        self._folders = folders
        self._changed = changed
        self._disk = NamedExecutor("blueprints")

    async def run(self) -> None:
        """Read the catalogue."""
        catalogue = await self._disk.call(_catalogue, self._folders)
        self.found, self.broken = await self._disk.call(catalogue.read)
        self.is_read = True
        self._changed()

    async def find(self, blueprint_id: str) -> Blueprint:
        """Return the blueprint with this id, read again.

        Raises:
            MissingError: There is none.
            BlueprintError: It is broken.
        """
        catalogue = await self._disk.call(_catalogue, self._folders)
        return await self._disk.call(catalogue.find, blueprint_id)

    def close(self) -> None:
        """Stop reading."""
        self._disk.close()


def _catalogue(folders: tuple[Path, ...]) -> Catalogue:
    from actions.blueprint.catalogue import Catalogue

    return Catalogue(folders) if folders else Catalogue.usual()
