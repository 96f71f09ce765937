"""Admission plugins, the server's own and operators' webhooks: they may change or refuse an object before it is stored.

An operator's act only while its Deployment has a ready pod; before its first start the real ones are not registered
either.

Source: k8s.io/kubernetes `plugin/pkg/admission/storage/storageclass/setdefault`; the real Volcano 1.8.2 and 1.15.1 with
vc-webhook-manager; JobSet 0.12.0 `pkg/webhooks`; Kubeflow Trainer 2.3.0 `pkg/webhooks`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import msgspec

from actions.sandbox.apiserver.storage.codec import Object, dig, encode
from actions.sandbox.apiserver.storage.errors import StatusError, bad_request
from actions.sandbox.apiserver.storage.resources import GroupResource
from actions.sandbox.apiserver.storage.store import Store

_CLAIMS = GroupResource("", "persistentvolumeclaims")
_CLASSES = GroupResource("storage.k8s.io", "storageclasses")
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


class Operation(StrEnum):
    """The operation on an object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class AdmissionReview(msgspec.Struct, frozen=True):
    """A write request before it is stored."""

    operation: Operation
    key: GroupResource
    namespace: str
    name: str
    body: Object
    """As it would be stored, defaults filled in; may be changed in place, except when it is deleted."""


class AdmissionPlugin(Protocol):
    """An admission plugin, or webhooks."""

    def admit(self, review: AdmissionReview, store: Store) -> None:
        """Change the object, or let it pass.

        Raises:
            StatusError: It is refused.
        """
        ...


class DefaultStorageClass:
    """Gives a claim that names no class the default one; an empty name is a name."""

    def admit(self, review: AdmissionReview, store: Store) -> None:
        """See `AdmissionPlugin`."""
        if review.key != _CLAIMS or review.operation is not Operation.CREATE:
            return
        if "storageClassName" in review.body["spec"]:
            return
        for stored in store.collection(_CLASSES).objects.values():
            annotations = stored.body["metadata"].get("annotations") or {}
            if annotations.get(_DEFAULT) == "true":
                review.body["spec"]["storageClassName"] = stored.name
                return


BUILT_IN: tuple[AdmissionPlugin, ...] = (DefaultStorageClass(),)
"""The server's own plugins."""


_GROUP = "scheduling.volcano.sh"
_QUEUES = GroupResource(_GROUP, "queues")
_POD_GROUPS = GroupResource(_GROUP, "podgroups")
_PODS = GroupResource("", "pods")
_DEPLOYMENTS = GroupResource("apps", "deployments")
_GROUP_NAME = "scheduling.k8s.io/group-name"


class OperatorWebhooks:
    """All of Volcano, JobSet and Kubeflow Trainer, those of each while its Deployment has a ready pod."""

    def admit(self, review: AdmissionReview, store: Store) -> None:
        """See `AdmissionPlugin`."""
        for check, *deployment in _CHECKS.get((review.key, review.operation), ()):
            if _is_there(store, *deployment):
                check(review, store)


def _is_there(store: Store, namespace: str, name: str) -> bool:
    deployment = store.get(_DEPLOYMENTS, namespace, name)
    return deployment is not None and bool(dig(deployment.body, "status", "readyReplicas"))


def _create_queue(review: AdmissionReview, _store: Store) -> None:
    spec = review.body.setdefault("spec", {})
    spec["weight"] = spec.get("weight") or 1
    spec.setdefault("reclaimable", True)
    _check_weight(review, _store)


def _check_weight(review: AdmissionReview, _store: Store) -> None:
    weight = dig(review.body, "spec", "weight")
    if isinstance(weight, int) and weight < 1:
        why = f"requestBody.spec.weight: Invalid value: {weight}: queue weight must be a positive integer"
        raise _denied("validatequeue", why)


def _delete_queue(review: AdmissionReview, _store: Store) -> None:
    if review.name == "default":
        raise _denied("validatequeue", "`default` queue can not be deleted")


def _create_group(review: AdmissionReview, _store: Store) -> None:
    review.body.setdefault("spec", {}).setdefault("queue", "default")


def _create_pod(review: AdmissionReview, store: Store) -> None:
    """Refuse a pod whose PodGroup stands in a queue that is missing."""
    group = _group_of(review, store)
    if group is None:
        return
    name = str(dig(group, "spec", "queue") or "default")
    if store.get(_QUEUES, "", name) is None:
        raise _denied("validatepod", f'failed :  unable to find job queue: queues.{_GROUP} "{name}" not found;;')


def _group_of(review: AdmissionReview, store: Store) -> Object | None:
    if dig(review.body, "spec", "schedulerName") != "volcano":
        return None
    name = (dig(review.body, "metadata", "annotations") or {}).get(_GROUP_NAME, "")
    found = store.get(_POD_GROUPS, review.namespace, name)
    return found.body if found is not None else None


def _denied(webhook: str, why: str) -> StatusError:
    return bad_request(f'admission webhook "{webhook}.volcano.sh" denied the request: {why}')


_TRAINER = "trainer.kubeflow.org"
_JOB_SET, _PRIORITY = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/priority"
_JOB_SETS = GroupResource("jobset.x-k8s.io", "jobsets")
_TRAIN_JOBS = GroupResource(_TRAINER, "trainjobs")


def _create_job_set(review: AdmissionReview, _store: Store) -> None:
    """Fill in what a JobSet leaves open."""
    spec = review.body["spec"]
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for replicated in spec.get("replicatedJobs") or ():
        job = replicated["template"]["spec"]
        job.setdefault("completionMode", "Indexed")
        job["template"]["spec"].setdefault("restartPolicy", "OnFailure")
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for number, rule in enumerate(dig(spec, "failurePolicy", "rules") or ()):
        rule.setdefault("name", f"failurePolicyRule{number}")


def _mark_pod(review: AdmissionReview, _store: Store) -> None:
    """Give a pod of a JobSet its priority as a label."""
    metadata = review.body["metadata"]
    if _JOB_SET in (metadata.get("annotations") or {}):
        metadata["labels"] = {**(metadata.get("labels") or {}), _PRIORITY: str(review.body["spec"]["priority"])}


def _create_train_job(review: AdmissionReview, store: Store) -> None:
    """Refuse a TrainJob whose runtime is not there."""
    reference = review.body["spec"]["runtimeRef"]
    kind = str(reference.setdefault("kind", "ClusterTrainingRuntime"))
    reference.setdefault("apiGroup", _TRAINER)
    name, namespace = str(reference["name"]), "" if kind.startswith("Cluster") else review.namespace
    if store.get(GroupResource(_TRAINER, f"{kind.lower()}s"), namespace, name) is None:
        given = {field: reference[field] for field in ("name", "apiGroup", "kind")}
        raise StatusError(
            403,
            "Forbidden",
            f'admission webhook "validator.trainjob.{_TRAINER}" denied the request: spec.runtimeRef: Invalid value: '
            f'{encode(given).decode()}: {kind}.{_TRAINER} "{name}" not found: specified {kind[0].lower()}{kind[1:]} '
            "must be created before the TrainJob is created",
        )


_VOLCANO = ("volcano-system", "volcano-admission")
_JOBSET = ("jobset-system", "jobset-controller-manager")
_Check = tuple[Callable[[AdmissionReview, Store], None], str, str]
_CHECKS: dict[tuple[GroupResource, Operation], tuple[_Check, ...]] = {
    (_QUEUES, Operation.CREATE): ((_create_queue, *_VOLCANO),),
    (_QUEUES, Operation.UPDATE): ((_check_weight, *_VOLCANO),),
    (_QUEUES, Operation.DELETE): ((_delete_queue, *_VOLCANO),),
    (_POD_GROUPS, Operation.CREATE): ((_create_group, *_VOLCANO),),
    (_PODS, Operation.CREATE): ((_create_pod, *_VOLCANO), (_mark_pod, *_JOBSET)),
    (_JOB_SETS, Operation.CREATE): ((_create_job_set, *_JOBSET),),
    (_TRAIN_JOBS, Operation.CREATE): ((_create_train_job, "kubeflow-system", "kubeflow-trainer-controller-manager"),),
}
"""By type and operation: the webhooks, and the Deployment that serves each."""
