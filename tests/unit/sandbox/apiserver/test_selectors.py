"""Selectors choose what their text says."""

from __future__ import annotations

import pytest

from actions.sandbox.apiserver.requests.selectors import (
    check_selectable_fields,
    field_predicate,
    label_predicate,
    label_text,
)
from actions.sandbox.apiserver.storage.errors import StatusError
from actions.sandbox.apiserver.storage.resources import builtin_types


def labelled(**labels: str) -> dict[str, object]:
    return {"metadata": {"name": "a", "labels": labels}, "spec": {"nodeName": "n1"}}


@pytest.mark.parametrize(
    ("selector", "is_match"),
    [
        ("app=web", True),
        ("app==web", True),
        ("app!=web", False),
        ("missing!=anything", True),
        ("app in (api, web)", True),
        ("app notin (api,web)", False),
        ("app", True),
        ("!app", False),
        ("app=web,tier in (a,b),!gone", True),
        ("app=web,tier=c", False),
        ("", True),
    ],
)
def test_a_label_selector_matches(selector: str, is_match: bool) -> None:
    assert label_predicate(selector)(labelled(app="web", tier="a")) is is_match


@pytest.mark.parametrize("selector", ["a in b", "=x", "a b"])
def test_a_broken_label_selector_is_a_bad_request(selector: str) -> None:
    with pytest.raises(StatusError) as refusal:
        label_predicate(selector)
    assert refusal.value.code == 400


def test_a_field_selector_compares_texts_and_knows_what_absence_means() -> None:
    pod = labelled(app="web")
    assert field_predicate("spec.nodeName=n1,metadata.name!=b")(pod)
    assert field_predicate("spec.unschedulable=false")(pod)
    assert not field_predicate("status.phase=Running")(pod)


def test_a_selector_object_becomes_the_text_that_means_the_same() -> None:
    expressions = [{"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "DoesNotExist"}]
    text = label_text({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert text == "app=web,tier in (a,b),!x"
    assert label_predicate(text)(labelled(app="web", tier="b"))


@pytest.mark.parametrize(
    ("plural", "selector", "message"),
    [
        ("pods", "status.phase=Running,spec.colour=red", "field label not supported: spec.colour"),
        (
            "deployments",
            "spec.replicas!=1",
            '"spec.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_a_field_that_a_type_is_not_selected_by_is_refused(plural: str, selector: str, message: str) -> None:
    resource = next(one for one in builtin_types() if one.plural == plural)
    check_selectable_fields(resource, "metadata.name=a,metadata.namespace!=b")
    with pytest.raises(StatusError) as refusal:
        check_selectable_fields(resource, selector)
    assert (refusal.value.code, refusal.value.message) == (400, message)
