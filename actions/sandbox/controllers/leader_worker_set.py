"""The pods, the sets and the status of a LeaderWorkerSet.

Source: the real LeaderWorkerSet 0.6.2 (`pkg/controllers`, `pkg/webhooks`, `pkg/utils/pod`), compared with it in
`tests/realnode`. Without groups that are made again for a pod that has failed, rollouts, subgroups, exclusive
placement, and ControllerRevisions with their event: the hash of a revision is of the sandbox's own making. There is no
controller of StatefulSets: they have replicas, template, status and events of none.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping

from actions.cluster.pod_roles import at, pod_roles
from actions.sandbox.clientkit.conditions import condition, with_condition
from actions.sandbox.clientkit.kinds import SERVICES, STATEFUL_SETS, Document, labels_of
from actions.sandbox.controllers.core.made import Made, empty_set
from actions.sandbox.controllers.core.pods import add_variables, pod_of_role, template_hash

_LWS = "leaderworkerset.sigs.k8s.io"
_AVAILABLE = ("Available", "AllGroupsReady", "All replicas are ready")
_PROGRESSING = ("Progressing", "GroupsProgressing", "Replicas are progressing")


def size_of(job: Document) -> int:
    """Return the number of pods of each group."""
    return int(at(job, ("spec", "leaderWorkerTemplate", "size")) or 1)


def groups_of(job: Document) -> int:
    """Return the number of groups."""
    replicas = job["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def lws_pods(job: Document) -> Iterator[Document]:
    """Yield the pods: of each group the leader, and its workers."""
    name, home = job["metadata"]["name"], job["metadata"]["namespace"]
    roles, size = list(pod_roles(job)), size_of(job)
    revision = template_hash(job["spec"]["leaderWorkerTemplate"])
    for group in range(groups_of(job)):
        first = f"{name}-{group}"
        place = {"name": name, "group-index": str(group), "template-revision-hash": revision}
        place["group-key"] = hashlib.sha1(f"{home}/{first}".encode(), usedforsecurity=False).hexdigest()
        for index in range(size):
            pod = pod_of_role(roles[-1 if index else 0], f"{first}-{index}" if index else first)
            metadata, own = pod["metadata"], place | {"worker-index": str(index)}
            metadata["labels"] |= {f"{_LWS}/{key}": value for key, value in own.items()}
            metadata["labels"] |= {
                "apps.kubernetes.io/pod-index": str(index or group),
                "controller-revision-hash": f"{first if index else name}-{revision}",
                "statefulset.kubernetes.io/pod-name": metadata["name"],
            }
            about = {f"{_LWS}/size": str(size)} | ({f"{_LWS}/leader-name": first} if index else {})
            metadata["annotations"] = (metadata.get("annotations") or {}) | about
            pod["spec"] |= {"hostname": metadata["name"], "subdomain": name}
            variables = {
                "LEADER_ADDRESS": f"{first}.{name}.{home}",
                "GROUP_SIZE": str(size),
                "WORKER_INDEX": str(index),
            }
            add_variables(pod, {f"LWS_{key}": value for key, value in variables.items()}, are_first=True)
            yield pod


def lws_made(job: Document, pod: str) -> Iterator[Made]:
    """Yield the StatefulSet of a pod, and the Service of all; the workers' set is its leader's."""
    name = job["metadata"]["name"]
    wanted = {one["metadata"]["name"]: labels_of(one) for one in lws_pods(job)}
    shown = {key: wanted[pod][f"{_LWS}/{key}"] for key in ("name", "template-revision-hash")}
    group = f"{name}-{wanted[pod][f'{_LWS}/group-index']}"
    if pod == group:
        selector = {f"{_LWS}/name": name}
        service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
        about = {f"{_LWS}/replicas": str(groups_of(job))}
        yield Made(SERVICES, {"metadata": {"name": name, "labels": _prefixed({"name": name})}, "spec": service})
        told = (_PROGRESSING[1], f"Created leader statefulset {name}")
        yield Made(STATEFUL_SETS, empty_set(name, _prefixed(shown), about), told=told)
    else:
        shown |= {key: wanted[pod][f"{_LWS}/{key}"] for key in ("group-index", "group-key")}
        told = (_PROGRESSING[1], f"Created worker statefulset for leader pod {group}")
        yield Made(STATEFUL_SETS, empty_set(group, _prefixed(shown)), pod=group, told=told)


def _prefixed(labels: Mapping[str, str]) -> dict[str, str]:
    return {f"{_LWS}/{key}": value for key, value in labels.items()}


def lws_status(job: Document, by_pod: Mapping[str, str], now: str) -> Document:
    """Return what is to change in the status: it is available when the pods of all groups are ready."""
    total, ready = groups_of(job), _ready_groups(job, by_pod)
    new, other = (_AVAILABLE, _PROGRESSING) if ready == total else (_PROGRESSING, _AVAILABLE)
    before = list(at(job, ("status", "conditions")) or ())
    switched = [one | {"status": "False"} if one["type"] == other[0] else one for one in before]
    return {
        "conditions": with_condition(switched, condition(new[0], True, new[1], new[2], now)),
        "hpaPodSelector": f"{_LWS}/name={job['metadata']['name']},{_LWS}/worker-index=0",
        "replicas": total,
        "readyReplicas": ready,
        "updatedReplicas": total,
    }


def lws_events(job: Document, change: Document, _pods: Mapping[str, Document]) -> Iterator[tuple[str, str]]:
    """Yield reason and message of the event that goes with a change of the status."""
    before = {one["type"] for one in at(job, ("status", "conditions")) or () if one["status"] == "True"}
    for one in change["conditions"]:
        if one["status"] == "True" and one["type"] not in before:
            groups = f"{change['readyReplicas']} groups ready of total {change['replicas']} groups"
            yield one["reason"], f"{one['message']}, with {groups}"


def _ready_groups(job: Document, by_pod: Mapping[str, str]) -> int:
    ready = Counter(
        labels_of(pod)[f"{_LWS}/group-index"] for pod in lws_pods(job) if by_pod.get(pod["metadata"]["name"]) == "Ready"
    )
    return sum(count == size_of(job) for count in ready.values())
