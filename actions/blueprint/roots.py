"""The Terraform roots of a blueprint: where they are, which variables they declare.

Roots that several blueprints use lie in a shared folder of the program and are named `common/…`. A run keeps copies
of those that its blueprint names, in the same place below its own copy of the blueprint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from actions.base.errors import BlueprintError
from actions.base.files import shipped_blueprints
from actions.blueprint.manifests import inside
from actions.blueprint.model import Blueprint
from actions.blueprint.stages import TerraformStage

SHARED = "common"
"""First step of the path of a root that is not the blueprint's own."""

_VARIABLE = re.compile(r'^variable\s+"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"\s*\{(?P<body>.*?)^\}', re.M | re.S)
_ONE_LINE = re.compile(r'^variable\s+"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"\s*\{(?P<body>[^\n{}]*)\}\s*$', re.M)
_DEFAULT = re.compile(r"(?:^|[\s{])default\s*=")
_OUTPUT = re.compile(r'^output\s+"([A-Za-z_][A-Za-z0-9_]*)"', re.M)


def root_folder(folder: Path, root: str) -> Path:
    """Where a root is: in the blueprint's folder; for `common/…` that is not there, in the program's shared folder.

    Raises:
        BlueprintError: The path leads elsewhere.
    """
    own = inside(folder, root)
    if is_shared(root) and not own.is_dir():
        return inside(shipped_blueprints(), root)
    return own


def is_shared(root: str) -> bool:
    """Whether a root is named as one of the program's."""
    return Path(root).parts[:1] == (SHARED,)


def shared_roots(blueprint: Blueprint) -> Iterator[str]:
    """The shared roots that a blueprint names, under whatever preset."""
    named = [stage.root for stage in blueprint.stages if isinstance(stage, TerraformStage)]
    named += [root for preset in blueprint.presets.values() for root in preset.roots.values()]
    yield from (root for root in dict.fromkeys(named) if is_shared(root))


def variables_of(folder: Path, root: str) -> dict[str, bool]:
    """Variables that a root declares, and whether each must be answered (has no default).

    Raises:
        BlueprintError: The root has no `.tf` file.
    """
    text = _source_of(folder, root)
    found = {match["name"]: match["body"] for match in _VARIABLE.finditer(text)}
    found |= {match["name"]: match["body"] for match in _ONE_LINE.finditer(text)}
    return {name: _DEFAULT.search(body) is None for name, body in found.items()}


def outputs_of(folder: Path, root: str) -> frozenset[str]:
    """Outputs that a root declares.

    Raises:
        BlueprintError: The root has no `.tf` file.
    """
    return frozenset(_OUTPUT.findall(_source_of(folder, root)))


def _source_of(folder: Path, root: str) -> str:
    path = root_folder(folder, root)
    files = sorted(path.glob("*.tf")) if path.is_dir() else []
    if not files:
        raise BlueprintError(f"{root!r} is no Terraform root: it has no .tf file.", file=str(folder))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
