"""Commands of the shell, options, lines after `:` and targets of make that pages name exist."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from actions.command.parse import ALIASES
from actions.command.verbs import COMMANDS, Command
from tests.support.sources import ROOT
from tui.cli.arguments import parser, subcommands_of

PAGES = [page for place in ("*.md", "docs/*.md", "docs/guides/*.md") for page in sorted(ROOT.glob(place))]
_PROGRAM = "eksml-tui"
_FENCED = re.compile(r"^```\w*(?: title=\S+)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4,}(\S.*)$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`\n]+)`")
_CALLED = re.compile(rf"(?:^|[|;(\s]){_PROGRAM} ([^|)#]*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_WORD = re.compile(r"[a-z][a-z-]*\Z")
_AFTER_COLON = re.compile(r":([a-z][a-z.-]*)\b")
_KINDS = frozenset({"deploy", "pvc", "queues.scheduling.volcano.sh"})
"""Kinds of a cluster, which stand in the place of a command."""
_FOREIGN = frozenset({
    "--allow-run-as-root", "--as", "--format", "--keep", "--list", "--nodes", "--schemafile",
    "--seeds", "--summary", "--tee", "--use",
})  # fmt: skip
"""Options of other programs."""


def typed(text: str) -> Iterator[str]:
    """List the lines of code of a page, and what is quoted in its sentences."""
    for block in _FENCED.findall(text):
        yield from block.splitlines()
    plain = _FENCED.sub("", text)
    yield from _INDENTED.findall(plain)
    yield from _QUOTED.findall(plain)


def options_of(command: argparse.ArgumentParser) -> frozenset[str]:
    """Return the options of a command."""
    return frozenset(option for action in command._actions for option in action.option_strings)


@cache
def program() -> argparse.ArgumentParser:
    """Return the parser of the command line, which is made once."""
    return parser()


@cache
def options() -> frozenset[str]:
    """Return the options of all commands, also of those after `:`."""
    found, commands = {option for command in COMMANDS for option in _flags_of(command)}, [program()]
    while commands:
        command = commands.pop()
        found |= options_of(command)
        commands += subcommands_of(command).values()
    return frozenset(found)


def _flags_of(command: Command) -> Iterator[str]:
    yield from ("--" + field.name.replace("_", "-") for field in command.fields())


@cache
def targets() -> frozenset[str]:
    """Return the targets of the Makefile."""
    return frozenset(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def wrong_in(line: str) -> Iterator[str]:
    """List the words of a line that the program does not have."""
    for called in _CALLED.findall(line):
        yield from _wrong_in_call(called)
    if (found := _AFTER_COLON.match(line)) and found[1] not in ALIASES.keys() | _KINDS | {one.id for one in COMMANDS}:
        yield f":{found[1]}"
    command = next((one for one in COMMANDS if found and one.id == found[1]), None)
    if command is not None:
        yield from (option for option in _OPTION.findall(line) if option not in _flags_of(command))
        return
    if line.startswith("make "):
        yield from (
            f"make {word}" for word in line.partition("#")[0].split()[1:] if _WORD.match(word) and word not in targets()
        )
    if not (_CALLED.search(line) or line.removeprefix("$ ").startswith("kubectl ")):
        yield from (option for option in _OPTION.findall(line) if option not in options() | _FOREIGN)


def _wrong_in_call(called: str) -> Iterator[str]:
    """List what is wrong with the words behind the program's name: each option has to be one of a command before it."""
    words = re.sub(r"[\[\]…]", " ", re.split(r"\s{2,}", called)[0]).split()
    command = program()
    known = options_of(command)
    valued = {option for action in command._actions if action.nargs != 0 for option in action.option_strings}
    for before, word in zip(["", *words], words, strict=False):
        below = subcommands_of(command)
        if word.startswith("-") or before in valued or not below:
            continue
        if not _WORD.match(word):
            return  # it stands for a command
        if word not in below:
            yield f"{_PROGRAM} … {word}"
            return
        command = below[word]
        known |= options_of(command)
        valued |= {option for action in command._actions if action.nargs != 0 for option in action.option_strings}
    yield from (option for option in _OPTION.findall(called) if option not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_has_its_reader_type_exists(page: Path) -> None:
    assert [(line, wrong) for line in typed(page.read_text("utf-8")) for wrong in wrong_in(line)] == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("eksml-tui runs forget latest", ["eksml-tui … forget"]),
        ("eksml-tui --readonly nodes --outptu json", ["--outptu"]),
        ("eksml-tui nodes --stage train", ["--stage"]),
        ("kubectl logs a | eksml-tui raed log", ["eksml-tui … raed"]),
        (":lanch bionemo", [":lanch"]),
        ("make snapshot reference", ["make snapshot"]),
        ("--no-mosue", ["--no-mosue"]),
        ("eksml-tui --demo --speed 6 runs list -o wide   # make it so", []),
        (":ctx prod", []),
    ],
)
def test_a_word_that_does_not_exist_is_found(line: str, wrong: list[str]) -> None:
    assert list(wrong_in(line)) == wrong
