"""Names of siblings, shortened to what tells them apart."""

from __future__ import annotations

from collections.abc import Sequence


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Drop the leading words (separated by `-`) that all of `names` share; a lone name keeps its last two words.

    `esm1nv-pretraining-master-0`, `esm1nv-pretraining-worker-3` become `master-0`, `worker-3`; with workers
    alone they keep that word.
    """
    if not names:
        return {}
    words = [name.split("-") for name in names]
    shortest = min(len(parts) for parts in words)
    if len(set(names)) == 1:
        shared = max(0, shortest - 2)
    else:
        shared = 0
        while shared < shortest - 1 and len({parts[shared] for parts in words}) == 1:
            shared += 1
        if shared and any(parts[shared].isdigit() for parts in words):
            shared -= 1  # a bare number is nobody's name
    return {name: "-".join(parts[shared:]) for name, parts in zip(names, words, strict=True)}
