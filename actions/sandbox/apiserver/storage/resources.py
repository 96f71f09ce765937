"""The resource types that the server serves: those built into Kubernetes 1.34, and those that CRDs add while it runs.

Source: `kubectl api-resources` of a 1.34 API server; types of groups that nothing in the sandbox uses are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from actions.sandbox.apiserver.storage.codec import Object, dig

OBJECT_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class GroupResource(NamedTuple):
    """The key under which the store files objects: all versions of a type share it."""

    group: str
    plural: str


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A served version of a type.

    `schema` is the `openAPIV3Schema` of a custom resource, empty for built-in types. `columns` are the CRD's
    `additionalPrinterColumns`. `subresources` are names without the parent, e.g. `status`.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = OBJECT_VERBS
    singular: str = ""
    is_custom: bool = False
    schema: Object = field(default_factory=dict, compare=False, repr=False)
    columns: tuple[Object, ...] = field(default=(), compare=False, repr=False)

    @property
    def key(self) -> GroupResource:
        return GroupResource(self.group, self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_plural(self) -> str:
        """`pods`, `jobs.batch`: as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


class Registry:
    """Every type served at this moment.

    `revision` grows with every change, so that what is derived from the registry can be cached.
    """

    def __init__(self, types: Iterable[ServedResource]) -> None:
        self._types: dict[tuple[str, str, str], ServedResource] = {}
        self.revision = 0
        for resource in types:
            self.add(resource)

    def add(self, resource: ServedResource) -> None:
        """Serve a type, or serve it differently."""
        self._types[resource.group, resource.version, resource.plural] = resource
        self.revision += 1

    def drop(self, key: GroupResource) -> None:
        """Serve no version of a type any more."""
        for path in [path for path in self._types if path[0] == key.group and path[2] == key.plural]:
            del self._types[path]
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """The type under a path, or `None`."""
        return self._types.get((group, version, plural))

    def any_version(self, key: GroupResource) -> ServedResource | None:
        """Some served version of a type, or `None`."""
        return next((resource for resource in self if resource.key == key), None)

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(tuple(self._types.values()))

    def of(self, group: str, version: str) -> list[ServedResource]:
        """Every type of a group version, in order of registration."""
        return [resource for resource in self if resource.group == group and resource.version == version]

    def groups(self) -> dict[str, list[str]]:
        """The versions of every group, the preferred one first; the core group is `""`."""
        found: dict[str, list[str]] = {}
        for resource in self:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return {group: sorted(versions, key=version_priority, reverse=True) for group, versions in found.items()}


def version_priority(version: str) -> tuple[int, int, int]:
    """Order of API versions: v2 over v1 over v1beta2 over v1beta1 over v1alpha1; other names last.

    Source: k8s.io/apimachinery `version.CompareKubeAwareVersionStrings`.
    """
    head, stage, minor = version, 2, "0"
    for level, word in ((1, "beta"), (0, "alpha")):
        if word in version:
            head, _, minor = version.partition(word)
            stage = level
    major = head.removeprefix("v")
    if not version.startswith("v") or not major.isdigit() or not minor.isdigit():
        return (-1, 0, 0)
    return (stage, int(major), int(minor))


_STATUS = ("status",)
_SCALED = ("status", "scale")
_REVIEW = ("create",)
_READ = ("get", "list", "watch")


def _core() -> list[ServedResource]:
    def core(
        plural: str, kind: str, *short: str, namespaced: bool = True, sub: tuple[str, ...] = (), all_: bool = False
    ) -> ServedResource:
        return ServedResource("", "v1", plural, kind, namespaced, short, ("all",) if all_ else (), sub)

    return [
        core("namespaces", "Namespace", "ns", namespaced=False, sub=_STATUS),
        core("nodes", "Node", "no", namespaced=False, sub=_STATUS),
        core(
            "pods",
            "Pod",
            "po",
            sub=("status", "log", "exec", "portforward", "binding", "eviction"),
            all_=True,
        ),
        core("services", "Service", "svc", sub=_STATUS, all_=True),
        core("events", "Event", "ev"),
        core("configmaps", "ConfigMap", "cm"),
        core("secrets", "Secret"),
        core("serviceaccounts", "ServiceAccount", "sa"),
        core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", sub=_STATUS),
        core("persistentvolumes", "PersistentVolume", "pv", namespaced=False, sub=_STATUS),
        core("resourcequotas", "ResourceQuota", "quota", sub=_STATUS),
    ]


def _workloads() -> list[ServedResource]:
    def apps(plural: str, kind: str, *short: str, sub: tuple[str, ...] = _SCALED) -> ServedResource:
        return ServedResource("apps", "v1", plural, kind, True, short, ("all",), sub)

    return [
        apps("deployments", "Deployment", "deploy"),
        apps("replicasets", "ReplicaSet", "rs"),
        apps("statefulsets", "StatefulSet", "sts"),
        apps("daemonsets", "DaemonSet", "ds", sub=_STATUS),
        ServedResource("batch", "v1", "jobs", "Job", True, (), ("all",), _STATUS),
        ServedResource("batch", "v1", "cronjobs", "CronJob", True, ("cj",), ("all",), _STATUS),
    ]


def _cluster_services() -> list[ServedResource]:
    def served(group: str, version: str, plural: str, kind: str, *short: str, namespaced: bool = False,
               sub: tuple[str, ...] = ()) -> ServedResource:  # fmt: skip
        return ServedResource(group, version, plural, kind, namespaced, short, (), sub)

    rbac, storage = "rbac.authorization.k8s.io", "storage.k8s.io"
    admission = "admissionregistration.k8s.io"
    return [
        served(rbac, "v1", "roles", "Role", namespaced=True),
        served(rbac, "v1", "rolebindings", "RoleBinding", namespaced=True),
        served(rbac, "v1", "clusterroles", "ClusterRole"),
        served(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding"),
        served(storage, "v1", "storageclasses", "StorageClass", "sc"),
        served("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True),
        served("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", namespaced=True, sub=_STATUS),
        served("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc"),
        served("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True),
        served(admission, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        served(admission, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
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


def _reviews() -> list[ServedResource]:
    authorization, authentication = "authorization.k8s.io", "authentication.k8s.io"
    return [
        ServedResource(
            authorization, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=_REVIEW
        ),
        ServedResource(authentication, "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=_REVIEW),
    ]


def builtin_types() -> list[ServedResource]:
    """Every built-in type, in the order in which discovery lists them."""
    return _core() + _workloads() + _cluster_services() + _reviews()


CRD_KEY = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")


def key_of_definition(crd: Object) -> GroupResource:
    """Return the key under which the instances of a CRD are filed."""
    return GroupResource(crd["spec"]["group"], crd["spec"]["names"]["plural"])


def types_of(crd: Object) -> Iterator[ServedResource]:
    """Every version that a CRD serves."""
    spec = crd["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served", True):
            continue
        yield ServedResource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            spec.get("scope") == "Namespaced",
            tuple(names.get("shortNames") or ()),
            tuple(names.get("categories") or ()),
            ("status",) if "status" in (version.get("subresources") or {}) else (),
            singular=names.get("singular") or names["kind"].lower(),
            is_custom=True,
            schema=dig(version, "schema", "openAPIV3Schema") or {},
            columns=tuple(version.get("additionalPrinterColumns") or ()),
        )


def register_definition(registry: Registry, crd: Object) -> None:
    """Serve the versions that the CRD declares, and no others of its type."""
    registry.drop(key_of_definition(crd))
    for resource in types_of(crd):
        registry.add(resource)


def complete_definition(crd: Object, *, now: str) -> None:
    """Fill in the names that a CRD may leave out, and its status: accepted and established."""
    names = crd["spec"]["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", names["kind"] + "List")
    crd["spec"].setdefault("conversion", {"strategy": "None"})
    status = crd.setdefault("status", {})
    status["acceptedNames"] = names
    stored = [version["name"] for version in crd["spec"]["versions"] if version.get("storage")]
    status.setdefault("storedVersions", stored)
    if not status.get("conditions"):
        status["conditions"] = [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ]


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
