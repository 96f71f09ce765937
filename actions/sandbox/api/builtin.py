"""The built-in types of a Kubernetes 1.34 that this cluster serves.

Source: `kubectl api-resources` of a 1.34 API server; types of groups that nothing here uses are left out.
"""

from __future__ import annotations

from actions.sandbox.api.resources import ResourceType

_STATUS = ("status",)
_SCALED = ("status", "scale")
_REVIEW = ("create",)
_READ = ("get", "list", "watch")


def _core() -> list[ResourceType]:
    def core(
        plural: str, kind: str, *short: str, namespaced: bool = True, sub: tuple[str, ...] = (), all_: bool = False
    ) -> ResourceType:
        return ResourceType("", "v1", plural, kind, namespaced, short, ("all",) if all_ else (), sub)

    return [
        core("namespaces", "Namespace", "ns", namespaced=False, sub=_STATUS),
        core("nodes", "Node", "no", namespaced=False, sub=_STATUS),
        core(
            "pods",
            "Pod",
            "po",
            sub=("status", "log", "attach", "exec", "portforward", "binding", "eviction"),
            all_=True,
        ),
        core("services", "Service", "svc", sub=_STATUS, all_=True),
        core("endpoints", "Endpoints", "ep"),
        core("events", "Event", "ev"),
        core("configmaps", "ConfigMap", "cm"),
        core("secrets", "Secret"),
        core("serviceaccounts", "ServiceAccount", "sa"),
        core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", sub=_STATUS),
        core("persistentvolumes", "PersistentVolume", "pv", namespaced=False, sub=_STATUS),
        core("replicationcontrollers", "ReplicationController", "rc", sub=_SCALED, all_=True),
        core("resourcequotas", "ResourceQuota", "quota", sub=_STATUS),
        core("limitranges", "LimitRange", "limits"),
        core("podtemplates", "PodTemplate"),
    ]


def _workloads() -> list[ResourceType]:
    def apps(plural: str, kind: str, *short: str, sub: tuple[str, ...] = _SCALED) -> ResourceType:
        categories = () if plural == "controllerrevisions" else ("all",)
        return ResourceType("apps", "v1", plural, kind, True, short, categories, sub)

    return [
        apps("deployments", "Deployment", "deploy"),
        apps("replicasets", "ReplicaSet", "rs"),
        apps("statefulsets", "StatefulSet", "sts"),
        apps("daemonsets", "DaemonSet", "ds", sub=_STATUS),
        apps("controllerrevisions", "ControllerRevision", sub=()),
        ResourceType("batch", "v1", "jobs", "Job", True, (), ("all",), _STATUS),
        ResourceType("batch", "v1", "cronjobs", "CronJob", True, ("cj",), ("all",), _STATUS),
        ResourceType(
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            True,
            ("hpa",),
            ("all",),
            _STATUS,
        ),
    ]


def _cluster_services() -> list[ResourceType]:
    def served(group: str, version: str, plural: str, kind: str, *short: str, namespaced: bool = False,
               sub: tuple[str, ...] = ()) -> ResourceType:  # fmt: skip
        return ResourceType(group, version, plural, kind, namespaced, short, (), sub)

    rbac, storage = "rbac.authorization.k8s.io", "storage.k8s.io"
    admission = "admissionregistration.k8s.io"
    return [
        ResourceType("events.k8s.io", "v1", "events", "Event", short_names=("ev",), verbs=_READ, home=""),
        served(rbac, "v1", "roles", "Role", namespaced=True),
        served(rbac, "v1", "rolebindings", "RoleBinding", namespaced=True),
        served(rbac, "v1", "clusterroles", "ClusterRole"),
        served(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding"),
        served(storage, "v1", "storageclasses", "StorageClass", "sc"),
        served(storage, "v1", "csidrivers", "CSIDriver"),
        served(storage, "v1", "csinodes", "CSINode"),
        served(storage, "v1", "volumeattachments", "VolumeAttachment", sub=_STATUS),
        served("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True),
        served("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", namespaced=True, sub=_STATUS),
        served("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc"),
        served("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol", namespaced=True),
        served("networking.k8s.io", "v1", "ingresses", "Ingress", "ing", namespaced=True, sub=_STATUS),
        served("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True),
        served("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass"),
        served(admission, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        served(admission, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        served("apiregistration.k8s.io", "v1", "apiservices", "APIService", sub=_STATUS),
        served(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            "crd",
            "crds",
            sub=_STATUS,
        ),
    ]


def _reviews() -> list[ResourceType]:
    authorization, authentication = "authorization.k8s.io", "authentication.k8s.io"
    return [
        ResourceType(authorization, "v1", plural, kind, namespaced, verbs=_REVIEW)
        for plural, kind, namespaced in (
            ("selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
            ("selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
            ("subjectaccessreviews", "SubjectAccessReview", False),
            ("localsubjectaccessreviews", "LocalSubjectAccessReview", True),
        )
    ] + [ResourceType(authentication, "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=_REVIEW)]


def builtin_types() -> list[ResourceType]:
    """Every built-in type, in the order in which discovery lists them."""
    return _core() + _workloads() + _cluster_services() + _reviews()
