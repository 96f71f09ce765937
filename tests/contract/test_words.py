"""One word a thing, and plain English: the promises of `docs/glossary.md` for names and docstrings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from tests.support.sources import ROOT, SourceModule, files_of_tests, modules, modules_of

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

WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
"""Of a name: `fetch_nodes` has two, `NodeListing` as well."""


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


BY_SUBJECT = (
    *(f"actions/run/{package}" for package in ("checks", "doctor", "stages", "store")),
    "actions/cluster/diagnose/rules",
)
"""Folders with one module for each subject, which has its own module elsewhere, too."""
ROLES = {
    *("archive", "arguments", "catalogue", "client", "driver", "errors", "model", "parse"),
    *("reader", "report", "schema", "snapshot", "store"),
}
"""Parts that a package has as another one has them: the package names what is read, stored or parsed."""


def test_no_module_name_means_two_things() -> None:
    """The console has one name a subject through feeds, present, panes and commands."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules_of("actions"):
        path = module.path
        if path.parts[1] != "sandbox" and not path.stem.startswith("__") and str(path.parent) not in BY_SUBJECT:
            places[path.stem].append(str(path))
    repeated = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {name: paths for name, paths in repeated.items() if name not in ROLES} == {}


def test_no_function_name_means_two_things() -> None:
    """Of what is imported by its name alone; `main` is the name of every entry point."""
    defined: defaultdict[str, set[str]] = defaultdict(set)
    imported: set[tuple[str, str]] = set()
    for module in modules_of("actions", "tui"):
        if module.path.parts[1] == "sandbox":
            continue
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                defined[node.name].add(module.dotted)
        imported.update(
            (source.module or "", name.name) for source in module.nodes(ast.ImportFrom) for name in source.names
        )
    owners = {name: sorted(one for one in found if (one, name) in imported) for name, found in defined.items()}
    repeated = {name: found for name, found in owners.items() if len(found) > 1}
    assert {name: found for name, found in repeated.items() if name != "main"} == {}


WORDS: Mapping[str, Sequence[str]] = {
    "capacity": ("actions/blueprint/stages.py", "actions/cluster/diagnose/rules", "actions/run"),
    "contents": ("actions/run/objects", "actions/run/store"),
    "evidence": ("actions/cluster/diagnose",),
    "home": ("actions/base/files.py", "tui/feeds/home.py", "tui/panes/home.py", "tui/present/home"),  # XDG's, the pane
    "inventory": ("actions/run/objects",),
    "keeper": ("actions/run/watchdog",),
    "limits": ("actions/cluster/diagnose/rules/provisioning.py", "actions/run", "tui/cli", "tui/present"),
    "mirror": ("actions/blueprint", "actions/run/journal/mirrored.py", "tui/cli/mirror.py"),
    "recorder": ("actions/run",),
    "recording": ("actions/script",),
}
"""Words of the glossary, each with the places in which names of modules, classes and functions may have it."""


def names_of(module: SourceModule) -> Iterator[str]:
    """Yield the module's own name and the public ones that it defines."""
    yield module.path.parent.name if module.path.stem == "__init__" else module.path.stem
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name


def test_a_word_of_the_glossary_has_one_meaning_in_names() -> None:
    found = [
        f"{module.path} {name}: {word}"
        for module in modules_of("actions", "tui")
        for name in names_of(module)
        for word in {part.lower() for part in WORD.findall(name)} & WORDS.keys()
        if not str(module.path).startswith((*WORDS[word], "actions/sandbox"))
    ]
    assert found == []


def test_docstrings_name_or_command() -> None:
    """In the product and in its tests; read as text, because the tests are not parsed for anything else."""
    texts = {str(module.path): module.text for module in modules()}
    for path in files_of_tests():
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
