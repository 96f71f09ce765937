"""The problems of a cluster from facts alone: what is told, of which object, and what is not."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from actions.cluster.diagnose import overview
from actions.cluster.diagnose.codes import Severity
from actions.cluster.diagnose.overview import Problem, problems_of
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.fleet.facts import PodFacts, WorkloadFacts
from tests.support.builders import NOW, a_node, a_pod, a_snapshot, an_event
from tests.support.fixed_cluster import picture

_NOW = NOW.timestamp()


def problems_in(snapshot: ClusterSnapshot) -> list[Problem]:
    return problems_of(
        nodes=snapshot.nodes,
        bad_nodes=[node for node in snapshot.nodes.values() if not node.is_ready],
        pods=[pod for pod in snapshot.pods.values() if not pod.is_fine],
        events=snapshot.events,
        workloads=snapshot.workloads.values(),
        now=_NOW,
    )


def crashing(pods: Iterable[PodFacts]) -> list[PodFacts]:
    return [
        replace(pod, reason="CrashLoopBackOff", restarts=7, ready=0, created_at=_NOW - 600, started_at=_NOW - 600)
        for pod in pods
    ]


def test_each_trouble_of_a_cluster_has_a_line_with_its_object_errors_first() -> None:
    found = problems_in(picture())
    by_code = {one.code: one.title for one in found}

    assert by_code["CAPACITY"] == "Job default/eval-mlm"
    assert by_code["IMAGE_NOT_FOUND"] == "Job default/tokenizer-nightly-29063510"
    assert by_code["NODE_LOST"] == "Node ip-10-1-33-201.us-west-2.compute.internal"
    assert by_code["OOM_KILLED"] == "Pod research/notebook-ada-0"
    assert by_code["CRASH_LOOP"] == "Pod monitoring/dcgm-exporter-zt6pl"
    urgencies = [one.severity for one in found]
    assert urgencies == sorted(urgencies, key=[Severity.ERROR, Severity.WARNING, Severity.INFO].index)
    assert not any("esm1nv-pretraining" in one.title for one in found)


def test_a_pod_without_a_known_cause_is_told_by_the_last_rule() -> None:
    pod = replace(a_pod("server"), containers=("server", "proxy"), created_at=_NOW - 600, owner_kind="", owner_name="")
    (found,) = problems_in(a_snapshot([a_node()], [pod]))

    assert (found.selector, found.severity) == ("Pod/default/server", Severity.WARNING)
    assert found.text == "runs but is not ready for 10m00s (1 of 2 containers are); no reason is reported"
    assert found.code == "NOT_READY"


def test_a_pod_that_has_failed_was_started() -> None:
    pod = replace(a_pod("train-x1", phase="Failed"), reason="Error", ready=0, owner_kind="Job", owner_name="train")
    job = WorkloadFacts(uid="j", kind="Job", namespace="default", name="train", state="failed", message="Too often")
    (found,) = problems_in(replace(a_snapshot([a_node()], [pod]), workloads={"Job default/train": job}))
    assert (found.title, found.code) == ("Job default/train", "JOB_FAILED")
    assert "cannot be started" not in found.text


def test_a_healthy_cluster_has_no_problems() -> None:
    past = an_event("FailedScheduling", type_="Warning")
    assert problems_in(a_snapshot([a_node()], [a_pod()], [past])) == []


def test_a_pod_that_has_just_been_made_is_starting() -> None:
    starting = replace(a_pod(phase="Pending"), created_at=_NOW - 5, reason="ContainerCreating")
    stuck = replace(starting, created_at=_NOW - 500)

    assert problems_in(a_snapshot([a_node()], [starting])) == []
    assert problems_in(a_snapshot([a_node()], [stuck]))


def test_what_a_scheduler_wrote_of_a_pod_that_has_its_node_by_now_is_past() -> None:
    refusal = replace(
        an_event("FailedScheduling", type_="Warning"), message="0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    )
    text = f"Error pod worker-0 condition message: {refusal.message}"
    quoted = replace(refusal, uid="q", kind="PyTorchJob", name="train", message=text)
    (found,) = problems_in(a_snapshot([a_node()], crashing([a_pod("worker-0")]), [refusal, quoted]))

    assert found.code == "CRASH_LOOP"


def test_pods_of_one_job_that_crash_alike_are_one_problem_of_the_job() -> None:
    (found,) = problems_in(a_snapshot([a_node()], crashing(a_pod(f"worker-{rank}") for rank in range(64))))

    assert found.selector == "PyTorchJob/default/train"


def test_what_failed_on_the_way_of_a_finished_job_is_past() -> None:
    failed = replace(a_pod(phase="Failed", reason="Error"), created_at=_NOW - 900)
    snapshot = a_snapshot([a_node()], [failed])
    job = WorkloadFacts("uid-job", "PyTorchJob", "default", "train", "finished")

    assert problems_in(snapshot)
    assert problems_in(replace(snapshot, workloads={"PyTorchJob default/train": job})) == []


def test_the_work_is_bounded_whatever_is_broken() -> None:
    pods = crashing(replace(a_pod(f"p{number}"), owner_name=f"job-{number}") for number in range(500))
    found = problems_in(a_snapshot([a_node(f"n{number}") for number in range(1_000)], pods))

    assert len(found) == overview.MOST_PODS
