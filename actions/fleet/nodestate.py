"""The word that says what a node is doing."""

from __future__ import annotations

from actions.fleet.facts import NodeFacts

_DISRUPTED = "karpenter.sh/disrupted"
_DISRUPTION = "karpenter.sh/disruption"


def state_of(node: NodeFacts) -> str:
    """`Ready`, `NotReady`, and what keeps pods away: `Ready,Cordoned`, `Ready,Disrupted` (Karpenter drains it).

    Source: taints of Karpenter v1 (`karpenter.sh/disrupted`) and v1beta1 (`karpenter.sh/disruption`).
    """
    words = ["Ready" if node.is_ready else "NotReady"]
    if any(taint.startswith((_DISRUPTED, _DISRUPTION)) for taint in node.taints):
        words.append("Disrupted")
    elif not node.is_schedulable:
        words.append("Cordoned")
    return ",".join(words)
