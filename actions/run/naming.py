"""Ids of runs, shown as far as they differ."""

from __future__ import annotations

import re
from collections.abc import Collection

_SHORTEST = 4
_WITH_RANDOM = re.compile(r"(.*-)([a-z2-7]{13})")


def short_ids(run_ids: Collection[str]) -> dict[str, str]:
    """The beginning of each id that tells it from the others, with four random digits at least; old ids are whole."""
    return {run_id: _short(run_id, run_ids) for run_id in run_ids}


def _short(run_id: str, others: Collection[str]) -> str:
    parts = _WITH_RANDOM.fullmatch(run_id)
    if parts is None:
        return run_id
    for length in range(len(parts[1]) + _SHORTEST, len(run_id)):
        if not any(other.startswith(run_id[:length]) for other in others if other != run_id):
            return run_id[:length]
    return run_id
