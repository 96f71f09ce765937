"""The figures in the READMEs of the blueprints, each against the plan: a new one has to be named here."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import cache

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.launch_plan import LaunchPlan, StagePlan, plan_of
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.fleet.eks_versions import VersionMatrix
from actions.fleet.prices import PriceBook
from tests.unit.blueprint.shipped import shipped
from tests.unit.blueprint.test_shipped import BLUEPRINTS

_DAY = VersionMatrix.load().as_of
_NUMBER = r"([\d,.]*\d)"
_SPAN = rf"{_NUMBER}–{_NUMBER}"
_ANY = re.compile(rf"USD {_NUMBER}")
"""An amount in prose."""
_ROW = re.compile(rf"^\| (?P<what>[^|]+) \| {_NUMBER} \|$", re.MULTILINE)
_NODES = re.compile(r"(?P<count>\d+) × (?P<type>[a-z0-9-]+\.[a-z0-9]+)(?P<block> in a capacity block)?")
Figures = Callable[[LaunchPlan], tuple[Decimal | None, ...]]


@cache
def planned(name: str, preset: str = "", given: tuple[tuple[str, Scalar], ...] = ()) -> LaunchPlan:
    blueprint = shipped(name)
    return plan_of(blueprint, bind(blueprint, dict(given), preset=preset), PriceBook.load(), day=_DAY)


def readme(name: str) -> str:
    return (shipped_blueprints() / name / "README.md").read_text(encoding="utf-8")


def stage(plan: LaunchPlan, stage_id: str) -> StagePlan:
    (found,) = [one for one in plan.stages if one.id == stage_id]
    return found


def costs(stage_id: str) -> Figures:
    return lambda plan: (stage(plan, stage_id).usd_low, stage(plan, stage_id).usd_high)


def rate(stage_id: str) -> Figures:
    return lambda plan: (stage(plan, stage_id).usd_per_hour,)


def total(plan: LaunchPlan) -> tuple[Decimal | None, ...]:
    return (plan.total_low, plan.total_high)


def before(stage_id: str) -> Figures:
    """The most that all stages but one cost."""
    return lambda plan: (plan.total_high - (stage(plan, stage_id).usd_high or Decimal(0)),)


def nodes_for(hours: int) -> Figures:
    """The price of the Trainium nodes alone."""
    return lambda plan: tuple(
        hours * (one.usd_per_hour or Decimal(0)) for one in plan.rates if one.name == "4 × trn1.32xlarge"
    )


_EXTENDED = (("eks_version", "1.33"),)
CLAIMS: list[tuple[str, str, Figures, str, tuple[tuple[str, Scalar], ...]]] = [
    ("efa-nccl-tests", rf"defaults come to about USD {_SPAN} in all", total, "", ()),
    ("nemo-gpt3-5b", rf"come to at least USD {_SPAN} for `data`", costs("data"), "", ()),
    ("nemo-gpt3-5b", rf"and {_SPAN} for `train`; no rate", costs("train"), "", ()),
    ("nemo-gpt3-5b", rf"`full` on 16 × p4de comes to {_SPAN}", total, "full", ()),
    ("bionemo-esm1nv", rf"come to at least USD {_SPAN} for `data`", costs("data"), "", ()),
    ("bionemo-esm1nv", rf"and {_SPAN} for `train`, ", costs("train"), "", ()),
    ("bionemo-esm1nv", rf"for `train`, {_SPAN} and", costs("data"), "", _EXTENDED),
    ("bionemo-esm1nv", rf"and {_SPAN} in extended support", costs("train"), "", _EXTENDED),
    ("llama2-trn1-mpi", rf"come to at least USD {_SPAN}, nearly", total, "", ()),
    ("llama2-trn1-mpi", rf"`short` to {_SPAN}\.", total, "short", ()),
    ("llama2-trn1-mpi", rf"`tokenise` runs at USD {_NUMBER} an hour", rate("tokenise"), "", ()),
    ("llama2-trn1-mpi", rf"costs more than USD {_NUMBER} an hour", rate("tokenizer"), "", ()),
    ("llama2-trn1-mpi", rf"can never work at USD {_NUMBER} an hour", rate("train"), "", ()),
    ("llama2-trn1-mpi", rf"each ten hours, USD {_NUMBER} of all nodes", nodes_for(10), "", ()),
    ("llama2-trn1-mpi", rf"saving against USD {_NUMBER} ", nodes_for(2), "", ()),
    ("llama2-trn1-ray", rf"come to at least USD {_SPAN} for `train`", costs("train"), "", ()),
    ("llama2-trn1-ray", rf"up to {_NUMBER} for all before it", before("train"), "", ()),
    ("llama2-trn1-ray", rf"waits, some USD {_SPAN}:", costs("data"), "", ()),
]


def amount(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


def is_rounded(written: str, value: Decimal) -> bool:
    """Return whether a number is the value to the places that it is written with, or to three digits."""
    places = Decimal(1).scaleb(-len(written.partition(".")[2]))
    digits = Decimal(1).scaleb(max(0, value.adjusted() - 2))
    return abs(amount(written) - value) <= max(places / 2, digits / 2)


@pytest.mark.parametrize(("name", "pattern", "figures", "preset", "given"), CLAIMS)
def test_an_amount_in_prose_is_that_of_the_plan(
    name: str, pattern: str, figures: Figures, preset: str, given: tuple[tuple[str, Scalar], ...]
) -> None:
    (found,) = re.finditer(pattern.replace(" ", r"\s+"), readme(name))
    for written, value in zip(found.groups(), figures(planned(name, preset, given)), strict=True):
        assert value is not None
        assert is_rounded(written, value), f"{written} is {value:.2f}"


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_no_amount_in_prose_is_left_out(name: str) -> None:
    text = readme(name)
    covered = [match.span() for one, pattern, *_ in CLAIMS if one == name
               for match in re.finditer(pattern.replace(" ", r"\s+"), text)]  # fmt: skip
    amounts = [match for match in _ANY.finditer(text) if text[match.start() - 1] not in "|"]
    assert [one[0] for one in amounts if not any(low <= one.start() < high for low, high in covered)] == []


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_a_row_of_the_table_of_costs_is_that_of_the_plan(name: str) -> None:
    section = readme(name).partition("## What it costs")[2].partition("\n## ")[0]
    region = re.findall(r"On demand, ([a-z0-9-]+),", section)
    plan, book, rows = planned(name), PriceBook.load(), list(_ROW.finditer(section))
    assert region == [shipped(name).parameters["region"].default]
    assert len(rows) >= 5
    by_name = {one.name: one.usd_per_hour or Decimal(0) for one in plan.rates}
    for row in rows:
        what, written = row["what"], row[2]
        if nodes := _NODES.match(what):
            market = "capacity-block" if nodes["block"] else "on-demand"
            found = book.price_of(nodes["type"], region[0], market)
            assert found is not None, what
            value = int(nodes["count"]) * found.usd_per_hour
        elif what.startswith("EKS control plane; "):
            value = by_name["EKS control plane 1.35, standard support"]
            (extended,) = re.findall(rf"plane; {_NUMBER} once", what)
            found_extended = book.service_price("eks-control-plane-extended", region[0])
            assert found_extended is not None
            assert amount(extended) == found_extended.usd
        elif fsx := re.match(r"FSx for Lustre ([\d,]+) GiB", what):
            value = by_name[f"FSx for Lustre, {amount(fsx[1])} GiB"]
        else:
            assert what.startswith("NAT gateway with its address"), what
            parts = ("NAT gateway", "disks of ", "Image in ECR")
            value = sum((usd for key, usd in by_name.items() if key.startswith(parts)), Decimal(0))
            assert any(key.startswith("Image in ECR") for key in by_name) == ("ECR" in what)
        assert is_rounded(written, value), f"{what}: {written} is {value:.3f}"


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_the_default_version_and_its_end_are_those_of_the_table(name: str) -> None:
    version = str(shipped(name).parameters["eks_version"].default)
    entry = VersionMatrix.load().find(version)
    assert entry is not None
    assert f"is the default ({version}, until {entry.standard_until})" in readme("common")
    assert entry.standard_until > date(2026, 11, 22)


def test_a_holding_of_a_stage_that_is_left_out_has_no_price_in_the_plan() -> None:
    names = [one.name for one in planned("llama2-trn1-ray").rates]
    assert "Image in ECR, 20 GiB" not in names
    built = planned("llama2-trn1-ray", "", (("image_source", "build"),))
    assert "Image in ECR, 20 GiB" in [one.name for one in built.rates]


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_a_readme_names_each_stage_in_the_order_of_the_blueprint(name: str) -> None:
    table = readme(name).partition("## Stages")[2].partition("\n\n## ")[0]
    named = [word for line in table.splitlines() if line.startswith("| `")
             for word in re.findall(r"`([a-z-]+)`", line.split("|")[1])]  # fmt: skip
    assert sorted(named) == sorted(stage.id for stage in shipped(name).stages)
