"""The product's modules, each read and parsed once in a process, for the rules about the code itself."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

ROOT = Path(__file__).parents[2]
PRODUCT = ("actions", "tui", "blueprints", "assets")

_BUILD = ROOT / "tests" / "realcluster" / "build"
"""Made, and ignored by git: images of real nodes with libraries in them are among it."""

NodeT = TypeVar("NodeT", bound=ast.AST)


@dataclass(frozen=True)
class SourceModule:
    """One module.

    Args:
        path: Below the repository's root.
        text: Of the file.
        tree: The module, parsed.
        by_class: Every node of the tree, by its class, outer ones first.
    """

    path: Path
    text: str
    tree: ast.Module
    by_class: Mapping[type[ast.AST], Sequence[ast.AST]]

    @classmethod
    def parse(cls, path: Path) -> Self:
        """Read and parse a file of the repository."""
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        by_class: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in ast.walk(tree):
            by_class[type(node)].append(node)
        return cls(path.relative_to(ROOT), text, tree, by_class)

    @property
    def package(self) -> str:
        """The first part of its path."""
        return self.path.parts[0]

    @property
    def dotted(self) -> str:
        """Its name as an import has it; a package's own is the package's."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def nodes(self, kind: type[NodeT]) -> Iterator[NodeT]:
        """Every node of this very class, wherever in the module it stands."""
        for node in self.by_class.get(kind, ()):
            assert isinstance(node, kind)
            yield node


@cache
def modules() -> tuple[SourceModule, ...]:
    """The modules of the product, sorted by package and path.

    Half a million nodes that stay: the garbage collector would spend twice the time of the parser on looking at them.
    """
    gc.disable()
    try:
        found = tuple(
            SourceModule.parse(path) for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))
        )
        gc.freeze()
    finally:
        gc.enable()
    return found


def modules_of(*packages: str) -> Iterator[SourceModule]:
    """The modules of some of the packages."""
    return (module for module in modules() if module.package in packages)


def files_of_tests() -> Iterator[Path]:
    """Yield the modules of the tests."""
    return (path for path in (ROOT / "tests").rglob("*.py") if _BUILD not in path.parents)
