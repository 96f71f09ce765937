"""The pods pane: of a node, a stage, a namespace or a workload, and why there is none."""

from __future__ import annotations

from msgspec.structs import replace

from tests.support.builders import ShownCluster, a_node, a_pod, a_run, a_snapshot, a_stage, console_services
from tests.support.waiting import wait_for
from tests.unit.panes.alone import PaneApp, text_of
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.pods import PodsPane
from tui.textual_private import screen_text

OF_WEB = {"owner_kind": "ReplicaSet", "owner_name": "web-7d4b9"}


async def test_pods_can_be_those_of_one_node() -> None:
    services = console_services(
        a_snapshot([a_node("node-1"), a_node("node-2")], [a_pod("first"), a_pod("second", node="node-2")])
    )
    text = await text_of(PodsPane(services), points_at="node-2")

    assert "second" in text
    assert "first" not in text
    assert "pods of node-2" in text


async def test_pods_can_be_those_of_a_stage_of_the_run() -> None:
    run = a_run(a_stage("train"))
    pods = [a_pod("mine", run=run.id, stage="train"), a_pod("other")]
    text = await text_of(PodsPane(console_services(a_snapshot([a_node()], pods), run)), points_at="train")

    assert "mine" in text
    assert "other" not in text


async def test_a_pod_that_waits_says_why() -> None:
    pod = a_pod(phase="Pending", reason="ImagePullBackOff")
    assert "✗ ImagePullBackOff" in await text_of(PodsPane(console_services(a_snapshot([a_node()], [pod]))))


async def test_why_there_is_nothing_is_said_in_full_where_the_rows_would_be() -> None:
    sentence = "https://10.0.0.1 (context prod) cannot be reached: timed out. Check the network, VPN and the address."

    class Unreachable(ShownCluster):
        def health(self, resource: str) -> FeedHealth | None:
            return FeedHealth(FeedState.WAITING, sentence)

    services = console_services()
    services.followed.on_screen.feed = Unreachable(
        services.settings.target, readonly=False, clock=services.clock, changed=services.ticker.request_paint
    )
    app = PaneApp(PodsPane(services))

    async with app.run_test(size=(60, 12)) as pilot:
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "cannot be reached: timed " in screen_text(app), "the whole sentence")
        app.pane.refresh_data()
        await wait_for(pilot, lambda: "VPN and the address. ─╯" in screen_text(app), "its end at the border")


async def test_pods_are_narrowed_to_a_namespace_but_those_of_a_workload_are_all_there() -> None:
    services = console_services(
        a_snapshot(
            [a_node()],
            [a_pod("here", namespace="work"), a_pod("there", namespace="other"), replace(a_pod("web-1"), **OF_WEB)],
        )
    )
    services.narrow("work")
    text = await text_of(PodsPane(services))
    assert "pods in work" in text
    assert "here" in text
    assert "there" not in text
    text = await text_of(PodsPane(services), points_at="Deployment/default/web")
    assert "pods of Deployment default/web" in text
    assert "web-1" in text
    assert "here" not in text
