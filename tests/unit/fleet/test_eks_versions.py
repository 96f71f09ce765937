"""The table of versions: support by date, ranges of components, instance types, and what it refuses to read."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from actions.base.errors import FormatError
from actions.base.files import asset
from actions.fleet.eks_versions import Component, Support, VersionMatrix, minor


def component(name: str) -> Component:
    """The chart or operator of a name."""
    (found,) = [one for one in VersionMatrix.load().components if one.name == name]
    return found


def offered() -> list[str]:
    """The versions of which a cluster can be made on the day of the table, oldest first."""
    matrix = VersionMatrix.load()
    return [entry.version for entry in matrix.eks if entry.support_on(matrix.as_of) is not Support.ENDED]


def test_extended_support_begins_with_the_day_on_which_standard_support_ends() -> None:
    matrix = VersionMatrix.load()
    assert matrix.support_of("1.34", date(2026, 12, 1)) is Support.STANDARD
    assert matrix.support_of("1.34", date(2026, 12, 2)) is Support.EXTENDED
    assert matrix.support_of("1.34", date(2027, 12, 2)) is Support.ENDED


@pytest.mark.parametrize(
    ("version", "support"),
    [
        ("1.31", "extended"),
        ("1.33", "extended"),
        ("v1.36.2-eks-bb2d", "standard"),
        ("1.41", "standard"),
        ("1.2", "ended"),
    ],
)
def test_support_on_the_day_of_the_table(version: str, support: str) -> None:
    matrix = VersionMatrix.load()
    assert matrix.support_of(version, matrix.as_of) == support


def test_the_newest_in_standard_support_and_what_is_offered() -> None:
    matrix = VersionMatrix.load()
    newest = matrix.newest_in_standard_support(matrix.as_of)
    assert newest is not None
    assert newest.version == "1.36"
    assert offered() == ["1.31", "1.32", "1.33", "1.34", "1.35", "1.36"]
    assert matrix.newest_in_standard_support(date(2030, 1, 1)) is None


def test_standard_support_lasts_twelve_months_less_than_extended_support() -> None:
    entries = VersionMatrix.load().eks
    assert [minor(entry.version) for entry in entries] == sorted(minor(entry.version) for entry in entries)
    for entry in entries:
        assert timedelta(days=364) <= entry.extended_until - entry.standard_until <= timedelta(days=367)


def test_karpenter_is_made_for_every_version_that_is_offered() -> None:
    karpenter = component("karpenter")
    assert all(karpenter.supports(version) for version in offered())
    assert not karpenter.supports("1.37")
    assert not karpenter.supports("1.25")


@pytest.mark.parametrize(
    "name", ["g5.8xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge", "trn1.32xlarge"]
)
def test_the_efa_plugin_knows_the_types_that_blueprints_offer(name: str) -> None:
    assert component("efa_plugin").runs_on(name)


def test_a_plugin_runs_on_the_types_that_its_chart_lists() -> None:
    assert component("neuron_plugin").runs_on("trn1n.32xlarge")
    assert not component("neuron_plugin").runs_on("p5.48xlarge")
    assert component("nvidia_plugin").runs_on("anything.at.all"), "a label decides"


def test_amazon_linux_2_has_no_image_from_1_33_on() -> None:
    old = VersionMatrix.load().ami_type("AL2_x86_64_GPU")
    assert old is not None
    assert old.is_offered("1.32")
    assert not old.is_offered("1.33")


@pytest.mark.parametrize(
    ("text", "parts"),
    [("1.35", (1, 35)), ("v1.35.2-eks-bb2d", (1, 35)), ("1.35+", (1, 35)), ("", ()), ("latest", ()), ("1", ())],
)
def test_a_version_is_read_from_what_servers_report(text: str, parts: tuple[int, ...]) -> None:
    assert minor(text) == parts


def test_every_source_is_named_with_its_date() -> None:
    matrix = VersionMatrix.load()
    assert matrix.as_of == date(2026, 11, 22)
    assert all(matrix.sources.values())


def test_a_table_with_a_key_too_many_is_refused_with_its_place(tmp_path: Path) -> None:
    document = json.loads(asset("versions/eks.json").read_text())
    document["eks"][0]["retired"] = True
    path = tmp_path / "eks.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=r"eks\.json.*retired"):
        VersionMatrix.load(path)
    with pytest.raises(FormatError, match="nothing"):
        VersionMatrix.load(tmp_path / "nothing.json")
