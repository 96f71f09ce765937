"""A stage is diagnosed from what the run has kept, where the cluster has nothing any more."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.cluster.diagnose.codes import Code, Finding, finding
from actions.cluster.logs.lines import LogLine
from actions.run import diagnosis
from actions.run.context.protocols import Performed
from actions.run.diagnosis import _without_waiting, explain_stage, stored_logs
from actions.run.objects.ownership import Entry
from actions.run.objects.writes import CLAIM_GUARD
from actions.run.output.writer import OutputWriter
from actions.run.stages.log_check import with_warning
from actions.run.state.records import CheckResult
from actions.run.state.view import OwnedObject, StageState
from tests.support.builders import NOW, a_run, a_stage

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession

BEGAN = 1_700_000_000
GATED = "OSError: You are trying to access a gated repo. Make sure to have access to it at https://huggingface.co/m/l"


def stored_output(folder: Path, *texts: str, pod: str = "cli", seconds: int = BEGAN + 1) -> None:
    writer = OutputWriter(folder, "data")
    lines = [LogLine(seconds * 1_000_000_000 + number, text) for number, text in enumerate(texts)]
    writer.write_lines(writer.source("default", pod, "main", f"uid-{pod}"), lines)
    writer.close()


async def test_what_a_pod_said_that_is_gone_is_diagnosed(tmp_path: Path) -> None:
    stored_output(tmp_path, "loading", GATED)
    stage = a_stage("data", StageState.FAILED, started_seconds_ago=NOW.timestamp() - BEGAN)
    (found,) = await explain_stage(None, a_run(stage), tmp_path, "data")
    assert found.code is Code.HF_GATED
    assert found.evidence == (GATED,)


async def test_what_the_journal_says_is_diagnosed_too(tmp_path: Path) -> None:
    refusal = "InsufficientInstanceCapacity: We currently do not have sufficient p5.48xlarge capacity in us-west-2a."
    stage = a_stage("nodes", StageState.FAILED, message=refusal)
    (found,) = await explain_stage(None, a_run(stage), tmp_path, "nodes")
    assert found.code is Code.CAPACITY
    assert "p5.48xlarge" in found.headline


async def test_a_failure_that_no_rule_knows_is_told_in_the_words_of_the_run(tmp_path: Path) -> None:
    stage = a_stage("image", StageState.FAILED, message="nemo-aws:24.01 is not in ECR, and docker does not work here.")
    (found,) = await explain_stage(None, a_run(stage), tmp_path, "image")
    assert found.code is Code.JOB_FAILED
    assert found.headline.startswith("The stage image has failed: nemo-aws:24.01 is not in ECR")


async def test_a_stage_that_is_done_has_nothing_wrong(tmp_path: Path) -> None:
    stage = a_stage("nodes", StageState.SUCCEEDED, message="InsufficientInstanceCapacity came and went")
    assert await explain_stage(None, a_run(stage), tmp_path, "nodes") == []


async def test_a_stage_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no stage 'tain'"):
        await explain_stage(None, a_run(a_stage("train", StageState.RUNNING)), tmp_path, "tain")


def test_the_log_of_an_attempt_before_is_left_out(tmp_path: Path) -> None:
    stored_output(tmp_path, "CUDA out of memory", seconds=BEGAN - 60)
    stored_output(tmp_path, "better", pod="worker-1")
    logs = stored_logs(tmp_path, a_stage("data", StageState.RUNNING, started_seconds_ago=NOW.timestamp() - BEGAN))
    assert [(log.pod, log.text) for log in logs] == [("worker-1", "better")]


def one(code: Code) -> Finding:
    return finding(code, code.value, [], "")


def test_a_job_that_has_failed_of_its_program_waits_for_no_node() -> None:
    found = [one(Code.NODE_LOST), one(Code.GPU_OOM), one(Code.JOB_FAILED)]
    assert [each.code for each in _without_waiting(found, [one(Code.GPU_OOM)])] == [Code.GPU_OOM, Code.JOB_FAILED]


def test_an_echo_of_another_ranks_end_is_no_reason() -> None:
    found = [one(Code.NODE_LOST), one(Code.NCCL_PEER_DIED)]
    assert _without_waiting(found, [one(Code.NCCL_PEER_DIED)]) == found


def stored_losses(folder: Path, *values: float) -> None:
    writer = OutputWriter(folder, "train")
    source = writer.source("default", "worker-0", "pytorch", "uid-1")
    lines = [
        LogLine(
            (BEGAN + step) * 1_000_000_000,
            f"Epoch 0: {step}/9 [00:01<00:09, 5.24it/s, reduced_train_loss={value}, global_step={step}.0]",
        )
        for step, value in enumerate(values)
    ]
    writer.write_lines(source, lines)
    writer.close()


async def test_a_training_that_ended_well_with_a_loss_that_is_none_is_warned_of(tmp_path: Path) -> None:
    stored_losses(tmp_path, 9.0, 8.5, math.nan, math.nan, math.nan)
    stage = a_stage("train", StageState.SUCCEEDED, started_seconds_ago=NOW.timestamp() - BEGAN)

    (found,) = await explain_stage(None, a_run(stage), tmp_path, "train")
    done = with_warning(Performed("PyTorchJob finished."), tmp_path, "train")

    assert found.code is Code.LOSS_DIVERGED
    assert "train_loss is nan since" in found.headline
    assert done.message.startswith("PyTorchJob finished. But train_loss is nan since")
    assert [(one.result, one.subject) for one in done.findings] == [(CheckResult.FAILED, "train_loss")]


def test_a_training_that_learns_is_not_warned_of(tmp_path: Path) -> None:
    stored_losses(tmp_path, 9.0, 8.5, math.nan, 8.0)
    done = Performed("PyTorchJob finished.")

    assert with_warning(done, tmp_path, "train") is done
    assert with_warning(done, tmp_path, "nothing-printed") is done


CLAIM = OwnedObject(
    "volumes", "v1", "PersistentVolumeClaim", "default", "fsx-claim", "uid-1", existed=False, is_deleted=False
)


class Holding:
    """A cluster in which a pod mounts a claim that is being deleted."""

    def __init__(self, *_: object) -> None:
        self.pods = [
            a_pod_with("cli-cmd-shell", "fsx-claim", "Running"),
            a_pod_with("ended", "fsx-claim", "Succeeded"),
            a_pod_with("other", "another", "Running"),
        ]

    async def list_objects(self, *_: object, namespace: str) -> list[dict[str, Any]]:
        assert namespace == "default"
        return self.pods


def a_pod_with(name: str, claim: str, phase: str) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    return {**pod, "spec": {"volumes": volumes}, "status": {"phase": phase}}


async def a_claim_that_goes(*_: object) -> Entry:
    return Entry("", "PersistentVolumeClaim", "default", "fsx-claim", "uid-1", is_going=True, finalizers=(CLAIM_GUARD,))


async def test_a_step_of_a_teardown_is_explained_by_the_pod_that_holds_its_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "ClusterConnection", Holding)
    monkeypatch.setattr(diagnosis, "Discovery", lambda _session: None)
    monkeypatch.setattr(diagnosis, "seen", a_claim_that_goes)
    step = a_stage("volumes", StageState.RUNNING)
    view = replace(a_run(a_stage("volumes", StageState.SUCCEEDED), teardown=(step,)), owned=(CLAIM,))

    (found,) = await explain_stage(cast("KubeSession", object()), view, tmp_path, "teardown:volumes")

    held = "is being deleted, held by pod default/cli-cmd-shell, which mounts it."
    assert (
        found.headline == f"PersistentVolumeClaim default/fsx-claim {held}"
    )  # the same words stand in the rail while the step waits
    assert "kubectl delete -n default pod/cli-cmd-shell" in found.next_step
    assert await explain_stage(None, view, tmp_path, "teardown:volumes") == []
    failed = replace(view, teardown=(replace(step, state=StageState.FAILED, message="After 600 s it is there."),))
    (found,) = await explain_stage(None, failed, tmp_path, "teardown:volumes")
    assert "After 600 s it is there." in found.headline
    with pytest.raises(MissingError):
        await explain_stage(None, view, tmp_path, "teardown:nothing")
