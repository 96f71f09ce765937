"""A launch before it starts."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.launch_plan import LaunchPlan, StagePlan
from actions.blueprint.model import ParameterType
from actions.blueprint.parts import Scalar
from tui.present.blueprints import chosen_lines, plan_lines
from tui.present.cells import text_of, width_of

NODES = (("g5.12xlarge", 2), ("m5.xlarge", 2))


def a_stage(title: str, *, nodes: tuple[tuple[str, int], ...] = (), skip_reason: str = "") -> StagePlan:
    return StagePlan(
        id=title.lower(),
        title=title,
        kind="job",
        low_seconds=180_000,
        high_seconds=216_000,
        nodes=nodes,
        usd_per_hour=Decimal("11.83"),
        usd_low=Decimal("1591.5"),
        usd_high=Decimal("1709.8"),
        unpriced=(),
        objects=(),
        skip_reason=skip_reason,
    )


PLAN = LaunchPlan(
    stages=(
        a_stage("Operators and their webhooks"),
        a_stage("Sample", skip_reason="sample_data is off"),
        a_stage("Train", nodes=NODES),
    ),
    total_low=Decimal(3183),
    total_high=Decimal(3420),
    unpriced=("NAT gateway without traffic", "FSx for Lustre", "S3 requests of the data stage"),
    low_seconds=360_000,
    high_seconds=432_000,
)


def test_a_stage_that_holds_nothing_has_no_price_to_ask_for() -> None:
    zero = Decimal(0)
    free = replace(a_stage("Capacity"), usd_per_hour=zero, usd_low=zero, usd_high=zero)
    line = text_of(plan_lines(replace(PLAN, stages=(free,)), 90)[-1])
    assert line.split() == ["Capacity", "2d", "–", "–"]


def test_the_parameters_that_differ_are_listed_and_secrets_are_not() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    secrets = [name for name, one in blueprint.parameters.items() if one.type is ParameterType.SECRET]
    values: dict[str, Scalar] = {"workers": 3, "region": "us-west-2", **dict.fromkeys(secrets, "hunter2")}
    lines = chosen_lines(blueprint, values, preset="", is_existing=True, width=60)
    text = " ".join(text_of(line).strip() for line in lines)
    assert "With in this cluster" not in text
    assert text.startswith("With the cluster on screen")
    assert "workers=3" in text
    assert "hunter2" not in text
    assert all(f"{name}=(hidden)" in text for name in secrets)
    assert max(width_of(line) for line in lines) <= 60


@pytest.mark.parametrize("width", [40, 68, 74, 112])
def test_no_line_of_a_plan_is_longer_than_its_place(width: int) -> None:
    assert max(width_of(line) for line in plan_lines(PLAN, width)[1:]) <= width


def test_what_has_no_price_is_named_to_its_last_word() -> None:
    said = " ".join(text_of(line).strip() for line in plan_lines(PLAN, 68))

    assert "No price is known for NAT gateway without traffic; FSx for Lustre; S3 requests of the data stage" in said


def test_columns_stand_under_their_headings_and_titles_give_way_to_nodes() -> None:
    *_, heading, operators, sample, train = (text_of(line) for line in plan_lines(PLAN, 90))

    assert heading.index("NODES") == train.index("2 × g5.12xlarge, 2 × m5.xlarge")
    assert heading.index("EXPECTED") == operators.index("2d  ") == sample.index("skipped: sample_data is off")
    assert heading.index("COST") + len("COST") == train.index("–1,709.80") + len("–1,709.80")
    assert "…" in operators[: heading.index("EXPECTED")]


def test_where_there_is_no_room_the_nodes_are_left_out_rather_than_cut() -> None:
    *_, heading, operators, _, train = (text_of(line).rstrip() for line in plan_lines(PLAN, 60))

    assert "NODES" not in heading
    assert train.endswith("–1,709.80")
    assert operators.startswith("Operators and their webhooks"[:14])
