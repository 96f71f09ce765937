"""Modules, functions, classes and folders have a size that can be read at once; no module is cut by length alone."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("actions", "tui", "blueprints", "assets")
MODULE_LINES = 600
MODULE_FLOOR = 60
"""A shorter module is a piece of another one, unless at least `SHARED_BY` modules need it."""
SHARED_BY = 3
FOLDER_MODULES = 20
APP_LINES = 200
FUNCTION_LINES = 60
CLASS_METHODS = 25


@cache
def modules() -> dict[Path, ast.Module]:
    """The product's modules, parsed, by their paths below the repository's root."""
    return {
        path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
        for package in PRODUCT
        for path in (ROOT / package).rglob("*.py")
    }


def lines_of(path: Path) -> int:
    return (ROOT / path).read_text(encoding="utf-8").count("\n")


def dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def importers() -> dict[str, set[str]]:
    """By module: the product's modules that import it or a name of it."""
    known = {dotted(path) for path in modules()}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path, tree in modules().items():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name in known:
                    found[name].add(dotted(path))
    return found


def test_no_module_is_too_long() -> None:
    limits = {Path("tui/app.py"): APP_LINES}
    long = {str(path): lines for path in modules() if (lines := lines_of(path)) > limits.get(path, MODULE_LINES)}
    assert long == {}


def test_no_module_is_a_splinter() -> None:
    """Entry points and packages' own files are as short as they like."""
    needed_by = importers()
    splinters = {
        str(path): lines
        for path in modules()
        if path.name not in {"__init__.py", "__main__.py"}
        and (lines := lines_of(path)) < MODULE_FLOOR
        and len(needed_by[dotted(path)]) < SHARED_BY
    }
    assert splinters == {}


def test_no_folder_is_a_heap() -> None:
    counted = Counter(str(path.parent) for path in modules() if path.name != "__init__.py")
    assert {folder: count for folder, count in counted.items() if count > FOLDER_MODULES} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{path}:{node.lineno} {node.name}": length
        for path, tree in modules().items()
        for node in functions(tree)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


def test_no_class_has_too_many_methods() -> None:
    large = {
        f"{path}:{node.lineno} {node.name}": count
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and (count := sum(isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) for item in node.body))
        > CLASS_METHODS
    }
    assert large == {}


def test_broad_excepts_stand_only_at_the_two_boundaries() -> None:
    """The source supervisor and the command boundaries (console, runner) catch everything, and all report it."""
    allowed = {"tui/feeds/supervisor.py", "tui/commands/dispatcher.py", "actions/run/engine/runner.py"}
    found = {
        str(path)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
        and not any(isinstance(item, ast.Raise) and item.exc is None for item in ast.walk(node))
    }
    assert found <= allowed
