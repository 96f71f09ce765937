"""The catalogue: which blueprints there are, from the program, the operator and `--blueprints`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from actions.base.errors import BlueprintError, MissingError
from actions.base.files import config_home, shipped_blueprints
from actions.blueprint.load import FILE_NAME, load_blueprint
from actions.blueprint.model import Blueprint

_ID = re.compile(r"""^id:\s*["']?([^\s"'#]+)""", re.MULTILINE)


_DEFECTS = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that a text may lead to that nobody has thought of."""


class BrokenBlueprint(msgspec.Struct, frozen=True):
    """A folder whose blueprint cannot be loaded."""

    folder: Path
    error: BlueprintError


class Catalogue:
    """Blueprints by id. A later folder's blueprint takes the place of an earlier one's with the same id.

    Args:
        folders: Folders that hold blueprint folders; searched in this order.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    @classmethod
    def usual(cls, extra: Sequence[Path] = ()) -> Catalogue:
        """Those that ship with the program, the operator's own, and then `extra`.

        Raises:
            BlueprintError: A folder of `extra` is not there.
        """
        for folder in extra:
            if not folder.is_dir():
                raise BlueprintError("is no folder of blueprints.", file=str(folder), hint="Check --blueprints.")
        return cls([shipped_blueprints(), config_home() / "blueprints", *extra])

    def list(self) -> tuple[Blueprint, ...]:
        """All blueprints that can be loaded, by id. Reads the disk: call it off the loop's busy times."""
        return self.read()[0]

    def broken(self) -> tuple[BrokenBlueprint, ...]:
        """The folders whose blueprint cannot be loaded, with what is wrong."""
        return self.read()[1]

    def find(self, blueprint_id: str) -> Blueprint:
        """The blueprint with this id.

        Raises:
            MissingError: There is none; the hint names those that there are.
            BlueprintError: It is there and broken.
        """
        errors: list[BlueprintError] = []
        for path in self._claiming(blueprint_id):
            try:
                return load_blueprint(path.parent)
            except BlueprintError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        found, broken = self.read()
        for item in broken:
            if item.folder.name == blueprint_id:
                raise item.error
        known = ", ".join(blueprint.id for blueprint in found) or "none"
        raise MissingError(f"There is no blueprint {blueprint_id!r}.", hint=f"Known blueprints: {known}.")

    def _claiming(self, blueprint_id: str) -> Sequence[Path]:
        """The files that say they have this id, the one that takes precedence first: to load the others is slow."""
        files = [path for folder in self.folders for path in sorted(folder.glob(f"*/{FILE_NAME}"))]
        return [
            path for path in reversed(files) if blueprint_id in _ID.findall(path.read_bytes().decode(errors="replace"))
        ]

    def read(self) -> tuple[tuple[Blueprint, ...], tuple[BrokenBlueprint, ...]]:
        """All that can be loaded, by id, and the folders of those that cannot."""
        found: dict[str, Blueprint] = {}
        broken = []
        for folder in self.folders:
            for path in sorted(folder.glob(f"*/{FILE_NAME}")):
                try:
                    blueprint = load_blueprint(path.parent)
                except BlueprintError as error:
                    broken.append(BrokenBlueprint(path.parent, error))
                except _DEFECTS as error:  # one folder must not hide the others, whatever is in it
                    met = f"reading it met a defect of this program: {type(error).__name__}."
                    broken.append(BrokenBlueprint(path.parent, BlueprintError(met, file=str(path))))
                else:
                    found[blueprint.id] = blueprint
        return tuple(found[key] for key in sorted(found)), tuple(broken)
