"""The pods that an object asks for, by the places that the table of kinds has for their templates.

Paths lead from the object to a place in it. Nothing is guessed: what is not in the object has no place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from actions.cluster.kinds import PodsAt, find_kind

Place = tuple[str | int, ...]
_LEADS = frozenset({"launcher", "master", "chief", "head", "submitter", "leader", "evaluator", "coordinator", "driver"})
"""Roles of which a job has one."""
_IN_LIST = ("name", "groupName")
"""The names of items of lists."""


class PodRole(msgspec.Struct, frozen=True):
    """The pods of a job that are made alike.

    Args:
        name: `worker`, `launcher`; of a job with one role its kind.
        path: Of the mapping that has `spec` with containers, or of Trainer's `trainer`, which is like a container.
        template: That mapping; of a `trainer` one with it as the only container.
        counts: Paths of the fields that say how many there are, all with the same number; none where no field does.
        count: That number.
        low, high: Its bounds by other fields; `None` for none.
        total: All of its pods.
        least: As many of them as the job needs to run.
    """

    name: str
    path: Place
    template: Mapping[str, Any]
    counts: tuple[Place, ...] = ()
    count: int = 1
    low: int | None = None
    high: int | None = None
    total: int = 1
    least: int = 1

    @property
    def spec(self) -> Mapping[str, Any]:
        """The pod spec."""
        found: Mapping[str, Any] = self.template["spec"]
        return found

    @property
    def is_template(self) -> bool:
        """False of Trainer's `trainer`, whose pods are made of another object's template."""
        return self.path[-1:] != ("trainer",)

    @property
    def is_lead(self) -> bool:
        """True if a job has one such pod."""
        return self.name in _LEADS

    def containers(self) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        """Yield the containers with their paths, those that run beside the first one too."""
        for index, container in enumerate(self.spec["containers"]):
            if isinstance(container, dict):
                yield (*self.path, "spec", "containers", index) if self.is_template else self.path, container


def pod_roles(manifest: Mapping[str, Any]) -> Iterator[PodRole]:
    """Yield the roles of an object's pods; none if its kind has none.

    Raises:
        ValueError: A number of pods is not one, with its path.
    """
    row = find_kind(str(manifest.get("kind")), str(manifest.get("apiVersion")).rpartition("/")[0])
    for pods in row.pods if row is not None else ():
        for path, name in _places(manifest, pods.template.split("."), (), ""):
            template = at(manifest, path)
            if pods.is_container:
                container = {"name": "node", **template, "resources": template.get("resourcesPerNode") or {}}
                template = {"spec": {"containers": [container]}}
            if isinstance(at(template, ("spec", "containers")), list):
                title = pods.role or name.lower() or str(manifest["kind"]).lower()
                yield _counted(manifest, pods, PodRole(title, path, template))


def _places(node: Any, steps: Sequence[str], path: Place, name: str) -> Iterator[tuple[Place, str]]:
    """Yield the paths of mappings that steps lead to, and the names of what `*` stands for in each."""
    if not steps:
        if isinstance(node, dict):
            yield path, name
        return
    if steps[0] != "*":
        if isinstance(node, dict):
            yield from _places(node.get(steps[0]), steps[1:], (*path, steps[0]), name)
        return
    is_named = isinstance(node, dict)
    for key, item in node.items() if is_named else enumerate(node if isinstance(node, list) else ()):
        field = next((field for field in _IN_LIST if isinstance(item, dict) and item.get(field)), "")
        title = key if is_named else item[field] if field else "worker"
        yield from _places(item, steps[1:], (*path, key), str(title))


def _counted(manifest: Mapping[str, Any], pods: PodsAt, role: PodRole) -> PodRole:
    base = role.path if pods.is_container else role.path[:-1]
    depth = pods.template.split(".").index("*") + 1 if "*" in pods.template else 0
    outer = (*role.path[:depth], pods.groups) if depth else tuple(pods.groups.split("."))
    groups = _number(manifest, outer) if pods.groups else None
    values = {(*base, field): _number(manifest, (*base, field)) for field in pods.counts}
    count = next((value for value in values.values() if value is not None), None)
    is_less = pods.but_for != "" and at(manifest, tuple(pods.but_for.split("."))) is not None
    each = (1 if count is None else count) - is_less
    if groups is not None and (count is None or count <= 1):
        values, count = {outer: groups}, groups  # what makes more of them
    total = each * (1 if groups is None else groups)
    low, high = (_bound(manifest, base, field) for field in pods.bounds)
    least = total if pods.least is None else min(total, pods.least * (each if pods.groups else 1))
    return msgspec.structs.replace(
        role,
        counts=tuple(place for place, value in values.items() if value is not None and value == count),
        count=1 if count is None else count,
        low=low if low is not None and count is not None and low < count else None,
        high=high if high is not None and count is not None and high > count else None,
        total=total,
        least=least if low is None else min(total, low),
    )


def _bound(manifest: Mapping[str, Any], base: Place, field: str) -> int | None:
    path = tuple(field.split(".")) if field.startswith("spec.") else (*base, field)
    value = at(manifest, path) if field else None
    return value if isinstance(value, int) else None


def _number(manifest: Mapping[str, Any], path: Place) -> int | None:
    value = at(manifest, path)
    if isinstance(value, int | None) and not isinstance(value, bool):
        return value
    raise ValueError(f"{place_text(path)} is {str(value)[:60]!r}, which is not a number")


def at(node: Any, path: Place) -> Any:
    """Return what stands at a path; `None` if nothing does."""
    for step in path:
        is_there = step in node if isinstance(node, dict) else isinstance(step, int) and step < len(node or ())
        if not is_there:
            return None
        node = node[step]
    return node


def place_text(path: Place) -> str:
    """Return a path as a target writes it: `spec.template.spec.containers[0].image`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (f'"{step}"' if any(letter in step for letter in '."[]') else step)
    return text
