"""One list of what is paid for by the hour, from what exists: journals of runs, and the nodes that are seen."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.fleet.cost import CostModel
from actions.fleet.facts import NodeFacts
from actions.fleet.totals import totals_of
from actions.run.alarms.causes import alarms_of
from actions.run.journal.reader import RunSummary
from actions.run.paid import Paid, PaidThing, RunPaid, SeenNodes, kept_sentence, paid_by, paid_of, priced, state_words
from actions.run.report import run_json, run_table, runs_json, runs_table
from actions.run.spending import spending_of
from actions.run.state.fold import fold
from actions.run.state.records import (
    Action,
    Body,
    CheckResult,
    Created,
    Deleted,
    HeldPrice,
    Intent,
    JournalRecord,
    Operator,
    Outcome,
    Output,
    Owned,
    PlanOffer,
    RequestKind,
    Result,
    RunRequest,
    StageFinding,
    StageOutline,
)
from actions.run.state.view import RunState, RunView
from actions.run.store.lease import about_run
from actions.run.store.objects import LeaseDocument, RunStatus, StoreLease
from actions.run.store.remote import RemoteRun, paid_elsewhere
from actions.run.summaries import list_runs
from tests.support.builders import a_node
from tests.unit.run.world import creation, make_run
from tui.commands.confirmations import teardown_lines
from tui.present.cells import Cells, text_of
from tui.present.cost import cost_rows, total_lines
from tui.present.header import HeaderFacts, header_line
from tui.present.home.home_board import HomeFacts, home_board
from tui.present.run import ending_lines

HOUR = 3600.0
NAT = HeldPrice("NAT gateway", "network", "0.05", resource="aws_nat_gateway")
FSX = HeldPrice("FSx for Lustre", "disk", "1.12", resource="aws_fsx_lustre_file_system")
GROUP = HeldPrice(
    "4 × trn1.32xlarge", "nodes", "86", resource="aws_eks_node_group", nodes=4, instance_type="trn1.32xlarge"
)
PODS = HeldPrice("2 × g5.12xlarge", "train", "11.344", is_of_work=True, nodes=2, instance_type="g5.12xlarge")
TRAFFIC = HeldPrice("NAT gateway traffic, $0.045/GB", "network", is_by_use=True)
PRICES = (NAT, FSX, GROUP, PODS)


def created(prices: tuple[HeldPrice, ...] = PRICES) -> Created:
    stages = (
        StageOutline("network", "terraform", "Network", (), 0, 0),
        StageOutline("disk", "terraform", "File system", ("network",), 0, 0, keeps_data=True),
        StageOutline("nodes", "terraform", "GPU nodes", ("network",), 0, 0, holds_accelerators=True),
        StageOutline("train", "job", "Training", ("nodes",), 0, 0, holds_accelerators=True),
    )
    return replace(creation(), stages=stages, prices=prices)


def view(*lines: tuple[float, str, Body], prices: tuple[HeldPrice, ...] = PRICES) -> RunView:
    """Fold lines of hours since the launch, stage and body."""
    bodies = [(0.0, "", created(prices)), *lines]
    records = [JournalRecord(n, hours * HOUR, "me", stage, 1, body) for n, (hours, stage, body) in enumerate(bodies, 1)]
    return fold(records, holder="me")


def step(
    hours: float, stage: str, result: Result = Result.DONE, action: Action = Action.PERFORM, *made: StageFinding
) -> tuple[tuple[float, str, Body], ...]:
    """A step that begins then and ends half an hour later."""
    return (hours, stage, Intent(action)), (hours + 0.5, stage, Outcome(action, result, findings=made))


def found(address: str, detail: str, result: CheckResult = CheckResult.PASSED) -> StageFinding:
    return StageFinding(result, address, detail)


MADE = (*step(1, "network"), *step(2, "disk"))
KEPT = (
    *MADE,
    (3, "", RunRequest(RequestKind.TEARDOWN)),
    (3, "", Intent(Action.AUDIT)),
    (3.5, "", Outcome(Action.AUDIT, Result.DONE)),
)


def claimed(hours: float, name: str) -> tuple[float, str, Body]:
    return hours, "train", Owned("karpenter.sh/v1", name, "NodeClaim", uid=f"uid-{name}")


def seen(*nodes: NodeFacts, claimed: dict[str, str] | None = None, cluster: str = "") -> SeenNodes:
    model = CostModel.load(region="us-west-2")
    costs = {node.name: model.node_cost(node) for node in nodes}
    by_name = {node.name: node for node in nodes}
    total = model.fleet_cost(nodes, {})
    return SeenNodes(cluster or created().cluster.name, "", by_name, costs, claimed or {}, total)


def usd(paid: RunPaid | Paid) -> Decimal:
    return paid.hourly.usd


# --- what exists, by the journal


def test_a_node_group_that_was_never_made_costs_nothing_and_is_named_as_what_may_exist() -> None:
    broken = found("aws_eks_node_group.this", "create failed", CheckResult.FAILED)
    failed = view(*MADE, *step(3, "nodes", Result.FAILED, Action.PERFORM, found("aws_iam_role.node", "made"), broken))
    assert failed.state is RunState.FAILED
    assert usd(paid_by(failed)) == Decimal("1.17")
    assert paid_by(failed).hourly.text == "≥ $1.17/h"
    assert [(one.title, one.is_certain) for one in paid_by(failed).things][-1] == ("4 × trn1.32xlarge", False)
    early, late = spending_of(failed, 4 * HOUR), spending_of(failed, 14 * HOUR)
    assert early is not None
    assert late is not None
    assert late.usd - early.usd == Decimal("11.70"), "it grows by what exists alone"
    assert late.may_usd_per_hour == Decimal(86), "a limit counts it until it is known"
    text = run_table(failed, now=4 * HOUR)
    assert "4 × trn1.32xlarge $86.00/h, if it exists" in text
    assert json.loads(run_json(failed))["paid"][-1]["exists"] is None
    assert json.loads(run_json(failed))["spent"]["usd_per_hour"] == "1.17"


@pytest.mark.parametrize("address", ["aws_eks_node_group.this", 'module.a["x.y"].aws_eks_node_group.gpu["a.b"]'])
def test_what_a_failed_apply_has_made_is_paid_for(address: str) -> None:
    failed = view(*MADE, *step(3, "nodes", Result.FAILED, Action.PERFORM, found(address, "made")))
    assert usd(paid_by(failed)) == Decimal("87.17")
    again = view(*MADE, *step(3, "nodes", Result.FAILED, Action.PERFORM, found(address, "made")), *step(5, "nodes"))
    spent = spending_of(again, 6 * HOUR)
    assert spent is not None
    assert spent.usd == Decimal("0.05") * Decimal("4.5") + Decimal("1.12") * Decimal("3.5") + 86 * Decimal("2.5")


def test_what_a_failed_destroy_has_destroyed_is_not_paid_for_any_more() -> None:
    gone = found("module.vpc.aws_nat_gateway.this[0]", "destroyed")
    stopped = view(
        *MADE,
        (3, "", RunRequest(RequestKind.TEARDOWN, delete_data=True)),
        *step(3, "disk", action=Action.UNDO),
        *step(4, "network", Result.FAILED, Action.UNDO, gone),
    )
    assert usd(paid_by(stopped)) == Decimal(0)


def test_an_apply_that_is_under_way_is_in_no_sum_and_a_finished_one_is() -> None:
    under_way = view(*MADE, (3, "nodes", Intent(Action.PERFORM)))
    assert usd(paid_by(under_way)) == Decimal("1.17")
    assert usd(paid_by(view(*MADE, *step(3, "nodes")))) == Decimal("87.17")


def test_nodes_for_pods_are_paid_for_by_their_claims_and_not_by_the_state_of_the_stage() -> None:
    waits = (*MADE, (3, "train", Intent(Action.PERFORM)))
    assert usd(paid_by(view(*waits))) == Decimal("1.17"), "pods that wait for capacity cost nothing"
    one = view(*waits, claimed(4, "a"))
    assert usd(paid_by(one)) == Decimal("1.17") + Decimal("5.672")
    assert "1 of 2 × g5.12xlarge" in [thing.title for thing in paid_by(one).things]
    both = view(*waits, claimed(4, "a"), claimed(4, "b"), claimed(4.5, "a"))
    assert usd(paid_by(both)) == Decimal("1.17") + Decimal("11.344")
    spent, before = spending_of(both, 5 * HOUR), spending_of(both, 4 * HOUR)
    assert spent is not None
    assert before is not None
    assert spent.usd - before.usd == Decimal("1.17") + Decimal("11.344")


def test_after_its_job_nodes_of_claims_may_exist_until_they_are_recorded_as_deleted() -> None:
    done = (*MADE, (3, "train", Intent(Action.PERFORM)), claimed(3, "a"), claimed(3, "b"))
    over = view(*done, (4, "train", Outcome(Action.PERFORM, Result.DONE)))
    assert paid_by(over).hourly.text == "≥ $1.17/h"
    gone = [(5.0, "train", Deleted("karpenter.sh/v1", name, "NodeClaim")) for name in ("a", "b")]
    freed = view(*done, (4, "train", Outcome(Action.PERFORM, Result.DONE)), *gone)
    assert paid_by(freed).hourly.text == "$1.17/h"


def test_a_bucket_that_was_made_is_a_question_mark_and_no_zero() -> None:
    offer = PlanOffer("hash", 2, 0, 0, ("+ aws_fsx_lustre_file_system.this", "+ aws_s3_bucket.data[0]"))
    planned = (2.0, "disk", Intent(Action.PERFORM)), (2.2, "disk", Outcome(Action.PERFORM, Result.DONE, plan=offer))
    things = paid_by(view(*step(1, "network"), *planned)).things
    assert ("bucket aws_s3_bucket.data[0], by its contents", None) in [(one.title, one.usd_per_hour) for one in things]
    assert paid_by(view(*step(1, "network"), *planned)).hourly.text == "≥ $1.17/h"
    assert paid_by(view(*step(1, "network"), prices=(replace(NAT, usd_per_hour=""),))).hourly.text == "?"


# --- one figure everywhere


def test_the_price_of_an_hour_has_parts_that_add_up_to_it() -> None:
    of_run = paid_by(view(*step(1, "network")))
    alone = paid_of([], [seen(a_node("core", "m5.xlarge", gpu=0))])
    both = paid_of([of_run, paid_by(view(*KEPT))], [seen(a_node("core", "m5.xlarge", gpu=0), cluster="another")])
    assert alone.parts == ()
    assert [part.rpartition(" ")[0] for part in both.parts] == ["nodes", "other", "data kept"]
    assert sum(Decimal(part.rpartition("$")[2].removesuffix("/h")) for part in both.parts) == round(both.hourly.usd, 2)


def test_data_that_a_teardown_keeps_has_one_price_on_every_screen(tmp_path: Path) -> None:
    kept = view(*KEPT)
    assert kept.state is RunState.TORN_DOWN
    folder = make_run(tmp_path, SystemClock())
    (known,) = list_runs(tmp_path / "runs")
    run = replace(known, id=kept.id, folder=folder, state=kept.state, paid=paid_by(kept))
    paid = paid_of([paid_by(kept)], [seen(a_node("core", "m5.xlarge", gpu=0), cluster="another")])
    assert state_words(kept.state, run.paid) == "torn down, data kept"
    header = text_of(header_line(HeaderFacts(cluster="c", paid=paid), 120))
    assert header.endswith(" $1.36/h "), "one price: its parts are in the cost pane"
    cost = [text_of(line) for line in total_lines(paid)]
    assert cost[0].split("   ")[0] == "$1.36/h"
    assert cost[0].endswith("   nodes $0.19/h, data kept $1.17/h")
    rows = {row.what: row for row in cost_rows((), paid.things)}
    assert (rows["NAT gateway"].hourly.text, rows["FSx for Lustre"].bought) == ("$0.05/h", "data kept")
    home = "\n".join(text_of(cells) for cells in _home(paid, (run,)))
    assert "1 torn-down run keeps data: $1.17/h" in home
    assert "$1.36/h" in home
    table = runs_table([run])
    assert "torn down, data kept" in table
    assert "$1.17/h" in table
    (listed,) = json.loads(runs_json([replace(run, spending=spending_of(kept, 9 * HOUR))]))
    assert sum(Decimal(one["usd_per_hour"]) for one in listed["paid"]) == Decimal(listed["spent"]["usd_per_hour"])
    assert listed["spent"]["usd_per_hour"] == "1.17"
    shown = " ".join(" ".join(text_of(line) for line in ending_lines(kept)).split())
    assert shown.startswith("✓ $1.17/h goes on for what is kept on purpose: Network $0.05/h, File system $1.12/h.")
    assert kept_sentence(kept) in run_table(kept)
    before, after = spending_of(kept, 10 * HOUR), spending_of(kept, 20 * HOUR)
    assert before is not None
    assert after is not None
    assert after.usd - before.usd == Decimal("11.70"), "it grows by what is kept alone"


def test_the_dialog_of_a_teardown_prices_what_stays() -> None:
    run = view(*MADE, *step(3, "nodes"))
    text = " ".join(text_of(line) for line in teardown_lines(run, deletes_data=False))
    assert "Left by Terraform, for its data: Network $0.05/h, File system $1.12/h." in " ".join(text.split())
    assert priced(run, run.stage("train")) == "Training"


def _home(paid: Paid, runs: tuple[RunSummary, ...]) -> list[Cells]:
    facts = HomeFacts(now=0.0, runs=runs, problems=(), totals=totals_of((), {}), paid=paid, blueprints=())
    return [block.cells for line in home_board(facts, 120, 40).lines for block in line]


# --- nodes that are seen


def test_nodes_of_a_run_in_the_cluster_on_screen_are_counted_once() -> None:
    run = view(*MADE, *step(3, "nodes"), (3.5, "nodes", Output({"node_group_name": "trn"})), prices=(*PRICES, TRAFFIC))
    nodes = [replace(a_node(f"n{at}", "trn1.32xlarge", gpu=0), pool="trn", created_at=4 * HOUR) for at in range(3)]
    here, elsewhere = (seen(*nodes, cluster=name) for name in ("", "called-otherwise"))
    for place in (here, elsewhere):
        paid = paid_of([paid_by(run)], [place])
        assert paid.of_runs[run.id].nodes == 3, "three of four have come"
        assert usd(paid) == Decimal("1.17") + place.total.usd_per_hour
        of_run = paid.of(run.id)
        assert of_run is not None
        assert of_run.usd == usd(paid)
    assert usd(paid_of([paid_by(run)], [seen(cluster="another")])) == Decimal("87.17"), "of a cluster that is not seen"


def test_nodes_of_several_clusters_are_in_one_sum_and_a_run_has_those_of_its_own() -> None:
    run = view(*MADE, *step(3, "nodes"), (3.5, "nodes", Output({"node_group_name": "trn"})), prices=(*PRICES, TRAFFIC))
    nodes = [replace(a_node(f"n{at}", "trn1.32xlarge", gpu=0), pool="trn", created_at=4 * HOUR) for at in range(3)]
    here, there = seen(*nodes), seen(*nodes, a_node("n9"), cluster="another")
    for places in ([here, there], [there, here]):
        paid = paid_of([paid_by(run)], places)
        assert paid.nodes is not None
        assert paid.nodes.nodes == 7
        assert paid.of_runs[run.id].nodes == 3, "a pool of another cluster has the same name"
        assert usd(paid) == Decimal("1.17") + here.total.usd_per_hour + there.total.usd_per_hour
    part = paid_of([paid_by(run)], [here], is_whole=False)
    assert part.hourly.text.startswith("≥ "), "a cluster does not answer"


def test_idle_nodes_that_karpenter_has_not_removed_yet_are_the_runs() -> None:
    done = (*MADE, (3, "train", Intent(Action.PERFORM)), claimed(3, "a"), claimed(3, "b"))
    over = view(*done, (4, "train", Outcome(Action.PERFORM, Result.DONE)))
    place = seen(a_node("n1"), a_node("n2"), a_node("other"), claimed={"uid-a": "n1", "uid-b": "n2"})
    paid = paid_of([paid_by(over)], [place])
    assert paid.of_runs[over.id].idle_text == "$11.34/h idle (8 of 8 accelerators)"
    rest = paid.nodes_of_nobody
    assert rest is not None
    assert (rest.nodes, rest.idle_accelerators) == (1, 4)
    assert usd(paid) == Decimal("1.17") + 3 * Decimal("5.672")


def test_core_nodes_of_a_runs_own_cluster_are_its_own_and_no_more_than_it_pays_for() -> None:
    core = HeldPrice(
        "2 × m5.xlarge", "network", "0.384", resource="aws_eks_node_group", nodes=2, instance_type="m5.xlarge"
    )
    run = view(*step(1, "network"), prices=(NAT, core))
    place = seen(*(a_node(f"n{at}", "m5.xlarge", gpu=0) for at in range(3)))
    paid = paid_of([paid_by(run)], [place])
    assert paid.of_runs[run.id].nodes == 2
    of_run = paid.of(run.id)
    assert of_run is not None
    assert of_run.text == "$0.43/h"
    assert usd(paid) == Decimal("0.05") + 3 * Decimal("0.192")


def test_before_the_nodes_are_seen_the_sum_is_a_lower_bound() -> None:
    assert paid_of([paid_by(view(*KEPT))]).hourly.text == "≥ $1.17/h"
    assert text_of(header_line(HeaderFacts(cluster="c", paid=Paid()), 80)).strip().endswith("$ … /h")


def test_simulated_money_is_in_no_sum_with_real_one() -> None:
    real, rehearsed = paid_by(view(*KEPT)), replace(paid_by(view(*KEPT)), is_simulated=True)
    assert paid_of([real, rehearsed], is_simulated=False).hourly.usd == Decimal("1.17")
    assert paid_of([real, rehearsed], is_simulated=True).hourly.usd == Decimal("1.17")


def test_a_run_of_another_machine_counts_without_its_nodes_where_these_are_seen() -> None:
    run = view(*MADE, *step(3, "nodes"))
    remote = published(run)
    here = paid_elsewhere(remote, [(run.cluster.name, run.cluster.region)])
    there = paid_elsewhere(remote, [("another", "")])
    assert here is not None
    assert there is not None
    assert (here.usd_per_hour, there.usd_per_hour) == (Decimal("1.17"), Decimal("87.17"))
    assert remote.lease is not None
    without = replace(remote.status, nodes_usd_per_hour="")
    older = replace(remote, lease=replace(remote.lease, document=replace(remote.lease.document, status=without)))
    unknown = paid_elsewhere(older, [(run.cluster.name, run.cluster.region)])
    assert unknown == PaidThing("run of grace@bastion", None, run.id), "what part of it its nodes are is not known"
    left = paid_elsewhere(published(view(*KEPT)), [(run.cluster.name, run.cluster.region)])
    assert left is not None
    assert (left.usd_per_hour, left.is_kept) == (Decimal("1.17"), True)


def published(run: RunView) -> RemoteRun:
    """The run as its lease has it after four hours."""
    spending = spending_of(run, 4 * HOUR)
    assert spending is not None
    status = RunStatus(
        run.state.value,
        usd_per_hour=f"{spending.usd_per_hour:.4f}",
        nodes_usd_per_hour=f"{paid_by(run).nodes_usd_per_hour:.4f}",
    )
    document = LeaseDocument(1, Operator("grace", "bastion"), "", "", 30.0, "", status, about_run(run))
    return RemoteRun(run.id, StoreLease(document, "1", 4 * HOUR))


# --- idle accelerators


def summary(tmp_path: Path, of: RunView) -> RunSummary:
    make_run(tmp_path, SystemClock())
    (known,) = list_runs(tmp_path / "runs")
    return replace(known, id=of.id, state=of.state, ended_at=4 * HOUR, paid=paid_by(of))


def test_idle_accelerators_are_the_first_problem_with_their_run_and_its_key(tmp_path: Path) -> None:
    done = (*MADE, *step(3, "nodes"), (3.5, "nodes", Output({"node_group_name": "trn"})))
    over = view(*done, *step(3.5, "train"))
    nodes = [replace(a_node(f"n{at}", "trn1.32xlarge", gpu=0), pool="trn", created_at=4 * HOUR) for at in range(4)]
    run = summary(tmp_path, over)
    run = replace(run, state=RunState.SUCCEEDED)
    text = "\n".join(text_of(cells) for cells in _home(paid_of([paid_by(over)], [seen(*nodes)]), (run,)))
    problems = text[text.index("Problems") :]
    assert "No problem" not in problems
    assert f"Run {run.id}  $86.00/h idle (64 of 64 accelerators)" in problems.splitlines()[1]
    assert "P parks it" in text


def test_the_alarm_of_a_success_names_what_it_still_holds() -> None:
    over = replace(view(*MADE, *step(3, "nodes"), *step(3.5, "train")), state=RunState.SUCCEEDED)
    (alarm,) = alarms_of(over, now=0.0)
    assert alarm.text.startswith(
        f"Run {over.id} has succeeded. It still holds accelerators: GPU nodes, Training. It costs"
    )
    assert "$87.17/h" in alarm.text
    (kept,) = alarms_of(view(*KEPT), now=0.0)
    assert kept.text == f"Run {over.id} is torn down. The data that it keeps costs $1.17/h."
