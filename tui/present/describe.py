"""The `describe` page of an object: identity, conditions, containers, events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from actions.base.untrusted import one_line, plain_text, redact
from actions.base.wording import listed
from actions.fleet.facts import EventFacts
from tui.present.text import age

if TYPE_CHECKING:
    from actions.telemetry.tools.neuron import NeuronListing
    from actions.telemetry.tools.topology import Topology, TopologyDevice
    from actions.telemetry.tools.traffic import Traffic

_Object = Mapping[str, Any]


def object_yaml(document: _Object) -> str:
    """Format an object as YAML, without managed fields, control characters and anything like a credential."""
    import yaml

    metadata = {key: value for key, value in _part(document, "metadata").items() if key != "managedFields"}
    text = yaml.safe_dump({**document, "metadata": metadata}, sort_keys=False, allow_unicode=True, width=120)
    return redact(plain_text(text))


def object_page(document: _Object, events: Iterable[EventFacts], *, now: float, devices: Sequence[str] = ()) -> str:
    """Format the page that `describe` shows.

    Args:
        document: The object as the API returned it.
        events: The object's events, oldest first.
        now: Seconds since the epoch.
        devices: The section about its accelerators, if any.
    """
    sections = [
        _identity(document),
        devices,
        _mapping("Labels", _part(document, "metadata").get("labels")),
        _spec(document),
        _conditions(_part(document, "status")),
        *_containers(document),
        _events(events, now),
    ]
    return redact(plain_text("\n\n".join("\n".join(section) for section in sections if section)))


def _part(document: _Object, name: str) -> _Object:
    """Return a mapping inside an object; empty if it is missing, or null, which some controllers write."""
    return document.get(name) or {}


def topology_section(topology: Topology, traffic: Traffic, *, seen_by: str) -> list[str]:
    """Format how the GPUs of a machine are connected: to each other, to cores and memory, to the nearest cards.

    Args:
        topology: The matrix, or the error in its place.
        traffic: The counters of link errors.
        seen_by: The pod that was asked: it may see only some of its node's GPUs.
    """
    title = f"Device topology, as {seen_by} sees it"
    if topology.error:
        return [title, f"  {one_line(topology.error)}"]
    gpus = [device for device in topology.devices if device.is_gpu]
    rows = [_gpu_row(device, topology) for device in gpus]
    used = {re.sub(r"^NV\d+$", "NV#", link) for device in gpus for link in device.links.values()}
    meanings = [f"  {word}: {meaning}" for word, meaning in topology.legend.items() if word in used]
    return [title, *_table([["GPU", "links", "NUMA", "CPUs", "nearest NIC"], *rows]), *_errors(traffic), *meanings]


def neuron_section(listing: NeuronListing, *, seen_by: str) -> list[str]:
    """Format which Neuron devices of a machine are neighbours, and on which memory.

    Args:
        listing: The devices, or the error in their place.
        seen_by: The pod that was asked: it may see only some of its node's devices.
    """
    title = f"Device topology, as {seen_by} sees it"
    if not listing.devices:
        return [title, f"  {one_line(listing.error)}"]
    rows = [
        [
            f"ND{one.device}",
            ", ".join(f"ND{other}" for other in one.connected) or "-",
            "-" if one.numa is None else str(one.numa),
            "-" if one.cores is None else str(one.cores),
            one.bdf or "-",
        ]
        for one in listing.devices
    ]
    return [title, *_table([["device", "connected to", "NUMA", "cores", "PCI"], *rows])]


_NAMED_CARDS = 4


def _gpu_row(device: TopologyDevice, topology: Topology) -> list[str]:
    from actions.telemetry.tools.topology import gpus_by_link, nearest_cards

    links = "; ".join(f"{word} {_together(names)}" for word, names in gpus_by_link(device))
    word, cards = nearest_cards(device, topology)
    near = f"{word} {listed(cards, _NAMED_CARDS)}" if cards else "-"
    return [device.name, links or "-", device.numa_affinity or "-", device.cpu_affinity or "-", near]


def _together(names: Sequence[str]) -> str:
    """Name GPUs by their numbers, neighbours together: `GPU1–3, GPU6`."""
    numbers = sorted(int(name.removeprefix("GPU")) for name in names if name.removeprefix("GPU").isdigit())
    groups = [list(group) for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    spans = [(group[0][1], group[-1][1]) for group in groups]
    return ", ".join(f"GPU{first}" if first == last else f"GPU{first}–{last}" for first, last in spans)


def _errors(traffic: Traffic) -> list[str]:
    """Name the links with errors since the driver was loaded."""
    lines = []
    for gpu, links in sorted(traffic.link_errors.items()):
        for one in links:
            counts = ", ".join(f"{count} {kind}" for kind, count in one.counts.items())
            lines.append(f"  ▲ GPU{gpu} link {one.link} has errors since its driver was loaded: {counts}")
    return lines


def _identity(document: _Object) -> list[str]:
    metadata, status = _part(document, "metadata"), _part(document, "status")
    owners = ", ".join(f"{owner.get('kind')}/{owner.get('name')}" for owner in metadata.get("ownerReferences") or ())
    pairs = {
        "Name": metadata.get("name"),
        "Namespace": metadata.get("namespace"),
        "Kind": f"{document.get('kind', '')} ({document.get('apiVersion', '')})",
        "Created": metadata.get("creationTimestamp"),
        "Deleting": metadata.get("deletionTimestamp"),
        "Owner": owners,
        "Finalizers": ", ".join(metadata.get("finalizers") or ()),
        "Phase": status.get("phase"),
        "Reason": status.get("reason"),
        "Message": status.get("message"),
    }
    return _pairs(pairs)


def _spec(document: _Object) -> list[str]:
    spec, status = _part(document, "spec"), _part(document, "status")
    selector = spec.get("nodeSelector") or {}
    pairs: dict[str, object] = {
        "Node": spec.get("nodeName"),
        "Node selector": ", ".join(f"{key}={value}" for key, value in selector.items()),
        "Service account": spec.get("serviceAccountName"),
        "Pod IP": status.get("podIP"),
        "QoS class": status.get("qosClass"),
        "Taints": ", ".join(_taint(taint) for taint in spec.get("taints") or () if isinstance(taint, Mapping)),
        "Unschedulable": spec.get("unschedulable"),
    }
    lines = _pairs(pairs)
    return lines + _mapping("Allocatable", status.get("allocatable"))


def _taint(taint: _Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def _conditions(status: _Object) -> list[str]:
    rows = [
        [c.get("type", ""), c.get("status", ""), c.get("reason", ""), one_line(str(c.get("message", "")))]
        for c in status.get("conditions") or ()
        if isinstance(c, Mapping)
    ]
    return ["Conditions", *_table(rows)] if rows else []


def _containers(document: _Object) -> Iterator[list[str]]:
    spec, status = _part(document, "spec"), _part(document, "status")
    states = {
        entry.get("name"): entry
        for field in ("containerStatuses", "initContainerStatuses")
        for entry in status.get(field) or ()
    }
    for title, field in (("Init container", "initContainers"), ("Container", "containers")):
        for container in spec.get(field) or ():
            name = container.get("name", "")
            yield [f"{title} {name}", *_container(container, states.get(name, {}))]


def _container(container: _Object, status: _Object) -> list[str]:
    resources = _part(container, "resources")
    pairs: dict[str, object] = {
        "Image": container.get("image"),
        "Command": " ".join(map(str, [*(container.get("command") or ()), *(container.get("args") or ())])),
        "Requests": _amounts(resources.get("requests")),
        "Limits": _amounts(resources.get("limits")),
        "State": _state(status.get("state")),
        "Last state": _state(status.get("lastState")),
        "Ready": status.get("ready"),
        "Restarts": status.get("restartCount"),
        "Mounts": ", ".join(str(mount.get("mountPath")) for mount in container.get("volumeMounts") or ()),
        "Environment": ", ".join(str(variable.get("name")) for variable in container.get("env") or ()),
    }
    return _pairs(pairs)


def _state(state: object) -> str:
    if not isinstance(state, Mapping) or not state:
        return ""
    word, details = next(iter(state.items()))
    if not isinstance(details, Mapping):
        return str(word)
    parts = [str(details[key]) for key in ("reason", "message", "startedAt", "finishedAt") if details.get(key)]
    if "exitCode" in details:
        parts.insert(0, f"exit code {details['exitCode']}")
    return f"{word}: {', '.join(parts)}" if parts else str(word)


def _events(events: Iterable[EventFacts], now: float) -> list[str]:
    rows = [
        [age(now, event.last_seen_at), event.type, event.reason, f"×{event.count}", event.message] for event in events
    ]
    return ["Events", *(_table(rows) if rows else ["  none"])]


def _amounts(amounts: object) -> str:
    return ", ".join(f"{k}={v}" for k, v in amounts.items()) if isinstance(amounts, Mapping) else ""


def _mapping(title: str, values: object) -> list[str]:
    if not isinstance(values, Mapping) or not values:
        return []
    return [title, *(f"  {key}={value}" for key, value in values.items())]


def _pairs(pairs: Mapping[str, object]) -> list[str]:
    shown = {key: value for key, value in pairs.items() if value not in (None, "", False)}
    width = max((len(key) for key in shown), default=0)
    return [f"  {key:<{width}}  {one_line(str(value), limit=2000)}" for key, value in shown.items()]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
