"""What an object's status says about its work: one verdict per object, from the rules of each kind.

An object that is gone has no verdict here: whether gone means success (a TTL) is known only to who watched it.
"""

from __future__ import annotations

from actions.base.untrusted import one_line
from actions.cluster.jobrules import JOB_RULES
from actions.cluster.readyrules import READY_RULES
from actions.cluster.verdict import Object, Rules, Verdict, WorkState

__all__ = ["Verdict", "WorkState", "verdict_of"]


def verdict_of(document: Object) -> Verdict:
    """The verdict on any object, by its `apiVersion` and `kind`; `UNKNOWN` for kinds without a rule."""
    kind = str(document.get("kind", ""))
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    rule = _RULES.get((group, kind))
    if rule is None:
        return Verdict(WorkState.UNKNOWN, "NoRule", f"No rule for {one_line(kind)} of {one_line(group) or 'v1'}.")
    if (document.get("metadata") or {}).get("deletionTimestamp"):
        status = rule(document)
        return status if status.is_final else Verdict(WorkState.WAITING, "Terminating", "It is being deleted.")
    return rule(document)


def _present(_document: Object) -> Verdict:
    """For kinds that are data: that they exist is all there is to say."""
    return Verdict(WorkState.RUNNING, "Present")


_DATA: Rules = dict.fromkeys(
    (
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("storage.k8s.io", "StorageClass"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
    ),
    _present,
)
_RULES: Rules = {**JOB_RULES, **READY_RULES, **_DATA}
