"""The reader of evidence: the samples' own JSON, the output of `kubectl get … -o json`, or text as it was printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import InputError
from actions.cluster.diagnose.evidence import (
    Evidence,
    Log,
    clean_json,
    device_drivers_of,
    event_of,
    gpu_of,
    mapping,
    mappings,
    node_of,
    number,
    object_of,
    pod_of,
    text,
)
from actions.cluster.kinds import JOB_NAMES

_PARTS = frozenset(
    {"pods", "nodes", "events", "logs", "job", "jobs", "nodeclaim", "nodeclaims", "workload", "workloads", "gpus"}
) | {"pvcs", "podgroups", "podgroup", "last_log_age_s"}
_YAML = re.compile(rb"\s{0,80}(?:---\s|(?:apiVersion|kind|items):[ \n]|- apiVersion:)")
_JSON = re.compile(rb"\s{0,80}(?:\{\s{0,80}(?:\"|\}|$)|\[\s{0,80}(?:[\[{\"\]]|$))")
"""The beginning of JSON: a log may begin with a bracket too."""
_YAML_LIMIT = 8 << 20
_LOG_LIMIT = 2 << 20
_LINE_LIMIT = 4000
_LONG_LINE = re.compile(rf"[^\n]{{{_LINE_LIMIT + 1}}}")


def parse_evidence(data: bytes, *, source: str = "") -> tuple[Evidence, bool]:
    """Read captured evidence.

    Args:
        data: Text as kubectl prints it for people, a log, or JSON: an object with any of `pods nodes events logs job
            nodeclaim workload gpus last_log_age_s`, a Kubernetes List of mixed kinds, an array of objects, or one
            object; or several of these objects and Lists, one after the other. Objects and Lists may also be YAML.
        source: The file, for the message.

    Returns:
        The evidence, and whether all of it is about one fault, as in the samples, but not in a list of a whole cluster.

    Raises:
        InputError: It is damaged JSON, not a text, or has none of these parts.
    """
    if not data.strip():
        raise InputError("It is empty.", file=source, hint="Check that the command before it prints something.")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        document = _several(data) or _of_yaml(data, source)
        if not document and not _JSON.match(data) and (paste := _of_text(data)):
            return paste
        if not document:
            raise InputError(f"This is not JSON: {error}.", file=source, hint="Use kubectl get … -o json.") from error
    document = clean_json(document)
    if isinstance(document, Mapping) and _PARTS & document.keys() and "kind" not in document:
        return _sample(document), True
    objects = list(_objects(document))
    is_list = document == [] or isinstance(mapping(document).get("items"), list)
    if not objects and isinstance(document, list) and data.lstrip()[:1] == b"{" and (paste := _of_text(data)):
        return paste  # a log of JSON lines
    if not objects and not is_list:
        raise InputError(
            "There is no Kubernetes object in it, and none of pods, nodes, events, logs, job.",
            file=source,
            hint="Give it what kubectl get pods,nodes,events -o json prints.",
        )
    evidence = evidence_of(objects)
    return replace(evidence, taken_at=evidence.now), False


def _several(data: bytes) -> list[Any]:
    """Read the documents of several answers of kubectl, one after the other; none if it is anything else."""
    decoder, found, at = json.JSONDecoder(), list[Any](), 0
    text = data.decode("utf-8", "replace").strip()
    while at < len(text):
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        found.append(document)
        at = end
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def _of_yaml(data: bytes, source: str) -> Any:
    """Read what `kubectl get -o yaml` prints: one document, or a list of several; `None` for other texts."""
    if not _YAML.match(data):
        return None
    from actions.base.yamldoc import load_documents  # not imported for JSON, which nearly all input is

    found = [document.value for document in load_documents(data, file=source, limit_bytes=_YAML_LIMIT)]
    return found[0] if len(found) == 1 else found


def _of_text(data: bytes) -> tuple[Evidence, bool] | None:
    """Read what people copy from a terminal; `None` for bytes that are not a text."""
    text = data.decode("utf-8", "replace").strip("\ufeff\r\n")
    if not text.strip() or "\x00" in text:
        return None
    from actions.cluster.diagnose.pasted import UNNAMED, read_paste  # not imported for JSON

    paste = read_paste(clean_json(text), now=SystemClock().now().timestamp())
    evidence = evidence_of(paste.documents)
    is_one = len(evidence.pods) + len(evidence.jobs) < 2
    whose = "" if is_one else UNNAMED  # of a log that may be of any pod, nothing could be told apart
    texts = ((log_text("\n".join(lines)), pod or whose) for pod, lines in paste.logs.items())
    logs = tuple(Log(found, pod) for found, pod in texts if found.strip())
    return replace(evidence, logs=logs, paste=paste.summary, taken_at=evidence.now), is_one


def _sample(document: Mapping[str, Any]) -> Evidence:
    jobs = [*mappings(document.get("job")), *mappings(document.get("jobs"))]
    claims = [*mappings(document.get("nodeclaim")), *mappings(document.get("nodeclaims"))]
    queued = [*mappings(document.get("workload")), *mappings(document.get("workloads"))]
    gpus = document.get("gpus")
    gangs = [*mappings(document.get("podgroup")), *mappings(document.get("podgroups"))]
    return Evidence(
        pods=tuple(map(pod_of, _entries(document.get("pods")))),
        nodes=tuple(map(node_of, _entries(document.get("nodes")))),
        events=tuple(map(event_of, _entries(document.get("events")))),
        logs=tuple(_logs(document.get("logs"))),
        jobs=tuple(map(object_of, jobs)),
        node_claims=tuple(map(object_of, claims)),
        volume_claims=tuple(map(object_of, _entries(document.get("pvcs")))),
        queued=tuple(map(object_of, queued)),
        gangs=tuple(map(object_of, gangs)),
        namespaces=tuple(map(object_of, _entries(document.get("namespaces")))),
        device_drivers=device_drivers_of(_entries(document.get("resourceslices"))),
        gpus=tuple(map(gpu_of, mappings(mapping(gpus).get("gpus", gpus)))),
        last_log_age_s=number(document.get("last_log_age_s")),
    )


def _entries(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, of a Kubernetes List, or a single one."""
    return mappings(mapping(value).get("items", value))


def log_text(text: str) -> str:
    """Return the end of a log, of very long lines only both ends; the rest is unchanged."""
    text = text[-_LOG_LIMIT:]
    if not _LONG_LINE.search(text):
        return text
    half = _LINE_LIMIT // 2
    lines = (line if len(line) <= _LINE_LIMIT else f"{line[:half]}\n{line[-half:]}" for line in text.split("\n"))
    return "\n".join(lines)


def _logs(value: Any) -> Iterator[Log]:
    """Read logs from a text, a list of texts or lines, or texts by pod."""
    if isinstance(value, str):
        yield Log(log_text(value))
    elif isinstance(value, Mapping):
        for pod, part in value.items():
            yield from (Log(log.text, text(pod).rpartition("/")[2]) for log in _logs(part))
    elif isinstance(value, list) and value:
        lines = "\n".join(text(mapping(entry).get("text", entry)) for entry in value)
        yield Log(log_text(lines))


def _objects(document: Any) -> Iterator[Mapping[str, Any]]:
    for entry in mappings(document):
        if isinstance(entry.get("items"), list):
            kind = text(entry.get("kind")).removesuffix("List")
            yield from ({"kind": kind, **item} for item in mappings(entry["items"]))
        elif entry.get("kind") or entry.get("metadata"):
            yield entry


def evidence_of(objects: Iterable[Mapping[str, Any]], *, logs: Iterable[Log] = (), taken_at: float = 0.0) -> Evidence:
    """Make evidence of cleaned Kubernetes objects of any kinds; kinds that no rule reads are left out."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for entry in objects:
        kinds.setdefault(text(entry.get("kind")), []).append(entry)
    workloads = kinds.get("Workload", [])
    return Evidence(
        pods=tuple(map(pod_of, kinds.get("Pod", ()))),
        nodes=tuple(map(node_of, kinds.get("Node", ()))),
        events=tuple(map(event_of, kinds.get("Event", ()))),
        logs=tuple(logs),
        jobs=tuple(object_of(entry) for kind in sorted(JOB_NAMES) for entry in kinds.get(kind, ())),
        node_claims=tuple(map(object_of, kinds.get("NodeClaim", ()))),
        volume_claims=tuple(map(object_of, kinds.get("PersistentVolumeClaim", ()))),
        queued=tuple(map(object_of, workloads)),
        gangs=tuple(map(object_of, kinds.get("PodGroup", ()))),
        namespaces=tuple(map(object_of, kinds.get("Namespace", ()))),
        others=tuple(object_of(entry) for kind in ("NodePool", "EC2NodeClass") for entry in kinds.get(kind, ())),
        device_drivers=device_drivers_of(kinds.get("ResourceSlice", ())),
        taken_at=taken_at,
    )
