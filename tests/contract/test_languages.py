"""The page on the script language names exactly what it has, that on documents each of their keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
import yaml

from actions.command.verbs import COMMANDS
from actions.run.report import run_json
from actions.run.state.view import RunState, RunView, StageState
from actions.script.model import Conditions
from actions.script.parse import TOP_KEYS, WORDS
from tests.support.fixed_runs import a_failed_run, a_run_with_a_plan, a_stalled_run, a_torn_down_run, a_training_run
from tui.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
_QUOTED = re.compile(r"`([^`]+)`")


def part_of(page: str, heading: str) -> str:
    """Return the text below a heading of a page, up to the next heading."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def rows_of(text: str) -> list[tuple[str, str]]:
    """Return the first two cells of each row of the tables in a text, without headings."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [(row[0], row[1]) for row in rows if row[0].startswith("`")]


def fields_of(struct: Any) -> frozenset[str]:
    """Return the keys of a structure, as they stand in a file."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(struct))


SCRIPT = (DOCS / "script.md").read_text("utf-8")
_ONLY_SCRIPTS = "Words that only scripts have"
CONDITIONS = [
    (yaml.safe_load(_QUOTED.findall(shown)[0]), text) for shown, text in rows_of(part_of(SCRIPT, _ONLY_SCRIPTS))
]
"""The conditions as the page shows them, with the text beside each."""


def nested() -> Iterator[Any]:
    """List the conditions that are structures of their own: field, structure."""
    for field, hint in get_type_hints(Conditions).items():
        for kind in get_args(hint):
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                yield pytest.param(field, kind, id=field)


def test_the_keys_of_a_script() -> None:
    head = SCRIPT.partition("## ")[0]
    assert {_QUOTED.findall(row)[0].partition(":")[0] for row, _ in rows_of(head)} == set(TOP_KEYS)


def test_the_verbs() -> None:
    listed, _, _ = part_of(SCRIPT, "Verbs").partition("Its arguments are")
    assert sorted(_QUOTED.findall(listed)) == sorted(command.id for command in COMMANDS)


def test_the_words_that_only_scripts_have() -> None:
    before, _, _ = part_of(SCRIPT, _ONLY_SCRIPTS).partition("| condition")
    assert sorted(re.findall(r"(?:^|[.] )`(\w+)` \w+", " ".join(before.split()))) == sorted(WORDS)


def test_the_conditions() -> None:
    assert {key for condition, _ in CONDITIONS for key in condition} == fields_of(Conditions)


@pytest.mark.parametrize(("field", "struct"), [*nested()])
def test_the_fields_of_a_condition(field: str, struct: type[msgspec.Struct]) -> None:
    ((condition, text),) = [(shown, text) for shown, text in CONDITIONS if field in shown]
    named = {*condition[field], *(word for word in _QUOTED.findall(text) if word in fields_of(struct))}
    assert named == fields_of(struct)


@pytest.mark.parametrize(("field", "states"), [("stage", StageState), ("run", RunState)])
def test_the_states_that_a_condition_can_name(field: str, states: type[StageState | RunState]) -> None:
    (text,) = [text for shown, text in CONDITIONS if next(iter(shown)) == field]
    listed = text.partition(": ")[2]
    words = [word for quoted in _QUOTED.findall(listed) for word in ([quoted] if field == "run" else quoted.split())]
    assert sorted(words) == sorted(states)


_BY_NAME = frozenset({"by_stage", "outputs", "parameters"})
"""Keys whose values have names of a run or a blueprint as their keys."""


def keys_of(document: object) -> Iterator[str]:
    """List the keys of a document that are the program's own."""
    if isinstance(document, list):
        for each in document:
            yield from keys_of(each)
    elif isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from () if key in _BY_NAME else keys_of(value)


def named_in_commands() -> frozenset[str]:
    """Return the words that the page on documents has as code."""
    return frozenset(_QUOTED.findall((DOCS / "commands.md").read_text("utf-8")))


@pytest.mark.parametrize(
    "made",
    [a_training_run, a_failed_run, a_run_with_a_plan, a_stalled_run, a_torn_down_run],
    ids=lambda made: made.__name__,
)
def test_the_keys_of_a_run(made: Callable[[], RunView]) -> None:
    assert {*keys_of(msgspec.json.decode(run_json(made())))} - named_in_commands() == set()


@pytest.mark.parametrize("line", ["plan efa-nccl-tests --no-checks", "blueprints", "config"])
def test_the_keys_of_a_document(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*line.split(), "-o", "json"]) == 0
    assert {*keys_of(msgspec.json.decode(capsys.readouterr().out))} - named_in_commands() == set()
