"""Resources as `kubectl describe node` lists them, also if copied out of another console.

Source: Kubernetes 1.27 to 1.33 `kubectl describe`; k9s draws a frame around it; `docs/facts/nodes.md#resources`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from actions.base.untrusted import cleaned
from actions.fleet.quantity import parse_quantity
from actions.telemetry.log_records import strip_controls

_SECTION = re.compile(r"^([Cc]apacity|[Aa]llocatable):$")
"""In YAML they begin with a small letter."""
_OTHER = re.compile(r"^(?:[A-Z][\w ()-]{0,60}:|[\w-]{1,60}:$)")
_NAME = re.compile(r"^Name:\s{1,40}(\S{1,253})$")
_AMOUNT = re.compile(r"^([a-z0-9][\w./-]{0,250}):\s{1,60}\"?([-+]?\d[\w.]{0,40})\"?$")
_FRAME = "│|┃║ \t"


class NodeListing(msgspec.Struct, frozen=True, gc=False):
    """The resources of one node."""

    name: str = ""
    sections: dict[str, dict[str, str]] = {}
    """`Capacity` and `Allocatable`, those that are there: amounts as written, by resource."""

    def amount(self, section: str, resource: str) -> float | None:
        """Return an amount in its base unit (cores, bytes, devices); `None` if the listing does not have it."""
        text = self.sections.get(section, {}).get(resource)
        return None if text is None else quantity_of(text)


def quantity_of(text: str) -> float | None:
    """Return a quantity of Kubernetes in its base unit; `None` if it is not one."""
    try:
        return parse_quantity(text)
    except ValueError:
        return None


def is_node_listing(text: str) -> bool:
    """Return whether `text` has such sections."""
    return any(_SECTION.match(line.strip(_FRAME)) for line in text.splitlines()) or _is_json(text)


def read_node_listing(text: str) -> list[NodeListing]:
    """Read the nodes that are described, or that `kubectl get nodes -o json` printed."""
    if _is_json(text):
        return _read_json(text)
    nodes: list[NodeListing] = []
    section: dict[str, str] | None = None
    for line in (strip_controls(each).strip(_FRAME) for each in text.splitlines()):
        if name := _NAME.match(line):
            nodes.append(NodeListing(name[1], {}))
            section = None
        elif head := _SECTION.match(line):
            title = head[1].capitalize()
            if not nodes or (title in nodes[-1].sections):
                nodes.append(NodeListing("", {}))
            section = nodes[-1].sections.setdefault(title, {})
        elif amount := _AMOUNT.match(line):
            if section is not None and quantity_of(amount[2]) is not None:
                section[amount[1]] = amount[2]
        elif _OTHER.match(line):
            section = None
    return [node for node in nodes if node.sections]


def _is_json(text: str) -> bool:
    start = text.lstrip()[:1]
    return start == "{" and '"allocatable"' in text


def _read_json(text: str) -> list[NodeListing]:
    try:
        parsed = cleaned(json.loads(text))
    except (ValueError, RecursionError):
        return []
    items = parsed.get("items") if isinstance(parsed, Mapping) else None
    found = items if isinstance(items, list) else [parsed]
    return [node for node in map(_node_of, found) if node.sections]


def _node_of(item: Any) -> NodeListing:
    metadata, status = (item.get(key) if isinstance(item, Mapping) else None for key in ("metadata", "status"))
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    sections = {}
    for title in ("Capacity", "Allocatable"):
        amounts = status.get(title.lower()) if isinstance(status, Mapping) else None
        if isinstance(amounts, Mapping):
            sections[title] = {key: str(value) for key, value in amounts.items() if isinstance(value, str | int)}
    return NodeListing(name if isinstance(name, str) else "", sections)
