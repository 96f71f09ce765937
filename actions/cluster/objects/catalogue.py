"""The kinds that a cluster serves, found by any of their names: plural, singular, short, kind, `plural.group`.

Source: k8s.io/api `apidiscovery/v2` (one document for all groups, Kubernetes 1.30; `v2beta1` from 1.26). Which of two
kinds of one name is meant: the core's, then those of `actions.cluster.kinds` in their order, then the first in
discovery, as kubectl's priority mapper does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError, MissingError, nearest_hint
from actions.base.untrusted import one_line
from actions.cluster.auth.session import KubeSession
from actions.cluster.kinds import KINDS
from actions.cluster.objects.client import ApiResource

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
"""Likeness, from 0 to 1, from which a word may have been meant for another."""


class ServedKind(msgspec.Struct, frozen=True):
    """One kind as discovery describes it, in the version that the server prefers.

    Args:
        group: Its API group; empty for the core API.
        version: The preferred version.
        plural: Its name in paths.
        kind: Its name in manifests.
        singular: kubectl's singular; empty if the server names none.
        short_names: Those of kubectl.
        is_namespaced: Its objects are in namespaces.
        verbs: The requests that the server takes.
        subresources: `scale`, `status`…
    """

    group: str
    version: str
    plural: str
    kind: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    is_namespaced: bool = True
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """As in manifests: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> ApiResource:
        """The paths of its objects."""
        return ApiResource(self.api_version, self.kind, self.plural, self.is_namespaced)

    @property
    def qualified(self) -> str:
        """The name that means this kind alone: `pods`, `queues.scheduling.volcano.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def names(self) -> tuple[str, ...]:
        """Every name without its group, in lower case."""
        return tuple(dict.fromkeys(
            name.lower() for name in (self.plural, self.singular, self.kind, *self.short_names) if name
        ))  # fmt: skip


class KindCatalogue:
    """The kinds that can be listed.

    Args:
        kinds: In the order of discovery.
    """

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self.kinds = tuple(sorted((kind for kind in kinds if "list" in kind.verbs), key=_rank))
        self._by_name: dict[str, ServedKind] = {}
        for kind in self.kinds:
            for name in kind.names():
                self._by_name.setdefault(name, kind)
        for kind in self.kinds:
            for name in kind.names() if kind.group else ():
                self._by_name.setdefault(f"{name}.{kind.group}", kind)

    def has(self, word: str) -> bool:
        """Return whether a word means a kind."""
        return word.lower() in self._by_name

    def find(self, word: str) -> ServedKind:
        """Return the kind that a word means.

        Raises:
            MissingError: None; the hint names the nearest ones.
        """
        found = self._by_name.get(word.lower()) or self._by_version(word.lower())
        if found is None:
            hint = nearest_hint(word.lower(), self.words(), ":kinds lists those that there are.")
            raise MissingError(f"The cluster serves no kind {one_line(word)!r}.", hint=hint)
        return found

    def named(self, api_version: str, kind: str) -> ServedKind | None:
        """Return a kind as a manifest or an owner reference names it, in whatever version; `None` if not served."""
        group = api_version.rpartition("/")[0]
        return next((one for one in self.kinds if (one.group, one.kind) == (group, kind)), None)

    def words(self) -> tuple[str, ...]:
        """Return the words for completion: plurals, qualified where the plural alone means another kind."""
        return tuple(sorted(k.plural if self._by_name.get(k.plural) is k else k.qualified for k in self.kinds))

    def _by_version(self, word: str) -> ServedKind | None:
        """Return the kind of `plural.version.group`, as kubectl takes it."""
        name, _, rest = word.partition(".")
        _, _, group = rest.partition(".")
        return self._by_name.get(f"{name}.{group}") if group else None


_ORDER = {(row.group, row.plural): place for place, row in enumerate(KINDS)}


def _rank(kind: ServedKind) -> tuple[int, int]:
    return (0 if not kind.group else 1, _ORDER.get((kind.group, kind.plural), len(_ORDER)))


class _ResponseKind(msgspec.Struct):
    kind: str = ""


class _Subresource(msgspec.Struct):
    subresource: str = ""


class _Described(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = "Namespaced"
    singular_resource: str = ""
    short_names: list[str] | None = None
    verbs: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _DescribedVersion(msgspec.Struct):
    version: str
    resources: list[_Described] | None = None


class _GroupName(msgspec.Struct):
    name: str = ""


class _DescribedGroup(msgspec.Struct):
    metadata: _GroupName | None = None
    versions: list[_DescribedVersion] | None = None


class _Aggregated(msgspec.Struct):
    kind: str = ""
    items: list[_DescribedGroup] | None = None


async def load_catalogue(session: KubeSession) -> KindCatalogue:
    """Ask the cluster for its kinds, by two requests. A group whose server is down may be left out.

    Raises:
        ApiError: The server refused.
        FormatError: The answer is not discovery's.
    """
    core, groups = await asyncio.gather(_roots(session, "/api"), _roots(session, "/apis"))
    return KindCatalogue(_preferred([*_aggregated(core), *_aggregated(groups)]))


async def _roots(session: KubeSession, path: str) -> _Aggregated:
    try:
        roots = decode_json(await session.request("GET", path, accept=_AGGREGATED), _Aggregated)
    except msgspec.DecodeError as error:
        raise FormatError(f"{session.server}{path} did not answer with a list of groups: {error}.") from error
    if roots.kind != "APIGroupDiscoveryList":
        raise FormatError(f"{session.server}{path} has no aggregated discovery: the server is too old, or a proxy.")
    return roots


def _aggregated(roots: _Aggregated) -> Iterator[ServedKind]:
    for group in roots.items or ():
        name = group.metadata.name if group.metadata else ""
        for version in group.versions or ():
            for one in version.resources or ():
                yield ServedKind(
                    group=name,
                    version=version.version,
                    plural=one.resource,
                    kind=one.response_kind.kind if one.response_kind else "",
                    singular=one.singular_resource,
                    short_names=tuple(one.short_names or ()),
                    is_namespaced=one.scope == "Namespaced",
                    verbs=tuple(one.verbs or ()),
                    subresources=tuple(sub.subresource for sub in one.subresources or ()),
                )


def _preferred(kinds: Iterable[ServedKind]) -> Iterator[ServedKind]:
    """Yield each kind once, in the first version of discovery, which is the preferred one."""
    seen: set[tuple[str, str]] = set()
    for kind in kinds:
        if (kind.group, kind.plural) not in seen:
            seen.add((kind.group, kind.plural))
            yield kind
