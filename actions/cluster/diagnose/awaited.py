"""What pods without a node wait for: the node claims that were named to them, the volumes that they mount."""

from __future__ import annotations

import re

import msgspec

from actions.cluster.diagnose.case import Case, Event, Pod, Thing

_NAMED = re.compile(r"nodeclaim/([\w.-]+)")
_KINDS = ("NodeClaim", "NodePool", "PersistentVolumeClaim")


class Awaited(msgspec.Struct, frozen=True):
    """What some pods wait for. Where no claim was named to them, it may be any."""

    is_homeless: bool
    node_claims: frozenset[str]
    volume_claims: frozenset[str]

    def holds_claim(self, claim: Thing) -> bool:
        """Whether they may wait for that node claim."""
        return self.is_homeless and (not self.node_claims or claim.name in self.node_claims)

    def holds_event(self, event: Event) -> bool:
        """Whether the event may be about what they wait for."""
        if not self.is_homeless or event.kind not in _KINDS:
            return False
        if event.kind == "PersistentVolumeClaim":
            return event.name in self.volume_claims
        return event.kind == "NodePool" or not self.node_claims or event.name in self.node_claims


def awaited_by(evidence: Case, pods: tuple[Pod, ...]) -> Awaited:
    """What the pods wait for, as the case's events and their own volumes tell."""
    names = {pod.name for pod in pods}
    told = (event.message for event in evidence.events if event.kind == "Pod" and event.name in names)
    return Awaited(
        is_homeless=any(pod.is_unscheduled for pod in pods),
        node_claims=frozenset(name for message in told for name in _NAMED.findall(message)),
        volume_claims=frozenset(name for pod in pods for name in pod.volume_claims),
    )
