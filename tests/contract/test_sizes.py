"""Modules, functions, classes and folders have a size that can be read at once; no module is cut by length alone."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import ROOT, SourceModule, files_of_tests, modules

MODULE_LINES = 600
MODULE_FLOOR = 60
"""A shorter module is a piece of another one, unless at least `SHARED_BY` modules need it."""
SHARED_BY = 3
FOLDER_MODULES = 20
APP_LINES = 200
FUNCTION_LINES = 60
CLASS_METHODS = 25


def lines_of(module: SourceModule) -> int:
    return module.text.count("\n")


def functions(module: SourceModule) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from module.nodes(ast.FunctionDef)
    yield from module.nodes(ast.AsyncFunctionDef)


def importers() -> dict[str, set[str]]:
    """By module: the product's modules that import it or a name of it."""
    known = {module.dotted for module in modules()}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules():
        names = [alias.name for node in module.nodes(ast.Import) for alias in node.names]
        for node in module.nodes(ast.ImportFrom):
            if node.module:
                names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in known.intersection(names):
            found[name].add(module.dotted)
    return found


def test_no_module_is_too_long() -> None:
    limits = {Path("tui/app.py"): APP_LINES}
    long = {
        str(module.path): lines
        for module in modules()
        if (lines := lines_of(module)) > limits.get(module.path, MODULE_LINES)
    }
    assert long == {}


def test_no_module_of_tests_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in files_of_tests()}
    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_module_is_a_splinter() -> None:
    """Entry points and packages' own files are as short as they like."""
    needed_by = importers()
    splinters = {
        str(module.path): lines
        for module in modules()
        if module.path.name not in {"__init__.py", "__main__.py"}
        and (lines := lines_of(module)) < MODULE_FLOOR
        and len(needed_by[module.dotted]) < SHARED_BY
    }
    assert splinters == {}


def test_no_folder_is_a_heap() -> None:
    counted = Counter(str(module.path.parent) for module in modules() if module.path.name != "__init__.py")
    assert {folder: count for folder, count in counted.items() if count > FOLDER_MODULES} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{module.path}:{node.lineno} {node.name}": length
        for module in modules()
        for node in functions(module)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


def test_no_class_has_too_many_methods() -> None:
    large = {
        f"{module.path}:{node.lineno} {node.name}": count
        for module in modules()
        for node in module.nodes(ast.ClassDef)
        if (count := sum(isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) for item in node.body))
        > CLASS_METHODS
    }
    assert large == {}


def test_broad_excepts_stand_only_at_boundaries() -> None:
    """The source supervisor and the boundaries of commands, steps, runner, companions, readers and panes catch all."""
    allowed = {
        "tui/feeds/supervisor.py",
        "tui/defects.py",
        "actions/base/errors.py",
        "tui/commands/dispatcher.py",
        "actions/run/engine/runner.py",
        "actions/run/engine/runner_process.py",
        "actions/run/engine/companions.py",
        "actions/script/play.py",
    }
    found = {
        str(module.path)
        for module in modules()
        for node in module.nodes(ast.ExceptHandler)
        if (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
        and not any(isinstance(item, ast.Raise) and item.exc is None for item in ast.walk(node))
    }
    assert found <= allowed
