"""Label and field selectors, compiled to a test of one object.

A field selector with a field that its type cannot be selected by is refused.

Source: k8s.io/apimachinery `labels.Parse` and `fields.ParseSelector`; k8s.io/kubernetes `pkg/apis/*/v1/conversion.go`
(AddFieldLabelConversionFunc), apiextensions `selectableFields`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from actions.sandbox.apiserver.storage.codec import Object, dig
from actions.sandbox.apiserver.storage.errors import bad_request
from actions.sandbox.apiserver.storage.resources import GroupResource, ServedResource

Predicate: TypeAlias = Callable[[Object], bool]

_SET_TERM = re.compile(r"^(?P<key>[^\s=!(),]+)\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL_TERM = re.compile(r"^(?P<key>[^\s=!(),]+)\s*(?P<sign>==|=|!=)\s*(?P<value>[^\s=!(),]*)$")
_EXIST_TERM = re.compile(r"^(?P<no>!?)\s*(?P<key>[^\s=!(),]+)$")

_FIELD_DEFAULTS = {"status.phase": "", "spec.nodeName": "", "spec.unschedulable": "false", "spec.schedulerName": ""}


def _split_terms(text: str) -> list[str]:
    """Cut at commas that are not inside parentheses."""
    return [term.strip() for term in re.split(r",(?![^(]*\))", text) if term.strip()]


def _label_term(term: str) -> Callable[[dict[str, str]], bool]:
    if match := _SET_TERM.match(term):
        key, values = match["key"], {value.strip() for value in match["values"].split(",")}
        if match["word"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUAL_TERM.match(term):
        key, value = match["key"], match["value"]
        if match["sign"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _EXIST_TERM.match(term):
        key, is_absent = match["key"], bool(match["no"])
        return lambda labels: (key not in labels) is is_absent
    raise bad_request(f"unable to parse requirement: {term!r} is not a label selector")


def label_predicate(text: str) -> Predicate:
    """Compile `a=b,c!=d,e in (f,g),h,!i`.

    Raises:
        StatusError: 400, the text is not a selector.
    """
    terms = [_label_term(term) for term in _split_terms(text)]
    return lambda item: all(term(dig(item, "metadata", "labels") or {}) for term in terms)


def field_value(item: Object, path: str) -> str:
    """The field at a dotted path as selectors compare it: text, `true`/`false`, empty if absent."""
    value = dig(item, *path.split("."))
    if value is None:
        return _FIELD_DEFAULTS.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _field_terms(text: str) -> list[tuple[str, str, bool]]:
    """Path, value, and whether they are to be equal, of every term."""
    tests: list[tuple[str, str, bool]] = []
    for term in _split_terms(text):
        match = _EQUAL_TERM.match(term)
        if match is None:
            raise bad_request(f"invalid field selector {text!r}; can't understand {term!r}")
        tests.append((match["key"], match["value"], match["sign"] != "!="))
    return tests


def field_names(text: str) -> list[str]:
    """Return the field paths that a field selector compares.

    Raises:
        StatusError: 400, the text is not a selector.
    """
    return [path for path, _, _ in _field_terms(text)]


def field_predicate(text: str) -> Predicate:
    """Compile `metadata.name=a,status.phase!=Running`.

    Raises:
        StatusError: 400, the text is not a selector.
    """
    tests = _field_terms(text)
    return lambda item: all((field_value(item, path) == value) is wanted for path, value, wanted in tests)


def predicate_of(label_selector: str, field_selector: str) -> Predicate | None:
    """Return both selectors as one test, or `None` if both are empty.

    Raises:
        StatusError: 400, one of them is not a selector.
    """
    tests: list[Predicate] = []
    if label_selector:
        tests.append(label_predicate(label_selector))
    if field_selector:
        tests.append(field_predicate(field_selector))
    if not tests:
        return None
    return lambda item: all(test(item) for test in tests)


def label_text(selector: Object) -> str:
    """A `metav1.LabelSelector` as the text that `label_predicate` reads."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        key, values = one["key"], ",".join(one.get("values") or ())
        match one["operator"]:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case "DoesNotExist":
                terms.append(f"!{key}")
    return ",".join(terms)


_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: dict[GroupResource, frozenset[str]] = {
    GroupResource("", "pods"): frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        }
    ),
    GroupResource("", "nodes"): frozenset({"spec.unschedulable"}),
    GroupResource("", "namespaces"): frozenset({"status.phase"}),
    GroupResource("", "secrets"): frozenset({"type"}),
    GroupResource("", "services"): frozenset({"spec.clusterIP", "spec.type"}),
    GroupResource("", "events"): frozenset(
        {"reason", "reportingComponent", "source", "type", *(f"involvedObject.{name}" for name in _INVOLVED)}
    ),
    GroupResource("apps", "replicasets"): frozenset({"status.replicas"}),
    GroupResource("batch", "jobs"): frozenset({"status.successful"}),
}
_NAMES = ("metadata.name", "metadata.namespace")


def check_selectable_fields(resource: ServedResource, text: str) -> None:
    """Refuse a field selector with a field by which the type cannot be selected.

    Raises:
        StatusError: 400.
    """
    known = _FIELDS.get(GroupResource(resource.group, resource.plural))
    allowed = {*_NAMES, *(known or ())}
    unknown = next((name for name in field_names(text) if name not in allowed), None)
    if unknown is None:
        return
    if known is not None or resource.is_custom:
        raise bad_request(f"field label not supported: {unknown}")
    known_names = ", ".join(f'"{name}"' for name in _NAMES)
    raise bad_request(f'"{unknown}" is not a known field selector: only {known_names}')
