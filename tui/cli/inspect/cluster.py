"""`eksml-tui nodes` and `eksml-tui why`: the node table and the diagnosis, printed once."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actions.base.errors import FormatError, InputError, ReaderDefectError, UnreadableError, reading
from actions.base.executors import beside
from actions.base.files import open_file
from actions.cluster.auth.session import KubeSession
from actions.cluster.state.listing import ListedNodes, fetch_labels, fetch_nodes, node_list
from actions.fleet.cost import CostModel, FleetCost, total_of
from actions.fleet.facts import UNUSED, NodeFacts, state_of
from actions.fleet.node_report import (
    NodeLine,
    node_document,
    node_lines,
    nodes_json,
    nodes_table,
    summary_document,
    totals_of_lines,
)
from actions.fleet.quantity import UNKNOWN
from actions.fleet.totals import FleetTotals
from tui.cli.tables.clusters import Asked, answers_of, ask_clusters, code_of, fleet_lines
from tui.cli.tables.follow import ChangedRows
from tui.cli.tables.output import in_order, print_table, tell_left_out, tell_refused, tell_uncounted
from tui.cli.target import ask_cluster

if TYPE_CHECKING:
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.diagnose.select import ObjectSelector


_RESOURCES = ("cpu_milli", "memory_bytes", "gpu", "neuron", "efa", "neuron_cores")
NODE_FIELDS = (
    "name", "instance_type", "region", "zone", "capacity_type", "pool", "state", "ready", "schedulable", "pods",
    "pods_allocatable", *(f"requested.{name}" for name in _RESOURCES), *(f"allocatable.{name}" for name in _RESOURCES),
    "accelerators", "idle_accelerators", "idle_usd_per_hour", "price.usd_per_hour", "price.source", "price.as_of",
    "created_at", "version",
)  # fmt: skip
_FINDING_FIELDS = ("code", "severity", "headline", "evidence", "next_step")


class _Nodes(msgspec.Struct, frozen=True):
    """The nodes of one cluster, with the values of labels by their uid, and the region of the cluster."""

    listed: ListedNodes
    labels: dict[str, dict[str, str | None]]
    region: str

    def lines(self, cluster: str, region: str) -> list[NodeLine]:
        """Return a line for each, of a cluster of that name; `region` where its own is unknown."""
        model = CostModel.load(region=self.region or region)
        return node_lines(self.listed.nodes, self.listed.usage, model, labels=self.labels, cluster=cluster)


def print_nodes(options: Namespace) -> int:
    """Print the nodes of a cluster, or of several, with usage and cost, and go on with changes if that is wanted.

    Returns:
        0; 1 if one of several clusters has not answered.
    """

    async def ask(session: KubeSession) -> _Nodes:
        identity = await session.identity()
        async with beside(fetch_labels(session, "Node", options.label_columns, labels=options.selector)) as labels:
            listed = await fetch_nodes(session, labels=options.selector, left_out=tell_left_out)
            return _Nodes(listed, await labels, identity.region)

    if options.watch:
        ask_cluster(options, partial(_follow, options))
    clusters = ask_clusters(options, ask)
    is_bare = options.no_headers or not sys.stdout.isatty()
    reasons = [found.listed.unlisted_devices for _, found in answers_of(clusters)]
    for reason in reasons:
        tell_uncounted(reason)
    by_context = {one.context: found.lines(one.name, options.region) for one, found in answers_of(clusters)}
    lines = in_order(chain.from_iterable(by_context.values()), options.sort_by, NodeLine.document, NODE_FIELDS)
    regions = [found.region or options.region for _, found in answers_of(clusters)]

    def sums(context: str) -> object:
        return summary_document(by_context[context]) if context in by_context else None

    documents = [one.document(sums(one.context)) for one in clusters] if options.several else []
    print_table(
        options.output,
        table=lambda: nodes_table(lines, head=_sums(clusters, by_context), is_bare=is_bare),
        document=lambda: nodes_json(
            lines,
            region=None if documents else regions[0],
            leaves_out_claims=any(reasons),
            clusters=documents,
        ),
        rows="nodes",
        fields=["cluster", *NODE_FIELDS] if documents else NODE_FIELDS,
        noun="node",
        has_heads=not options.no_headers,
    )
    return code_of(clusters)


def _sums(clusters: Sequence[Asked[_Nodes]], by_context: Mapping[str, Sequence[NodeLine]]) -> list[str]:
    def sums_of(one: Asked[_Nodes]) -> tuple[FleetTotals, FleetCost]:
        lines = by_context[one.context]
        return totals_of_lines(lines), total_of(line.cost for line in lines)

    return fleet_lines(clusters, sums_of)


async def _follow(options: Namespace, session: KubeSession) -> None:
    """Print nodes, and each that changes, until interrupted; what pods request on them is left out."""
    model = CostModel.load(region=session.region or options.region)

    def cells(node: NodeFacts) -> list[str]:
        price = model.node_cost(node, UNUSED).price
        facts = (node.name, node.instance_type, node.zone, node.capacity_type, node.pool)
        return [*(fact or "-" for fact in facts), f"{price.usd_per_hour:.4f}" if price else UNKNOWN, state_of(node)]

    def document(node: NodeFacts) -> dict[str, object]:
        whole = node_document(node, UNUSED, model.node_cost(node, UNUSED))
        return {name: value for name, value in whole.items() if name not in _OF_PODS}

    await ChangedRows(options, _HEADS, cells, document, noun="node").follow(session, node_list(session))


_HEADS = ("NAME", "TYPE", "ZONE", "CAPACITY", "POOL", "$/HOUR", "STATE")
_OF_PODS = ("pods", "requested", "idle_accelerators", "idle_usd_per_hour")
"""Keys of a node that need the pods on it."""
_STDIN = Path("-")


def print_findings(options: Namespace) -> int:
    """Print the findings on an object, a captured file, or the whole cluster.

    Returns:
        0; 1 if an all-clear would be a guess, as of a text in which nothing is found.
    """
    from actions.cluster.diagnose.codes import Code, findings_json, findings_text

    found, paste = _read(options) if options.source is not None else (_ask(options), "")
    unknown = "Nothing in this text names a trouble that is known; whether there is one it does not show.\n"
    print_table(
        options.output,
        table=lambda: unknown if paste and not found else findings_text(found),
        document=lambda: findings_json(found),
        fields=_FINDING_FIELDS,
    )
    if paste:
        sys.stderr.write(f"eksml-tui: Read from the text: {paste}.\n")
    return int(any(one.code is Code.NOT_KNOWN for one in found) or bool(paste and not found))


def _read(options: Namespace) -> tuple[list[Finding], str]:
    """Return the findings on a captured file, and what was recognised in it if it is a text."""
    from actions.cluster.diagnose.engine import answer
    from actions.cluster.diagnose.parse_input import parse_evidence
    from actions.cluster.diagnose.select import select_evidence

    data = _bytes_of(options.source)
    try:
        with reading():
            evidence, is_one = parse_evidence(data, source=str(options.source))
            if options.object:
                evidence, is_one = select_evidence(evidence, _question(options.object, options.namespace)), True
            return answer(evidence, is_one=is_one), evidence.paste
    except ReaderDefectError as error:
        raise UnreadableError(error.message, file=str(options.source)) from error


def _bytes_of(path: Path) -> bytes:
    """Read a file, unpacked and in UTF-8: PowerShell redirects into UTF-16."""
    from actions.telemetry.readings.source import text_pieces

    try:
        if path == _STDIN:
            return b"".join(text_pieces(sys.stdin.buffer))
        with open_file(path, may_be_pipe=True, waits=True) as file:
            return b"".join(text_pieces(file))
    except FormatError as error:
        raise InputError(error.message, file=str(path)) from error
    except OSError as error:
        raise InputError(f"It cannot be read: {error.strerror or error}.", file=str(path)) from error


def _question(text: str, namespace: str) -> ObjectSelector:
    from actions.cluster.diagnose.select import ObjectSelector
    from tui.present.subject import parse_subject

    subject = parse_subject(text, default_namespace=namespace)
    return ObjectSelector(subject.kind, subject.name, subject.namespace)


def _ask(options: Namespace) -> list[Finding]:
    async def ask(session: KubeSession) -> list[Finding]:
        from actions.cluster.diagnose.collect import explain

        selector = _question(options.object, session.namespace or "default") if options.object else None
        refused: set[str] = set()
        found = await explain(session, selector, namespace=options.namespace or "", refused=refused)
        tell_refused(refused)
        return found

    return ask_cluster(options, ask)
