"""The surroundings of a run, for an archive: versions, settings, names of variables, nodes and pods."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from actions.base.decoding import json_document
from actions.base.errors import ConsoleError, MissingError
from actions.base.files import config_folder, filesystem_type, free_bytes, read_file
from actions.base.process import run_briefly
from actions.cluster.auth.session import KubeSession
from actions.cluster.state.listing import fetch_events, fetch_nodes, fetch_pods
from actions.fleet.facts import EventFacts, NodeFacts, PodFacts
from actions.run.journal.folder import runs_folder
from actions.run.state.view import RunView
from actions.terraform.program import find_program

_LIBRARIES = (
    "textual", "rich", "kubernetes", "boto3", "botocore", "python-terraform", "pyyaml", "plotext", "msgspec", "aiohttp",
    "httptools", "pydantic", "pyte", "protobuf", "cryptography", "google-re2",
)  # fmt: skip
_TOOL_SECONDS = 5.0
_SETTINGS_BYTES = 1 << 20
"""A settings file is far smaller."""
_TERMINAL = ("TERM", "TERM_PROGRAM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "TMUX", "SSH_TTY")
"""Variables whose values are shown: they name the terminal, and no secret."""


def versions_text(program_version: str) -> str:
    """Return versions of the program, Python, its libraries and this machine, one a line."""
    kernel = os.uname()
    lines = [
        f"eksml-tui {program_version}",
        f"python {sys.version.split()[0]} ({sys.implementation.name})",
        f"system {kernel.sysname} {kernel.release} {kernel.machine}",
    ]
    for name in _LIBRARIES:
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name} is not installed")
    program = find_program()
    terraform = run_briefly([str(program), "version"], seconds=_TOOL_SECONDS) if program else ""
    lines.append(terraform.splitlines()[0] if terraform else "terraform is not on PATH, or does not answer")
    store = runs_folder()
    while not store.exists():
        store = store.parent
    lines.append(f"runs on {filesystem_type(store) or 'an unknown file system'}, {free_bytes(store) >> 20} MiB free")
    lines += [f"{name}={os.environ[name]}" for name in _TERMINAL if name in os.environ]
    return "\n".join(lines) + "\n"


def settings_text() -> str:
    """Return the operator's settings file.

    Raises:
        MissingError: There is none.
    """
    file = config_folder() / "config.yaml"
    try:
        return read_file(file, _SETTINGS_BYTES, is_cut=True).decode(errors="replace")
    except OSError as error:
        raise MissingError(f"There is no settings file ({error.strerror}).") from error


def variable_names(environment: Mapping[str, str]) -> str:
    """Return the names of variables, without their values, one a line."""
    return "".join(f"{name}\n" for name in sorted(environment))


async def cluster_text(session: KubeSession, view: RunView | None) -> str:
    """Return the facts of a cluster as JSON: its version, nodes, the run's pods, warnings about them.

    A part that is forbidden is a sentence in its place.

    Raises:
        ConsoleError: The server does not answer.
    """
    document: dict[str, Any] = {"version": await session.get("/version")}
    pods: list[PodFacts] = []
    try:
        document["nodes"] = [_node(node) for node in (await fetch_nodes(session)).nodes]
    except ConsoleError as error:
        document["nodes"] = error.sentence()
    try:
        pods = [pod for pod in await fetch_pods(session) if view is None or pod.run == view.id]
        document["pods"] = [_pod(pod) for pod in pods]
    except ConsoleError as error:
        document["pods"] = error.sentence()
    try:
        document["events"] = _warnings(await fetch_events(session), pods)
    except ConsoleError as error:
        document["events"] = error.sentence()
    return json_document(document)


def _node(node: NodeFacts) -> dict[str, Any]:
    return {
        "name": node.name,
        "instance_type": node.instance_type,
        "zone": node.zone,
        "capacity_type": node.capacity_type,
        "pool": node.pool,
        "ready": node.is_ready,
        "schedulable": node.is_schedulable,
        "taints": node.taints,
        "version": node.version,
        "allocatable": node.allocatable,
    }


def _pod(pod: PodFacts) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "stage": pod.stage,
        "phase": pod.phase,
        "reason": pod.reason,
        "message": pod.message,
        "ready": f"{pod.ready}/{len(pod.containers)}",
        "restarts": pod.restarts,
        "node": pod.node,
        "owner": f"{pod.owner_kind}/{pod.owner_name}",
        "requests": pod.requests,
    }


def _warnings(events: Sequence[EventFacts], pods: Sequence[PodFacts]) -> list[dict[str, Any]]:
    names = {(pod.namespace, pod.name) for pod in pods} | {("", pod.node) for pod in pods}
    return [
        {"reason": event.reason, "object": f"{event.kind}/{event.namespace}/{event.name}", "message": event.message}
        for event in events
        if event.type == "Warning" and ((event.namespace, event.name) in names or ("", event.name) in names)
    ]
