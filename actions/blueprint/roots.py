"""The Terraform roots of a blueprint: which variables they declare."""

from __future__ import annotations

import re
from pathlib import Path

from actions.base.errors import BlueprintError
from actions.blueprint.manifests import inside

_VARIABLE = re.compile(r'^variable\s+"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"\s*\{(?P<body>.*?)^\}', re.M | re.S)
_ONE_LINE = re.compile(r'^variable\s+"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"\s*\{(?P<body>[^\n{}]*)\}\s*$', re.M)
_DEFAULT = re.compile(r"(?:^|[\s{])default\s*=")
_OUTPUT = re.compile(r'^output\s+"([A-Za-z_][A-Za-z0-9_]*)"', re.M)


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
    path = inside(folder, root)
    files = sorted(path.glob("*.tf")) if path.is_dir() else []
    if not files:
        raise BlueprintError(f"{root!r} is no Terraform root: it has no .tf file.", file=str(folder))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
