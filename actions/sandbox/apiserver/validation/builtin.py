"""The validation of built-in objects, and of the metadata of all.

Source: k8s.io/kubernetes `pkg/apis/*/validation`; the messages are the server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from actions.sandbox.apiserver.storage.codec import Object, dig, encode
from actions.sandbox.apiserver.storage.errors import Cause
from actions.sandbox.apiserver.storage.resources import GroupResource, ServedResource

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(rf"{_LABEL}")
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_KEY = re.compile(rf"({_LABEL}(\.{_LABEL})*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_CRON_FIELDS = 5
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_POD_MUTABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def _required(field: str, why: str = "") -> Cause:
    return Cause(field, f"Required value{': ' + why if why else ''}", "FieldValueRequired")


def _bad(field: str, value: object, why: str) -> Cause:
    return Cause(field, f"Invalid value: {encode(value).decode()}: {why}")


def metadata_causes(resource: ServedResource, body: Object) -> Iterator[Cause]:
    """Yield the errors in the metadata of any object."""
    metadata = body["metadata"]
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        yield _required("metadata.name", "name or generateName is required")
        return
    if resource.key == ("", "namespaces"):
        if not _DNS_LABEL.fullmatch(name) or len(name) > 63:
            yield _bad("metadata.name", name, _LABEL_RULE)
    elif resource.group == "rbac.authorization.k8s.io":
        if "/" in name or "%" in name or name in (".", ".."):
            yield _bad("metadata.name", name, "may not contain '/' or '%', or be '.' or '..'")
    elif not _DNS_SUBDOMAIN.fullmatch(name) or len(name) > 253:
        yield _bad("metadata.name", name, _SUBDOMAIN_RULE)
    yield from _label_causes(metadata.get("labels"), "metadata.labels")


def _label_causes(labels: Any, field: str) -> Iterator[Cause]:
    for key, value in (labels or {}).items():
        if not _LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > 63:
            yield _bad(field, key, "name part must consist of alphanumeric characters, '-', '_' or '.'")
        if not isinstance(value, str):
            yield _bad(field, value, "must be a string")
        elif not _LABEL_VALUE.fullmatch(value) or len(value) > 63:
            yield _bad(
                field, value, "a valid label must be an empty string or consist of at most 63 alphanumeric "
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            )  # fmt: skip


def pod_spec_causes(spec: Any, path: str) -> Iterator[Cause]:
    """Yield the errors in the spec of a pod or of a template."""
    containers = dig(spec, "containers")
    if not isinstance(containers, list) or not containers:
        yield _required(f"{path}.containers")
        return
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for place, container in enumerate(spec.get(field) or ()):
            here = f"{path}.{field}[{place}]"
            yield from _container_causes(container, here)
            name = container.get("name", "")
            if name in seen:
                yield Cause(f"{here}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
            seen.add(name)
    policy = spec.get("restartPolicy")
    if policy not in ("Always", "OnFailure", "Never"):
        yield Cause(
            f"{path}.restartPolicy", f'Unsupported value: "{policy}": supported values: "Always", "Never", "OnFailure"',
            "FieldValueNotSupported",
        )  # fmt: skip


def _container_causes(container: Object, path: str) -> Iterator[Cause]:
    if not container.get("name"):
        yield _required(f"{path}.name")
    elif not _DNS_LABEL.fullmatch(str(container["name"])):
        yield _bad(f"{path}.name", container["name"], _LABEL_RULE)
    if not container.get("image"):
        yield _required(f"{path}.image")
    limits, requests = (dig(container, "resources", part) or {} for part in ("limits", "requests"))
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if not _QUANTITY.fullmatch(str(amount)):
                rule = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                yield _bad(f"{path}.resources.{part}[{name}]", amount, rule)
    for name, amount in requests.items():
        if "/" in name and name not in limits:
            yield _required(f"{path}.resources.limits", "Limit must be set for non overcommitable resources")
        elif "/" in name and str(limits[name]) != str(amount):
            yield _bad(f"{path}.resources.requests", str(amount), f"must be equal to {name} limit of {limits[name]}")


def _pod_causes(body: Object) -> Iterator[Cause]:
    yield from pod_spec_causes(body.get("spec"), "spec")


def _template_causes(body: Object) -> Iterator[Cause]:
    yield from _label_causes(dig(body, "spec", "template", "metadata", "labels"), "spec.template.labels")
    yield from pod_spec_causes(dig(body, "spec", "template", "spec"), "spec.template.spec")


def _job_causes(body: Object) -> Iterator[Cause]:
    if not isinstance(dig(body, "spec", "template"), dict):
        yield _required("spec.template")
        return
    yield from _template_causes(body)
    policy = dig(body, "spec", "template", "spec", "restartPolicy")
    if policy == "Always":
        field = "spec.template.spec.restartPolicy"
        yield Cause(field, 'Required value: valid values: "OnFailure", "Never"', "FieldValueRequired")
    for name in ("completions", "parallelism", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds"):
        value = dig(body, "spec", name)
        if value is not None and (not isinstance(value, int) or value < 0):
            yield _bad(f"spec.{name}", value, "must be greater than or equal to 0")


def _selecting_causes(body: Object) -> Iterator[Cause]:
    selector = dig(body, "spec", "selector")
    if not selector:
        yield _required("spec.selector")
        return
    labels = dig(body, "spec", "template", "metadata", "labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        why = "`selector` does not match template `labels`"
        yield _bad("spec.template.metadata.labels", labels, why)
    yield from _template_causes(body)


def _claim_causes(body: Object) -> Iterator[Cause]:
    if not dig(body, "spec", "accessModes"):
        yield _required("spec.accessModes", "at least 1 access mode is required")
    if not dig(body, "spec", "resources", "requests", "storage"):
        yield _required("spec.resources[storage]")


def _definition_causes(body: Object) -> Iterator[Cause]:
    spec = body.get("spec") or {}
    missing = [name for name in ("group", "scope", "names", "versions") if not spec.get(name)]
    missing += [f"names.{name}" for name in ("plural", "kind") if not dig(spec, "names", name)]
    yield from (_required(f"spec.{name}") for name in missing)
    expected = f"{dig(spec, 'names', 'plural')}.{spec.get('group')}"
    if not missing and body["metadata"]["name"] != expected:
        why = 'must be spec.names.plural+"."+spec.group'
        yield _bad("metadata.name", body["metadata"]["name"], why)


def _cron_job_causes(body: Object) -> Iterator[Cause]:
    schedule = str(dig(body, "spec", "schedule") or "")
    if not schedule:
        yield _required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != _CRON_FIELDS:
        why = f"expected exactly 5 fields, found {len(schedule.split())}: [{schedule}]"
        yield _bad("spec.schedule", schedule, why)


def _lease_causes(body: Object) -> Iterator[Cause]:
    spec = body.get("spec") or {}
    for name in ("acquireTime", "renewTime"):
        if spec.get(name) is not None and not _MICRO_TIME.fullmatch(spec[name]):
            yield _bad(f"spec.{name}", spec[name], 'cannot be parsed as "2006-01-02T15:04:05.000000Z07:00"')
    for name, least, bound in (("leaseDurationSeconds", 1, "than 0"), ("leaseTransitions", 0, "than or equal to 0")):
        if spec.get(name) is not None and spec[name] < least:
            yield _bad(f"spec.{name}", spec[name], f"must be greater {bound}")


_RULES: dict[GroupResource, Callable[[Object], Iterator[Cause]]] = {
    GroupResource("", "pods"): _pod_causes,
    GroupResource("", "persistentvolumeclaims"): _claim_causes,
    GroupResource("batch", "jobs"): _job_causes,
    GroupResource("coordination.k8s.io", "leases"): _lease_causes,
    GroupResource("batch", "cronjobs"): _cron_job_causes,
    GroupResource("apps", "deployments"): _selecting_causes,
    GroupResource("apps", "daemonsets"): _selecting_causes,
    GroupResource("apps", "statefulsets"): _selecting_causes,
    GroupResource("apps", "replicasets"): _selecting_causes,
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): _definition_causes,
}
_IMMUTABLE: dict[GroupResource, tuple[str, ...]] = {
    GroupResource("batch", "jobs"): ("selector", "template", "completionMode"),
    GroupResource("apps", "deployments"): ("selector",),
    GroupResource("apps", "daemonsets"): ("selector",),
    GroupResource("apps", "statefulsets"): ("selector", "serviceName", "volumeClaimTemplates"),
    GroupResource("apps", "replicasets"): ("selector",),
    GroupResource("", "persistentvolumeclaims"): ("accessModes", "storageClassName", "volumeMode"),
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): ("group", "scope"),
}


def object_causes(key: GroupResource, body: Object) -> list[Cause]:
    """Return the errors in a built-in object beyond its metadata."""
    rule = _RULES.get(key)
    return list(rule(body)) if rule else []


def immutable_causes(key: GroupResource, before: Object, after: Object) -> list[Cause]:
    """Return the changes of immutable fields in an update."""
    if key == ("", "pods"):
        return _pod_change_causes(before, after)
    old, new = before.get("spec") or {}, after.get("spec") or {}
    return [
        _bad(f"spec.{name}", new.get(name), "field is immutable")
        for name in _IMMUTABLE.get(key, ())
        if old.get(name) != new.get(name) and not (key.plural == "persistentvolumeclaims" and name not in old)
    ]


def _pod_change_causes(before: Object, after: Object) -> list[Cause]:
    if _fixed_part(before["spec"]) == _fixed_part(after["spec"]):
        return []
    why = f"pod updates may not change fields other than {_POD_MUTABLE}"
    return [Cause("spec", f"Forbidden: {why}", "FieldValueForbidden")]


def _fixed_part(spec: Object) -> Object:
    fixed = {
        name: value
        for name, value in spec.items()
        if name not in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
    }
    for field in ("containers", "initContainers"):
        fixed[field] = [
            {name: value for name, value in container.items() if name != "image"} for container in spec.get(field) or ()
        ]
    return fixed
