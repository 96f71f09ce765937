"""An object of the API in the form of a recording's line: the same parts, with what differs each time taken out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from actions.cluster.state.pod_requests import parse_quantity
from tests.operators.story import Document

_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_NAME_PARTS = "abcdefghijklmnopqrstuvwxyz0123456789-"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| \+0000 UTC)?")
_UID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
_ADDRESS = re.compile(r"\b(?!0\.0\.0\.0\b)(?:\d{1,3}\.){3}\d{1,3}\b")
_OWNER = ("kind", "name", "controller", "blockOwnerDeletion")
_CONTAINER = (
    "name", "image", "command", "args", "ports", "resources", "imagePullPolicy", "env", "volumeMounts",
    "livenessProbe", "readinessProbe", "lifecycle",
)  # fmt: skip
_POD = (
    "containers", "initContainers", "restartPolicy", "schedulerName", "hostname", "subdomain", "serviceAccountName",
    "dnsPolicy", "volumes", "nodeSelector", "tolerations",
)  # fmt: skip
_JOB = (
    "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend",
    "completionMode", "podReplacementPolicy", "template",
)  # fmt: skip
_SERVICE = ("type", "selector", "ports", "clusterIP", "sessionAffinity")
_FOR_DEVICES = [
    {"key": device, "operator": "Exists", "effect": "NoSchedule"}
    for device in ("nvidia.com/gpu", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa")
]
_GIVEN_BY_SERVER = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Names:
    """Generated names, numbered for each beginning in the order in which they were first seen.

    Args:
        beginnings: What generated names begin with, beside those of objects with a `generateName`.
    """

    def __init__(self, beginnings: tuple[str, ...] = ()) -> None:
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._numbers: dict[str, dict[str, str]] = {}
        for beginning in beginnings:
            self._know(beginning)

    def _know(self, beginning: str) -> None:
        if beginning not in self._patterns:
            self._patterns[beginning] = re.compile(f"{re.escape(beginning)}({_SUFFIX})(?![a-z0-9])")
            self._numbers[beginning] = {}

    def hide(self, document: Document) -> Document:
        """The same document with generated parts of names, times, uids and addresses replaced."""
        text = self._hide(msgspec.json.encode(document).decode())
        generated = document.get("metadata", {}).get("generateName")
        if generated:
            self._know(json.loads(self._hide(json.dumps(generated))))
            text = self._hide(text)
        text = _TIME.sub("<ts>", text)
        hidden: Document = msgspec.json.decode(_ADDRESS.sub("<ip>", _UID.sub("<uid>", text)))
        return hidden

    def _hide(self, text: str) -> str:
        for beginning in sorted(self._patterns, key=len):
            if beginning not in text:
                continue
            numbers = self._numbers[beginning]

            def number(found: re.Match[str], beginning: str = beginning, numbers: dict[str, str] = numbers) -> str:
                before = found.string[found.start() - 1 : found.start()]
                if before and before in _NAME_PARTS:  # here, as an expression that begins with a look behind is slow
                    return found[0]
                return beginning + numbers.setdefault(found[1], f"<r{len(numbers) + 1}>")

            text = self._patterns[beginning].sub(number, text)
        return text

    def real(self, hidden: str) -> str:
        """The name that stands behind a hidden one; what was never seen stays as it is."""
        for beginning in sorted(self._numbers, key=len, reverse=True):
            for suffix, written in self._numbers[beginning].items():
                hidden = hidden.replace(beginning + written, beginning + suffix)
        return hidden


def recorded_form(kind: str, document: Document) -> Document:
    """The parts of an object as recordings have them: metadata's, `spec` and `status`."""
    metadata = document["metadata"]
    owners = [{name: one[name] for name in _OWNER if name in one} for one in metadata.get("ownerReferences") or ()]
    parts: Document = {name: metadata[name] for name in ("labels", "annotations", "finalizers") if metadata.get(name)}
    parts |= {"owners": owners} if owners else {}
    parts |= {"generateName": metadata["generateName"]} if metadata.get("generateName") else {}
    spec = _SPECS.get(kind, _as_it_is)(document)
    return parts | ({"spec": spec} if spec else {}) | {"status": document.get("status") or {}}


def event_form(event: Document) -> Document:
    """An event as recordings have it."""
    about = event["involvedObject"]
    return {
        "type": event["type"],
        "reason": event["reason"],
        "message": event["message"],
        "source": (event.get("source") or {}).get("component") or event.get("reportingComponent", ""),
        "involvedObject": f"{about['kind']} {about['name']}",
    }


def _as_it_is(document: Document) -> Document:
    spec: Document = document.get("spec") or {}
    return spec


def _pod(document: Document) -> Document:
    return _pod_spec(document["spec"])


def _pod_spec(spec: Document) -> Document:
    kept = {name: spec[name] for name in _POD if spec.get(name)}
    for group in ("containers", "initContainers"):
        if group in kept:
            kept[group] = [_container(one) for one in kept[group]]
    tolerations = [one for one in kept.pop("tolerations", ()) if not _is_of_server(one)]
    volumes = [one for one in kept.pop("volumes", ()) if "projected" not in one]
    return kept | ({"tolerations": tolerations} if tolerations else {}) | ({"volumes": volumes} if volumes else {})


def _is_of_server(toleration: Document) -> bool:
    """Return whether the API server added it to survive short outages."""
    return toleration.get("key") in _GIVEN_BY_SERVER and toleration.get("tolerationSeconds") == 300


def _container(container: Document) -> Document:
    kept = {name: container[name] for name in _CONTAINER if container.get(name)}
    if "env" in kept:
        kept["env"] = [_variable(one) for one in kept["env"]]
    return kept


def _variable(variable: Document) -> list[Any]:
    source = variable.get("valueFrom")
    return [variable["name"], {"from": source} if source else variable.get("value", "")]


def _job(document: Document) -> Document:
    spec = {name: document["spec"][name] for name in _JOB if name in document["spec"]}
    template = spec["template"]
    metadata = template.get("metadata") or {}
    kept = {name: metadata[name] for name in ("labels", "annotations", "ownerReferences") if metadata.get(name)}
    return spec | {"template": {"metadata": kept, "spec": _pod_spec(template["spec"])}}


def _service(document: Document) -> Document:
    return {name: document["spec"][name] for name in _SERVICE if document["spec"].get(name)}


def _config_map(document: Document) -> Document:
    return {"data": document.get("data") or {}, "binaryData": sorted(document.get("binaryData") or ())}


def _secret(document: Document) -> Document:
    return {"type": document.get("type"), "keys": sorted(document.get("data") or ()), "immutable": None}


def _role(document: Document) -> Document:
    return {"rules": document.get("rules") or []}


def _binding(document: Document) -> Document:
    return {"roleRef": document["roleRef"], "subjects": document.get("subjects") or []}


_SPECS: dict[str, Callable[[Document], Document]] = {
    "Pod": _pod,
    "Job": _job,
    "Service": _service,
    "ConfigMap": _config_map,
    "Secret": _secret,
    "Role": _role,
    "RoleBinding": _binding,
}


def comparable(change: Document) -> Document:
    """A recorded change, or one of ours in that form, with what depends on the server taken out.

    The recordings' server does not let pods onto the nodes of devices that they ask for; the sandbox's does, as EKS.
    """
    comparable: Document = with_amounts(change)
    spec = comparable.get("spec")
    if comparable.get("kind") == "Pod" and spec and "tolerations" in spec:
        left = [one for one in spec["tolerations"] if one not in _FOR_DEVICES]
        comparable["spec"] = {name: value for name, value in spec.items() if name != "tolerations"} | (
            {"tolerations": left} if left else {}
        )
    return comparable


def with_amounts(value: Any) -> Any:
    """The same with the resources of containers as numbers, so that 5120Mi is 5Gi."""
    if isinstance(value, dict):
        return {
            name: {part: {key: _amount(one) for key, one in amounts.items()} for part, amounts in inner.items()}
            if name == "resources" and isinstance(inner, dict)
            else with_amounts(inner)
            for name, inner in value.items()
        }
    return [with_amounts(inner) for inner in value] if isinstance(value, list) else value


def _amount(value: object) -> object:
    try:
        return parse_quantity(str(value))
    except ValueError:
        return value
