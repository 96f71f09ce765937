"""One table of kinds: `actions.cluster.kinds` lists them, and nothing else does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

import yaml

from actions.cluster.kinds import EVIDENCE, JOB_NAMES, KINDS, WATCHED
from actions.cluster.objects.status_rules import DATA_RULES, JOB_RULES, READY_RULES
from tests.support.sources import ROOT, modules

NAMES = frozenset(row.kind for row in KINDS)
MOST_JOBS = 1
MOST = 3
"""Two kinds of jobs, or four of any, are a table."""
TABLES = {
    "actions/cluster/kinds.py": "the table",
    "actions/cluster/objects/status_rules.py": "rules by group and kind, held to the table below",
    "actions/run/objects/writes.py": "the order in which objects are applied",
}
BY_HAND = {
    ("actions/cluster/auth/credentials.py", "ExecCredential"): "the input of an exec plugin",
    (
        "actions/cluster/auth/permissions.py",
        "SelfSubjectAccessReview",
    ): "a console's start, which has no 0.3 s for more",
    ("actions/cluster/objects/client.py", "DeleteOptions"): "deletes objects of any kind",
    ("actions/cluster/objects/operations.py", "DeleteOptions"): "a change by hand, to objects of any kind",
    ("actions/cluster/objects/operations.py", "Eviction"): "a change by hand, from a console",
    ("actions/cluster/state/decode.py", "NodeClaim"): "of an answer that names its items' kind in the list alone",
    ("actions/run/doctor/objects.py", "Pod"): "the template of an object, whatever is written in it",
    ("actions/run/stages/kubeconfig.py", "Config"): "a kubeconfig",
    ("actions/run/stages/helm.py", "Namespace"): "a place that a blueprint names",
    ("actions/run/watchdog/script.py", "DeleteOptions"): "it is alone in a pod, without this program",
}
"""Objects that the product writes out by itself, each with the reason; others are models of `kubernetes`."""
OUTSIDE = "actions/sandbox/"
"""A cluster of its own, which serves kinds to every client."""


def collections_of_kinds() -> Iterator[tuple[str, int, set[str]]]:
    """Every literal set, tuple, list or dict that holds names of kinds, with its place."""
    for module in modules():
        place = str(module.path)
        if place.startswith(OUTSIDE) or place in TABLES:
            continue
        literals = (module.nodes(ast.Set), module.nodes(ast.Tuple), module.nodes(ast.List), module.nodes(ast.Dict))
        node: ast.Set | ast.Tuple | ast.List | ast.Dict
        for node in chain[ast.Set | ast.Tuple | ast.List | ast.Dict](*literals):
            yield place, node.lineno, set(_names(node)) & NAMES


def _names(node: ast.Set | ast.Tuple | ast.List | ast.Dict) -> Iterator[str]:
    """The texts of a collection, its keys and values, and those of the tuples and calls in it."""
    entries = [*node.keys, *node.values] if isinstance(node, ast.Dict) else node.elts
    for entry in entries:
        parts = entry.elts if isinstance(entry, ast.Tuple) else entry.args if isinstance(entry, ast.Call) else [entry]
        yield from (str(part.value) for part in parts if isinstance(part, ast.Constant))


def test_no_second_table_of_kinds_grows() -> None:
    tables = [
        (place, line, names)
        for place, line, names in collections_of_kinds()
        if len(names & JOB_NAMES) > MOST_JOBS or len(names) > MOST
    ]
    assert tables == []


def test_every_kind_with_a_rule_has_a_row() -> None:
    rows = {(row.group, row.kind) for row in KINDS}
    assert {*JOB_RULES, *READY_RULES, *DATA_RULES} - rows == set()


def test_the_role_that_looks_may_look_at_all_that_is_watched_and_diagnosed() -> None:
    roles = yaml.safe_load_all((ROOT / "assets" / "rbac.yaml").read_text(encoding="utf-8"))
    looks = next(role for role in roles if role["metadata"]["name"] == "eksml-look")
    granted = {
        (group, plural)
        for rule in looks["rules"]
        if {"list", "watch"} <= {*rule["verbs"]}
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    in_queues = [row for row in KINDS if row.group in ("kueue.x-k8s.io", "scheduling.volcano.sh")]
    assert {(row.group, row.plural) for row in (*WATCHED, *EVIDENCE, *in_queues)} - granted == set()
    read = {(group, name) for rule in looks["rules"] for group in rule["apiGroups"] for name in rule["resources"]}
    of_the_doctor = {("", "resourcequotas"), ("trainer.kubeflow.org", "clustertrainingruntimes"), ("batch", "jobs")}
    assert of_the_doctor - read == set()


def test_a_fixed_object_of_our_own_is_a_model_of_the_client_library() -> None:
    by_hand = {
        (str(module.path), kind)
        for module in modules()
        if str(module.path).startswith(("actions/cluster/", "actions/run/"))
        for literal in module.nodes(ast.Dict)
        for kind in _kind_of(literal)
    }
    assert by_hand - set(BY_HAND) == set()


def _kind_of(literal: ast.Dict) -> Iterator[str]:
    """The kind of an object of an API that is written out."""
    keys = [key.value if isinstance(key, ast.Constant) else None for key in literal.keys]
    if {"apiVersion", "kind"} <= {*keys} and isinstance(kind := literal.values[keys.index("kind")], ast.Constant):
        yield str(kind.value)
