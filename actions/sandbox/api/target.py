"""What a request path means."""

from __future__ import annotations

import msgspec

from actions.sandbox.api.resources import Registry, ResourceType
from actions.sandbox.api.status import no_such_path


class Target(msgspec.Struct, frozen=True):
    """A collection (no `name`), an object, or a subresource of one. `namespace` is empty for all of them."""

    resource: ResourceType
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(registry: Registry, path: str) -> Target:
    """Read `/api/v1/namespaces/a/pods/b/log` and its like.

    Raises:
        ApiFault: 404, no such type or subresource is served.
    """
    steps = path.strip("/").split("/")
    if steps[0] == "api":
        group, version, rest = "", steps[1], steps[2:]
    else:
        group, version, rest = steps[1], steps[2], steps[3:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and registry.find(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0]) if rest else None
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if resource.namespaced and name and not namespace:
        raise no_such_path()
    return Target(resource, namespace, name, subresource)
