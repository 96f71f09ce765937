"""`eksml-tui pods`, `events` and `cost`: what the panes of these names show, printed once."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from actions.base.clock import SystemClock, timestamp_of
from actions.base.decoding import json_document
from actions.base.errors import AccessError
from actions.base.executors import beside
from actions.base.wording import aligned_text, rough_duration
from actions.cluster.auth.session import KubeSession
from actions.cluster.state.listing import event_list, fetch_events, fetch_labels, fetch_nodes, fetch_pods, pod_list
from actions.fleet.cost import CostModel, FleetCost, NodeCost, sum_of_costs, total_of
from actions.fleet.facts import UNUSED, EventFacts, NodeFacts, PodFacts
from actions.fleet.node_report import label_title
from actions.fleet.quantity import HOURS_PER_MONTH, UNKNOWN, format_usd
from actions.fleet.totals import FleetTotals, totals_of
from actions.run.paid import Paid, PaidThing, SeenNodes, paid_of
from actions.run.report import paid_fields
from tui.cli.tables.clusters import Asked, answers_of, ask_clusters, code_of, count_lines, fleet_lines
from tui.cli.tables.follow import ChangedRows
from tui.cli.tables.output import in_order, print_table, tell_left_out, tell_uncounted
from tui.cli.target import ask_cluster

T = TypeVar("T")

POD_FIELDS = (
    "namespace", "name", "phase", "reason", "message", "ready", "containers", "restarts", "node", "requests.cpu_milli",
    "requests.memory_bytes", "requests.gpu", "requests.neuron", "requests.efa", "requests.neuron_cores",
    "created_at", "started_at", "owner.kind", "owner.name", "run", "stage", "uid",
)  # fmt: skip
EVENT_FIELDS = ("last_seen_at", "type", "reason", "namespace", "kind", "name", "count", "message")
COST_FIELDS = (
    "instance_type", "capacity_type", "region", "pool", "nodes", "unpriced", "accelerators", "idle_accelerators",
    "usd_per_hour", "usd_per_month", "idle_usd_per_hour",
)  # fmt: skip


def print_pods(options: Namespace) -> int:
    """Print the pods of a namespace, or of all, and go on with changes if that is wanted."""
    if options.watch:
        ask_cluster(options, partial(_follow_pods, options))

    async def ask(session: KubeSession) -> tuple[list[PodFacts], dict[str, dict[str, str | None]]]:
        where = {"namespace": options.namespace, "labels": options.selector}
        async with beside(fetch_labels(session, "Pod", options.label_columns, **where)) as labels:
            found = await fetch_pods(session, **where, left_out=tell_left_out, uncounted=tell_uncounted)
            return found, await labels

    clusters = _listed(options, ask)
    found = {one.name: [pod for pod in pods if _is_wanted(options, pod)] for one, (pods, _) in answers_of(clusters)}
    labels = {uid: values for _, (_, of_pods) in answers_of(clusters) for uid, values in of_pods.items()}
    pods = [(name, pod) for name, of_one in found.items() for pod in of_one]
    pods.sort(key=lambda one: (one[0], one[1].namespace, one[1].name))

    def document_of(one: tuple[str, PodFacts]) -> dict[str, Any]:
        name, pod = one
        own = pod_document(pod) | ({"labels": labels.get(pod.uid, {})} if options.label_columns else {})
        return {"cluster": name, **own} if name else own

    several = ["cluster"] if options.several else []
    pods = in_order(pods, options.sort_by, document_of, [*several, *POD_FIELDS])
    now = SystemClock().now().timestamp()
    heads = [*map(label_title, several), *POD_HEADS, *map(label_title, options.label_columns)]
    nothing = f"No pods{f' in {options.namespace}' if options.namespace else ''}.\n"
    is_bare = options.no_headers or not sys.stdout.isatty()
    head = [] if is_bare else count_lines(clusters, lambda one: len(found[one.name]), "pod")

    def table() -> str:
        rows = ([*[name] * bool(several), *_pod_cells(pod, now, labels)] for name, pod in pods)
        text = _table_text(heads, rows, nothing, right=(4 + len(several),))
        return "\n".join([*head, *(["", text] if pods else [""])]) if head else text

    print_table(
        options.output,
        table=table,
        document=lambda: json_document([document_of(pod) for pod in pods]),
        fields=[*several, *POD_FIELDS],
        noun="pod",
        has_heads=not options.no_headers,
    )
    return code_of(clusters)


def print_events(options: Namespace) -> int:
    """Print the newest events, oldest first, and go on with new ones if that is wanted."""
    if options.watch:
        ask_cluster(options, partial(_follow_events, options))
    (asked,) = _listed(options, lambda session: fetch_events(session, options.namespace, left_out=tell_left_out))
    found = asked.answer or []
    events = [event for event in found if _is_wanted_event(options, event)]
    events = in_order(events, options.sort_by, event_document, EVENT_FIELDS)
    now = SystemClock().now().timestamp()
    print_table(
        options.output,
        table=lambda: _table_text(EVENT_HEADS, (_event_cells(event, now) for event in events), "No events.\n"),
        document=lambda: json_document([event_document(event) for event in events]),
        fields=EVENT_FIELDS,
        has_heads=not options.no_headers,
    )
    return 0


def print_cost(options: Namespace) -> int:
    """Print the hourly cost of all nodes that are bought alike, of all else that runs pay for, and the sum."""
    from actions.run.summaries import list_runs

    async def ask(session: KubeSession) -> tuple[list[tuple[tuple[str, ...], FleetCost]], SeenNodes]:
        listed, identity = await fetch_nodes(session, left_out=tell_left_out), await session.identity()
        tell_uncounted(listed.unlisted_devices)
        model = CostModel.load(region=identity.region or options.region)
        costs = [(node, model.node_cost(node, listed.usage.get(node.name, UNUSED))) for node in listed.nodes]
        nodes, total = {node.name: node for node in listed.nodes}, total_of(cost for _, cost in costs)
        by_name = {node.name: cost for node, cost in costs}
        return cost_groups(costs), SeenNodes(identity.name, identity.region, nodes, by_name, {}, total)

    clusters = ask_clusters(options, ask)
    answers = answers_of(clusters)
    groups = [(one.name, group, cost) for one, (found, _) in answers for group, cost in found]
    groups.sort(key=lambda one: -one[2].usd_per_hour)
    runs = [run.paid for run in list_runs() if run.paid is not None]
    paid = paid_of(
        runs,
        [seen for _, (_, seen) in answers],
        is_simulated=bool(getattr(options, "demo", False)),
        is_whole=not any(one.error for one in clusters),
    )
    total = sum_of_costs(seen.total for _, (_, seen) in answers)
    head = fleet_lines(clusters, lambda one: _fleet_of(one.answer))
    documents = [one.document(_cost_fields(one.answer[1].total) if one.answer else None) for one in clusters]
    print_table(
        options.output,
        table=lambda: "\n".join([*head, *[""] * bool(head), _cost_table(groups, total, paid)]),
        document=lambda: cost_json(groups, total, paid, documents if options.several else []),
        rows="groups",
        fields=[*["cluster"] * bool(options.several), *COST_FIELDS],
    )
    return code_of(clusters)


def _fleet_of(answer: tuple[object, SeenNodes] | None) -> tuple[FleetTotals, FleetCost]:
    nodes = answer[1].nodes.values() if answer else ()
    return totals_of(nodes, {}), answer[1].total if answer else total_of(())


def _listed(options: Namespace, ask: Callable[[KubeSession], Awaitable[T]]) -> list[Asked[T]]:
    """Ask one cluster or several for a list of a namespace or of all; a refusal names the option that asks for one.

    Raises:
        AccessError: It is not allowed.
    """
    try:
        return ask_clusters(options, ask)
    except AccessError as error:
        if options.namespace:
            raise
        raise AccessError(error.message, hint="Ask for one namespace, with -n NAME, or for the right.") from error


async def _follow_pods(options: Namespace, session: KubeSession) -> None:
    def cells(pod: PodFacts) -> list[str]:
        return _pod_cells(pod, SystemClock().now().timestamp(), {})

    rows = ChangedRows(options, POD_HEADS, cells, pod_document, noun="pod", is_wanted=partial(_is_wanted, options))
    await rows.follow(session, pod_list(options.namespace))


async def _follow_events(options: Namespace, session: KubeSession) -> None:
    def cells(event: EventFacts) -> list[str]:
        return _event_cells(event, SystemClock().now().timestamp())

    rows = ChangedRows(options, EVENT_HEADS, cells, event_document, is_wanted=partial(_is_wanted_event, options))
    await rows.follow(session, event_list(options.namespace))


def _is_wanted_event(options: Namespace, event: EventFacts) -> bool:
    return not options.warnings or event.type == "Warning"


def _is_wanted(options: Namespace, pod: PodFacts) -> bool:
    """Return whether a pod is on the node, and of the run, that the options name."""
    return (not options.node or pod.node == options.node) and (not options.of_run or pod.run == options.of_run)


def pod_document(pod: PodFacts) -> dict[str, Any]:
    """Return a pod with the keys that docs/commands.md names."""
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "phase": pod.phase,
        "reason": pod.reason,
        "message": pod.message,
        "ready": pod.ready,
        "containers": list(pod.containers),
        "restarts": pod.restarts,
        "node": pod.node,
        "requests": {name: getattr(pod.requests, name) for name in pod.requests.__struct_fields__},
        "created_at": timestamp_of(pod.created_at or None),
        "started_at": timestamp_of(pod.started_at or None),
        "owner": {"kind": pod.owner_kind, "name": pod.owner_name},
        "run": pod.run,
        "stage": pod.stage,
        "uid": pod.uid,
    }


def event_document(event: EventFacts) -> dict[str, Any]:
    """Return an event with the keys that docs/commands.md names."""
    return {
        "last_seen_at": timestamp_of(event.last_seen_at or None),
        "type": event.type,
        "reason": event.reason,
        "namespace": event.namespace,
        "kind": event.kind,
        "name": event.name,
        "count": event.count,
        "message": event.message,
    }


def cost_groups(costs: Iterable[tuple[NodeFacts, NodeCost]]) -> list[tuple[tuple[str, ...], FleetCost]]:
    """Return type, purchase option, region and pool of the nodes that are bought alike, with their sums."""
    groups: dict[tuple[str, ...], list[NodeCost]] = {}
    for node, cost in costs:
        groups.setdefault((node.instance_type, node.capacity_type, node.region, node.pool), []).append(cost)
    sums = [(group, total_of(members)) for group, members in groups.items()]
    return sorted(sums, key=lambda one: (-one[1].usd_per_hour, one[0]))


def cost_json(
    groups: Iterable[tuple[str, tuple[str, ...], FleetCost]],
    total: FleetCost,
    paid: Paid,
    clusters: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the document of `eksml-tui cost -o json`; groups of several clusters have the name of theirs."""
    return json_document(
        {
            "summary": _cost_fields(total),
            **({"clusters": clusters} if clusters else {}),
            "paid": [
                {"run": one.run, **fields} for one, fields in zip(paid.things, paid_fields(paid.things), strict=True)
            ],
            "total": {
                "usd_per_hour": _number(paid.hourly.usd) if paid.hourly.is_known else None,
                "is_lower_bound": paid.hourly.is_lower_bound,
            },
            "groups": [
                ({"cluster": name} if name else {})
                | dict(zip(COST_FIELDS[:4], group, strict=True))
                | _cost_fields(cost)
                for name, group, cost in groups
            ],
        }
    )


def _cost_fields(cost: FleetCost) -> dict[str, Any]:
    return {
        "nodes": cost.nodes,
        "unpriced": cost.unpriced,
        "accelerators": cost.accelerators,
        "idle_accelerators": cost.idle_accelerators,
        "usd_per_hour": _number(cost.usd_per_hour) if cost.hourly.is_known else None,
        "usd_per_month": _number(cost.usd_per_month) if cost.hourly.is_known else None,
        "idle_usd_per_hour": _number(cost.idle_usd_per_hour) if cost.idle.is_known else None,
    }


POD_HEADS = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "NODE")
EVENT_HEADS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def _pod_cells(pod: PodFacts, now: float, labels: Mapping[str, Mapping[str, str | None]]) -> list[str]:
    """Return the cells of a pod at a time, in seconds since the epoch, with its labels by uid, if there are some."""
    return [
        pod.namespace,
        pod.name,
        f"{pod.ready}/{len(pod.containers)}",
        pod.reason or pod.phase or "-",
        str(pod.restarts),
        _age(now, pod.created_at),
        pod.node or "-",
        *(value or "-" for value in labels.get(pod.uid, {}).values()),
    ]


def _event_cells(event: EventFacts, now: float) -> list[str]:
    """Return the cells of an event at a time, in seconds since the epoch."""
    return [
        _age(now, event.last_seen_at),
        event.type,
        event.reason,
        f"{event.kind} {event.namespace}/{event.name}" if event.namespace else f"{event.kind} {event.name}",
        event.message if event.count < 2 else f"{event.message} (×{event.count})",
    ]


def _table_text(
    heads: Sequence[str], rows: Iterable[Sequence[str]], nothing: str, *, right: Collection[int] = ()
) -> str:
    lines = [heads, *rows]
    return aligned_text(lines, right=right) if len(lines) > 1 else nothing


def _cost_table(groups: list[tuple[str, tuple[str, ...], FleetCost]], total: FleetCost, paid: Paid) -> str:
    if not groups and not paid.things:
        return "No nodes.\n"
    several = int(any(name for name, _, _ in groups))
    lines = [
        [
            *["CLUSTER"] * several,
            "TYPE",
            "BOUGHT",
            "REGION",
            "POOL",
            "NODES",
            "$/HOUR",
            "$/MONTH",
            "ACCEL",
            "IDLE",
            "IDLE $/HOUR",
        ]
    ]
    for name, group, cost in groups:
        known, idle_known = cost.unpriced < cost.nodes, not cost.idle_unpriced
        lines.append(
            [
                *[name] * several,
                *(word or "-" for word in group),
                str(cost.nodes),
                format_usd(cost.usd_per_hour) if known else "?",
                format_usd(cost.usd_per_month) if known else "?",
                str(cost.accelerators) if cost.accelerators else "-",
                str(cost.idle_accelerators) if cost.accelerators else "-",
                (format_usd(cost.idle_usd_per_hour) if idle_known else "?") if cost.accelerators else "-",
            ]
        )
    lines += [
        [*["-"] * several, one.title, one.state or "-", "-", one.run, "-", *_amounts(one), "-", "-", "-"]
        for one in paid.things
    ]
    parts = [", ".join(paid.parts)] if paid.parts else []
    sums = [paid.hourly.text, paid.hourly.monthly_text, *parts, *([total.idle_text] if total.idle_text else [])]
    return aligned_text(lines, right=range(4 + several, 10 + several)) + "\n" + " | ".join(sums) + "\n"


def _amounts(thing: PaidThing) -> tuple[str, str]:
    """Return the price of an hour and of a month; of what may exist in brackets, as they are in no sum."""
    if thing.usd_per_hour is None:
        return UNKNOWN, UNKNOWN
    hour, month = format_usd(thing.usd_per_hour), format_usd(thing.usd_per_hour * HOURS_PER_MONTH)
    return (hour, month) if thing.is_certain else (f"({hour})", f"({month})")


def _age(now: float, then: float) -> str:
    return rough_duration(now - then) if then else "?"


def _number(amount: Decimal) -> float:
    return round(float(amount), 6)
