"""Pools that give a pod no node: at their limit, of other instance types, behind a taint; and nodes that do not fit.

Source: kubernetes-sigs/karpenter `scheduling` (v0.3x–1.x): one message lists every pool with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.case import Case
from actions.cluster.diagnose.finding import Finding, finding
from actions.cluster.diagnose.resources import ACCELERATORS, EFA, is_accelerator
from actions.cluster.diagnose.unscheduled import Refusal, pod_names, quotes_of, refusals
from actions.cluster.diagnose.vocabulary import Code

_POOL = re.compile(r'nodepool[ "=]+"?([\w.-]+)"?', re.IGNORECASE)
_TAINT = re.compile(r"did not tolerate (?:taint \(taint=)?([^\s;,()]+)")
_LIMIT = re.compile(
    r"exceed(?:s|ed)? (?:the )?limits? for (?:nodepool|provisioner)|nodepool[^\n]{0,40}limits? (?:have been )?exceeded"
)
_LIMIT_POOL = re.compile(r'for (?:nodepool|provisioner):? (?:\((?:NodePool|provisioner)=|")?([\w.-]+)')
_MISMATCH = re.compile(
    r"no instance type (?:met|satisfied|has|which)|incompatible requirements|filtered out all available instance types"
    r"|no nodepools found|minValues requirement"
)
_WISHES = (
    re.compile(r"instance-gpu-name In \[([^\]]+)\]"),
    re.compile(r"instance-type In \[([^\]]+)\]"),
    re.compile(r'"(?:nvidia\.com/gpu|aws\.amazon\.com/neuron)":"(\d+)"'),
    re.compile(r"topology\.kubernetes\.io/zone In \[([^\]]+)\]"),
)
_MISFITS = (
    "didn't match",
    "didn't satisfy",
    "didn't have free ports",
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient pods",
    "Insufficient ephemeral-storage",
    "Too many pods",
    "were unschedulable",
    "taint {node.kubernetes.io/unschedulable",
    "taint {node.kubernetes.io/memory-pressure",
    "taint {node.kubernetes.io/pid-pressure",
    "taint {ToBeDeletedByClusterAutoscaler",
)


def find_pool_limits(evidence: Case) -> Iterator[Finding]:
    """Why no node is added, or none of those there fits."""
    refused = list(refusals(evidence))
    yield from _limits(refused)
    yield from _taints(refused)
    yield from _mismatches(refused)
    yield from _misfits(refused)


def _limits(refused: list[Refusal]) -> Iterator[Finding]:
    full = [one for one in refused if _LIMIT.search(one.message)]
    if full:
        found = _LIMIT_POOL.search(full[0].message) or _POOL.search(full[0].message)
        pool = f' "{found[1]}"' if found else ""
        yield finding(
            Code.NODEPOOL_LIMIT,
            f"NodePool{pool} has reached its resource limit: no node is added for {pod_names(full)}",
            quotes_of(full),
            "Raise spec.limits of the NodePool (nvidia.com/gpu, cpu or memory), or free nodes of it.",
        )


def _taints(refused: list[Refusal]) -> Iterator[Finding]:
    """A taint that is the only objection, or one that stands before an accelerator."""
    for one in refused:
        keys = _TAINT.findall(one.message)
        key = next((word for word in keys if word.startswith(ACCELERATORS)), "")
        if not key and keys and not _MISMATCH.search(one.message):
            key = keys[0]
        if key and not _LIMIT.search(one.message):
            yield finding(
                Code.TAINT,
                f"{one.pod or 'The pod'} does not tolerate the taint {key} of the node pool",
                [one.message],
                f"Add a toleration for {key.split('=')[0].split(':')[0]} to the pod.",
            )
            return


def _mismatches(refused: list[Refusal]) -> Iterator[Finding]:
    unfit = [one for one in refused if _MISMATCH.search(one.message)]
    if unfit:
        found = _POOL.search(unfit[0].message)
        pool = f'in NodePool "{found[1]}" ' if found else ""
        wishes = [match[1] for expression in _WISHES if (match := expression.search(unfit[0].message))]
        yield finding(
            Code.NODEPOOL_MISMATCH,
            f"No instance type {pool}fits {pod_names(unfit)}" + (f" ({', '.join(wishes)})" if wishes else ""),
            quotes_of(unfit),
            "Relax the zone, instance or GPU requirement of the pod, or widen the requirements of the NodePool.",
        )


def _is_special(refusal: Refusal) -> bool:
    """Whether it is accelerators, or what goes with them, that nodes have too little of."""
    return any(name == EFA or is_accelerator(name) for name in refusal.short_of())


def _misfits(refused: list[Refusal]) -> Iterator[Finding]:
    """Labels, processors or memory that no node that is there has."""
    unfit = [one for one in refused if one.has(*_MISFITS) and (one.is_misfit or not _is_special(one))]
    if unfit:
        reasons = ", ".join(f"{count or ''} {reason}".strip() for reason, count in unfit[0].reasons.items())
        yield finding(
            Code.NODEPOOL_MISMATCH,
            f"No node fits {pod_names(unfit)}{f': {reasons}' if reasons else ''}",
            quotes_of(unfit),
            "Compare the pod's node selector, affinity and requests with the nodes' labels and free room.",
        )
