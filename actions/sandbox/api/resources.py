"""The types that the server serves: built-in ones, and those that CRDs add while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from actions.sandbox.api.codec import Object

OBJECT_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class GroupResource(NamedTuple):
    """What the store files objects under: all versions of a type share it."""

    group: str
    plural: str


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One served version of one type.

    `schema` is the `openAPIV3Schema` of a custom resource, empty for built-in types. `columns` are the CRD's
    `additionalPrinterColumns`. `subresources` are names without the parent, e.g. `status`. `home` is the group under
    which its objects are filed, where that is not its own: `-` stands for the type's own group.
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
    home: str = "-"
    schema: Object = field(default_factory=dict, compare=False, repr=False)
    columns: tuple[Object, ...] = field(default=(), compare=False, repr=False)

    @property
    def key(self) -> GroupResource:
        return GroupResource(self.group if self.home == "-" else self.home, self.plural)

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

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types: dict[tuple[str, str, str], ResourceType] = {}
        self.revision = 0
        for resource in types:
            self.add(resource)

    def add(self, resource: ResourceType) -> None:
        """Serve a type, or serve it differently."""
        self._types[resource.group, resource.version, resource.plural] = resource
        self.revision += 1

    def drop(self, key: GroupResource) -> None:
        """Serve no version of a type any more."""
        for path in [path for path in self._types if path[0] == key.group and path[2] == key.plural]:
            del self._types[path]
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The type under a path, or `None`."""
        return self._types.get((group, version, plural))

    def any_version(self, key: GroupResource) -> ResourceType | None:
        """Some served version of a type, or `None`."""
        return next((resource for resource in self if resource.key == key), None)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(tuple(self._types.values()))

    def of(self, group: str, version: str) -> list[ResourceType]:
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
