"""The block in a run's folder that says why the run can only be watched there.

Readers show it, and what would act on the run refuses. Whoever knows the reason writes it, in words. A folder with such
a block gets no runner; what is known of one elsewhere is in the block, too.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.decoding import decode_json
from actions.base.errors import RefusedError
from actions.run.journal.folder import read_block, watched_path, write_block
from actions.run.state.view import Notice, NoticeKind, RunView, is_watched_only


class WatchedOnly(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reason for which a run can only be watched in its folder."""

    text: str
    """One sentence."""
    hint: str = ""
    """The remedy."""
    who: str = ""
    """`user@host` of who carries it out, for lists; empty in a folder that is no more than a copy."""
    epoch: int = 0
    """It is past once the run's own epoch is as high; 0 for one that does not pass."""
    at: float | None = None
    """Seconds since the epoch: when it was found out."""
    writer: str = ""
    """Token of a runner that is alive elsewhere; empty without one."""
    notes: dict[str, str] = {}
    """Progress messages of that by stage id."""
    troubles: dict[str, str] = {}
    """Present trouble of pods by stage id."""

    def holds_for(self, view: RunView) -> bool:
        """Return whether it is not past."""
        return not self.epoch or view.epoch < self.epoch

    def notice(self) -> Notice:
        """Return it as readers show it."""
        return Notice(NoticeKind.ELSEWHERE, self.text, self.at, hint=self.hint)


def read_watched(folder: Path) -> WatchedOnly | None:
    """Return why a run can only be watched; `None` if no reason is known."""
    try:
        return decode_json(read_block(watched_path(folder)), WatchedOnly)
    except msgspec.MsgspecError:
        return None


def write_watched(folder: Path, watched: WatchedOnly) -> None:
    """Replace the block; messages that are too long for it are left out. Failure is ignored, as on a full disk."""
    if not write_block(watched_path(folder), msgspec.json.encode(watched)):
        write_block(watched_path(folder), msgspec.json.encode(replace(watched, notes={}, troubles={})))


def end_watching(folder: Path) -> None:
    """Make the run one of this machine: readers look for a runner here from now on."""
    watched_path(folder).unlink(missing_ok=True)


def refuse_watched(view: RunView) -> None:
    """Refuse to act on a run that can only be watched here.

    Raises:
        RefusedError: With the reason, and the remedy.
    """
    for notice in view.notices:
        if is_watched_only([notice]):
            raise RefusedError(
                f"{view.id} cannot be acted on: {notice.text[0].lower()}{notice.text[1:]}", hint=notice.hint
            )
