"""Home as text, from facts."""

from __future__ import annotations

import functools
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.blueprint.catalogue import Catalogue
from actions.blueprint.launch_plan import CostSummary
from actions.blueprint.model import Blueprint
from actions.cluster.auth.kubeconfig import parse_context_name
from actions.cluster.diagnose.codes import Severity
from actions.cluster.diagnose.overview import Problem
from actions.fleet.cost import CostModel
from actions.fleet.totals import totals_of
from actions.run.paid import Paid, PaidThing
from actions.run.spending import Spending
from actions.run.state.view import Notice, NoticeKind, RunState
from tests.support import fixed_runs
from tests.support.builders import NOW
from tests.support.fixed_cluster import picture
from tests.unit.present.test_board import texts
from tui.present.cells import Span, Tone
from tui.present.home.home_board import HomeFacts, home_board
from tui.present.home.latest import LatestEvents
from tui.present.subject import Subject

_ARN = "arn:aws:eks:us-west-2:111122223333:cluster/bionemo-on-eks"
_SHIPPED = Path(__file__).parents[3] / "blueprints"
_IDS = sorted(file.parent.name for file in _SHIPPED.glob("*/blueprint.yaml"))
_COST = CostSummary(
    accelerators="8 A10G",
    usd_per_hour=Decimal("13.083"),
    usd_low=Decimal("1027.2"),
    usd_high=Decimal("1358.6"),
    low_seconds=441_245,
    high_seconds=565_200,
    left_out="traffic",
)
_PROBLEM = Problem(
    "Job", "default", "eval-mlm", Severity.ERROR, "CAPACITY", "AWS has no capacity for g5.12xlarge", "Allow more zones."
)


@functools.cache
def _blueprints() -> tuple[Blueprint, ...]:
    return tuple(Catalogue((_SHIPPED,)).read()[0])


def some_facts(**changes: object) -> HomeFacts:
    """A cluster at work: everything is known."""
    snapshot = picture()
    facts = HomeFacts(
        now=NOW.timestamp(),
        context=_ARN,
        contexts=((_ARN, _ARN), ("kind-lab", "kind-lab")),
        cluster_state=Span("live", Tone.GOOD),
        totals=totals_of(snapshot.nodes.values(), snapshot.usage),
        paid=Paid(nodes=CostModel.load(region="us-west-2").fleet_cost(snapshot.nodes.values(), snapshot.usage)),
        unscheduled=1,
        runs=fixed_runs.summaries(Path("/runs")),
        problems=(_PROBLEM,),
        blueprints=_blueprints(),
        costs=dict.fromkeys(_IDS, _COST),
        keys={"open runs": "0", "open blueprints": "3", "why": "w"},
    )
    return replace(facts, **changes)


def shown(facts: HomeFacts, width: int = 118, height: int = 40) -> str:
    return "\n".join(texts(home_board(facts, width, height)))


def lines_of(facts: HomeFacts) -> dict[str, str]:
    return {entry.key: entry.line for entry in home_board(facts, 118, 60).entries}


def test_each_thing_is_one_key_from_its_place() -> None:
    lines = lines_of(some_facts())

    assert lines["cluster kind-lab"] == "context name=kind-lab"
    assert lines[f"cluster {_ARN}"] == "open nodes"
    assert lines["fleet cost"] == "open cost"
    assert lines["fleet nodes"] == "open nodes"
    assert lines["problem CAPACITY Job default/eval-mlm"] == "why object=Job/default/eval-mlm"
    assert lines["blueprint nemo-gpt3-5b"] == "launch nemo-gpt3-5b"
    waiting = next(run.id for run in fixed_runs.summaries(Path("/runs")) if run.state.value == "awaiting approval")
    assert lines[f"run {waiting}"] == f"open run of={waiting}"


def test_the_lines_that_are_left_show_the_newest_events_and_a_screen_without_any_is_as_before() -> None:
    snapshot = picture()
    newest = LatestEvents().of(snapshot.events)
    assert newest.of(snapshot.events) is newest
    assert [event.last_seen_at for event in newest.events] == sorted(
        (event.last_seen_at for event in snapshot.events), reverse=True
    )
    facts = some_facts(latest=newest.events)
    board = home_board(facts, 198, 50)
    text = "\n".join(texts(board))
    assert len(board.lines) == 50
    assert "Latest events ──" in text
    assert "── 8 all events" in text
    first = newest.events[0]
    (line,) = (line for line in text.splitlines() if f"{first.kind}/{first.name}" in line and first.reason in line)
    assert first.message[:40] in line
    entry = next(entry for entry in board.entries if entry.key == f"event {first.uid}")
    assert (entry.line, entry.subject) == ("open events", Subject(first.kind, first.name, first.namespace))
    for unread in ("totals", "runs", "blueprints"):
        assert "Latest events" not in shown(replace(facts, **{unread: None}), 198, 60)
    for width, height in ((78, 21), (118, 33)):
        assert home_board(facts, width, height) == home_board(some_facts(), width, height)


def test_contexts_are_cluster_region_and_account_the_current_one_first() -> None:
    text = shown(some_facts(contexts=(("a-lab", "a-lab"), (_ARN, _ARN))))

    assert text.index("▶ bionemo-on-eks · live · us-west-2") < text.index("a-lab")
    assert _ARN not in text
    assert parse_context_name(_ARN).account == "111122223333"


def test_the_minute_of_a_kept_picture_is_whole() -> None:
    text = shown(some_facts(cluster_state=Span("as of 14:02", Tone.WARN)))
    assert "bionemo-on-eks · as of 14:02 · us-west-2" in text
    assert "· no answer ·" in shown(some_facts(cluster_state=Span("no answer: connection refused", Tone.BAD)))


def test_the_fleet_is_told_in_totals_with_bars() -> None:
    text = shown(some_facts())

    assert "8 nodes, 1 not ready" in text
    assert "1 without a node" in text
    for name, figure in (("CPU", "/"), ("memory", "Gi/"), ("GPU", "8/13"), ("neuron", "0/16"), ("EFA", "0/11")):
        line = next(line for line in text.splitlines() if f" {name} " in line)
        assert figure in line
    assert "/month" in text
    assert "idle (21 of 29 accelerators)" in text


def test_a_run_that_waits_for_approval_comes_first_and_is_loud() -> None:
    board = home_board(some_facts(), 118, 60)
    first = next(entry for entry in board.entries if entry.key.startswith("run "))
    line = next(line for line in board.lines if any(block.key == first.key for block in line))

    assert Span(" plan waits  ", Tone.WARN) in [span for block in line for span in block.cells]
    assert "1 waits for approval" in shown(some_facts())
    assert first.weight == max(entry.weight for entry in board.entries)


def test_a_run_tells_how_long_what_it_cost_and_what_it_holds() -> None:
    (run,) = (run for run in fixed_runs.summaries(Path("/runs")) if run.state.value == "running")
    at = NOW.timestamp() - 1_800
    assert run.paid is not None
    spending = Spending(Decimal(10), {}, Decimal(5), ("a bucket",), is_simulated=False, at=at)
    run = replace(run, spending=spending, paid=replace(run.paid, holders=("GPU nodes",)))
    paid = Paid(things=(PaidThing("nodes", Decimal(5), run.id),))
    line = next(line for line in shown(some_facts(runs=(run,), paid=paid)).splitlines() if "running" in line)

    for part in ("train", "3d03h", "≥ $12.50", "$5.00/h · holds GPU nodes"):
        assert part in line


def test_runs_of_one_blueprint_and_day_are_told_apart_on_eighty_columns() -> None:
    at_work = next(run for run in fixed_runs.summaries(Path("/runs")) if run.state.value == "running")
    names = {"one": "bionemo-esm1nv-1125-b4fa", "two": "bionemo-esm1nv-1125-2kp6"}
    runs = tuple(replace(at_work, id=name) for name in names)
    text = shown(some_facts(runs=runs, names=names), 78, 24)
    assert "1125-b4fa" in text
    assert "1125-2kp6" in text

    over = tuple(replace(run, state=RunState.SUCCEEDED, stage="") for run in runs)
    text = shown(some_facts(runs=over, names=names), 78, 24)
    assert all(name in text for name in names.values()), "without a stage, names are whole"
    assert "0 all runs (2)" in text
    assert "tab next section" in text


def test_a_run_whose_pods_crash_is_red_and_tells_it() -> None:
    (run,) = (run for run in fixed_runs.summaries(Path("/runs")) if run.state.value == "running")
    crashing = replace(run, notices=(Notice(NoticeKind.PODS, "Pre-training: worker-7 restarted 7 times"),))
    board = home_board(some_facts(runs=(crashing,)), 118, 40)
    spans = [span for line in board.lines for block in line if block.key == f"run {run.id}" for span in block.cells]

    assert Span("  worker-7 restarted 7 times", Tone.BAD) in spans
    assert spans[0] == Span("▲ ", Tone.BAD)
    assert "  worker-7 restart" in shown(some_facts(runs=(crashing,)), 78, 24), (
        "its trouble can be read on eighty columns"
    )


@pytest.mark.parametrize(("width", "height"), [(198, 48), (118, 60)])
def test_the_trouble_of_a_run_is_whole_where_rows_are_free(width: int, height: int) -> None:
    """Its cause was cut at 200 columns, above three blank rows."""
    run = next(run for run in fixed_runs.summaries(Path("/runs")) if run.state.value == "running")
    remote = next(one for one in fixed_runs.remote_runs() if not one.is_over)
    text = "A GPU of worker-7 is out of memory, 12 restarts: asked 17.94 GiB, free 0.49 GiB; CrashLoopBackOff, end"
    crashing = replace(run, notices=(Notice(NoticeKind.PODS, f"Pre-training: {text}"),))
    facts = some_facts(runs=(run, crashing), elsewhere=(remote,), troubles={remote.id: text})
    assert shown(facts, width, height).count("CrashLoopBackOff, end") == 2
    rows = [line for line in shown(facts, width, height).splitlines() if " running " in line]
    assert ["▲" in row[:3] for row in rows] == [True, True, False], "those in trouble come first"


def test_what_blueprints_are_for_is_told_before_the_first_run_alone() -> None:
    summary = _blueprints()[0].summary.split(",")[0][:30]
    assert summary in shown(some_facts(runs=()), 118, 70)
    assert summary not in shown(some_facts(), 118, 70)


def test_a_run_whose_accelerators_are_not_used_tells_it() -> None:
    (run,) = (run for run in fixed_runs.summaries(Path("/runs")) if run.state.value == "running")
    facts = some_facts(runs=(run,), unused={run.id: "3 of 8 accelerators at 0% for 5m12s"})
    assert "  0% for 5m12s" in shown(facts, 80)
    assert "▲ bionemo-esm1nv-1121-k3v7" in shown(facts)
    assert " 3 of 8 at 0% " in shown(facts, 80)


def test_torn_down_runs_are_only_there_with_what_they_left() -> None:
    runs = fixed_runs.summaries(Path("/runs"))
    keys = set(lines_of(some_facts()))

    for run in runs:
        is_left = run.state.value != "torn down" or bool(run.leftovers)
        assert (f"run {run.id}" in keys) == is_left


def test_a_blueprint_has_accelerators_rate_and_cost() -> None:
    line = next(line for line in shown(some_facts()).splitlines() if "bionemo-esm1nv " in line and "A10G" in line)

    for part in ("8 A10G", "≥ $13.08/h", "$1,027–1,359 + traffic", "5d–6d"):
        assert part in line


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"runs": None}, "Reading the runs."),
        ({"runs": None, "runs_error": "/runs: Permission denied."}, "/runs: Permission denied."),
        ({"runs": ()}, "No run yet. Choose a blueprint below: enter opens its launch form."),
        ({"runs": (), "is_readonly": True}, "No run yet."),
        ({"problems": (), "paid": None}, "No problem in pods, nodes and events"),
        ({"problems": None}, "Looking at pods, nodes and events."),
        ({"blueprints": None}, "Reading the blueprints."),
        ({"costs": {}}, "…"),
        ({"costs": dict.fromkeys(_IDS, CostSummary(error="No such file."))}, "cannot be planned: No such"),
        ({"broken": 2}, "2 blueprints cannot be read: 3 shows why."),
        ({"contexts": None, "context": ""}, "Reading the kubeconfig."),
        ({"contexts": (), "context": "", "contexts_error": "There is no kubeconfig."}, "There is no kubeconfig."),
        ({"totals": None, "cluster_state": Span("connecting", Tone.MUTED)}, "Reading nodes and pods."),
        (
            {"totals": None, "cluster_state": Span("refused 3m: forbidden", Tone.BAD)},
            "No totals: refused 3m: forbidden",
        ),
        ({"totals": None, "cluster_state": Span("stale 3s", Tone.BAD)}, "Unknown until the cluster answers."),
        (
            {"totals": None, "cluster_state": Span("you may not list nodes", Tone.BAD)},
            "Not known: you may not list nodes.",
        ),
    ],
)
def test_what_is_not_there_is_said(changes: dict[str, object], told: str) -> None:
    assert told in shown(some_facts(**changes))


@pytest.mark.parametrize("size", [(78, 19), (118, 31), (198, 45), (40, 10)])
def test_every_section_is_on_every_screen(size: tuple[int, int]) -> None:
    board = home_board(some_facts(), *size)
    text = "\n".join(texts(board))

    for title in ("Clusters ─", "Fleet ─", "Runs ", "Problems ", "Launch"):
        assert title in text
    assert len(board.firsts) == 5
    if size[1] >= 19:
        assert len(board.lines) <= size[1]


def test_what_to_press_is_said_where_there_is_room() -> None:
    text = shown(some_facts(keys={"open runs": "f9"}), 200, 60)

    assert "1 … f9: other panes" in text
    assert "? keys" in text
    assert "? keys" not in shown(some_facts(), 78, 19)


def test_a_wide_screen_has_sections_side_by_side() -> None:
    wide = shown(some_facts(), 198, 45).splitlines()

    assert any("Runs" in line and "Problems" in line for line in wide)
    assert any("Clusters" in line and "Fleet" in line for line in wide)


def test_runs_that_are_not_read_yet_are_counted_beside_those_that_are() -> None:
    assert "not read yet" not in shown(some_facts())
    part = shown(some_facts(unread=480))
    assert "480 not read yet" in part
    assert "all runs (489)" in part
    over = [run for run in fixed_runs.summaries(Path("/runs")) if run.state is RunState.TORN_DOWN and not run.leftovers]
    nothing_present = shown(some_facts(runs=tuple(over), unread=480))
    assert "480 not read yet" in nothing_present
    assert "Reading the runs." in nothing_present
    assert "torn down: 0" not in nothing_present


def test_a_copy_of_a_run_is_not_taken_for_the_run() -> None:
    run = fixed_runs.summaries(Path("/runs"))[3]
    copy = replace(run, id=f"{run.id}.bak", notices=(Notice(NoticeKind.COPY, "It is a copy."),))
    (line,) = (line for line in shown(some_facts(runs=(copy,))).splitlines() if "nemo" in line and "copy" in line)
    assert "failed" not in line
