"""The line that is always on screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from actions.fleet.cost import CostModel, FleetCost
from tests.support.builders import a_node
from tui.present.cells import text_of, width_of
from tui.present.header import HeaderFacts, header_line, parse_context_name

FULL = HeaderFacts(
    account="111122223333",
    cluster="bionemo-on-eks",
    region="us-west-2",
    expires_in_seconds=3 * 3600,
    demo="demo ×20, cost simulated",
    is_readonly=True,
)


def cost_of(*instance_types: str) -> FleetCost:
    nodes = [a_node(f"node-{number}", kind) for number, kind in enumerate(instance_types)]
    return CostModel.load().fleet_cost(nodes, {})


def test_a_wide_header_says_everything() -> None:
    text = text_of(header_line(replace(FULL, cost=cost_of("g5.12xlarge")), 160))

    for part in ("demo ×20, cost simulated", "read-only", "111122223333", "bionemo-on-eks", "us-west-2", "creds 3h00m"):
        assert part in text
    assert "$5.67/h" in text
    assert "idle" in text


@pytest.mark.parametrize("width", [60, 80, 100, 132, 200])
def test_the_header_never_grows_beyond_its_line(width: int) -> None:
    assert width_of(header_line(replace(FULL, cost=cost_of("g5.12xlarge")), width)) <= max(width, 70)


def test_badges_cluster_and_sum_survive_eighty_columns() -> None:
    text = text_of(header_line(replace(FULL, cost=cost_of("g5.12xlarge")), 80))

    for part in ("demo ×20", "read-only", "bionemo-on-eks", "$5.67/h"):
        assert part in text


def test_a_price_that_nobody_knows_is_counted_not_added() -> None:
    text = text_of(header_line(HeaderFacts(cluster="c", cost=cost_of("m5.xlarge", "x9.mystery")), 120))

    assert "(+1 unpriced)" in text


def test_credentials_that_ended_are_called_so() -> None:
    assert "credentials expired" in text_of(header_line(HeaderFacts(cluster="c", expires_in_seconds=-1), 100))


def test_before_the_first_picture_there_is_no_sum() -> None:
    assert "$0" not in text_of(header_line(HeaderFacts(cluster="c"), 100))


def test_an_eks_context_is_taken_apart() -> None:
    place = parse_context_name("arn:aws:eks:us-west-2:111122223333:cluster/bionemo-on-eks")

    assert (place.cluster, place.region, place.account) == ("bionemo-on-eks", "us-west-2", "111122223333")


def test_credentials_that_end_before_the_run_are_marked() -> None:
    facts = HeaderFacts(cluster="c", expires_in_seconds=2 * 3600, needed_seconds=3 * 3600)
    assert "creds 2h00m! run 3h00m" in text_of(header_line(facts, 100))
    enough = HeaderFacts(cluster="c", expires_in_seconds=2 * 3600, needed_seconds=3600)
    assert "!" not in text_of(header_line(enough, 100))
