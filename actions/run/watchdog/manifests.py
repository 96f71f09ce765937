"""The objects of a watchdog: service account, a role of one namespace each with its binding, and the CronJob. Pure.

It may read and annotate the Lease of its run, and suspend, or delete where there is no suspension, the objects of
the run that hold accelerators: each by its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from actions.base.files import read_file
from actions.base.own_images import PYTHON, own_image
from actions.blueprint.render import MANAGED_BY, MANAGER, RUN_LABEL
from actions.cluster.kinds import JOBS, KubeKind, find_kind
from actions.run.limits.rules import WATCHDOG_PREFIX
from actions.run.state.planner import JOB_KINDS
from actions.run.state.view import OwnedObject, RunView, StageState
from actions.run.store.lease_object import lease_name, leases_path
from actions.run.watchdog import script

SCHEDULE = "*/5 * * * *"
NAMESPACE = "default"
"""The one that every cluster has: of service account and CronJob."""

Manifest = dict[str, Any]


class WatchedObject(msgspec.Struct, frozen=True):
    """An object of a run that holds accelerators, as its watchdog stops it."""

    group: str
    version: str
    plural: str
    kind: str
    namespace: str
    name: str
    uid: str
    patch: dict[str, Any] | None
    """`None` if it is deleted."""

    @property
    def path(self) -> str:
        """Its path in the API."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{base}/namespaces/{self.namespace}/{self.plural}/{self.name}"


def watched_objects(view: RunView) -> tuple[WatchedObject, ...]:
    """Return the objects of the run that may hold accelerators now and that a watchdog can stop: no finished job."""
    stages = {stage.id for stage in view.stages if stage.holds_accelerators or stage.kind in JOB_KINDS}
    stages -= {stage.id for stage in view.stages if stage.kind == "job" and stage.state is StageState.SUCCEEDED}
    live = [item for item in view.owned if item.stage in stages and item.uid and not (item.existed or item.is_deleted)]
    return tuple(found for item in live if (found := _watched(item, view.cluster.namespace)) is not None)


def _watched(item: OwnedObject, namespace: str) -> WatchedObject | None:
    group, _, version = item.api_version.rpartition("/")
    kind = find_kind(item.kind, group)
    if kind is None or not (kind.suspended_by or kind in JOBS or kind.plural == "pods"):
        return None
    where = item.namespace or namespace
    return WatchedObject(group, version, kind.plural, item.kind, where, item.name, item.uid, _patch_of(kind))


def _patch_of(kind: KubeKind) -> dict[str, Any] | None:
    """Return the merge patch that ends the pods of such an object; `None` where only a deletion does."""
    if not kind.suspended_by:
        return None
    *path, field = kind.suspended_by.split(".")
    patch: dict[str, Any] = {field: 0 if field == "replicas" else True}
    for name in reversed(path):
        patch = {name: patch}
    return patch


def watchdog_name(run_id: str) -> str:
    """Return the name of its objects; a CronJob's has at most 52 characters, so it has the random part of the id."""
    return f"{WATCHDOG_PREFIX}{run_id.rpartition('-')[2]}"


def manifests_of(view: RunView, objects: Sequence[WatchedObject], store: str) -> list[Manifest]:
    """Return the objects of the watchdog of a run, in the order in which they are applied.

    Args:
        view: The run.
        objects: What it stops.
        store: The namespace of the run's Lease.

    Raises:
        ConfigError: The environment names a registry for its image that is none.
    """
    name = watchdog_name(view.id)
    labels = {RUN_LABEL: view.id, MANAGED_BY: MANAGER}
    found: list[Manifest] = [_object("v1", "ServiceAccount", name, NAMESPACE, labels)]
    for namespace in dict.fromkeys((store, *(one.namespace for one in objects))):
        rules = list(_rules([one for one in objects if one.namespace == namespace]))
        if namespace == store:
            rules.insert(0, _rule("coordination.k8s.io", "leases", [lease_name(view.id)], "patch"))
        role = _object("rbac.authorization.k8s.io/v1", "Role", name, namespace, labels)
        binding = _object("rbac.authorization.k8s.io/v1", "RoleBinding", name, namespace, labels)
        subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        found += [role | {"rules": rules}, binding | {"subjects": [subject], "roleRef": reference}]
    cron = _object("batch/v1", "CronJob", name, NAMESPACE, labels)
    return [*found, cron | {"spec": _cron_spec(name, labels, config_of(view, objects, store))}]


def config_of(view: RunView, objects: Sequence[WatchedObject], store: str) -> dict[str, Any]:
    """Return the configuration of the watchdog's program: see `actions.run.watchdog.script`."""
    return {
        "run": view.id,
        "minutes": view.limits.watchdog_minutes,
        "lease": f"{leases_path(store)}/{lease_name(view.id)}",
        "targets": [
            {"path": one.path, "name": f"{one.kind}/{one.namespace}/{one.name}", "uid": one.uid, "patch": one.patch}
            for one in objects
        ],
    }


def program_text() -> str:
    """Return the text of the watchdog's program."""
    return read_file(Path(script.__file__)).decode()


def _object(api_version: str, kind: str, name: str, namespace: str, labels: dict[str, str]) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _rules(objects: Sequence[WatchedObject]) -> Iterator[Manifest]:
    for one in objects:
        yield _rule(one.group, one.plural, [one.name], "delete" if one.patch is None else "patch")


def _rule(group: str, plural: str, names: list[str], verb: str) -> Manifest:
    return {"apiGroups": [group], "resources": [plural], "resourceNames": names, "verbs": ["get", verb]}


def _cron_spec(name: str, labels: dict[str, str], config: dict[str, Any]) -> Manifest:
    container = {
        "name": "watchdog",
        "image": own_image(PYTHON),
        "command": ["python3", "-I", "-c", program_text()],
        "env": [{"name": "EKSML_WATCHDOG", "value": json.dumps(config, sort_keys=True)}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "serviceAccountName": name,
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    job = {
        "backoffLimit": 1,
        "activeDeadlineSeconds": 240,
        "ttlSecondsAfterFinished": 900,
        "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
    }
    return {
        "schedule": SCHEDULE,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 200,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {"labels": dict(labels)}, "spec": job},
    }
