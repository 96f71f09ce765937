"""`eksml-tui runs takeover` and `runs adopt`: a run of another machine becomes this machine's."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import MissingError, UsageError
from actions.base.files import write_private
from actions.base.untrusted import plain_text
from actions.blueprint.catalogue import Catalogue
from actions.cloud.eks import token_factory
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.auth.session import KubeSession
from tui.cli.target import ChosenTarget, aws_environment, chosen_target, require_target

if TYPE_CHECKING:
    from actions.run.takeover.adopt import Adoption


def take_over(options: Namespace) -> int:
    """Take a run over from its store.

    Raises:
        ConsoleError: It cannot be taken over, or was not confirmed; see `take_over_run`.
    """
    from actions.run.takeover.take_over import open_takeover_store, store_known_here, take_over_run

    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3
    clock = SystemClock()
    store = open_takeover_store(options.store or store_known_here(options.run), clock)
    done = asyncio.run(
        take_over_run(
            options.run,
            store,
            clock,
            confirm=options.confirm,
            is_machine_gone=options.machine_is_gone,
            environment=chosen.environment,
            target=_pinned(chosen.target) if options.context or options.demo else None,
            say=_say,
        )
    )
    _left("Left alone", done.left_out)
    for sentence in done.sentences:
        _say(sentence)
    before = f", which {done.previous} had" if done.previous else ""
    sys.stdout.write(f"This machine carries out {done.folder.name}{before} (epoch {done.epoch}).\n")
    return 0


def take_up(options: Namespace, folder: Path) -> None:
    """Make a restored run this machine's, if no other one has it; the caller starts its runner.

    Raises:
        ConsoleError: Another machine has it, or that cannot be found out; see `take_up_restored`.
    """
    from actions.run.journal.folder import load_environment
    from actions.run.takeover.access import bring_environment
    from actions.run.takeover.restored import take_up_restored

    given = {} if options.demo else aws_environment(options)
    os.environ.update({**load_environment(folder), **given})  # for boto3
    asyncio.run(take_up_restored(folder, SystemClock(), confirm=options.confirm))
    if given:
        _say(bring_environment(folder, given))


def adopt(options: Namespace) -> int:
    """Rebuild a run from what it has left in its cluster and account.

    Raises:
        ConsoleError: It cannot be rebuilt, or was not confirmed; see `adopt_run`.
    """
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)
    cluster, run = _cluster_and_run(options)
    done = asyncio.run(_adopted(options, chosen, cluster, run))
    for source in done.sources:
        _say(f"Rebuilt from {source}.")
    _left("Unknown", done.missing)
    name = done.folder.name
    sys.stdout.write(f"This machine carries out {name}. It is paused: `eksml-tui runs resume {name}` begins stages.\n")
    return 0


def _cluster_and_run(options: Namespace) -> tuple[str, str]:
    """Return the EKS name of the cluster, empty for a context, and the id of the run, empty for the only one."""
    words = list(options.words)
    cluster = words.pop(0) if words and not (options.context or options.demo) else ""
    if len(words) > 1:
        raise UsageError(f"runs adopt takes no {words[1]!r}.", hint="Write: eksml-tui runs adopt CLUSTER [RUN]")
    return cluster, words[0] if words else ""


async def _adopted(options: Namespace, chosen: ChosenTarget, cluster: str, run: str) -> Adoption:
    from actions.cluster.objects.client import Discovery
    from actions.run.context.access import ClusterConnection
    from actions.run.takeover.adopt import adopt_run

    target = None if cluster else _pinned(chosen.target)
    with TemporaryDirectory(prefix="eksml-tui-") as scratch:
        reached = target or await _eks_target(cluster, chosen, Path(scratch))
        require_target(reached)
        session = await KubeSession.connect(reached, token_factory=token_factory)
        try:
            return await adopt_run(
                run,
                ClusterConnection(session, Discovery(session)),
                target,
                SystemClock(),
                catalogue=Catalogue.usual(options.blueprints),
                confirm=options.confirm,
                environment=chosen.environment,
                say=_say,
            )
        finally:
            await session.aclose()


async def _eks_target(name: str, chosen: ChosenTarget, scratch: Path) -> ClusterTarget:
    """Return a cluster of EKS, by a kubeconfig in a folder that is removed afterwards."""
    from actions.cloud.aws_session import AwsSession
    from actions.cloud.eks import describe_cluster, kubeconfig_for

    session = AwsSession(profile=chosen.profile, region=chosen.region, threads=1)
    try:
        found = await describe_cluster(session, name, region=chosen.region)
    except MissingError as error:
        where = f"in {chosen.region or await session.region()}"
        raise MissingError(f"EKS has no cluster {name} {where}.", hint="Give its region with --region.") from error
    finally:
        session.close()
    path = scratch / "kubeconfig"
    write_private(path, kubeconfig_for(found, profile=chosen.profile, has_aws_cli=which("aws") is not None))
    return ClusterTarget(path)


def _pinned(target: ClusterTarget) -> ClusterTarget:
    """Return a target by the name of its context: the current one may change later."""
    return replace(target, context=load_context(target).context)


def _left(heading: str, lines: Sequence[str]) -> None:
    if lines:
        _say(f"{heading}:")
    for line in lines:
        _say(f"  {line}")


def _say(text: str) -> None:
    """Print to stderr: stdout has the result alone."""
    sys.stderr.write(f"{plain_text(text)}\n")
