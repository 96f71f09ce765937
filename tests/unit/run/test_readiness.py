"""The pods of a job: ready, not ready, in trouble, out of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.process import own_identity
from actions.cluster.diagnose.codes import Code
from actions.cluster.logs.lines import LogLine
from actions.cluster.objects.client import ObjectRef
from actions.cluster.objects.status_rules import ObjectStatus, WorkState
from actions.fleet.verdict import PodTrouble, trouble_of, verdict_of
from actions.run.context.access import ClusterConnection
from actions.run.journal.lease import Heartbeat, read_heartbeat
from actions.run.objects.writes import unready
from actions.run.output.reader import OutputReader
from actions.run.output.writer import OutputWriter
from actions.run.stages.readiness import cause_in, progress_of, restarts_of, troubles_of
from actions.run.state.view import Notice, NoticeKind
from tests.support import fixed_runs
from tests.support.builders import NOW, a_pod
from tests.support.fixed_cluster import RUN, picture
from tests.support.fixed_console import Scene, a_fixed_console
from tui.textual_private import screen_text

JOB = "esm1nv-pretraining"
RUNNING = ObjectStatus(WorkState.RUNNING, "Running", "")
LOOP = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}


def an_end(reason: str, code: int, *, ago: float = 20) -> dict[str, Any]:
    at = (NOW - timedelta(seconds=ago)).isoformat().replace("+00:00", "Z")
    return {"terminated": {"reason": reason, "exitCode": code, "finishedAt": at}}


def a_worker(number: int = 0, *, phase: str = "Running", ready: bool = True, **container: Any) -> dict[str, Any]:
    status = {"name": "pytorch", "ready": ready, "restartCount": 0, "state": {"running": {}}, **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{JOB}-worker-{number}", "namespace": "default"},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [status],
        },
    }


def crashing(number: int = 7, restarts: int = 7) -> dict[str, Any]:
    return a_worker(number, ready=False, state=LOOP, lastState=an_end("OOMKilled", 137), restartCount=restarts)


def trouble(*pods: dict[str, Any], cause: str | None = "") -> str:
    return verdict_of(troubles_of(pods, job=JOB, now=NOW.timestamp()), job=JOB, cause=cause)


def test_a_pod_in_a_crash_loop_is_not_counted_as_ready_although_its_phase_is_running() -> None:
    pods = [*map(a_worker, range(7)), crashing()]
    assert progress_of(RUNNING, pods) == "7 of 8 pods ready. back-off 5m0s restarting failed container"
    assert progress_of(RUNNING, pods[:7]) == "7 of 7 pods ready."


def test_pods_that_have_ended_are_not_waited_for() -> None:
    ended = a_worker(8, phase="Succeeded", ready=False)
    assert progress_of(RUNNING, [a_worker(), ended]) == "1 of 1 pods ready. 1 pod has ended."


def test_a_job_that_has_not_counted_its_ready_pods_yet_says_nothing_against_them() -> None:
    behind = ObjectStatus(WorkState.WAITING, "PodsNotReady", "Its pods have not become ready.")
    assert progress_of(behind, [a_worker()]) == "1 of 1 pods ready."
    assert progress_of(behind, []) == "Its pods have not become ready."


def test_trouble_names_the_pod_its_restarts_and_the_reason() -> None:
    assert trouble(a_worker(), crashing()) == "worker-7 restarted 7×, CrashLoopBackOff, OOMKilled"
    assert trouble(crashing(1, 2), crashing()) == (
        "worker-7 restarted 7×, CrashLoopBackOff, OOMKilled (1 more pod like it)"
    )
    assert trouble(crashing(), cause="A GPU is out of memory: asked 17.94 GiB") == (
        "A GPU is out of memory, 7 restarts: asked 17.94 GiB; CrashLoopBackOff, OOMKilled"
    )
    assert restarts_of([crashing(), crashing(1, 2), a_worker()]) == 9


def test_the_cause_comes_first_and_is_told_of_the_pod_that_it_is_of() -> None:
    """The banner had the restarts of worker-7 beside the memory of worker-1."""
    cause = f"A GPU of {JOB}-worker-1 is out of memory: asked 17.94 GiB, free 0.49 GiB"
    assert trouble(crashing(1, 4), crashing(7, 12), crashing(12, 30), cause=cause) == (
        "A GPU of worker-1 is out of memory, 4 restarts: asked 17.94 GiB, free 0.49 GiB;"
        " CrashLoopBackOff, OOMKilled (2 more pods like it)"
    )
    assert trouble(crashing(), cause=None).endswith("OOMKilled: cause unknown, log not read")
    assert not trouble(a_worker(), cause=cause)


def test_the_facts_of_a_console_and_the_pods_of_a_runner_give_one_verdict() -> None:
    """A colleague who looks at the run saw it running, healthy."""
    now = NOW.timestamp()
    loop = replace(a_pod(f"{JOB}-worker-7"), restarts=7, reason="CrashLoopBackOff", ready=0, started_at=now - 400)
    here = verdict_of([found] if (found := trouble_of(loop, now, job=JOB)) else [], job=JOB, cause=None)
    there = trouble(a_worker(7, ready=False, state=LOOP, restartCount=7), cause=None)
    assert here == there == "worker-7 restarted 7×, CrashLoopBackOff: cause unknown, log not read"
    between = replace(loop, reason="", ready=1, started_at=now - 20)
    assert trouble_of(between, now, job=JOB) == PodTrouble("worker-7", 7, ())
    for calm in (replace(between, started_at=now - 3600), replace(between, restarts=0), replace(loop, phase="Failed")):
        assert trouble_of(calm, now, job=JOB) is None


@pytest.mark.parametrize(("ago", "is_told"), [(20.0, True), (3_600.0, False)])
def test_a_restart_is_trouble_for_ten_minutes(ago: float, is_told: bool) -> None:
    pod = a_worker(lastState=an_end("Error", 1, ago=ago), restartCount=1)
    assert trouble(pod) == ("worker-0 restarted 1×, exit code 1" if is_told else "")


def test_a_clean_end_and_a_healthy_pod_are_no_trouble() -> None:
    assert not trouble(a_worker(), a_worker(1, phase="Succeeded", ready=False))
    assert not trouble(a_worker(restartCount=1, lastState=an_end("Completed", 0)))


def test_an_image_that_cannot_be_pulled_is_trouble_without_a_restart() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    assert trouble(a_worker(phase="Pending", ready=False, state=state)) == "worker-0, ImagePullBackOff"


class Deployed:
    """A cluster with a Deployment whose pod crashes."""

    async def find(self, ref: ObjectRef) -> dict[str, Any]:
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "operator", "tier": "control"}}}
        metadata = {"name": ref.name, "namespace": ref.namespace, "generation": 1}
        status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}
        return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata, "spec": spec, "status": status}

    async def pods(self, *, namespace: str, label_selector: str) -> list[dict[str, Any]]:
        assert (namespace, label_selector) == ("default", "app=operator,tier=control")
        return [a_worker(), crashing()]


async def test_a_deployment_that_is_awaited_names_its_pod_that_crashes() -> None:
    ref = ObjectRef("apps/v1", "Deployment", "default", "operator")
    assert await unready(cast("ClusterConnection", Deployed()), ref) == (
        "Deployment default/operator: 0 of 1 replicas are available. Pod esm1nv-pretraining-worker-7: "
        "CrashLoopBackOff: back-off 5m0s restarting failed container"
    )


def test_the_cause_is_read_in_the_log(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, "train")
    source = writer.source("default", f"{JOB}-worker-7", "pytorch", "uid")
    text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."
    writer.write_lines(source, [LogLine(int(NOW.timestamp() * 1e9), text)])
    writer.close()
    found = cause_in(OutputReader(tmp_path, "train"))
    assert found is not None
    assert found.code is Code.GPU_OOM
    assert "out of memory: asked 20.00 GiB" in found.headline
    assert cause_in(OutputReader(tmp_path, "train"), ["worker-7"]) == found
    assert cause_in(OutputReader(tmp_path, "train"), ["worker-1"]) is None, "its log is of a pod without trouble"
    assert cause_in(OutputReader(tmp_path, "silent")) is None


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_crash_loop_is_red_in_rail_tab_runs_and_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    pods = [
        *map(a_worker, range(7)),
        a_worker(7, ready=False, state=LOOP, lastState=an_end("Error", 1), restartCount=7),
    ]
    view = fixed_runs.a_crashing_run()
    told = trouble(*pods, cause="A GPU of worker-7 is out of memory")
    assert (view.stage("train").message, view.stage("train").trouble) == (progress_of(RUNNING, pods), told)
    summaries = tuple(
        replace(one, notices=view.notices if one.id == RUN else ()) for one in fixed_runs.summaries(tmp_path)
    )
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN, summaries=summaries)
    async with a_fixed_console(scene, monkeypatch, size=size) as console:
        await console.line("open run")
        await console.calm("4 run▶")
        scene.view = view
        await console.calm(("▲ Pre-training", "4 run▲"))
        rail = next(line for line in screen_text(console.app).splitlines() if "▲ Pre-training  " in line)
        assert "worker-7" in rail
        assert "pods run" not in screen_text(console.app)
        await console.line("open nodes")
        await console.calm(("run▲", "▲ A GPU of worker-7"))
        footer = screen_text(console.app).splitlines()[-1]
        words = "▲ A GPU of worker-7 is out of memory, 7 restarts"
        assert (words if size[0] > 80 else words[:20]) in footer
        await console.line("open runs")
        await console.calm(("▲ running", "A GPU of worker-7" if size[0] > 120 else "train"))


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_crash_loop_of_another_run_is_red_in_its_tab_and_the_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    pods = [a_worker(3, ready=False, state=LOOP, lastState=an_end("Error", 1), restartCount=4)]
    notice = Notice(NoticeKind.PODS, f"Nodes: {trouble(*pods, cause='A GPU is lost')}")
    summaries = tuple(
        replace(one, notices=(notice,) if one.id.startswith("efa-nccl-tests-1121") else ())
        for one in fixed_runs.summaries(tmp_path)
    )
    scene = Scene(picture(), view=fixed_runs.a_training_run(), folder=tmp_path / RUN, summaries=summaries)
    async with a_fixed_console(scene, monkeypatch, size=size) as console:
        await console.line("open nodes")
        await console.calm("runs▲")
        lines = screen_text(console.app).splitlines()
        assert "4 run▶" in lines[1], "the run on screen is well"
        words = "▲ efa-nccl-tests-1121-w5c2"
        assert f"0 {words[:24]}" in lines[-1]
        assert size[0] < 100 or f"0 {words}: A GPU is lost, 4 restarts" in lines[-1]
        assert lines[-1].rstrip().endswith("? help  q quit")
        await console.line("open runs")
        await console.calm("[0 runs▲]")
        assert words not in screen_text(console.app).splitlines()[-1], "the table has it"


def test_trouble_is_in_the_heartbeat_until_it_is_over(tmp_path: Path) -> None:
    holder = own_identity()
    heartbeat = Heartbeat(tmp_path, holder, SystemClock())
    heartbeat.trouble("train", "worker-7 restarted 7×")
    heartbeat.flush()
    beat = read_heartbeat(tmp_path, holder)
    assert beat is not None
    assert beat.troubles == {"train": "worker-7 restarted 7×"}
    heartbeat.trouble("train", "")
    heartbeat.flush()
    beat = read_heartbeat(tmp_path, holder)
    assert beat is not None
    assert beat.troubles == {}
