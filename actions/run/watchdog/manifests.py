"""The objects of a watchdog: service account, a role of one namespace each with its binding, and the CronJob. Pure.

It may read and annotate the Lease of its run, and suspend, or delete where there is no suspension, the objects of
the run that hold accelerators: each by its name. A Job of Volcano is stopped by a Command, which has no name before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from actions.base.files import read_file
from actions.base.own_images import PYTHON, own_image
from actions.blueprint.render import MANAGED_BY, MANAGER, RUN_LABEL
from actions.cluster.kinds import JOBS, KubeKind, find_kind
from actions.cluster.objects.client import Document
from actions.cluster.objects.operations import VOLCANO_COMMANDS, volcano_command
from actions.run.limits.rules import WATCHDOG_PREFIX
from actions.run.state.planner import JOB_KINDS
from actions.run.state.view import OwnedObject, RunView, StageState
from actions.run.store.lease_object import lease_name, leases_path
from actions.run.watchdog import script

if TYPE_CHECKING:
    from kubernetes.aio import client

SCHEDULE = "*/5 * * * *"
NAMESPACE = "default"
"""The one that every cluster has: of service account and CronJob."""
_RBAC = "rbac.authorization.k8s.io"


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
    """`None` if it is deleted, or asked to stop by a Command."""
    command: dict[str, Any] | None = None
    """The Command of Volcano that stops it."""

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
    stops = next(iter(kind.suspending), "")
    command = volcano_command(item.api_version, item.kind, item.name, item.uid, stops) if stops else None
    return WatchedObject(group, version, kind.plural, item.kind, where, item.name, item.uid, _patch_of(kind), command)


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


def manifests_of(view: RunView, objects: Sequence[WatchedObject], store: str) -> list[Document]:
    """Return the objects of the watchdog of a run, in the order in which they are applied.

    For a thread: it imports the package `kubernetes`.

    Args:
        view: The run.
        objects: What it stops.
        store: The namespace of the run's Lease.

    Raises:
        ConfigError: The environment names a registry for its image that is none.
    """
    from kubernetes.aio import client

    from actions.cluster.auth.typed import model_document

    name, labels = watchdog_name(view.id), {RUN_LABEL: view.id, MANAGED_BY: MANAGER}

    def metadata(namespace: str = NAMESPACE) -> client.V1ObjectMeta:
        return client.V1ObjectMeta(name=name, namespace=namespace, labels=labels)

    found = [model_document(client.V1ServiceAccount(api_version="v1", kind="ServiceAccount", metadata=metadata()))]
    subject = client.RbacV1Subject(kind="ServiceAccount", name=name, namespace=NAMESPACE)
    reference = client.V1RoleRef(api_group=_RBAC, kind="Role", name=name)
    for namespace in dict.fromkeys((store, *(one.namespace for one in objects))):
        rules = list(_rules([one for one in objects if one.namespace == namespace]))
        if namespace == store:
            rules.insert(0, _rule("coordination.k8s.io", "leases", lease_name(view.id), "patch"))
        role = client.V1Role(api_version=f"{_RBAC}/v1", kind="Role", metadata=metadata(namespace), rules=rules)
        binding = client.V1RoleBinding(
            api_version=f"{_RBAC}/v1",
            kind="RoleBinding",
            metadata=metadata(namespace),
            subjects=[subject],
            role_ref=reference,
        )
        found += [model_document(role), model_document(binding)]
    spec = _cron_spec(name, labels, config_of(view, objects, store))
    cron = client.V1CronJob(api_version="batch/v1", kind="CronJob", metadata=metadata(), spec=spec)
    return [*found, model_document(cron)]


def config_of(view: RunView, objects: Sequence[WatchedObject], store: str) -> dict[str, Any]:
    """Return the configuration of the watchdog's program: see `actions.run.watchdog.script`."""
    return {
        "run": view.id,
        "minutes": view.limits.watchdog_minutes,
        "lease": f"{leases_path(store)}/{lease_name(view.id)}",
        "targets": [
            {
                "path": one.path,
                "name": f"{one.kind}/{one.namespace}/{one.name}",
                "uid": one.uid,
                "patch": one.patch,
                "command": one.command and [VOLCANO_COMMANDS.path(one.namespace), one.command],
            }
            for one in objects
        ],
    }


def program_text() -> str:
    """Return the text of the watchdog's program."""
    return read_file(Path(script.__file__)).decode()


def _rules(objects: Sequence[WatchedObject]) -> Iterator[client.V1PolicyRule]:
    from kubernetes.aio.client import V1PolicyRule

    for one in objects:
        verbs = () if one.command else ("delete" if one.patch is None else "patch",)
        yield _rule(one.group, one.plural, one.name, *verbs)
    if any(one.command for one in objects):
        yield V1PolicyRule(api_groups=["bus.volcano.sh"], resources=[VOLCANO_COMMANDS.plural], verbs=["create"])


def _rule(group: str, plural: str, name: str, *verbs: str) -> client.V1PolicyRule:
    from kubernetes.aio.client import V1PolicyRule

    return V1PolicyRule(api_groups=[group], resources=[plural], resource_names=[name], verbs=["get", *verbs])


def _cron_spec(name: str, labels: dict[str, str], config: dict[str, Any]) -> client.V1CronJobSpec:
    from kubernetes.aio import client

    container = client.V1Container(
        name="watchdog",
        image=own_image(PYTHON),
        command=["python3", "-I", "-c", program_text()],
        env=[client.V1EnvVar(name="EKSML_WATCHDOG", value=json.dumps(config, sort_keys=True))],
        resources=client.V1ResourceRequirements(requests={"cpu": "10m", "memory": "32Mi"}, limits={"memory": "128Mi"}),
        security_context=client.V1SecurityContext(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=client.V1Capabilities(drop=["ALL"]),
        ),
    )
    pod = client.V1PodSpec(
        service_account_name=name,
        restart_policy="Never",
        security_context=client.V1PodSecurityContext(
            run_as_non_root=True, run_as_user=65534, seccomp_profile=client.V1SeccompProfile(type="RuntimeDefault")
        ),
        containers=[container],
    )
    job = client.V1JobSpec(
        backoff_limit=1,
        active_deadline_seconds=240,
        ttl_seconds_after_finished=900,
        template=client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=pod),
    )
    return client.V1CronJobSpec(
        schedule=SCHEDULE,
        concurrency_policy="Forbid",
        starting_deadline_seconds=200,
        successful_jobs_history_limit=1,
        failed_jobs_history_limit=1,
        job_template=client.V1JobTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=job),
    )
