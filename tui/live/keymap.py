"""Keys of the operator's own, as the console is started with."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Keymap(msgspec.Struct, frozen=True):
    """What the operator has changed.

    Args:
        moved: Other keys for what is in the table, by the id that docs/keys.md gives: `pods.shell`.
        lines: Lines as typed after `:`, by key; they work everywhere.
    """

    moved: Mapping[str, str] = msgspec.field(default_factory=dict)
    lines: Mapping[str, str] = msgspec.field(default_factory=dict)


NO_CHANGES = Keymap()
"""The keys as they are shipped."""
