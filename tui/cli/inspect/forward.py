"""`eksml-tui forward`: a local port into a pod until Ctrl-C, for what a run serves: TensorBoard, dashboards."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress

from actions.base.decoding import json_document
from actions.base.errors import ConsoleError, MissingError
from actions.base.untrusted import plain_text
from actions.cloud.eks import token_factory
from actions.cluster.auth.session import KubeSession
from actions.cluster.remote.port_forward import open_forward
from actions.cluster.state.cluster_state import ClusterState
from actions.fleet.facts import PodFacts
from tui.cli.inspect.watch import listed_jobs
from tui.cli.tables.output import print_table
from tui.cli.target import ChosenTarget, chosen_target, require_target
from tui.feeds.port_forwards import SERVICES, parse_port, served_by
from tui.present.subject import parse_subject

_SERVICE_FIELDS = ("service", "title", "pod", "port")


def run(options: Namespace) -> int:
    """Print the link, and forward until the process is interrupted; without a target, list what can be forwarded."""
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3, if a token is needed
    return asyncio.run(_forward(chosen, options))


async def _forward(chosen: ChosenTarget, options: Namespace) -> int:
    require_target(chosen.target)
    session = await KubeSession.connect(chosen.target, readonly=options.readonly, token_factory=token_factory)
    state = ClusterState(session)
    following = asyncio.create_task(state.run())
    try:
        await listed_jobs(state, following)
        if not options.to:
            pods = _pods(state, options.run)
            print_table(
                options.output, table=lambda: _listed(pods), document=lambda: _document(pods), fields=_SERVICE_FIELDS
            )
            return 0
        await _serve(session, state, options)
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await session.aclose()
    return 0


async def _serve(session: KubeSession, state: ClusterState, options: Namespace) -> None:
    missing, port, find = _target(options.to, session.namespace or "default", lambda: _pods(state, options.run))
    pod = find()
    if pod is None:
        raise MissingError(f"{missing}.", hint="eksml-tui forward lists what can be forwarded.")

    async def found() -> str:
        now = find()
        if now is None:
            raise MissingError(f"{missing} now.")
        return now.name

    def tell(error: ConsoleError) -> None:
        sys.stderr.write(f"eksml-tui: {plain_text(error.sentence())}\n")

    token = secrets.token_urlsafe(24)
    opening = open_forward(session, pod.namespace, found, port, local_port=options.local, token=token, on_trouble=tell)
    async with opening as forward:
        sys.stdout.write(f"http://127.0.0.1:{forward.local_port}/?token={token}\n")
        sys.stdout.flush()
        sys.stderr.write(f"eksml-tui: this leads to {pod.key}:{port} until you press Ctrl-C.\n")
        await asyncio.Event().wait()


def _target(
    text: str, namespace: str, pods: Callable[[], list[PodFacts]]
) -> tuple[str, int, Callable[[], PodFacts | None]]:
    """Return the words for its absence, port and finder of what was asked for."""
    service = next((service for service in SERVICES if service.name == text), None)
    if service is not None:
        return f"No running pod serves {service.title}", service.port, lambda: served_by(service, pods())
    target, port = parse_port(text)
    subject = parse_subject(target, default_namespace=namespace)
    key = f"{subject.namespace}/{subject.name}"
    return (
        f"No pod {key} runs",
        port,
        lambda: next((pod for pod in pods() if pod.key == key and pod.phase == "Running"), None),
    )


def _pods(state: ClusterState, run: str) -> list[PodFacts]:
    """Return all pods, those of the run first."""
    return sorted(state.snapshot().pods.values(), key=lambda pod: (pod.run != run if run else False, pod.key))


def _document(pods: list[PodFacts]) -> str:
    """Return the services as JSON: `pod` is `null` where none serves one."""
    rows = []
    for service in SERVICES:
        pod = served_by(service, pods)
        values = (service.name, service.title, pod.key if pod else None, service.port)
        rows.append(dict(zip(_SERVICE_FIELDS, values, strict=True)))
    return json_document(rows)


def _listed(pods: list[PodFacts]) -> str:
    rows = []
    for service in SERVICES:
        pod = served_by(service, pods)
        rows.append(f"{service.name:<12} {f'{pod.key}:{service.port}' if pod else 'no pod serves it at present'}\n")
    return "".join(rows)
