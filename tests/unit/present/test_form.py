"""The contents of the fields of a form."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from actions.blueprint.model import Parameter, ParameterType
from actions.blueprint.parts import Scalar
from tui.present.cells import text_of as shown
from tui.present.form import Entries

WHOLE, TEXT, SECRET = ParameterType.INTEGER, ParameterType.TEXT, ParameterType.SECRET
WORKERS = Parameter(type=WHOLE, title="Workers", default=8, minimum=1, maximum=64, unit="nodes")
INSTANCE = Parameter(type=TEXT, title="Instance type", default="g5.12xlarge", choices=("g5.12xlarge", "p4d.24xlarge"))
SPOT = Parameter(type=ParameterType.BOOLEAN, title="Spot", default=False, help="Cheaper, may be taken back.")
RATE = Parameter(type=ParameterType.NUMBER, title="Rate", default=1.0, minimum=0)
KEEP = Parameter(type=WHOLE, title="Keep", default=60, minimum=60, maximum=2_592_000, unit="s")
ZONE = Parameter(type=TEXT, title="Zone", default="auto", pattern="auto|[a-z]-[0-9]")
TOKEN = Parameter(type=SECRET, title="NGC key", default="env:NGC_API_KEY")
FIELDS = {
    "workers": WORKERS, "instance": INSTANCE, "spot": SPOT, "rate": RATE, "keep": KEEP, "zone": ZONE, "token": TOKEN,
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("workers", " 12 ", 12),
        ("keep", "1_000", 1_000),
        ("rate", "3e-4", 3e-4),
        ("instance", "p4d.24xlarge", "p4d.24xlarge"),
        ("zone", "b-1", "b-1"),
        ("spot", "yes", True),
        ("token", "file:/run/secrets/ngc", "file:/run/secrets/ngc"),
        ("token", "", ""),
    ],
)
def test_a_text_is_read_as_its_parameter(key: str, text: str, value: Scalar) -> None:
    entries = Entries(FIELDS, {})
    assert entries.write(key, text)
    assert entries.values[key] == value
    assert type(entries.values[key]) is type(value)


@pytest.mark.parametrize(
    ("key", "text", "mistake"),
    [
        ("workers", "65", "must be 1–64 nodes"),
        ("workers", "eight", "must be a whole number"),
        ("workers", "1.5", "must be a whole number"),
        ("keep", "1", "must be 60–2,592,000 s"),
        ("rate", "fast", "must be a number"),
        ("rate", "-1", "must be at least 0"),
        ("token", "hunter2", "must be env:NAME, file:/PATH or secretsmanager:NAME"),
        ("zone", "xx", "is not of its form, as auto"),
    ],
)
def test_what_is_wrong_is_one_phrase_with_the_bounds(key: str, text: str, mistake: str) -> None:
    entries = Entries(FIELDS, {})

    assert entries.write(key, text)
    assert key not in entries.values
    assert entries.mistakes == {key: mistake}
    assert shown(entries.note(key)) == f"✘ {mistake}"
    assert entries.explanation(key).startswith(f"{FIELDS[key].title} {mistake}.")


def test_the_same_value_written_otherwise_is_no_change() -> None:
    assert not Entries(FIELDS, {}).write("workers", " 8 ")


def test_a_rule_over_all_fields_is_a_mistake_of_one() -> None:
    def quota(values: Mapping[str, Scalar]) -> Mapping[str, str]:
        return {"workers": "is above the quota"} if values["spot"] else {}

    entries = Entries(FIELDS, {}, quota)
    assert entries.write("spot", "yes")
    assert entries.mistakes == {"workers": "is above the quota"}


def test_a_field_is_explained_with_its_options() -> None:
    entries = Entries(FIELDS, {})

    assert entries.explanation("instance") == "One of g5.12xlarge, p4d.24xlarge."
    assert entries.explanation("spot") == "Cheaper, may be taken back."


def test_what_differs_from_the_default_names_it() -> None:
    entries = Entries(FIELDS, {"workers": 4, "token": ""})

    assert shown(entries.note("workers")) == "● default 8 · 1–64 nodes"
    assert shown(entries.note("rate")) == "  at least 0"
    assert entries.summary("Training", ["workers", "spot", "token"]) == "Training: 3 fields (2 changed)"
    assert entries.summary("Model", ["rate"]) == "Model: 1 field"
