"""Blueprints found in their folders, loaded and checked: every error with file, line and column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from actions.base.errors import BlueprintError, UnknownNameError, nearest_hint
from actions.base.files import config_folder, read_file, shipped_blueprints
from actions.base.yamldoc import MAX_BYTES, Document
from actions.blueprint.checks import AnyCheck
from actions.blueprint.consistency import blueprint_problems
from actions.blueprint.model import (
    SCHEMA,
    Blueprint,
    Cluster,
    Derived,
    Holding,
    Parameter,
    ParameterRule,
    Preset,
    Results,
    SecretObject,
)
from actions.blueprint.parts import BlueprintProblem, Name, Where
from actions.blueprint.references import access_problems
from actions.blueprint.source_files import CHECKS, FILE_NAME, read_blueprint
from actions.blueprint.stages import AnyStage
from actions.blueprint.structure.mistakes import decode_part, mistake_in

T = TypeVar("T")

_KEYS = (*(field.name for field in msgspec.structs.fields(Blueprint) if field.name != "folder"), CHECKS)
BLUEPRINT_ID = re.compile(r"[a-z][a-z0-9-]{0,39}")


def load_blueprint(folder: Path) -> Blueprint:
    """Read and check the blueprint in `folder`.

    Raises:
        BlueprintError: The first thing that is wrong, with file, line and column.
    """
    document, blueprint = _read(folder)
    for finding in blueprint_problems(blueprint):
        raise _error_of(document, finding)
    return blueprint


def validate(folder: Path, file: Path | None = None) -> list[BlueprintError]:
    """Return everything that is wrong with the blueprint in `folder`; empty if nothing is.

    A file that cannot be read into the model gives one error; otherwise every finding is reported.

    Args:
        folder: The folder with the blueprint's files.
        file: The blueprint itself, also a pipe; that of the folder by default.
    """
    try:
        document = read_blueprint(folder, file)
        blueprint = _blueprint_of(document, folder)
    except BlueprintError as error:
        return [error]
    findings = (*blueprint_problems(blueprint), *access_problems(blueprint))
    return [_error_of(document, finding) for finding in findings]


def require_access(blueprint: Blueprint) -> None:
    """Refuse a blueprint with a stage that talks to the cluster and needs no kubeconfig stage, as `validate` does.

    Loading accepts it, so that a run which was launched with such a blueprint can still be resumed and torn down.

    Raises:
        BlueprintError: The first such stage, with file, line and column.
    """
    for finding in access_problems(blueprint):
        document, _ = _read(blueprint.folder)
        raise _error_of(document, finding)


def _read(folder: Path) -> tuple[Document, Blueprint]:
    document = read_blueprint(folder)
    return document, _blueprint_of(document, folder)


def _error_of(document: Document, finding: BlueprintProblem) -> BlueprintError:
    if finding.error is not None:
        return finding.error
    return document.error(BlueprintError, finding.message, *finding.where, hint=finding.hint)


def _require_schema(document: Document) -> None:
    schema = document.value.get("schema")
    if schema == SCHEMA:
        return
    if re.fullmatch(r"eksml/v[0-9]{1,9}", str(schema)):
        message = f"it is written in {schema}, for a newer eksml-tui: this one reads {SCHEMA}."
        raise document.error(BlueprintError, message, "schema", hint="Upgrade eksml-tui.")
    raise document.error(
        BlueprintError, "this is not a blueprint of a known schema.", "schema", hint=f"Write {SCHEMA}."
    )


def _blueprint_of(document: Document, folder: Path) -> Blueprint:
    value = document.value
    _require_schema(document)
    _check_keys(document)
    for key in ("id", "title", "summary"):
        if not isinstance(value.get(key), str):
            raise document.error(BlueprintError, f"{key} must be a text.", key)
    if BLUEPRINT_ID.fullmatch(value["id"]) is None:
        message = f"{value['id']!r} is not an id."
        raise document.error(BlueprintError, message, "id", hint="Use lower case, digits and -.")
    blueprint = Blueprint(
        schema="eksml/v1",
        id=value["id"],
        title=value["title"],
        summary=value["summary"],
        cluster=_convert(document, value.get("cluster"), Cluster, ("cluster",)),
        uses=tuple(value.get("uses", ())),
        parameters=_section(document, "parameters", Parameter),
        form=_list(document, "form", str),
        derived=_section(document, "derived", Derived),
        rules=_list(document, "rules", ParameterRule),
        holdings=_section(document, "holdings", Holding),
        secrets=_section(document, "secrets", SecretObject),
        results=_results(document),
        stages=_list(document, "stages", AnyStage),
        presets=_section(document, "presets", Preset),
        folder=folder,
    )
    for title, check in value[CHECKS].items():  # also those that no stage takes; a stage may add what one lacks
        _convert(document, {"title": title, **check}, AnyCheck, (CHECKS, title), is_whole=False)
    return blueprint


def _check_keys(document: Document) -> None:
    value = document.value
    if not isinstance(value, dict):
        raise document.error(BlueprintError, "a blueprint is a mapping.", hint=f"Begin with: schema: {SCHEMA}.")
    for key in value:
        if key not in _KEYS:
            raise document.error(BlueprintError, f"unknown key {key!r}.", key, hint=nearest_hint(key, _KEYS))


def _section(document: Document, key: str, kind: type[T]) -> dict[str, T]:
    value = document.value.get(key, {})
    if not isinstance(value, dict):
        raise document.error(BlueprintError, f"{key} must be a mapping.", key)
    if key in {"parameters", "derived"}:
        for name in value:
            _convert(document, name, Name, (key, name))
    return {name: _convert(document, item, kind, (key, name)) for name, item in value.items()}


def _results(document: Document) -> Results | None:
    value = document.value.get("results")
    return None if value is None else _convert(document, value, Results, ("results",))


def _list(document: Document, key: str, kind: Any) -> tuple[Any, ...]:
    value = document.value.get(key, [])
    if not isinstance(value, list) or (key == "stages" and not value):
        raise document.error(BlueprintError, f"{key} must be a list.", key, hint="Put a - before each item.")
    return tuple(_convert(document, item, kind, (key, index)) for index, item in enumerate(value))


def _convert(document: Document, value: Any, kind: Any, where: Where, *, is_whole: bool = True) -> Any:
    try:
        return decode_part(value, kind)
    except msgspec.ValidationError as error:
        found = mistake_in(value, kind, error)
        place = (*where, *found.where)
        if found.missing and not is_whole:
            return None
        if found.unknown:
            message = f"unknown key {found.unknown!r}."
            raise document.error(BlueprintError, message, *place, found.unknown, hint=found.hint) from error
        named = ".".join(str(step) for step in place)
        raise document.error(BlueprintError, f"{named}{found.message}", *place, hint=found.hint) from error


_ID = re.compile(r"""^id:\s*["']?([^\s"'#]+)""", re.MULTILINE)


_DEFECTS = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of ours that a text which was not foreseen may lead to."""


class BrokenBlueprint(msgspec.Struct, frozen=True):
    """A folder whose blueprint cannot be loaded."""

    folder: Path
    error: BlueprintError


def _ids_in(path: Path) -> list[str]:
    """Return what a file may have as its id; nothing of one that cannot be read, of which `read` gives the error."""
    try:
        return _ID.findall(read_file(path, MAX_BYTES).decode(errors="replace"))
    except OSError:
        return []


class Catalogue:
    """Blueprints by id. A later folder's blueprint takes the place of an earlier one's with the same id.

    Args:
        folders: Folders that hold blueprint folders; searched in this order.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    @classmethod
    def usual(cls, extra: Sequence[Path] = ()) -> Catalogue:
        """Return the catalogue of the shipped blueprints, the operator's own, and then those of `extra`.

        Raises:
            BlueprintError: A folder of `extra` is not there.
        """
        for folder in extra:
            if not folder.is_dir():
                raise BlueprintError(
                    "is not a folder of blueprints.",
                    file=str(folder),
                    hint="Check --blueprints, or blueprints in config.yaml.",
                )
        return cls([shipped_blueprints(), config_folder() / "blueprints", *extra])

    def list(self) -> tuple[Blueprint, ...]:
        """Return all blueprints that can be loaded, by id. It reads the disk: call it off the loop's busy times."""
        return self.read()[0]

    def broken(self) -> tuple[BrokenBlueprint, ...]:
        """Return the folders whose blueprint cannot be loaded, with the error of each."""
        return self.read()[1]

    def find(self, blueprint_id: str) -> Blueprint:
        """Return the blueprint with this id.

        Raises:
            UnknownNameError: There is none; the hint names those that there are.
            BlueprintError: It is there and broken, in the last folder that has it.
        """
        errors: dict[Path, BlueprintError] = {}
        for path in self._claiming(blueprint_id):
            folder = path.parent.parent
            try:
                blueprint = load_blueprint(path.parent)
            except BlueprintError as error:
                errors.setdefault(folder, error)
                continue
            errors.pop(folder, None)  # of a copy beside it: that hides nothing, one of a later folder does
            if not errors:
                return blueprint
            break
        if errors:
            raise next(iter(errors.values()))
        found, broken = self.read()
        for item in broken:
            if item.folder.name == blueprint_id:
                raise item.error
        known = ", ".join(blueprint.id for blueprint in found) or "none"
        raise UnknownNameError(f"There is no blueprint {blueprint_id!r}.", hint=f"Known blueprints: {known}.")

    def _claiming(self, blueprint_id: str) -> Sequence[Path]:
        """Return the files with this id, that of the highest precedence first: loading all files is slow."""
        files = [path for folder in self.folders for path in sorted(folder.glob(f"*/{FILE_NAME}"))]
        return [path for path in reversed(files) if blueprint_id in _ids_in(path)]

    def read(self) -> tuple[tuple[Blueprint, ...], tuple[BrokenBlueprint, ...]]:
        """Return all blueprints that can be loaded, by id, and the folders of those that cannot."""
        found: dict[str, Blueprint] = {}
        broken = []
        for folder in self.folders:
            for path in sorted(folder.glob(f"*/{FILE_NAME}")):
                try:
                    blueprint = load_blueprint(path.parent)
                except BlueprintError as error:
                    broken.append(BrokenBlueprint(path.parent, error))
                except _DEFECTS as error:  # one folder must not hide the others, whatever is in it
                    met = f"it cannot be read because of a defect in this program: {type(error).__name__}."
                    broken.append(BrokenBlueprint(path.parent, BlueprintError(met, file=str(path))))
                else:
                    found[blueprint.id] = blueprint
        return tuple(found[key] for key in sorted(found)), tuple(broken)
