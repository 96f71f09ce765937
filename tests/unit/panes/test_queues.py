"""The queues pane: quota, what has it, what waits in order, and the way from a job to its place and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.cluster.queues import QueueList, queues_of
from actions.fleet.facts import WorkloadFacts
from tests.support.builders import a_pod, a_snapshot, console_services
from tests.support.fixed_console import Scene, a_fixed_console
from tests.unit.cluster.test_queues import CLUSTER_QUEUE, OTHERS, WORK
from tests.unit.panes.alone import text_of
from tui.panes.queues import QueuesPane
from tui.present.queues import queue_rows
from tui.present.subject import Subject

FOUND = QueueList(queues_of([CLUSTER_QUEUE, *OTHERS, *WORK], {}), ("Volcano is not installed here.",))


def a_pane(found: QueueList = FOUND) -> QueuesPane:
    pane = QueuesPane(console_services(a_snapshot()))
    pane.take(found)
    return pane


async def test_a_queue_stands_before_its_work_which_is_in_order() -> None:
    text = await text_of(a_pane(), size=(160, 30))
    lines = [line for line in text.splitlines() if "team" in line]
    assert ["nvidia.com/gpu of p5" in line for line in lines] == [True, False, False, False, False]
    assert [name for line in lines for name in ("runs", "urgent", "early", "late") if f"ml/{name}" in line] == [
        "runs",
        "urgent",
        "early",
        "late",
    ]
    assert "3 of 3" in lines[-1]
    assert "in research < all, by priority, then age" in text
    assert "Volcano is not installed here." in text


async def test_what_is_not_there_is_a_sentence() -> None:
    text = await text_of(a_pane(QueueList((), ("Kueue is not installed here.", "Volcano is not installed here."))))
    assert "Kueue is not installed here." in text


async def test_a_job_leads_to_its_place_and_the_place_to_the_job() -> None:
    pane = a_pane()
    pane.show_target("Job/ml/early")
    await text_of(pane)
    assert pane.subject() == Subject("Job", "early", "ml")
    row = next(row for row in queue_rows(FOUND) if row.work is not None and row.work.job_name == "early")
    assert pane.line_of(row) == "open pods of=Job/ml/early"


async def test_a_job_without_a_place_is_named() -> None:
    pane = a_pane()
    pane.show_target("Job/ml/none")
    assert "Job ml/none is in none that may be seen" in await text_of(pane, size=(160, 30))


async def test_u_leads_from_a_pod_to_the_place_of_its_job_and_enter_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    pod = replace(a_pod("early-x1"), namespace="ml", owner_kind="Job", owner_name="early")
    job = WorkloadFacts(uid="uid-early", kind="Job", namespace="ml", name="early", state="waiting")
    scene = Scene(replace(a_snapshot(pods=[pod]), workloads={"Job ml/early": job}))
    async with a_fixed_console(scene, monkeypatch, size=(120, 36)) as console:
        pane = console.app.workspace.pane("queues")
        assert isinstance(pane, QueuesPane)
        pane.take(FOUND)
        await console.line("open pods")
        await console.calm("early-x1")
        await console.press("u")
        await console.calm("2 of 3")
        assert pane.subject() == Subject("Job", "early", "ml")
        await console.press("enter")
        await console.calm(("pods of", "early-x1"))
