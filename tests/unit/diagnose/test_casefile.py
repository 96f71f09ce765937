"""Asking a cluster: what is listed, whose logs are read, what may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from actions.base.errors import AccessError, MissingError
from actions.cluster.diagnose.collect import explain
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.evidence import Evidence, KubeObject, event_of
from actions.cluster.diagnose.parse_input import evidence_of
from actions.cluster.diagnose.select import ObjectSelector, drop_events_of_deleted_objects, select_evidence
from actions.cluster.kinds import JOBS
from tests.unit.cluster.servers import Handler, session_to
from tests.unit.diagnose.samples import Document, a_container, a_pod, an_event

_LOOP = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
_KINDS = {"pods": "Pod", "events": "Event", "nodes": "Node", "persistentvolumeclaims": "PersistentVolumeClaim"}
_KINDS["namespaces"] = "Namespace"


def _crashing() -> Document:
    status = a_container(3, waiting=_LOOP, last={"exitCode": 1, "reason": "Error"})
    pod = a_pod("esm-worker-1", phase="Running", node="n1", containerStatuses=[status])
    pod["metadata"]["labels"] = {"training.kubeflow.org/job-name": "esm", "eksml.dev/run": "r1", "eksml.dev/stage": "t"}
    return pod


class _Cluster:
    """Answers lists of the core API and logs; remembers what was asked."""

    def __init__(self, forbidden: tuple[str, ...] = ()) -> None:
        self.asked: list[str] = []
        self.forbidden = forbidden
        self.items: dict[str, list[Document]] = {
            "pods": [_crashing(), a_pod("fine-0", phase="Succeeded")],
            "events": [an_event("FailedMount", 'MountVolume.SetUp failed for volume "x"', "gone-0")],
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        name = request.path.rpartition("/")[2]
        if request.path == "/api/v1":
            resources = [
                {"name": plural, "kind": kind, "namespaced": kind not in ("Node", "Namespace")}
                for plural, kind in _KINDS.items()
            ]
            return web.json_response({"resources": resources})
        if name in self.forbidden:
            return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403)
        if name == "log":
            return web.Response(text="2026-11-21T12:00:00.5Z ValueError: n_heads must divide n_embd\n")
        if name in _KINDS:
            return web.json_response({"kind": "List", "metadata": {}, "items": self.items.get(name, [])})
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)


async def _codes(handler: Handler, folder: Path, question: ObjectSelector | None) -> list[str]:
    async with session_to(handler, folder, readonly=True) as session:
        return [f"{one.code}: {one.headline}" for one in await explain(session, question)]


async def test_the_log_of_a_crash_is_read_and_what_is_gone_is_not_blamed(tmp_path: Path) -> None:
    cluster = _Cluster()
    told = await _codes(cluster.answer, tmp_path, None)
    assert len(told) == 1
    assert told[0].startswith("CRASH_LOOP")
    assert told[0].endswith("ValueError: n_heads must divide n_embd")
    logs = [path for path in cluster.asked if "/log" in path]
    assert [("previous=true" in path, "/esm-worker-1/" in path) for path in logs] == [(True, True)]


@pytest.mark.parametrize(
    "question",
    [
        ObjectSelector("Pod", "esm-worker-1", "ml"),
        ObjectSelector("PyTorchJob", "esm", "ml"),
        ObjectSelector("Stage", "t", labels={"eksml.dev/run": "r1", "eksml.dev/stage": "t"}),
    ],
    ids=lambda question: question.kind,
)
async def test_a_pod_its_job_and_its_stage_have_one_answer(question: ObjectSelector, tmp_path: Path) -> None:
    told = await _codes(_Cluster().answer, tmp_path, question)
    assert [line.split(":")[0] for line in told] == ["CRASH_LOOP"]


async def test_one_namespace_alone_can_be_asked(tmp_path: Path) -> None:
    cluster = _Cluster()
    async with session_to(cluster.answer, tmp_path, readonly=True) as session:
        found = await explain(session, None, namespace="ml")
    assert [one.code.value for one in found] == ["CRASH_LOOP"]
    lists = {path.partition("?")[0] for path in cluster.asked if path.partition("?")[0].endswith("/pods")}
    assert lists == {"/api/v1/namespaces/ml/pods"}


async def test_a_namespace_is_asked_for_all_that_is_in_it_if_there_is_one(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.items["namespaces"] = [{"kind": "Namespace", "metadata": {"name": "ml"}}]
    told = await _codes(cluster.answer, tmp_path, ObjectSelector("Namespace", "ml"))
    assert [line.split(":")[0] for line in told] == ["CRASH_LOOP"]
    with pytest.raises(MissingError, match="no namespace ml2"):
        await _codes(cluster.answer, tmp_path, ObjectSelector("Namespace", "ml2"))


async def test_what_may_not_be_listed_is_left_out(tmp_path: Path) -> None:
    cluster = _Cluster(forbidden=("events", "nodes", "persistentvolumeclaims", "log"))
    told = await _codes(cluster.answer, tmp_path, None)
    assert [line.split(":")[0] for line in told] == ["CRASH_LOOP"]


async def test_a_kind_that_cannot_be_served_does_not_hide_the_rest(tmp_path: Path) -> None:
    cluster = _Cluster()

    async def broken(request: web.Request) -> web.StreamResponse:
        if request.path.startswith(("/apis/jobset.x-k8s.io", "/apis/batch")):
            return web.Response(status=503, text="service unavailable")
        return await cluster.answer(request)

    told = await _codes(broken, tmp_path, None)
    assert [line.split(":")[0] for line in told] == ["CRASH_LOOP"]


async def test_without_pods_there_is_nothing_to_tell(tmp_path: Path) -> None:
    with pytest.raises(AccessError):
        await _codes(_Cluster(forbidden=("pods",)).answer, tmp_path, None)


async def test_who_may_not_list_all_pods_is_told_of_the_namespaces_that_he_may_look_into(tmp_path: Path) -> None:
    cluster = _Cluster(forbidden=("nodes", "namespaces"))

    async def fenced(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/selfsubjectaccessreviews"):
            return web.json_response({"status": {"allowed": '"namespace":"work"' in await request.text()}}, status=201)
        if request.path in ("/api/v1/pods", "/api/v1/events", "/api/v1/persistentvolumeclaims"):
            return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403)
        return await cluster.answer(request)

    told = await _codes(fenced, tmp_path, None)
    assert [line.split(":")[0] for line in told] == ["CRASH_LOOP"]
    assert any(path.startswith("/api/v1/namespaces/work/pods?") for path in cluster.asked)


async def test_an_object_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="Nothing was found about Pod ml/other"):
        await _codes(_Cluster().answer, tmp_path, ObjectSelector("Pod", "other", "ml"))


def test_a_job_of_a_stage_whose_pods_are_gone_is_still_known() -> None:
    labels = {"eksml.dev/run": "r1", "eksml.dev/stage": "train"}
    job = KubeObject("MPIJob", "default", "llama", labels=labels)
    other = KubeObject("MPIJob", "default", "other")
    question = ObjectSelector("Stage", "train", labels=labels)
    assert select_evidence(Evidence(taken_at=0.0, jobs=(job, other)), question).jobs == (job,)
    with pytest.raises(MissingError):
        select_evidence(Evidence(taken_at=0.0, jobs=(other,)), question)


def test_what_a_job_repeats_of_a_pod_that_is_gone_explains_nothing() -> None:
    said = "Error pod esm-worker-0 condition message: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    about = {"kind": "PyTorchJob", "namespace": "default", "name": "esm"}
    repeated = event_of({"reason": "Unschedulable", "message": said, "involvedObject": about})
    case = Evidence(events=(repeated,), jobs=(KubeObject("PyTorchJob", "default", "esm"),))
    assert drop_events_of_deleted_objects(case).events == ()
    waiting = evidence_of([a_pod("esm-worker-0", phase="Pending")])
    assert drop_events_of_deleted_objects(replace(case, pods=waiting.pods)).events == (repeated,)


def test_a_job_whose_pod_was_preempted_has_failed_by_that_although_the_pod_is_gone() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "reached the limit"}
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "ml"}, "status": {"conditions": [failed]}}
    told = an_event("Preempted", "Preempted by pod 95dd3796-e332-4531-8026-009baf4ae79f on node n1", "j-k9psv")
    other = an_event("Preempted", "Preempted by pod 95dd3796-e332-4531-8026-009baf4ae79f on node n1", "k-k9psv")
    case = drop_events_of_deleted_objects(evidence_of([job, told, other]))
    (found,) = diagnose(select_evidence(case, ObjectSelector("Job", "j", "ml")))
    assert (found.code.value, "j-k9psv" in found.headline) == ("KILLED_SIGKILL", True)
    assert found.evidence[0] == told["message"]
    assert [event.name for event in case.events] == ["j-k9psv"]


def _object(kind: str, name: str, api_version: str, *, owner: tuple[str, str] | None = None, **labels: str) -> Document:
    owners = [{"kind": owner[0], "name": owner[1]}] if owner else []
    metadata = {"name": name, "namespace": "ml", "ownerReferences": owners, "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _trained() -> Evidence:
    """A TrainJob with its JobSet, its Job and its pod, beside a Job of a similar name."""
    pod = a_pod("tune-node-0-0-abcde", phase="Running")
    pod["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "tune-node-0"}
    stranger = a_pod("tune-other-xyzab", phase="Running")
    stranger["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "tune-other"}
    return evidence_of(
        [
            _object("TrainJob", "tune", "trainer.kubeflow.org/v1alpha1"),
            _object("JobSet", "tune", "jobset.x-k8s.io/v1alpha2", owner=("TrainJob", "tune")),
            _object("Job", "tune-node-0", "batch/v1", owner=("JobSet", "tune")),
            _object("Job", "tune-other", "batch/v1", owner=("CronJob", "nightly")),
            pod,
            stranger,
        ]
    )


@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
def test_a_job_is_explained_with_the_jobs_that_it_has_made_and_their_pods(kind: str) -> None:
    found = select_evidence(_trained(), ObjectSelector(kind, "tune", "ml"))
    assert {job.name for job in found.jobs} == {"tune", "tune-node-0"}
    assert [pod.name for pod in found.pods] == ["tune-node-0-0-abcde"]


def test_jobs_whose_names_begin_alike_are_not_one() -> None:
    case = evidence_of([_object("MPIJob", name, "kubeflow.org/v2beta1") for name in ("llama", "llama-2")])
    assert [job.name for job in select_evidence(case, ObjectSelector("MPIJob", "llama", "ml")).jobs] == ["llama"]


async def test_every_job_of_the_table_is_asked_for(tmp_path: Path) -> None:
    cluster = _Cluster()
    await _codes(cluster.answer, tmp_path, None)
    asked = {path.partition("?")[0] for path in cluster.asked}
    assert {f"/apis/{version}" for row in JOBS for version in row.api_versions} <= asked
