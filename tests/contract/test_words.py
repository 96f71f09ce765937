"""One word a thing, and plain English: the promises of `docs/glossary.md` for names and docstrings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from tests.support.sources import SourceModule, modules

FIRST_WORDS = frozenset({"What", "Whether", "Who", "Whose", "Whom"})
"""A docstring names the thing or commands: "Return whether…", "The node table"."""
IDIOM = re.compile(r"\b(?:somebody|nobody|is told|are told|is asked|are asked)\b", re.IGNORECASE)
"""Code and data are not persons."""
SCREEN = re.compile(r"(?<!here )\bis no (?!longer\b|more\b)\w+|To be put right|Let the nodes go")
"""`x is no pod` is "x is not a pod"; `there is no pod` may stay."""


@cache
def docstrings() -> tuple[tuple[str, str], ...]:
    """Every docstring, with its place."""
    return tuple(
        (f"{module.path}:{getattr(node, 'lineno', 1)}", text)
        for module in modules()
        for node in documented(module)
        if (text := ast.get_docstring(node, clean=False)) is not None
    )


def documented(module: SourceModule) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the nodes that may have a docstring."""
    yield module.tree
    yield from module.nodes(ast.ClassDef)
    yield from module.nodes(ast.FunctionDef)
    yield from module.nodes(ast.AsyncFunctionDef)


def test_every_module_names_what_it_owns() -> None:
    assert [str(module.path) for module in modules() if not ast.get_docstring(module.tree)] == []


def test_no_class_name_means_two_things() -> None:
    """Private names are a module's own affair."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module.path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_docstrings_name_or_command() -> None:
    assert [place for place, text in docstrings() if text.split()[0].strip(".,:") in FIRST_WORDS] == []


def test_docstrings_do_not_personify() -> None:
    assert [f"{place} {found[0]}" for place, text in docstrings() if (found := IDIOM.search(text))] == []


def test_sentences_on_screen_are_plain_english() -> None:
    """Messages and hints: every string that is no docstring."""
    found: list[str] = []
    for module in modules():
        docs = {
            id(node.body[0].value) for node in documented(module) if node.body and isinstance(node.body[0], ast.Expr)
        }
        for node in module.nodes(ast.Constant):
            if not isinstance(node.value, str) or id(node) in docs:
                continue
            if match := SCREEN.search(node.value):
                found.append(f"{module.path}:{node.lineno} {match[0]}")
    assert found == []
