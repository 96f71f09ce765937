"""The rights of somebody who may look at workloads and change nothing: Kubernetes' own role `view`, bound to `viewer`.

Source: k8s.io/kubernetes `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go`; as there, no Secrets, no nodes.
"""

from __future__ import annotations

from actions.sandbox.actors.kinds import Document

_READ = ["get", "list", "watch"]
_RULES = (
    ("", "configmaps endpoints events limitranges namespaces persistentvolumeclaims pods pods/log pods/status "
         "replicationcontrollers resourcequotas serviceaccounts services"),
    ("apps", "controllerrevisions daemonsets deployments deployments/scale replicasets statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs jobs"),
    ("events.k8s.io", "events"),
    ("kubeflow.org", "mpijobs pytorchjobs"),
    ("networking.k8s.io", "ingresses networkpolicies"),
    ("policy", "poddisruptionbudgets"),
)  # fmt: skip


def viewer_documents() -> list[Document]:
    """The role and its binding."""
    rules = [{"apiGroups": [group], "resources": names.split(), "verbs": _READ} for group, names in _RULES]
    api = "rbac.authorization.k8s.io"
    return [
        {"kind": "ClusterRole", "metadata": {"name": "view"}, "rules": rules},
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "viewer"},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": api, "kind": "User", "name": "viewer"}],
        },
    ]
