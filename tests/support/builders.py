"""Nodes, pods, runs and a desk that shows them: every argument has a value that means nothing special."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from actions.base.clock import SystemClock
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.cluster.watch.health import Health, SourceHealth
from actions.fleet.facts import EventFacts, NodeFacts, NodeUsage, PodFacts, Resources
from actions.run.state.records import ClusterName, PlanOffer
from actions.run.state.view import Goal, RunState, RunView, StageState, StageView
from tui.feeds.cluster import ClusterFeed
from tui.feeds.objects import ClusterKinds
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.feeds.ticker import Ticker
from tui.settings.settings import ConsoleSettings

GIB = 1 << 30
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


class StillClock(SystemClock):
    """Wall time stands still at `NOW`."""

    def now(self) -> datetime:
        return NOW


def a_node(
    name: str = "node-1",
    instance_type: str = "g5.12xlarge",
    *,
    gpu: int = 4,
    is_ready: bool = True,
    capacity_type: str = "on-demand",
    region: str = "us-west-2",
) -> NodeFacts:
    """A node with four GPUs."""
    return NodeFacts(
        uid=f"uid-{name}",
        name=name,
        instance_type=instance_type,
        region=region,
        zone=f"{region}a",
        capacity_type=capacity_type,
        pool="gpu-pool",
        allocatable=Resources(cpu_milli=48_000, memory_bytes=192 * GIB, gpu=gpu),
        pods_allocatable=110,
        is_ready=is_ready,
    )


def a_pod(
    name: str = "worker-0",
    *,
    namespace: str = "default",
    node: str = "node-1",
    phase: str = "Running",
    reason: str = "",
    gpu: int = 0,
    run: str = "",
    stage: str = "",
) -> PodFacts:
    """A pod with one container that runs."""
    return PodFacts(
        uid=f"uid-{name}",
        namespace=namespace,
        name=name,
        node=node,
        phase=phase,
        reason=reason,
        ready=1 if phase == "Running" else 0,
        containers=("main",),
        requests=Resources(cpu_milli=1_000, memory_bytes=GIB, gpu=gpu),
        owner_kind="PyTorchJob",
        owner_name="train",
        run=run,
        stage=stage,
    )


def an_event(
    reason: str = "Scheduled", *, name: str = "worker-0", kind: str = "Pod", type_: str = "Normal"
) -> EventFacts:
    """One event about a pod, a minute ago."""
    return EventFacts(
        uid=f"uid-{reason}-{name}",
        namespace="default",
        kind=kind,
        name=name,
        type=type_,
        reason=reason,
        message=f"{reason} happened",
        count=1,
        last_seen_at=NOW.timestamp() - 60,
    )


def a_snapshot(
    nodes: Iterable[NodeFacts] = (),
    pods: Iterable[PodFacts] = (),
    events: Iterable[EventFacts] = (),
    *,
    revision: int = 1,
) -> ClusterSnapshot:
    """A complete picture; usage is summed up from the pods."""
    known = {pod.key: pod for pod in pods}
    usage: dict[str, NodeUsage] = {}
    for pod in known.values():
        if pod.node and not pod.is_done:
            before = usage.get(pod.node, NodeUsage())
            usage[pod.node] = NodeUsage(before.requested.plus(pod.requests), before.pods + 1)
    live = SourceHealth(Health.LIVE, "", 0.0)
    return ClusterSnapshot(
        revision=revision,
        nodes={node.name: node for node in nodes},
        pods=known,
        usage=usage,
        events=tuple(events),
        health={"nodes": live, "pods": live, "events": live},
        is_complete=True,
    )


def a_stage(
    stage_id: str = "train",
    state: StageState = StageState.PENDING,
    *,
    started_seconds_ago: float | None = None,
    ended_seconds_ago: float | None = None,
    message: str = "",
    plan: PlanOffer | None = None,
) -> StageView:
    """A job stage that is expected to take one to two minutes."""
    now = NOW.timestamp()
    return StageView(
        id=stage_id,
        title=stage_id.capitalize(),
        kind="job",
        state=state,
        attempt=0 if started_seconds_ago is None else 1,
        started_at=None if started_seconds_ago is None else now - started_seconds_ago,
        ended_at=None if ended_seconds_ago is None else now - ended_seconds_ago,
        expect_low_seconds=60,
        expect_high_seconds=120,
        message=message,
        plan=plan,
    )


def a_plan(*, destroy: int = 0) -> PlanOffer:
    """A Terraform plan that adds two resources."""
    return PlanOffer(plan_hash="hash-1", add=2, change=0, destroy=destroy, lines=("+ aws_vpc.main", "+ aws_subnet.one"))


def a_run(*stages: StageView, state: RunState = RunState.RUNNING, teardown: tuple[StageView, ...] = ()) -> RunView:
    """A run created five minutes ago."""
    return RunView(
        id="bionemo-1121-ab12",
        blueprint_id="bionemo",
        title="BioNeMo",
        preset="rehearsal",
        parameters={},
        cluster=ClusterName(name="bionemo-on-eks", region="us-west-2"),
        created_at=NOW.timestamp() - 300,
        state=state,
        goal=Goal.TEARDOWN if teardown else Goal.FORWARD,
        is_paused=False,
        auto_approve=False,
        existing_cluster=False,
        deletes_data=False,
        stages=stages or (a_stage(),),
        teardown=teardown,
        ending={},
        requests=(),
        owned=(),
        audit=None,
        last_seq=1,
    )


class ShownCluster(ClusterFeed):
    """A feed that shows what it was given."""

    picture: ClusterSnapshot | None = None

    def snapshot(self) -> ClusterSnapshot | None:
        return self.picture

    def health(self, resource: str) -> FeedHealth | None:
        return FeedHealth(FeedState.LIVE) if self.picture else None


def console_services(
    snapshot: ClusterSnapshot | None = None, view: RunView | None = None, *, readonly: bool = False
) -> ConsoleServices:
    """A desk that follows nothing."""
    settings = ConsoleSettings(target=ClusterTarget(), region="us-west-2", readonly=readonly, checks_launches=False)
    services = ConsoleServices(settings, StillClock(), Ticker(lambda: None))
    shown = ShownCluster(
        settings.target, readonly=readonly, clock=services.clock, changed=services.ticker.request_paint
    )
    shown.picture = snapshot
    services.followed.on_screen.feed = shown
    services.followed.on_screen.kinds = ClusterKinds(shown)
    services.runs.view, services.runs.is_listed = view, True
    return services
