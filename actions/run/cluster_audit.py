"""Things that lost runs have left in a cluster and its account, found by labels and tags: of neither journal nor store.

Such a run is not rebuilt: each thing is named with its price, where that is known, and the command that removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from actions.base.decoding import json_document
from actions.base.errors import ConsoleError
from actions.base.names import is_label
from actions.base.untrusted import one_line
from actions.base.wording import counted, listed
from actions.blueprint.render import RUN_LABEL, RUN_TAG
from actions.cloud.aws_session import AwsSession, pages
from actions.cloud.leftovers import CLUSTER_TAG, SearchScope, search_account
from actions.cloud.resources import hourly_text, parts_of
from actions.run.context.access import ClusterConnection
from actions.run.objects.survey import fetch_kinds, sentences_of, survey_as_far
from actions.run.teardown.audit import removal_of_object

_POOL_KIND = "NodePool"
_SHOWN = 20
Tagged = Mapping[str, Mapping[str, str]]
"""The tags of resources, by ARN."""


class FoundThing(msgspec.Struct, frozen=True):
    """Something that a run has made."""

    run: str
    line: str
    """Name, evidence, price and the command that removes it."""
    usd_per_hour: Decimal | None = None
    """`None` if it costs nothing, or its price is unknown."""
    pool: str = ""
    """Its name, if it is a Karpenter pool: the instances of that are found by it."""


class ClusterAudit(msgspec.Struct, frozen=True):
    """The findings."""

    cluster: str
    things: tuple[FoundThing, ...] = ()
    """The most expensive first."""
    known: tuple[str, ...] = ()
    """Ids of runs that have made something there, too, and have a journal or a store."""
    unknown: tuple[str, ...] = ()
    """A sentence on each question that was not answered."""

    @property
    def usd_per_hour(self) -> Decimal:
        """The sum of the prices that are known."""
        return sum((one.usd_per_hour for one in self.things if one.usd_per_hour is not None), Decimal(0))


async def audit_of_cluster(
    cluster: str,
    connection: ClusterConnection | None,
    session: AwsSession | None,
    *,
    known: Collection[str],
    unknown: Sequence[str] = (),
) -> ClusterAudit:
    """Search a cluster and its account.

    Args:
        cluster: The name of the cluster.
        connection: The cluster; `None` if it is not reached.
        session: Its account, in its region; `None` if it has none that is known.
        known: Ids of the runs that have a journal or a store.
        unknown: Sentences on what could not be asked before.
    """
    missing = list(unknown)
    things: list[FoundThing] = []
    runs: set[str] = set()
    if connection is not None:
        try:
            labelled, unasked = await _labelled(connection)
        except ConsoleError as error:
            labelled, unasked = [], [f"The cluster could not be searched: {error.message}"]
        missing += unasked
        runs |= {one.run for one in labelled}
        things += [one for one in labelled if one.run not in known]
    if session is not None:
        try:
            tagged = await _tagged_resources(session)
            owners = runs_of_cluster(tagged, cluster)
            runs |= owners.keys()
            region = await session.region()
            for run in sorted(runs - set(known)):
                pools = tuple(one.pool for one in things if one.run == run and one.pool)
                is_maker = owners.get(run, False)
                scope = SearchScope(RUN_TAG, run, 0.0, region, cluster, owns_cluster=is_maker, pools=pools)
                found = await search_account(session, scope)
                missing += found.unknown
                things += [FoundThing(run, one.line(), one.usd_per_hour) for one in found.resources]
        except ConsoleError as error:
            missing.append(f"AWS could not be searched: {error.message}")
    things.sort(key=lambda one: (-(one.usd_per_hour or 0), one.line))
    return ClusterAudit(cluster, tuple(things), tuple(sorted(runs & set(known))), tuple(dict.fromkeys(missing)))


async def _labelled(connection: ClusterConnection) -> tuple[list[FoundThing], list[str]]:
    """Return the objects with a run's label that nothing else owns, and sentences on what could not be searched."""
    kinds = await fetch_kinds(connection)
    found = await survey_as_far(connection, kinds.kinds, (connection.session.namespace,), selector=RUN_LABEL)
    things = [
        FoundThing(
            entry.run,
            f"{entry.describe()}: labelled {RUN_LABEL}={entry.run}"
            + removal_of_object(entry.kind, entry.group, entry.namespace, one_line(entry.name)),
            pool=one_line(entry.name) if entry.kind == _POOL_KIND else "",
        )
        for entry in found.entries
        if is_label(entry.run) and not entry.owners and not entry.is_going
    ]
    return things, sentences_of((*kinds.unasked, *found.unasked))


async def _tagged_resources(session: AwsSession) -> Tagged:
    """Return what carries the tag of any run in the session's region."""
    found: dict[str, Mapping[str, str]] = {}
    filters: list[dict[str, Any]] = [{"Key": RUN_TAG}]
    async for answer in pages(session, "resourcegroupstaggingapi", "get_resources", TagFilters=filters):
        for entry in answer.get("ResourceTagMappingList") or ():
            tags = {one_line(str(tag.get("Key"))): one_line(str(tag.get("Value"))) for tag in entry.get("Tags") or ()}
            found[one_line(str(entry.get("ResourceARN", "")))] = tags
    return found


def runs_of_cluster(tagged: Tagged, cluster: str) -> dict[str, bool]:
    """Return the runs that have made something of a cluster in its account, and whether they have made the cluster.

    Args:
        tagged: What carries the tag of a run.
        cluster: The name of the cluster.
    """
    found: dict[str, bool] = {}
    others: set[str] = set()
    """Runs that have made another cluster: `ml` and `ml-2` begin alike."""
    for arn, tags in tagged.items():
        parts, run = parts_of(arn), tags.get(RUN_TAG, "")
        name = parts.name.split("/")[0] if parts.service == "eks" else ""
        is_made = name == cluster or CLUSTER_TAG + cluster in tags
        is_named = f"{tags.get('Name', '')}-".startswith(f"{cluster}-")
        if name and name != cluster:
            others.add(run)
        if is_label(run) and (is_made or is_named):
            found[run] = found.get(run, False) or is_made
    return {run: is_made for run, is_made in found.items() if run not in others}


def audit_text(audit: ClusterAudit) -> str:
    """Return an audit as text."""
    return "".join(f"{line}\n" for line in _lines(audit))


def _lines(audit: ClusterAudit) -> Iterator[str]:
    if audit.known:
        yield f"With a journal or a store: {listed(list(audit.known), _SHOWN)}. See: eksml-tui runs list --cluster"
    if audit.things:
        price = f", at least {hourly_text(audit.usd_per_hour)}" if audit.usd_per_hour else ""
        runs = counted(len({one.run for one in audit.things}), "run")
        yield f"{counted(len(audit.things), 'thing')} of {runs} without a journal or a store{price}:"
    for one in audit.things:
        yield f"  {one.line}"
    if audit.things:
        yield "A run in a bucket is known with --store s3://BUCKET/PREFIX: name it before anything is removed."
    if not audit.things:
        suffix = ", as far as it could be searched" if audit.unknown else ""
        yield f"Nothing else of a run is left in {audit.cluster}{suffix}."
    for sentence in audit.unknown:
        yield f"Unknown: {sentence}"


def audit_json(audit: ClusterAudit) -> str:
    """Return an audit as JSON: `cluster`, `things` (`run`, `line`, `usd_per_hour`), `known`, `unknown`."""
    things = [
        {"run": one.run, "line": one.line, "usd_per_hour": None if one.usd_per_hour is None else str(one.usd_per_hour)}
        for one in audit.things
    ]
    return json_document(
        {"cluster": audit.cluster, "things": things, "known": list(audit.known), "unknown": list(audit.unknown)}
    )
