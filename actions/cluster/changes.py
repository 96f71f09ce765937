"""Which nodes and pods differ between two pictures of a cluster, so that a screen need not look at all of them."""

from __future__ import annotations

from collections import deque

import msgspec

_MOST_STEPS = 64
_MOST_KEYS = 10_000


class Changes(msgspec.Struct, frozen=True):
    """What has changed, come or gone. A node counts as changed too when the requests on it have."""

    nodes: frozenset[str]
    """Names."""
    pods: frozenset[str]
    """`namespace/name`."""


class _Step(msgspec.Struct, frozen=True):
    before: int
    after: int
    changes: Changes | None


class ChangeLog:
    """Keys that changed, step by step; a step is what lies between two pictures.

    Bounded: of steps long past, and of those that changed most of the cluster, it only knows that everything has to
    be looked at. Used on one loop.
    """

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque(maxlen=_MOST_STEPS)
        self._nodes: set[str] = set()
        self._pods: set[str] = set()

    def node(self, name: str) -> None:
        """A node changed."""
        self._nodes.add(name)

    def pod(self, key: str) -> None:
        """A pod changed."""
        self._pods.add(key)

    def close(self, before: int, after: int, *, is_held: bool = False) -> None:
        """End a step: there is a picture of revision `after`, and the one before it had revision `before`.

        Args:
            before: Of the picture before.
            after: Of the new one.
            is_held: The new one does not show all that changed; what changed so far belongs to the next step too.
        """
        is_small = len(self._nodes) + len(self._pods) <= _MOST_KEYS
        changes = Changes(frozenset(self._nodes), frozenset(self._pods)) if is_small else None
        self._steps.append(_Step(before, after, changes))
        if not is_held:
            self._nodes, self._pods = set(), set()

    def between(self, before: int, after: int) -> Changes | None:
        """What differs between two pictures; `None` if that is not known any more."""
        steps = [step for step in self._steps if before < step.after <= after]
        if before == after:
            return Changes(frozenset(), frozenset())
        if not steps or steps[0].before > before:
            return None
        known = [step.changes for step in steps if step.changes is not None]
        if len(known) < len(steps):
            return None
        if len(known) == 1:
            return known[0]
        return Changes(
            frozenset().union(*(changes.nodes for changes in known)),
            frozenset().union(*(changes.pods for changes in known)),
        )
