"""Operator manifests from a mirror: found by name and version, checked against their recorded sha256."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from pathlib import Path

from actions.base.errors import BlueprintError, MissingError
from actions.base.files import asset, config_home
from actions.base.yamldoc import read_input
from actions.blueprint.manifests import parse_manifests
from actions.blueprint.stages import Source
from actions.blueprint.targets import Manifest

MANIFEST_FILE = "manifest.yaml"
SUM_FILE = "manifest.yaml.sha256"


def operator_manifests(source: Source, mirrors: Sequence[Path], *, shipped: str = "") -> list[Manifest]:
    """The objects of an operator at its pinned version.

    A mirror holds `NAME/VERSION/manifest.yaml` beside `manifest.yaml.sha256`, written as by sha256sum.

    Args:
        source: Which operator.
        mirrors: Folders that are searched first.
        shipped: Asset folder that serves as a mirror too, for rehearsals; empty for none.

    Raises:
        MissingError: No mirror has it.
        BlueprintError: Its bytes are not those that were recorded, or are no Kubernetes objects.
    """
    folders = [*mirrors, config_home() / "mirror", *([asset(shipped)] if shipped else [])]
    for folder in folders:
        path = folder / source.name / source.version / MANIFEST_FILE
        if path.is_file():
            found = [dict(item.value) for item in parse_manifests(_checked(path, source), file=str(path))]
            return [_adapted(each, source) for each in found if _name_of(each) not in source.without]
    raise MissingError(
        f"{source.name} {source.version} is in no mirror.",
        hint=f"Fill one: eksml-tui mirror {source.name}; or put its {MANIFEST_FILE} and {SUM_FILE} into "
        f"{folders[0] / source.name / source.version}.",
    )


def _name_of(manifest: Manifest) -> str:
    return f"{manifest.get('kind')}/{(manifest.get('metadata') or {}).get('name')}"


def _adapted(manifest: Manifest, source: Source) -> Manifest:
    """The manifest with the arguments that the blueprint adds to its containers, each once."""
    if manifest.get("kind") != "Deployment" or not source.arguments:
        return manifest
    adapted = copy.deepcopy(manifest)
    for container in adapted.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ():
        added = source.arguments.get(container.get("name", ""), ())
        given = container.get("args") or []
        if added:
            container["args"] = [*given, *(argument for argument in added if argument not in given)]
    return adapted


def _checked(path: Path, source: Source) -> bytes:
    data = read_input(path, kind=BlueprintError)
    recorded = read_input(path.with_name(SUM_FILE), kind=BlueprintError).decode(errors="replace").split()
    found = hashlib.sha256(data).hexdigest()
    if found not in recorded[:1]:
        raise BlueprintError(
            f"{source.name} {source.version} is not what was recorded: its sha256 is {found[:12]}….",
            file=str(path),
            hint=f"Fetch it again, or record it anew in {SUM_FILE}.",
        )
    return data
