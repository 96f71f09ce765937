"""`eksml-tui support RUN [FILE]`: one archive for a bug report, without secrets."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, JournalError, UnreachableError
from actions.fleet.quantity import size_text
from actions.run.client import find_run, load_run
from actions.run.journal.folder import kubeconfig_path, load_environment
from actions.run.state.view import RunView
from actions.run.support.archive import list_text, require_absent, write_archive
from actions.run.support.filters import SupportFilter, learn_secrets
from actions.run.support.pieces import Piece, run_pieces
from actions.run.support.surroundings import cluster_text, settings_text, variable_names, versions_text
from tui.cli.arguments import VERSION
from tui.cli.target import ChosenTarget, chosen_target, require_target

_ASK_SECONDS = 30.0
"""For the cluster, and for the doctor: a bug report is also made where neither answers."""
_NOBODY = ("root", "admin", "operator", "ubuntu", "ec2-user")
"""Names of users that name no person."""


def run(options: Namespace) -> int:
    """Write the archive; print what is in it."""
    folder = find_run(options.run)
    file = options.file or Path(f"eksml-support-{folder.name}.tar.gz")
    from tui.settings.settings import form_of

    form_of(file, {".tar.gz": "tar", ".tgz": "tar"})
    require_absent(file)
    try:
        view: RunView | None = load_run(folder)
    except JournalError as error:
        sys.stderr.write(f"eksml-tui: {error.sentence()} The archive is made without it.\n")
        view = None
    parameters = view.parameters if view is not None else {}
    learn_secrets(folder, parameters, os.environ)
    variables = variable_names(os.environ)
    chosen = chosen_target(options)
    with suppress(ConfigError):  # the archive's list has the reason
        os.environ.update(load_environment(folder))
    os.environ.update(chosen.environment)  # for boto3
    clock = SystemClock()
    pieces = [
        Piece(
            "versions.txt", "versions of the program, its libraries and this machine", lambda: versions_text(VERSION)
        ),
        Piece("config.yaml", "your settings", settings_text),
        Piece("environment.txt", "names of this shell's variables", lambda: variables),
        *run_pieces(folder, view, clock),
        Piece("doctor.txt", "the checks of eksml-tui doctor", lambda: _within(lambda: _examined(chosen))),
        Piece(
            "cluster.json", "nodes, the run's pods, warnings", lambda: _within(lambda: _cluster(folder, chosen, view))
        ),
    ]
    masked = dict(_names_to_mask(view)) if options.mask else None
    written = write_archive(
        file, pieces, SupportFilter(masked), name=f"eksml-support-{folder.name}", made_at=clock.now()
    )
    sys.stdout.write(list_text(written))
    sys.stdout.write(f"{file}: {size_text(file.stat().st_size)}. Read it before you send it.\n")
    return 0


def _within(ask: Callable[[], Awaitable[str]]) -> str:
    """Return an answer that comes within `_ASK_SECONDS`.

    Raises:
        UnreachableError: None came.
    """

    async def asked() -> str:
        async with asyncio.timeout(_ASK_SECONDS):
            return await ask()

    try:
        return asyncio.run(asked())
    except TimeoutError as error:
        raise UnreachableError(f"There was no answer within {_ASK_SECONDS:.0f} s.") from error


async def _examined(chosen: ChosenTarget) -> str:
    from actions.blueprint.catalogue import Catalogue
    from actions.run.doctor.examine import examination, examine_machine
    from actions.run.doctor.report import doctor_table

    blueprints = Catalogue.usual().list()
    default = blueprints[0].cluster.region if blueprints else ""
    async with examination(chosen.target, region=chosen.region, clock=SystemClock(), default_region=default) as around:
        return doctor_table(await examine_machine(around, blueprints))


async def _cluster(folder: Path, chosen: ChosenTarget, view: RunView | None) -> str:
    """Return the facts of the run's own cluster, or of the one that the options name."""
    from actions.cloud.eks import token_factory
    from actions.cluster.auth.kubeconfig import ClusterTarget
    from actions.cluster.auth.session import KubeSession

    own = kubeconfig_path(folder)
    target = ClusterTarget(kubeconfig=own) if own.is_file() else chosen.target
    require_target(target, may_ask=False)
    session = await KubeSession.connect(target, readonly=True, token_factory=token_factory)
    try:
        return await cluster_text(session, view)
    finally:
        await session.aclose()


def _names_to_mask(view: RunView | None) -> Iterator[tuple[str, str]]:
    """Yield the names that an archive of this run masks, beyond those with a form of their own: name, mask."""
    for name in {socket.gethostname(), socket.getfqdn()}:
        yield name, "host"
    if view is None:
        return
    if view.account is not None:
        yield view.account.id, "account"
    people = [view.owner, *(request.by for request in view.requests), *(stage.approved_by for stage in view.stages)]
    for person in people:
        if person is not None:
            yield person.host, "host"
            if person.user not in _NOBODY:
                yield person.user, "user"
