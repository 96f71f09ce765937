"""`eksml-tui audit CLUSTER`: the remains of runs without a journal and without a store."""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from actions.base.errors import ConfigError, ConsoleError, MissingError
from actions.base.files import write_private
from actions.base.wording import listed
from actions.cloud.aws_session import AwsSession
from actions.cloud.eks import describe_cluster, kubeconfig_for, token_factory
from actions.cluster.auth.kubeconfig import ClusterTarget, contexts_of, parse_context_name, whole_context
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from actions.run.client import list_runs
from actions.run.cluster_audit import ClusterAudit, audit_json, audit_of_cluster, audit_text
from actions.run.context.access import ClusterConnection
from actions.run.store.kubernetes import open_cluster_store
from actions.run.store.s3 import open_store
from tui.cli.tables.output import print_table
from tui.cli.target import ChosenTarget, chosen_target, require_target


def print_audit(options: Namespace) -> int:
    """Print what is left.

    Returns:
        0; 1 if something could not be asked, so that an all-clear would be a guess.

    Raises:
        ConsoleError: Neither cluster nor account can be asked.
    """
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3
    audit = asyncio.run(_audited(options, chosen))
    print_table(options.output, table=lambda: audit_text(audit), document=lambda: audit_json(audit), rows="things")
    return int(bool(audit.unknown))


async def _audited(options: Namespace, chosen: ChosenTarget) -> ClusterAudit:
    """Search the cluster, and its account if it is one of EKS."""
    unknown: list[str] = []
    known = {run.id for run in list_runs()}
    if options.store:
        known |= await _kept_in_bucket(options.store, unknown)
    is_chosen = bool(options.context or options.kubeconfig or options.demo)
    if options.name and not is_chosen:
        opened = _by_name(options.name, chosen, unknown)
    else:
        opened = _by_context(context_to(options.name, chosen.target) if options.name else chosen.target)
    async with opened as connection:
        name, region = options.name, chosen.region
        if connection is not None:
            identity = await connection.session.identity()
            name, region = options.name or identity.name, identity.region or region
            is_of_eks = bool(options.name or identity.account)
            store = await open_cluster_store(connection.session, chosen.target.namespace)
            try:
                known |= set(await store.run_ids())
            except ConsoleError as error:
                unknown.append(f"Whether runs are kept in the cluster: {error.message}")
        else:
            is_of_eks = True
        if not is_of_eks:
            unknown.append("The context names no cluster of EKS, so no account was searched.")
        session = AwsSession(profile=chosen.profile, region=region, threads=2) if is_of_eks else None
        try:
            return await audit_of_cluster(name, connection, session, known=known, unknown=unknown)
        finally:
            if session is not None:
                session.close()


async def _kept_in_bucket(url: str, unknown: list[str]) -> set[str]:
    store = open_store(url)
    try:
        return set(await store.run_ids())
    except ConsoleError as error:
        unknown.append(f"Whether runs are kept in {url}: {error.message}")
        return set()
    finally:
        store.close()


def context_to(cluster: str, target: ClusterTarget) -> ClusterTarget:
    """Return the context of a kubeconfig that leads to a cluster, by its own name or that of its cluster.

    Raises:
        ConfigError: None does, or several do, or the one that was chosen does not.
    """
    clusters = dict(contexts_of(target))
    there = {name: cluster_name for name, cluster_name in clusters.items() if target.context in ("", name)}
    word = whole_context(cluster, there)
    found = [word] if word in there else [name for name in there if parse_context_name(there[name]).cluster == cluster]
    if len(found) != 1:
        how_many = "Several contexts of the kubeconfig lead" if found else "No context of the kubeconfig leads"
        which = f"--context {target.context} does not lead" if target.context else how_many
        hint = f"Choose one with --context, without CLUSTER: {listed(found or [*clusters], 20)}."
        raise ConfigError(f"{which} to a cluster {cluster!r}.", hint=hint)
    return replace(target, context=found[0])


@asynccontextmanager
async def _by_context(target: ClusterTarget) -> AsyncIterator[ClusterConnection]:
    require_target(target)
    session = await KubeSession.connect(target, token_factory=token_factory)
    try:
        yield ClusterConnection(session, Discovery(session))
    finally:
        await session.aclose()


@asynccontextmanager
async def _by_name(name: str, chosen: ChosenTarget, unknown: list[str]) -> AsyncIterator[ClusterConnection | None]:
    """Connect to a cluster of EKS; with one that is gone, or does not answer, the account is searched alone."""
    session = AwsSession(profile=chosen.profile, region=chosen.region, threads=1)
    connection = None
    with TemporaryDirectory(prefix="eksml-tui-") as scratch:
        try:
            found = await describe_cluster(session, name, region=chosen.region)
            path = Path(scratch) / "kubeconfig"
            write_private(path, kubeconfig_for(found, profile=chosen.profile, has_aws_cli=which("aws") is not None))
            target = ClusterTarget(path)
            require_target(target)
            reached = await KubeSession.connect(target, token_factory=token_factory)
            connection = ClusterConnection(reached, Discovery(reached))
        except MissingError:
            pass  # it is gone: what is left is in the account
        except ConsoleError as error:
            unknown.append(f"The cluster could not be searched: {error.message}")
        finally:
            session.close()
        try:
            yield connection
        finally:
            if connection is not None:
                await connection.session.aclose()
