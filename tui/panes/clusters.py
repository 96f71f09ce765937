"""The facts of the clusters that a console follows, for the panes that show several at once."""

from __future__ import annotations

from msgspec.structs import replace

from actions.cluster.auth.kubeconfig import short_contexts
from tui.feeds.followed import FollowedCluster, each_once
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.present.cells import Span, Tone
from tui.present.home.clusters import ClusterFacts


def cluster_facts(services: ConsoleServices) -> tuple[ClusterFacts, ...]:
    """Return the facts of all clusters that are followed; none if it is one alone."""
    if len(services.clusters) == 1:
        return ()
    names = cluster_names(services)
    counted = each_once(services.clusters)
    found: list[ClusterFacts] = []
    for cluster in services.clusters:
        others = [one for one in counted if one is not cluster and one.is_same_as(cluster)]
        health, snapshot = cluster.health("nodes"), cluster.shown()
        trouble = cluster.problems.trouble
        found.append(
            ClusterFacts(
                key=cluster.key,
                name=names[cluster.key],
                place=cluster.feed.place,
                state=state_span(services, health),
                is_live=health.state is FeedState.LIVE,
                is_on_screen=cluster is services.followed.on_screen,
                same_as=names[others[0].key] if others and cluster not in counted else "",
                totals=trouble.totals if snapshot is not None else None,
                cost=cluster.cost(),
                unscheduled=trouble.unscheduled if snapshot is not None and cluster in counted else 0,
                is_searched=cluster.problems.found is not None,
            )
        )
    return tuple(found)


def cluster_names(services: ConsoleServices) -> dict[str, str]:
    """Return the names of all clusters that are followed, as they are shown, by context."""
    contexts = [cluster.feed.context_name or cluster.key for cluster in services.clusters]
    return dict(zip((cluster.key for cluster in services.clusters), short_contexts(contexts), strict=True))


def title_in(services: ConsoleServices, cluster: FollowedCluster, title: str) -> str:
    """Return the title of a page about one cluster, with its name where several are followed."""
    return f"{title} · {cluster_names(services)[cluster.key]}" if len(services.clusters) > 1 else title


def health_of_all(services: ConsoleServices, resource: str) -> FeedHealth:
    """Return the health of the first cluster that is in trouble, with its name; without one that of the one on screen.

    Of a single cluster that is its health.
    """
    troubled = [one for one in each_once(services.clusters) if _is_troubled(one.health(resource))]
    if not troubled or len(services.clusters) == 1:
        return services.health(resource)
    name, health = cluster_names(services)[troubled[0].key], troubled[0].health(resource)
    return replace(health, detail=f"{name}: {health.detail}" if health.detail else name)


def _is_troubled(health: FeedHealth) -> bool:
    return health.state in (FeedState.WAITING, FeedState.REFUSED)


def state_span(services: ConsoleServices, health: FeedHealth) -> Span:
    """Return the state of a cluster in a few words; bad if it does not answer, or refuses."""
    match health.state:
        case FeedState.LIVE:
            return Span("live", Tone.GOOD)
        case FeedState.STARTING:
            return Span(health.as_of, Tone.WARN) if health.as_of else Span("connecting", Tone.MUTED)
        case FeedState.WAITING | FeedState.REFUSED:
            return Span(services.label_of(health), Tone.BAD)
        case FeedState.ENDED:
            if health.as_of and not health.detail:  # the feed has not started yet
                return Span(health.as_of, Tone.WARN)
            return Span(health.detail or "not connected", Tone.MUTED)
