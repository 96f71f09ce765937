"""Rules for namespaces: quotas and limits that refuse pods, and namespaces that do not go.

Source: kubernetes/kubernetes `plugin/pkg/admission` (resourcequota, limitranger) and
`pkg/controller/namespace/deletion`, v1.34.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, finding
from actions.cluster.diagnose.evidence import Evidence, KubeObject
from actions.cluster.diagnose.log_patterns import all_messages, find_hits, pattern

_NAMESPACE = pattern(
    r"exceeded quota: [^\n]+",
    r"forbidden: failed quota",
    r"(?:maximum|minimum) \S{1,80} usage per (?:Container|Pod|PersistentVolumeClaim)",
    r"insufficient quota to match these scopes",
    r"max limit to request ratio per (?:Container|Pod)",
)
_LIMIT_RANGE = re.compile(
    r"(?:(?:maximum|minimum) \S{1,80} usage per (?:Container|Pod|PersistentVolumeClaim)"
    r"|\S{1,80} max limit to request ratio per (?:Container|Pod)) is [^\n]{1,200}"
)
_UNSTATED = re.compile(r"failed quota: (?P<name>[^:\n]{1,253}): must specify (?P<what>[^\n]{1,300})")
_QUOTA_AMOUNTS = re.compile(
    r"requested: [^,\n]{1,253}=(?P<asked>\w{1,20}), used: [^,\n]{1,253}=(?P<used>\w{1,20}),"
    r" limited: [^,\n]{1,253}=(?P<most>\w{1,20})(?!,)"
)
_QUOTA_NAME = re.compile(r"exceeded quota: (?P<name>[^,\s]+)(?:, requested: (?P<asked>[^,\s]+))?")


def find_namespace_faults(evidence: Evidence) -> Iterator[Finding]:
    """Yield quotas and limits that refuse pods, and namespaces that have been on their way out for minutes."""
    yield from _quota(evidence)
    for namespace in evidence.namespaces:
        if namespace.deleted_at and evidence.now - namespace.deleted_at > _DELETION_SECONDS:
            yield _stuck(namespace)


def _quota(evidence: Evidence) -> Iterator[Finding]:
    found = list(find_hits(all_messages(evidence), _NAMESPACE))
    if not found:
        return
    headline, step = _forbidden_by(found[0].line)
    yield finding(Code.NAMESPACE_QUOTA, headline, [hit.line for hit in found[:3]], step)


def _forbidden_by(line: str) -> tuple[str, str]:
    """Return what forbids a pod, and what to do about it."""
    if limit := _LIMIT_RANGE.search(line):
        return (
            f"A LimitRange of the namespace forbids the pod: {limit[0]}",
            "Keep within the limits in the pod template, or change them: kubectl describe limitrange.",
        )
    if missing := _UNSTATED.search(line):
        return (
            f"The ResourceQuota {missing['name']} takes only pods that state {missing['what']}",
            "State these in the pod template, or give the namespace a LimitRange with defaults.",
        )
    named = _QUOTA_NAME.search(line)
    headline = "A ResourceQuota of the namespace forbids the pod"
    if named:
        headline = f"The ResourceQuota {named['name']} forbids the pod"
        headline += f": it asks for {named['asked']}" if named["asked"] else ""
        amounts = _QUOTA_AMOUNTS.search(line)
        if amounts and amounts["asked"].isdigit() and amounts["most"].isdigit():
            headline += f", {amounts['used']} of {amounts['most']} are in use"
            if int(amounts["asked"]) > int(amounts["most"]):
                return headline, "Raise the quota of the namespace, or ask for less: one pod is more than all of it."
    return headline, "Raise the quota of the namespace, end other work in it, or ask for less."


_DELETION_SECONDS = 300.0
_APIS = re.compile(r"server APIs: ([\w./, -]{1,200})")
_STEPS = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "an API of the cluster does not answer",
        "kubectl get apiservices: bring the service behind it up, or delete the APIService if its program is gone.",
    ),
    (
        "NamespaceDeletionContentFailure",
        "its contents cannot be deleted",
        "Correct what refuses their deletion: a webhook, a policy, an operator that is gone.",
    ),
    (
        "NamespaceFinalizersRemaining",
        "objects in it wait for their finalizers",
        "See why the controller of that finalizer does not finish; remove it by hand only if that controller is gone.",
    ),
    (
        "NamespaceContentRemaining",
        "there are objects in it",
        "See what keeps them: kubectl api-resources, kubectl get.",
    ),
)
"""Conditions of a namespace that is being deleted: what each is about, and what to do; causes first."""


def _stuck(namespace: KubeObject) -> Finding:
    found = [row for row in _STEPS if namespace.has(row[0])]
    conditions = [condition for row in found if (condition := namespace.condition(row[0]))]
    words = found[0][1] if found else "nothing is reported of what it waits for"
    apis = _APIS.search(conditions[0].message) if conditions else None
    return finding(
        Code.NAMESPACE_STUCK,
        f"Namespace {namespace.name} is being deleted and does not go: {words}"
        + (f" ({apis[1].strip()})" if apis else ""),
        [*(condition.message or condition.reason for condition in conditions), namespace.name],
        found[0][2] if found else "See its conditions: kubectl describe namespace.",
    )
