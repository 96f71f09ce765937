"""`--contexts` of commands that list: the same question to several clusters side by side, and what is known of each."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from actions.base.errors import AccessError, ConsoleError, UnreachableError
from actions.base.untrusted import one_line
from actions.base.wording import counted
from actions.cluster.auth.kubeconfig import ClusterTarget, ContextParts, parse_context_name, short_contexts
from actions.cluster.auth.session import ClusterIdentity, KubeSession, leads_to_same_cluster
from actions.fleet.cost import FleetCost
from actions.fleet.quantity import UNKNOWN, bounded
from actions.fleet.totals import FleetTotals
from tui.cli.target import allow_plugins, ask_cluster, aws_environment, followed_contexts, session_to
from tui.present.cells import Span, text_of
from tui.present.home.clusters import ClusterFacts, total_lines

T = TypeVar("T")

ANSWER_SECONDS = 30.0
"""Time for the answer of one cluster."""


class Asked(msgspec.Struct, Generic[T], frozen=True):
    """A cluster that was asked.

    Args:
        context: Its context; empty where there is only one.
        name: As it is shown; empty where there is only one.
        answer: `None` if there is none, or the cluster was asked by another context already.
        identity: Name, region and account; `None` if they are not known.
        server: The address of its API server; empty if there was no session.
        error: The reason why there is no answer, in one sentence; empty if there is one.
        state: The same in a few words.
        same_as: The name of the context by which the cluster was asked already; empty for none.
    """

    context: str = ""
    name: str = ""
    answer: T | None = None
    identity: ClusterIdentity | None = None
    server: str = ""
    error: str = ""
    state: str = ""
    same_as: str = ""

    @property
    def place(self) -> ContextParts:
        """Name, region and account, as far as they are known."""
        guessed, known = parse_context_name(self.context), self.identity
        if known is None:
            return guessed
        return ContextParts(
            known.name or guessed.cluster, known.region or guessed.region, known.account or guessed.account
        )

    def document(self, summary: object) -> dict[str, Any]:
        """Return the cluster as documents have it, with sums of its own: `null` if nothing is known."""
        place = self.place
        return {
            "context": self.context,
            "cluster": place.cluster,
            "region": place.region,
            "account": place.account,
            "error": self.error,
            "same_as": self.same_as,
            "summary": summary,
        }


def ask_clusters(options: Namespace, ask: Callable[[KubeSession], Awaitable[T]]) -> list[Asked[T]]:
    """Ask the clusters of `--contexts`, all at once and none for long; without the option the chosen one alone.

    Raises:
        ConsoleError: The one cluster does not answer; of several, none can be asked.
    """
    if not options.several:
        return [Asked(answer=ask_cluster(options, ask))]
    allow_plugins(options)
    target = ClusterTarget(kubeconfig=options.kubeconfig, context=options.context, namespace=options.namespace)
    contexts = followed_contexts(target, options.several)
    os.environ.update(aws_environment(options))  # for boto3, if a token is needed

    async def all_of_them() -> list[Asked[T]]:
        targets = [msgspec.structs.replace(target, context=context) for context in contexts]
        return list(await asyncio.gather(*(_asked(one, ask) for one in targets)))

    found = asyncio.run(all_of_them())
    named = [msgspec.structs.replace(one, name=name) for one, name in zip(found, short_contexts(contexts), strict=True)]
    return _each_once(named)


async def _asked(target: ClusterTarget, ask: Callable[[KubeSession], Awaitable[T]]) -> Asked[T]:
    identity: ClusterIdentity | None = None
    try:
        async with asyncio.timeout(ANSWER_SECONDS), session_to(target, may_ask=False) as session:
            identity = await session.identity()
            answer = await ask(session)
            return Asked(target.context, answer=answer, identity=identity, server=session.server)
    except TimeoutError:
        error: ConsoleError = UnreachableError(f"It has not answered within {ANSWER_SECONDS:.0f} s.")
    except ConsoleError as refused:
        error = refused
    state = "refused" if isinstance(error, AccessError) else "cannot be asked"
    state = "does not answer" if isinstance(error, UnreachableError) else state
    return Asked(target.context, identity=identity, error=one_line(error.sentence()), state=state)


def _each_once(clusters: Sequence[Asked[T]]) -> list[Asked[T]]:
    """Return the clusters, without the answer of one that another context leads to, too."""
    found: list[Asked[T]] = []
    for one in clusters:
        same = (each for each in found if leads_to_same_cluster(one.server, one.identity, each.server, each.identity))
        known = next((each for each in same if each.answer is not None), None)
        found.append(msgspec.structs.replace(one, answer=None, same_as=known.name) if known is not None else one)
    return found


def answers_of(clusters: Sequence[Asked[T]]) -> list[tuple[Asked[T], T]]:
    """Return the clusters that have answered, each once, with their answers."""
    return [(one, one.answer) for one in clusters if one.answer is not None]


def code_of(clusters: Sequence[Asked[T]]) -> int:
    """Print to stderr which clusters have not answered, and why; return the exit code: 1 if there are some."""
    silent = [one for one in clusters if one.error]
    for one in silent:
        sys.stderr.write(f"eksml-tui: {one.name}: {one.error}\n")
    return int(bool(silent))


def fleet_lines(
    clusters: Sequence[Asked[T]], sums_of: Callable[[Asked[T]], tuple[FleetTotals, FleetCost]]
) -> list[str]:
    """Return a line of sums for all clusters together, and one for each; none where there is only one."""
    facts = []
    for one in clusters if clusters[0].name else ():
        totals, cost = (None, None) if one.answer is None else sums_of(one)
        state = Span(one.state)
        facts.append(
            ClusterFacts(
                key=one.context, name=one.name, place=one.place, state=state, is_live=not one.error,
                same_as=one.same_as, totals=totals, cost=cost,
            )
        )  # fmt: skip
    return [text_of(line).rstrip() for line in total_lines(facts)]


def count_lines(clusters: Sequence[Asked[T]], count_of: Callable[[Asked[T]], int], noun: str) -> list[str]:
    """Return how many rows all clusters have together, and each; none where there is only one."""
    if not clusters[0].name:
        return []
    answers, counted_ones = answers_of(clusters), [one for one in clusters if not one.same_as]
    whole = counted(sum(count_of(one) for one, _ in answers), noun)
    names = [f"all {counted(len(counted_ones), 'cluster')}", *(one.name for one in clusters)]
    texts = [bounded(whole, is_lower_bound=len(answers) < len(counted_ones)) if answers else UNKNOWN]
    for one in clusters:
        known = "" if one.answer is None else counted(count_of(one), noun)
        same = f"the same cluster as {one.same_as}" if one.same_as else ""
        texts.append(same or known or f"{UNKNOWN} {noun}s · {one.state}")
    room = max(map(len, names))
    return [f"{name:<{room}}  {text}" for name, text in zip(names, texts, strict=True)]
