"""The defaults that the API server fills into built-in objects.

Source: k8s.io/kubernetes `pkg/apis/*/v1/defaults.go`, admission plugins ExtendedResourceToleration and
DefaultTolerationSeconds; checked against the objects recorded from a real 1.34 server.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from actions.sandbox.apiserver.storage.codec import Object, dig
from actions.sandbox.apiserver.storage.resources import GroupResource
from actions.sandbox.model.quantities import canonical

_NATIVE_DOMAIN = "kubernetes.io/"


def default_pod_template(template: Object) -> None:
    """Fill in the defaults of a pod template's spec."""
    template.setdefault("metadata", {})
    if isinstance(template.get("spec"), dict):
        default_pod_spec(template["spec"])


def default_pod_spec(spec: Object) -> None:
    """Fill in the defaults of a pod's spec."""
    for name, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
    ):
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    for container in (*_maps(spec.get("initContainers")), *_maps(spec.get("containers"))):
        _default_container(container)
    for volume in _maps(spec.get("volumes")):
        _default_volume(volume)


def _maps(items: Any) -> list[Object]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _default_container(container: Object) -> None:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition(":")[2]
    is_moving = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if is_moving else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    if isinstance(resources, dict):
        _default_resources(resources)
    for port in _maps(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for variable in _maps(container.get("env")):
        if isinstance(reference := dig(variable, "valueFrom", "fieldRef"), dict):
            reference.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), dict):
            container[probe] = {**_PROBE, **container[probe]}


_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def _default_resources(resources: Object) -> None:
    """Write quantities as text in their canonical form; request what is limited."""
    for part in ("limits", "requests"):
        if isinstance(resources.get(part), dict):
            resources[part] = {name: canonical(str(amount)) for name, amount in resources[part].items()}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _default_volume(volume: Object) -> None:
    for source in ("configMap", "secret", "projected"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", 420)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")


def _default_pod(body: Object) -> None:
    spec = body["spec"]
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    _tolerate(spec)
    status = body.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", quality_of(spec))


def _tolerate(spec: Object) -> None:
    """Let pods onto nodes that are tainted for the accelerators they request, and survive short outages."""
    tolerations = spec.setdefault("tolerations", [])
    asked = {
        name
        for container in (*_maps(spec.get("initContainers")), *_maps(spec.get("containers")))
        for name in dig(container, "resources", "requests") or {}
        if "/" in name and _NATIVE_DOMAIN not in name
    }
    for name in sorted(asked):
        wanted = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
        if wanted not in tolerations:
            tolerations.append(wanted)
    for name in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{name}"
        if not any(one.get("key") in (key, None) and one.get("effect") in ("NoExecute", None) for one in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def quality_of(spec: Object) -> str:
    """The pod's QoS class: Guaranteed, Burstable or BestEffort."""
    has_any, is_guaranteed = False, True
    for container in _maps(spec.get("containers")):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            has_any = has_any or name in limits or name in requests
            is_guaranteed = is_guaranteed and name in limits and limits.get(name) == requests.get(name)
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _default_job(body: Object) -> None:
    spec = body["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for name, value in (
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
    ):
        spec.setdefault(name, value)
    template = spec.get("template")
    if isinstance(template, dict):
        default_pod_template(template)
        _label_job(body, template)


def _label_job(body: Object, template: Object) -> None:
    uid, name = body["metadata"].get("uid"), body["metadata"].get("name")
    if not uid or body["spec"].get("manualSelector") or "selector" in body["spec"]:
        return
    labels = template["metadata"].setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels[f"{prefix}controller-uid"] = uid
        labels[f"{prefix}job-name"] = name
    body["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not body["metadata"].get("labels"):
        body["metadata"]["labels"] = dict(labels)


def _default_cron_job(body: Object) -> None:
    for name, value in (
        ("concurrencyPolicy", "Allow"),
        ("suspend", False),
        ("successfulJobsHistoryLimit", 3),
        ("failedJobsHistoryLimit", 1),
    ):
        body["spec"].setdefault(name, value)
    template = dig(body, "spec", "jobTemplate", "spec", "template")
    if isinstance(template, dict):
        default_pod_template(template)


def _default_deployment(body: Object) -> None:
    spec = body["spec"]
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    for name, value in (
        ("replicas", 1),
        ("strategy", rolling),
        ("revisionHistoryLimit", 10),
        ("progressDeadlineSeconds", 600),
    ):
        spec.setdefault(name, value)
    default_pod_template(spec.setdefault("template", {}))


def _default_daemonset(body: Object) -> None:
    spec = body["spec"]
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
    spec.setdefault("revisionHistoryLimit", 10)
    default_pod_template(spec.setdefault("template", {}))


def _default_stateful_set(body: Object) -> None:
    _default_replicated(body)
    for name, value in (
        ("podManagementPolicy", "OrderedReady"),
        ("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ("revisionHistoryLimit", 10),
    ):
        body["spec"].setdefault(name, value)


def _default_replicated(body: Object) -> None:
    body["spec"].setdefault("replicas", 1)
    default_pod_template(body["spec"].setdefault("template", {}))


def _default_service(body: Object) -> None:
    spec = body["spec"]
    for name, value in (("type", "ClusterIP"), ("sessionAffinity", "None"), ("internalTrafficPolicy", "Cluster")):
        spec.setdefault(name, value)
    for port in _maps(spec.get("ports")):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    uid = str(body["metadata"].get("uid", ""))
    if "clusterIP" not in spec and spec["type"] != "ExternalName" and uid:
        number = int(uid[:4], 16)  # not allocated, which makes no difference: nothing is routed
        spec["clusterIP"] = f"10.100.{number >> 8}.{number & 255}"
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if "clusterIP" in spec:
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4"])


def _default_claim(body: Object) -> None:
    body["spec"].setdefault("volumeMode", "Filesystem")
    body.setdefault("status", {}).setdefault("phase", "Pending")


def _default_volume_object(body: Object) -> None:
    body["spec"].setdefault("volumeMode", "Filesystem")
    body["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    body.setdefault("status", {}).setdefault("phase", "Available")


def _default_storage_class(body: Object) -> None:
    body.setdefault("reclaimPolicy", "Delete")
    body.setdefault("volumeBindingMode", "Immediate")


def _default_namespace(body: Object) -> None:
    body["spec"].setdefault("finalizers", ["kubernetes"])
    body.setdefault("status", {}).setdefault("phase", "Active")
    labels = body["metadata"].setdefault("labels", {})
    labels.setdefault("kubernetes.io/metadata.name", body["metadata"].get("name", ""))


def _default_secret(body: Object) -> None:
    body.setdefault("type", "Opaque")
    for name, text in (body.pop("stringData", None) or {}).items():
        body.setdefault("data", {})[name] = base64.b64encode(str(text).encode()).decode()


_DEFAULTS: dict[GroupResource, Callable[[Object], None]] = {
    GroupResource("", "pods"): _default_pod,
    GroupResource("", "services"): _default_service,
    GroupResource("", "persistentvolumeclaims"): _default_claim,
    GroupResource("", "persistentvolumes"): _default_volume_object,
    GroupResource("", "namespaces"): _default_namespace,
    GroupResource("", "secrets"): _default_secret,
    GroupResource("batch", "jobs"): _default_job,
    GroupResource("apps", "deployments"): _default_deployment,
    GroupResource("apps", "daemonsets"): _default_daemonset,
    GroupResource("apps", "replicasets"): _default_replicated,
    GroupResource("apps", "statefulsets"): _default_stateful_set,
    GroupResource("batch", "cronjobs"): _default_cron_job,
    GroupResource("storage.k8s.io", "storageclasses"): _default_storage_class,
}
_WITHOUT_SPEC = frozenset({GroupResource("", "secrets"), GroupResource("storage.k8s.io", "storageclasses")})


def default_builtin(key: GroupResource, body: Object) -> None:
    """Fill in the defaults of a built-in type, in place; types without any pass through."""
    fill = _DEFAULTS.get(key)
    if fill is None:
        return
    if key not in _WITHOUT_SPEC and not isinstance(body.setdefault("spec", {}), dict):
        return
    fill(body)
