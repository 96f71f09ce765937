"""Every citation of a document leads to a file of this repository, and to a heading that is in it."""

from __future__ import annotations

import ast
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.sources import ROOT, modules_of
from tui.cli.arguments import parse_arguments

_PLACES = ("actions", "assets", "blueprints", "docs", "tests", "tui", ".ci")
_ENDINGS = frozenset({".md", ".py", ".yaml", ".toml", ".tcss", ".tf", ".json", ""})
_FOREIGN = ("tests/fixtures/", "tests/realcluster/build/", "assets/mirror/")
"""Other programs' texts, which name other programs' documents."""

_CITED = re.compile(r"\bdocs/(?:[\w.-]+/)*[\w-]+\.(?:md|svg)(?:#[\w-]+)?")
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
_NAMED = re.compile(r"(?<![\w/.-])[\w-]+\.md\b")
_NUMBERED = re.compile(r"(?<![\w/.-])([A-Z]{4,})(?:\.md)? (?:§ ?\d|\d{1,2}(?:\.\d{1,2})+)")
"""A document that is cited by its name in capitals and the number of one of its parts."""
_SOURCE = re.compile(r"^Source: .*?(?=\n\n|\"\"\"|\Z)", re.MULTILINE | re.DOTALL)
_CAPITALS = re.compile(r"(?<![\w/.-])([A-Z]{4,})\s+\d{1,2}(?![.\d]\d)")
"""In a source also by a single number, which stands elsewhere behind many a word in capitals."""
_VERSIONED = frozenset({"CUDA", "HTTP", "JSON", "NCCL", "YAML"})
"""Programs and standards, whose numbers are versions."""
_URL = re.compile(r"https?://\S+")
_MODULE = re.compile(r"`((?:actions|tui)(?:\.[a-z_0-9]+)+)`")
_CLASS = re.compile(r"`([A-Z]\w*[a-z]\w*)`")
"""A name in the form of a class."""
_PATH = re.compile(r"`((?:actions|tui|tests|assets|blueprints)/[\w./-]+)`")


def files() -> Iterator[Path]:
    """List the repository's own texts."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in {".md", ".toml", ".yaml", ""})
    for place in _PLACES:
        for path in sorted((ROOT / place).rglob("*")):
            inside = path.relative_to(ROOT).as_posix()
            is_ours = path.suffix in _ENDINGS and not inside.startswith(_FOREIGN) and "__pycache__" not in inside
            if is_ours and path.is_file() and path != Path(__file__):
                yield path


@cache
def names() -> frozenset[str]:
    """Return the names of the files."""
    return frozenset(path.name for path in files())


@cache
def headings(path: Path) -> frozenset[str]:
    """Return the anchors of a page, by GitHub's rule: small letters, signs left out, hyphens for blanks."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#{1,6} (.+?)\s*$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found)


def leads_somewhere(target: Path, anchor: str) -> bool:
    """Return true if the file is there, and has the heading if one is named."""
    return target.exists() and (not anchor or anchor in headings(target))


def complaints(path: Path) -> list[str]:
    """Return the citations of a file that lead nowhere."""
    text = _URL.sub("", path.read_text("utf-8", "replace"))
    cited = [(name, ROOT) for name in _CITED.findall(text)]
    if path.suffix == ".md":
        cited += [(name, path.parent) for name in _LINK.findall(text)]
    wrong = []
    for name, start in cited:
        place, _, anchor = name.partition("#")
        if not leads_somewhere(start / place if place else path, anchor):
            wrong.append(name)
    wrong += [name for name in _NAMED.findall(text) if name not in names()]
    numbered = [*_NUMBERED.finditer(text)]
    for source in _SOURCE.findall(text):
        numbered += _CAPITALS.finditer(source)
    wrong += [match[0] for match in numbered if match[1] not in _VERSIONED]
    return wrong


def test_every_citation_of_a_document_leads_to_one_of_this_repository() -> None:
    found = {path.relative_to(ROOT).as_posix(): wrong for path in files() if (wrong := complaints(path))}
    assert found == {}


def is_module(name: str) -> bool:
    """Return true for a module or package of the product, and for a name inside of a module."""
    place = ROOT.joinpath(*name.split("."))
    if place.with_suffix(".py").exists() or place.is_dir():
        return True
    module = place.parent.with_suffix(".py")
    return module.exists() and re.search(rf"\b{re.escape(place.name)}\b", module.read_text("utf-8")) is not None


def test_modules_and_files_that_documents_name_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").glob("*/README.md")]
    wrong = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        if page.name != "CHANGELOG.md"
        for text in [page.read_text("utf-8")]
        for name in [
            *(name for name in _MODULE.findall(text) if not is_module(name)),
            *(name for name in _PATH.findall(text) if not (ROOT / name).exists()),
        ]
    ]
    assert wrong == []


def test_the_page_on_architecture_names_every_package() -> None:
    """Also the modules that stand beside the sub-packages of a package."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = {name.rpartition(".")[2] for name in re.findall(r"`([a-z_.]+)`", page)}
    rooms = [ROOT / room for room in ("actions", "actions/cluster", "actions/run", "actions/sandbox", "tui", "tui/cli")]
    packages = {file.parent.name for room in rooms for file in room.glob("*/__init__.py")}
    modules = {file.stem for room in rooms[1:3] + rooms[4:5] for file in room.glob("[a-z]*.py")}
    assert (packages | modules) - named == set()


def glossary() -> str:
    """Return the page of words."""
    return (ROOT / "docs" / "glossary.md").read_text("utf-8")


def test_classes_that_the_glossary_names_exist() -> None:
    defined = set()
    for module in modules_of("actions", "tui"):
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.Assign):
                defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    assert set(_CLASS.findall(glossary())) - defined == set()


def test_no_term_of_the_glossary_has_two_rows() -> None:
    rows = re.findall(r"^\| (?!term \|)([^|-][^|]*?) \|", glossary(), re.MULTILINE)
    terms = Counter(term.strip() for row in rows for term in re.sub(r"\([^)]*\)", "", row).split(","))
    assert {term for term, count in terms.items() if count > 1} == set()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Source: `docs/facts/nvidia-smi.md#the-table`.", []),
        ("Source: `docs/facts/nvidia-smi.md#no-such-part`.", ["docs/facts/nvidia-smi.md#no-such-part"]),
        ("See docs/nowhere.md.", ["docs/nowhere.md"]),
        ("See NOTES.md.", ["NOTES.md"]),
        ("Source: NOTES 2.1.", ["NOTES 2.1"]),
        ("Source: NOTES §3.", ["NOTES §3"]),
        ("Source: kubectl 1.36; NOTES\n4 and 5.", ["NOTES\n4"]),
        ("See https://example.com/docs/other.md.", []),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, wrong: list[str], tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(text, encoding="utf-8")
    assert complaints(path) == wrong


def commands(text: str) -> Iterator[str]:
    """The command lines of a page's blocks, without what is said behind them; those with «[OPTION]» are forms."""
    for line in text.replace("\\\n", " ").splitlines():
        if found := re.match(r"(?:\$ |    |)eksml-tui ([^(].*)", line):
            command = re.split(r"\s{2,}|\s[|>#;]|&&", found[1])[0]
            if not re.search(r"[\[…<]", command):
                yield command


def test_the_command_line_takes_every_command_that_a_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [
        (path, command) for path in files() if path.suffix == ".md" for command in commands(path.read_text("utf-8"))
    ]
    refused = []
    for path, command in shown:
        try:
            parse_arguments(shlex.split(command))
        except SystemExit as end:
            if end.code:
                refused.append(f"{path.name}: {command}: {capsys.readouterr().err}")
    assert refused == []
    assert len(shown) > 150
