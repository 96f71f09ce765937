"""One word a thing, and plain English: the promises of `docs/glossary.md` for names and docstrings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

from tests.support.sources import ROOT, modules

RELATIVE_CLAUSE = re.compile(
    r'''^[ \t]*[rR]?"""(?:What|Whether|Who|Whose|Whom|How|Why|Where|When|Which)\b.*''', re.MULTILINE
)
"""In place of the thing's name or an imperative ("Return whether…", "The node table"); of attributes, too."""
IDIOM = re.compile(r"\b(?:somebody|nobody|anybody|everybody|is told|are told|is asked|are asked)\b", re.IGNORECASE)
"""Code and data are not persons."""
PERSON = re.compile(r"\b(?:some|no|any|every)body\b|\b(?:is|are) told\b", re.IGNORECASE)
"""In documents; there a server may be asked."""
_CODE = re.compile(r"```.*?```|`[^`\n]*`|^    .*?$", re.MULTILINE | re.DOTALL)
"""Names of tests and commands in a document."""
SCREEN = re.compile(r"(?<!here )\bis no (?!longer\b|more\b)\w+|To be put right|Let the nodes go")
"""`x is no pod` is "x is not a pod"; `there is no pod` may stay."""


@cache
def docstrings() -> tuple[tuple[str, str], ...]:
    """Every docstring, also of attributes, with its place."""
    return tuple(
        (f"{module.path}:{node.lineno}", node.value.value)
        for module in modules()
        for node in module.nodes(ast.Expr)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


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
    """In the product and in its tests; read as text, because the tests are not parsed for anything else."""
    texts = {str(module.path): module.text for module in modules()}
    for path in (ROOT / "tests").rglob("*.py"):
        texts[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
    assert [
        f"{path} {found[0].strip()}" for path, text in texts.items() for found in RELATIVE_CLAUSE.finditer(text)
    ] == []


def test_a_docstring_that_is_a_relative_clause_is_found() -> None:
    text = 'def size() -> int:\n    """How large it is."""\n\n\nROOM = 1\n"""Whether it holds."""\n"""Whatever else."""'
    assert RELATIVE_CLAUSE.findall(text) == ['    """How large it is."""', '"""Whether it holds."""']


def test_docstrings_do_not_personify() -> None:
    assert [f"{place} {found[0]}" for place, text in docstrings() if (found := IDIOM.search(text))] == []


def test_docstrings_negate_plainly() -> None:
    assert [f"{place} {found[0]}" for place, text in docstrings() if (found := SCREEN.search(text))] == []


def test_documents_do_not_personify() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "blueprints").rglob("README.md")]
    texts = [(page.relative_to(ROOT), _CODE.sub("", page.read_text(encoding="utf-8"))) for page in pages]
    assert [f"{path}: {found[0]}" for path, text in texts for found in PERSON.finditer(text)] == []


def test_sentences_on_screen_are_plain_english() -> None:
    """Messages and hints: every string that is not a docstring."""
    found: list[str] = []
    for module in modules():
        docs = {id(node.value) for node in module.nodes(ast.Expr)}
        for node in module.nodes(ast.Constant):
            if not isinstance(node.value, str) or id(node) in docs:
                continue
            if match := SCREEN.search(node.value):
                found.append(f"{module.path}:{node.lineno} {match[0]}")
    assert found == []
