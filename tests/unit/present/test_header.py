"""The line that is always on screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from actions.base.clock import as_of_words
from actions.cluster.auth.kubeconfig import parse_context_name
from actions.fleet.cost import CostModel
from actions.run.paid import Paid
from actions.run.state.view import UnusedDevices
from tests.support.builders import a_node
from tui.present.cells import Tone, text_of, width_of
from tui.present.header import HeaderFacts, header_line
from tui.present.text import unused_text

FULL = HeaderFacts(
    account="111122223333",
    cluster="bionemo-on-eks",
    region="us-west-2",
    expires_in_seconds=3 * 3600,
    demo="demo ×20, cost simulated",
    is_readonly=True,
)


def nodes_of(*instance_types: str) -> Paid:
    nodes = [a_node(f"node-{number}", kind) for number, kind in enumerate(instance_types)]
    return Paid(nodes=CostModel.load().fleet_cost(nodes, {}))


def test_a_wide_header_says_everything() -> None:
    text = text_of(header_line(replace(FULL, paid=nodes_of("g5.12xlarge")), 160))

    for part in ("demo ×20, cost simulated", "read-only", "111122223333", "bionemo-on-eks", "us-west-2", "creds 3h00m"):
        assert part in text
    assert "$5.67/h · 4 idle $5.67/h!" in text


def test_no_sum_is_waited_for_where_nodes_may_not_be_listed() -> None:
    assert text_of(header_line(FULL, 160)).endswith("$ … /h ")
    assert text_of(header_line(replace(FULL, is_refused=True), 160)).endswith("$ ? /h ")


@pytest.mark.parametrize("width", [60, 80, 100, 132, 200])
def test_the_header_never_grows_beyond_its_line(width: int) -> None:
    assert width_of(header_line(replace(FULL, paid=nodes_of("g5.12xlarge")), width)) <= max(width, 70)


def test_badges_cluster_and_sum_survive_eighty_columns() -> None:
    text = text_of(header_line(replace(FULL, paid=nodes_of("g5.12xlarge")), 80))

    for part in ("demo ×20", "read-only", "bionemo-on-eks", "$5.67/h"):
        assert part in text


def test_idle_cost_is_beside_unused_accelerators_on_eighty_columns() -> None:
    facts = HeaderFacts(
        cluster="bionemo-on-eks",
        expires_in_seconds=7 * 3600,
        paid=nodes_of("g5.12xlarge", "x9.mystery"),
        unused=unused_text(UnusedDevices(8, 8, 0, 2, 2), 300),
    )
    text = text_of(header_line(facts, 80))
    assert "8 of 8 at 0%" in text
    assert "8 idle ≥ $5.67/h!" in text
    soon = text_of(header_line(replace(facts, expires_in_seconds=600), 80))
    assert "creds 10m00s!" in soon


def test_an_unknown_price_is_counted_not_added() -> None:
    text = text_of(header_line(HeaderFacts(cluster="c", paid=nodes_of("m5.xlarge", "x9.mystery")), 120))

    assert "≥ $0.19/h" in text


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


@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_was_kept_is_said_at_every_width_and_its_cost_is_muted(width: int) -> None:
    kept = HeaderFacts(cluster="bionemo-on-eks", paid=nodes_of("g5.12xlarge"), as_of="as of 14:02 UTC", trouble="gone")
    line = header_line(kept, width)
    assert "as of 14:02 UTC · gone" in text_of(line)
    (hourly,) = [span for span in line if "/h" in span.text and "idle" not in span.text]
    assert hourly.tone is Tone.MUTED


def test_the_time_of_what_was_kept_has_its_day_unless_it_is_today() -> None:
    noon = 1_763_726_400.0
    assert as_of_words(noon - 60, now=noon) == "as of 11:59 UTC"
    assert as_of_words(noon - 86_400, now=noon) == "as of 2025-11-20 12:00 UTC"


def test_accelerators_that_a_run_does_not_use_are_told_and_shorter_on_eighty_columns() -> None:
    facts = HeaderFacts(cluster="bionemo-on-eks", unused="3 of 8 accelerators at 0% for 5m12s")
    assert "▲ 3 of 8 accelerators at 0% for 5m12s" in text_of(header_line(facts, 120))
    full = replace(FULL, is_readonly=False, unused=facts.unused, paid=nodes_of("g5.12xlarge"))
    narrow = text_of(header_line(full, 80))
    assert "▲ 3 of 8 at 0%" in narrow
    assert "bionemo-on-eks" in narrow
