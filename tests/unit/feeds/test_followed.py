"""Clusters that are followed: what is computed of each, when, and that nothing is computed twice."""

from __future__ import annotations

import random
from pathlib import Path

from msgspec.structs import replace

from actions.cluster.logs.lines import LogLine
from actions.cluster.state.snapshot import ChangeLog
from actions.fleet.facts import NodeFacts, PodFacts
from actions.fleet.totals import totals_of
from actions.fleet.verdict import UNREAD
from actions.run.output.writer import OutputWriter
from tests.support.builders import NOW, a_node, a_pod, a_snapshot
from tests.unit.feeds.waits import Turning, Waits, until
from tui.feeds import followed
from tui.feeds.followed import FleetTrouble, ProblemFeed


def a_feed(clock: Turning) -> tuple[ProblemFeed, Waits]:
    waits = Waits()
    return ProblemFeed(clock, waits.changed.set, waits.later.append), waits


def test_trouble_follows_changes_to_where_a_whole_look_ends() -> None:
    dice, log, followed = random.Random(7), ChangeLog(), FleetTrouble()
    nodes: dict[str, NodeFacts] = {}
    pods: dict[str, PodFacts] = {}
    for revision in range(1, 80):
        for _ in range(dice.randint(0, 3)):
            name = f"n{dice.randint(0, 5)}"
            pod = a_pod(
                f"p{dice.randint(0, 9)}", node=dice.choice(["", name]), phase=dice.choice(["Running", "Pending"])
            )
            for changed in (name, pod.node):
                log.node(changed)
            log.pod(pod.key)
            if dice.random() < 0.3:
                nodes.pop(name, None)
                pods.pop(pod.key, None)
            else:
                nodes[name], pods[pod.key] = replace(a_node(name), is_ready=dice.random() < 0.8), pod
            for other in nodes:
                log.node(other)
        log.close(revision - 1, revision)
        snapshot = replace(a_snapshot(nodes.values(), pods.values(), revision=revision), history=log)
        known = followed.revision
        followed.follow(snapshot)
        followed.follow(snapshot)
        assert followed.revision == known + 1
        whole = FleetTrouble()
        whole.follow(snapshot)
        assert followed.totals == whole.totals == totals_of(nodes.values(), snapshot.usage)
        assert followed.pods == whole.pods == {key: pod for key, pod in pods.items() if not pod.is_fine}
        assert followed.nodes == whole.nodes
        assert followed.unscheduled == sum(pod.phase == "Pending" and not pod.node for pod in pods.values())


async def test_problems_are_looked_for_when_something_changed_and_not_too_often() -> None:
    clock = Turning()
    feed, waits = a_feed(clock)
    broken = replace(a_pod("worker-0", reason="CrashLoopBackOff"), ready=0, restarts=9)
    log = ChangeLog()
    sick = replace(a_snapshot([a_node()], [broken], revision=1), history=log)
    well = replace(a_snapshot([a_node()], [a_pod("worker-0")], revision=2), history=log)
    feed.follow(sick)
    await until(waits, lambda: bool(feed.found))
    waits.changed.clear()
    log.pod(broken.key)
    log.close(1, 2)

    feed.follow(well)
    assert waits.later == [followed.PROBLEMS_EVERY_SECONDS]
    assert feed.found
    clock.seconds += followed.PROBLEMS_EVERY_SECONDS
    feed.follow(well)
    await until(waits, lambda: feed.found == ())
    clock.seconds += 100
    feed.follow(well)

    assert feed.found == ()
    assert len(waits.later) == 1
    feed.close()


async def test_another_cluster_is_looked_at_anew() -> None:
    feed, waits = a_feed(Turning())
    feed.follow(a_snapshot([a_node()], []))
    await until(waits, lambda: feed.found == ())
    feed.follow(a_snapshot([replace(a_node("other"), is_ready=False)], []))

    assert feed.found is None
    await until(waits, lambda: bool(feed.found))
    feed.follow(None)
    assert feed.found is None
    feed.close()


async def test_a_pod_that_crashes_again_and_again_is_a_problem_while_it_runs_in_between() -> None:
    clock, log = Turning(), ChangeLog()
    feed, waits = a_feed(clock)
    calm = replace(a_pod("worker-7"), restarts=2)
    feed.follow(replace(a_snapshot([a_node()], [calm], revision=1), history=log))
    await until(waits, lambda: feed.found == ())
    again = replace(calm, restarts=3, started_at=clock.now().timestamp() + followed.PROBLEMS_EVERY_SECONDS)
    log.pod(again.key)
    log.close(1, 2)
    clock.seconds += followed.PROBLEMS_EVERY_SECONDS
    snapshot = replace(a_snapshot([a_node()], [again], revision=2), history=log)
    feed.follow(snapshot)
    await until(waits, lambda: bool(feed.found))

    assert [one.text for one in feed.found or ()] == ["runs again after 3 restarts, the last one minutes ago"]
    assert set(waits.later) == {followed.RESTARTED_SECONDS}
    clock.seconds += followed.RESTARTED_SECONDS
    feed.follow(snapshot)
    await until(waits, lambda: feed.found == ())
    feed.close()


async def test_a_restart_before_the_console_started_is_a_problem_too() -> None:
    """Between two restarts of a pod that had crashed before, Home had no problem."""
    clock = Turning()
    feed, waits = a_feed(clock)
    between = replace(a_pod("worker-7"), restarts=12, started_at=NOW.timestamp() - 20)
    feed.follow(a_snapshot([a_node()], [between, replace(a_pod("worker-6"), restarts=3, started_at=1.0)]))
    await until(waits, lambda: bool(feed.found))
    assert [one.name for one in feed.found or ()] == ["worker-7"]
    feed.close()


def test_the_pods_of_a_run_have_a_verdict_by_its_stage() -> None:
    now, trouble = NOW.timestamp(), FleetTrouble()
    loop = {"run": "r-1", "stage": "train", "owner_kind": "Job", "owner_name": "esm", "reason": "CrashLoopBackOff"}
    pods = [replace(a_pod(f"esm-{n}"), restarts=n, ready=0, **loop) for n in range(3)]
    fine = replace(a_pod("other-0"), run="r-2", stage="train")
    snapshot = a_snapshot([a_node()], [*pods, fine])
    trouble.follow(snapshot)
    told = {"train": f"2 restarted 2×, CrashLoopBackOff (2 more pods like it): {UNREAD}"}
    assert trouble.of_run("r-1", snapshot, now) == told
    assert trouble.of_run("r-2", snapshot, now) == {}


async def test_the_cause_in_the_log_of_a_run_is_the_problem_with_its_remedy(tmp_path: Path) -> None:
    """Home said to correct the image or the command, where `w` named the memory of a GPU."""
    folder = tmp_path / "r-1"
    writer = OutputWriter(folder, "train")
    text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."
    writer.write_lines(writer.source("default", "esm-7", "pytorch", "uid"), [LogLine(int(NOW.timestamp() * 1e9), text)])
    writer.close()
    clock = Turning()
    feed, waits = a_feed(clock)
    pod = a_pod("esm-7", reason="CrashLoopBackOff")
    loop = replace(pod, restarts=9, ready=0, run="r-1", stage="train", owner_kind="Job", owner_name="esm")
    feed.follow(a_snapshot([a_node()], [loop]))
    await until(waits, lambda: bool(feed.found))
    (plain,) = feed.found or ()
    assert plain.code == "CRASH_LOOP"
    assert "Correct the image" not in plain.next_step

    clock.seconds += followed.PROBLEMS_EVERY_SECONDS
    feed.follow(a_snapshot([a_node()], [loop]), ((folder, "train"),))
    await until(waits, lambda: bool(feed.found) and feed.found != (plain,))
    (known,) = feed.found or ()
    assert (known.code, known.kind, known.name) == ("GPU_OOM", "Job", "esm")
    assert "batch" in known.next_step
    feed.close()
