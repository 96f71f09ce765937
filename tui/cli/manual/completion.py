"""`eksml-tui completion SHELL`: the completion of the command line, by argcomplete.

What it prints makes the shell start the program for each completion, with the line in the environment. The program
finds from its parser what may stand there, and prints it. Namespaces, pods and jobs are looked up in the cluster,
as far as that answers at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Collection
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from argcomplete import autocomplete
from argcomplete.shell_integration import shellcode

from actions.base.errors import ConsoleError
from actions.base.files import expanded
from tui.cli.arguments import parser

if TYPE_CHECKING:
    from actions.blueprint.model import Blueprint
    from actions.cluster.auth.session import KubeSession

_PROGRAM = "eksml-tui"
_CLUSTER_SECONDS = 1.5
"""For names of a cluster: a shell waits for them."""
_FILES = frozenset({"FILE", "DIR", "FOLDER", "SOURCE"})
_WITHOUT_FILES = ("-o", "nospace")
"""Options of bash's `complete`: where nothing fits, files are not listed instead."""


def run(options: Namespace) -> int:
    """Print the script for a shell."""
    script = shellcode([_PROGRAM], True, options.shell, _WITHOUT_FILES)
    sys.stdout.write(script.lstrip())
    return 0


def complete_line(settle: Callable[[Namespace], None]) -> None:
    """Print how the line goes on that the shell has put into the environment, and end the process.

    Args:
        settle: Completes the options that are on the line by the settings file.
    """

    def names(prefix: str, action: Action, parser: ArgumentParser, parsed_args: Namespace) -> Collection[str]:
        del parser
        try:
            settle(parsed_args)
            return _names(prefix, action, parsed_args)
        except ConsoleError:
            return ()

    autocomplete(parser(), always_complete_options=False, default_completer=names)  # type: ignore[arg-type]


def _names(prefix: str, action: Action, line: Namespace) -> Collection[str]:
    """Return what may stand in a place that has no fixed words.

    Args:
        prefix: The beginning of the word, for files.
        action: The place.
        line: The options that the line has so far.

    Raises:
        ConsoleError: The names cannot be read.
    """
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar == "RUN" or action.dest in ("run", "of_run"):
        from actions.run.summaries import list_runs

        return ["latest", *(run.id for run in list_runs())]
    if metavar == "BLUEPRINT":
        return [blueprint.id for blueprint in _blueprints(line)]
    if action.dest in ("preset", "set"):
        blueprints = _blueprints(line)
        named = [each for each in blueprints if each.id == line.blueprint] or blueprints
        names = [
            each.presets if action.dest == "preset" else (f"{name}=" for name in each.parameters) for each in named
        ]
        return {name: None for few in names for name in few}.keys()
    if action.dest in ("context", "contexts"):
        from actions.cluster.auth.kubeconfig import ClusterTarget, contexts_of

        return [name for name, _ in contexts_of(ClusterTarget(line.kubeconfig))]
    if action.dest == "namespace" or metavar in ("JOB", "OBJECT", "KIND/NAME"):
        return _in_cluster(line, action.dest if action.dest == "namespace" else metavar)
    return _files(prefix) if metavar in _FILES else ()


def _in_cluster(line: Namespace, place: str) -> Collection[str]:
    """Return names of the chosen cluster; none if it does not answer at once, whatever the reason."""
    found: list[str] = []

    def look() -> None:
        from tui.cli.target import ask_cluster

        with suppress(Exception):  # a completion is silent
            found.extend(ask_cluster(line, lambda session: _names_in(session, place), may_ask=False))

    if not line.demo:  # it would be started
        looking = Thread(target=look, daemon=True)
        looking.start()
        looking.join(_CLUSTER_SECONDS)
    return found


async def _names_in(session: KubeSession, place: str) -> list[str]:
    from actions.cluster.kinds import JOBS
    from actions.cluster.objects.client import Discovery, list_objects

    discovery = Discovery(session)

    async def names(api_version: str, kind: str, *, before: str = "", namespace: str = "") -> list[str]:
        with suppress(ConsoleError):  # not served, or not allowed
            found = await list_objects(session, discovery, api_version, kind, namespace=namespace)
            return [f"{before}{one['metadata']['name']}" for one in found]
        return []

    if place == "namespace":
        return await names("v1", "Namespace")
    home = session.namespace
    asked = [names(row.api_version, row.kind, before=f"{row.name.lower()}/", namespace=home) for row in JOBS]
    asked += [names("v1", "Pod", namespace=home)] if place == "OBJECT" else []
    return [name for few in await asyncio.gather(*asked) for name in few]


def _blueprints(line: Namespace) -> Collection[Blueprint]:
    from actions.blueprint.catalogue import Catalogue

    return Catalogue.usual(line.blueprints).list()


def _files(prefix: str) -> Collection[str]:
    folder = os.path.dirname(prefix)
    try:
        entries = list(expanded(folder or ".").iterdir())
    except OSError:
        return ()
    return [os.path.join(folder, entry.name) + "/" * entry.is_dir() for entry in entries]
