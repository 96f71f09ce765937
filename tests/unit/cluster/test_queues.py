"""Queues of Kueue and Volcano, from their objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiAccessError, ApiMissingError, ApiStatus
from actions.cluster.kinds import KINDS
from actions.cluster.queues import BY_KUEUE, COMPUTED, OF_NAMESPACE, QueueShare, WorkQueue, fetch_queues, queues_of

KUEUE = "kueue.x-k8s.io/v1beta2"
VOLCANO = "scheduling.volcano.sh/v1beta1"
Document = dict[str, Any]


def an_object(api_version: str, kind: str, name: str, namespace: str = "", **parts: Any) -> Document:
    metadata = {"name": name, "creationTimestamp": parts.pop("at", "2026-11-29T08:00:00Z")}
    if namespace:
        metadata["namespace"] = namespace
    if owner := parts.pop("owner", None):
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def a_workload(name: str, at: str, *, priority: int = 0, queue: str = "mine", **conditions: str) -> Document:
    found = [{"type": kind, "status": "True", "message": text} for kind, text in conditions.items()]
    return an_object(
        KUEUE,
        "Workload",
        name,
        "ml",
        at=f"2026-11-29T{at}:00Z",
        owner={"apiVersion": "batch/v1", "kind": "Job", "name": name.removeprefix("job-")},
        spec={"queueName": queue, "priority": priority, "active": True},
        status={"conditions": found},
    )


CLUSTER_QUEUE = an_object(
    KUEUE,
    "ClusterQueue",
    "team",
    spec={
        "cohortName": "research",
        "resourceGroups": [
            {"flavors": [{"name": "p5", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "16"}]}]}
        ],
    },
    status={
        "conditions": [{"type": "Active", "status": "True"}],
        "flavorsReservation": [
            {"name": "p5", "resources": [{"name": "nvidia.com/gpu", "total": "24", "borrowed": "8"}]}
        ],
    },
)
OTHERS = [
    an_object(KUEUE, "Cohort", "research", spec={"parentName": "all"}),
    an_object(KUEUE, "Cohort", "all", spec={}),
    an_object(KUEUE, "LocalQueue", "mine", "ml", spec={"clusterQueue": "team"}),
]
WORK = [
    a_workload("job-late", "08:30"),
    a_workload("job-urgent", "08:40", priority=10),
    a_workload("job-early", "08:10"),
    a_workload("job-runs", "07:00", QuotaReserved="", Admitted=""),
    a_workload("job-over", "06:00", Finished=""),
    a_workload("job-lost", "08:00", queue="nowhere"),
]


def the_queue(queues: tuple[WorkQueue, ...], name: str) -> WorkQueue:
    return next(queue for queue in queues if queue.name == name)


def test_a_queue_has_quota_and_what_waits_in_order() -> None:
    queue = the_queue(queues_of([CLUSTER_QUEUE, *OTHERS, *WORK], {}), "team")
    assert (queue.program, queue.parent, queue.state, queue.order) == ("Kueue", "research < all", "Active", COMPUTED)
    assert queue.shares == (QueueShare("p5", "nvidia.com/gpu", "16", "24", "8"),)
    assert [(one.name, one.state, one.position) for one in queue.work] == [
        ("job-runs", "admitted", 0),
        ("job-urgent", "pending", 1),
        ("job-early", "pending", 2),
        ("job-late", "pending", 3),
    ]
    assert queue.pending[-1].ahead == ("ml/job-urgent", "ml/job-early")


def test_kueues_own_order_counts_where_it_is_known() -> None:
    told = {"ml/job-late": 1, "ml/job-early": 4}
    queue = the_queue(queues_of([CLUSTER_QUEUE, *OTHERS, *WORK], told, is_part=True), "team")
    assert queue.order == BY_KUEUE
    assert [(one.name, one.position) for one in queue.pending] == [("job-late", 1), ("job-early", 4), ("job-urgent", 5)]


def test_what_was_preempted_says_by_what_and_a_requeued_one_waits_from_then_on() -> None:
    evicted = a_workload("job-early", "08:10", Preempted="for job-urgent")
    late = a_workload("job-early", "08:10")
    condition = {"type": "Evicted", "status": "True", "reason": "PodsReadyTimeout", "message": "not ready in time"}
    late["status"]["conditions"] = [condition | {"lastTransitionTime": "2026-11-29T09:00:00Z"}]
    queue = the_queue(queues_of([CLUSTER_QUEUE, *OTHERS, evicted], {}), "team")
    assert queue.pending[0].reason == "Preempted: for job-urgent"
    queue = the_queue(queues_of([CLUSTER_QUEUE, *OTHERS, late, WORK[0]], {}), "team")
    assert [one.name for one in queue.pending] == ["job-late", "job-early"]
    assert queue.pending[1].reason == "Evicted: not ready in time"


RECORDED = Path(__file__).parents[2] / "fixtures" / "queues"


def recorded(name: str) -> list[Document]:
    return list(json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))["items"])


def test_what_kueue_lends_is_borrowed_and_what_it_takes_back_says_by_what() -> None:
    lent = the_queue(queues_of(recorded("borrowed"), {}), "team-a")
    assert (lent.parent, lent.state) == ("research", "Active")
    assert lent.shares == (QueueShare("nodes", "cpu", "2", "3", "1"),)
    assert [(one.job, one.state, one.reason) for one in lent.work] == [("Job/ml/borrower", "admitted", "")]
    queues = queues_of(recorded("preempted"), {})
    assert the_queue(queues, "team-a").shares == (QueueShare("nodes", "cpu", "2", "0", "0"),)
    assert the_queue(queues, "team-b").shares == (QueueShare("nodes", "cpu", "2", "2", "0"),)
    assert [(one.job, one.state) for one in the_queue(queues, "team-b").work] == [("Job/ml/owner", "admitted")]
    (taken,) = the_queue(queues, "team-a").pending
    assert (taken.job, taken.position) == ("Job/ml/borrower", 1)
    assert taken.reason.startswith("couldn't assign flavors to pod set main: insufficient unused quota for cpu")
    assert "Preempted: Preempted to accommodate a workload" in taken.reason
    assert "due to reclamation within the cohort; preemptor path: /research/team-b" in taken.reason


class Asked:
    """The API server of a cluster whose user may list what a test says."""

    server = context = "demo"

    def __init__(self, groups: Sequence[str], refused: Sequence[str] = (), place: int = 0) -> None:
        self.paths: list[str] = []
        self._groups, self._refused, self._place = groups, refused, place

    async def get(self, path: str) -> Document:
        self.paths.append(path)
        if not self._place or "v1beta1" not in path:
            raise ApiMissingError(f"{path} is not there.", status=ApiStatus(404))
        (taken,) = the_queue(queues_of(recorded("preempted"), {}), "team-a").pending
        metadata = {"namespace": "ml", "name": taken.name}
        return {"items": [{"metadata": metadata, "positionInClusterQueue": self._place - 1}]}

    async def request(self, _method: str, path: str, **_more: object) -> bytes:
        self.paths.append(path)
        group, kind = path.removeprefix("/apis/").partition("/")[0], path.rpartition("/")[2]
        if path == "/apis":
            return json.dumps({"groups": [{"name": name} for name in self._groups]}).encode()
        if group not in self._groups:
            raise ApiMissingError(f"{path} is not there.", status=ApiStatus(404))
        if path.count("/") == 3:
            kinds = [row for row in KINDS if row.group == group]
            served = [{"name": row.plural, "kind": row.kind, "namespaced": row.is_namespaced} for row in kinds]
            return json.dumps({"resources": served}).encode()
        if kind in self._refused or (self._refused and "/namespaces/" not in path):
            raise ApiAccessError(f"{kind} is forbidden", status=ApiStatus(403))
        items = [one for one in recorded("preempted") if f"{one['kind'].lower()}s" == kind]
        return json.dumps({"items": items}).encode()


async def test_without_kueue_and_volcano_one_request_says_so() -> None:
    asked = Asked(["batch"])
    found = await fetch_queues(cast("KubeSession", asked), "ml")
    assert found.remarks == ("Kueue is not installed here.", "Volcano is not installed here.")
    assert asked.paths == ["/apis"]


async def test_who_may_see_all_work_sees_all_that_is_before_theirs() -> None:
    asked = Asked(["kueue.x-k8s.io"])
    found = await fetch_queues(cast("KubeSession", asked), "another")
    assert [work.position for work in found.places_of("Job", "ml", "borrower")] == [1]
    assert the_queue(found.queues, "team-a").order == COMPUTED
    assert not any("/namespaces/" in path for path in asked.paths)


@pytest.mark.parametrize(("place", "position", "order"), [(0, 1, OF_NAMESPACE), (7, 7, BY_KUEUE)])
async def test_a_user_of_one_namespace_sees_the_place_of_their_work_and_what_they_may_not_see(
    place: int, position: int, order: str
) -> None:
    asked = Asked(["kueue.x-k8s.io"], refused=["clusterqueues", "cohorts"], place=place)
    found = await fetch_queues(cast("KubeSession", asked), "ml")
    assert found.remarks == (
        "You may not list clusterqueues, cohorts of Kueue: they are not shown.",
        "Volcano is not installed here.",
        "You may not list the work of all namespaces: that of ml is shown.",
    )
    assert [(queue.name, queue.state, len(queue.work)) for queue in found.queues] == [
        ("team-a", "not seen", 1),
        ("team-b", "not seen", 1),
    ]
    assert [work.position for work in found.places_of("Job", "ml", "borrower")] == [position]
    assert the_queue(found.queues, "team-a").order == order
    assert "/apis/kueue.x-k8s.io/v1beta1/namespaces/ml/workloads" in asked.paths
    visible = "namespaces/ml/localqueues/team-a/pendingworkloads"
    assert f"/apis/visibility.kueue.x-k8s.io/v1beta1/{visible}" in asked.paths


def test_work_is_shown_without_the_queue_that_may_not_be_seen() -> None:
    assert the_queue(queues_of([*OTHERS, *WORK], {}), "team").state == "not seen"
    lost = the_queue(queues_of([WORK[-1], a_workload("job-late", "08:30", queue="elsewhere")], {}), "").work
    assert [(one.local_queue, one.state, one.position) for one in lost] == [
        ("nowhere", "pending", 0),
        ("elsewhere", "pending", 0),
    ]


def test_what_waits_for_a_check_has_its_words() -> None:
    checked = a_workload("job-checked", "08:00", QuotaReserved="")
    check = {"name": "provision", "state": "Pending", "message": "no capacity"}
    checked["status"]["admissionChecks"] = [check, check | {"state": "Ready"}]
    (work,) = the_queue(queues_of([*OTHERS, checked], {}), "team").work
    assert (work.state, work.reason) == ("checked", "provision: Pending: no capacity")


def test_words_that_two_conditions_have_are_there_once() -> None:
    evicted = a_workload("job-early", "08:10", Preempted="for job-urgent")
    evicted["status"]["conditions"].append({"type": "QuotaReserved", "status": "False", "message": "for job-urgent"})
    (work,) = the_queue(queues_of([*OTHERS, evicted], {}), "team").pending
    assert work.reason == "Preempted: for job-urgent"


def test_gangs_wait_by_priority_and_age() -> None:
    queue = an_object(
        VOLCANO,
        "Queue",
        "default",
        spec={"capability": {"cpu": "8"}, "parent": "team"},
        status={"state": "Open", "allocated": {"cpu": "4", "pods": "2"}},
    )
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "same"}
    gangs = [
        an_object(VOLCANO, "PodGroup", "runs", "ml", spec={"queue": "default"}, status={"phase": "Running"}),
        an_object(VOLCANO, "PodGroup", "low", "ml", spec={}, status={"phase": "Inqueue"}, owner=owner),
        an_object(VOLCANO, "PodGroup", "high", "ml", spec={"priorityClassName": "top"}, at="2026-11-29T09:00:00Z"),
        an_object(VOLCANO, "PodGroup", "over", "ml", status={"phase": "Completed"}),
        an_object(VOLCANO, "PodGroup", "some", "ml", status={"phase": "Unknown"}),
    ]
    top = an_object("scheduling.k8s.io/v1", "PriorityClass", "top", value=100)
    above = [an_object(VOLCANO, "Queue", "team", spec={"parent": "root"}), an_object(VOLCANO, "Queue", "root", spec={})]
    found = the_queue(queues_of([queue, *above, top, *gangs], {}), "default")
    assert (found.program, found.parent, found.state) == ("Volcano", "team < root", "Open")
    assert found.shares == (QueueShare("", "cpu", "8", "4", ""),)
    assert [(one.name, one.position) for one in found.work] == [("runs", 0), ("some", 0), ("high", 1), ("low", 2)]
    assert found.work[-1].job == "Job.batch.volcano.sh/ml/same"


@pytest.mark.parametrize("odd", [{}, {"spec": None, "status": None}, {"spec": {"priority": None}}])
def test_objects_without_parts_are_read(odd: Document) -> None:
    for kind, version in (("ClusterQueue", KUEUE), ("Workload", KUEUE), ("Queue", VOLCANO), ("PodGroup", VOLCANO)):
        assert len(queues_of([{"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **odd}], {})) == 1
