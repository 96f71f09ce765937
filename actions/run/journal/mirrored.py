"""The mark of a folder that is a copy of a run of another machine: where from, how fresh, and who carries the run out.

A copy has no runner and takes no records: its readers take the runner's state from the mark, as the store gave it. A
run that is about to come to this machine has a mark, too, until all of it is here and the earlier machine is fenced.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from actions.base.clock import time_of_day
from actions.base.decoding import decode_json
from actions.base.errors import RefusedError
from actions.base.files import read_file, state_folder, write_private
from actions.run.journal.elsewhere import takeover_command
from actions.run.state.records import Operator
from actions.run.state.view import Notice, NoticeKind

_NAME = "mirror.json"
_MOST_BYTES = 4 << 20
STALE_SECONDS = 60.0
"""Time without an answer of the store after which a copy is reported as old."""
_ARRIVING = "Its takeover by this machine has not come to its end."


class MirrorMark(msgspec.Struct, frozen=True):
    """The mark, written with each copy."""

    store: str
    """`s3://BUCKET/PREFIX`"""
    fetched_at: float
    """Seconds since the epoch, by this machine's clock."""
    last_seq: int = 0
    """Number of the newest record in the copy."""
    epoch: int = 1
    owner: Operator | None = None
    """The operator and machine that carry the run out."""
    lease_seconds: float = 0.0
    """Time for which its lease holds; 0 if there is none, or it was given back."""
    age_seconds: float = 0.0
    """Age of the lease when it was read, by the store's clock."""
    writer: str = ""
    """The runner's token."""
    notes: dict[str, str] = {}
    troubles: dict[str, str] = {}
    etags: dict[str, str] = {}
    """Of small files and open ends of output, by name."""
    is_arriving: bool = False
    """It is not a copy: a takeover by this machine has not come to its end."""

    @property
    def is_live(self) -> bool:
        """True if the run had a runner when the copy was made."""
        return self.lease_seconds > 0 and self.age_seconds <= self.lease_seconds

    def notices(self, run_id: str, now: float, *, is_unattended: bool) -> tuple[Notice, ...]:
        """Return what a reader has to report of the copy and of the run's machine.

        Args:
            run_id: The run's id.
            now: Seconds since the epoch.
            is_unattended: Work is left.
        """
        if self.is_arriving:
            return (
                Notice(NoticeKind.ELSEWHERE, f"{_ARRIVING} Repeat it if it was interrupted: {self.command(run_id)}"),
            )
        found = [Notice(NoticeKind.ELSEWHERE, self._elsewhere(run_id, is_unattended=is_unattended))]
        if now - self.fetched_at > STALE_SECONDS:
            text = f"The store {self.store} does not answer here: this is it as of {time_of_day(self.fetched_at)} UTC."
            found.append(Notice(NoticeKind.STORE_AWAY, text, self.fetched_at))
        return tuple(found)

    def command(self, run_id: str) -> str:
        """Return the command that makes the run this machine's own."""
        return takeover_command(run_id, self.store)

    def _elsewhere(self, run_id: str, *, is_unattended: bool) -> str:
        who = f"{self.owner}" if self.owner else "Another machine"
        if self.is_live or not is_unattended:
            return f"It belongs to {who}; here it can only be watched."
        heard = self.fetched_at - self.age_seconds
        silence = f" has not been heard of since {time_of_day(heard)} UTC" if self.lease_seconds else " has stopped it"
        return f"{who}{silence}. To act on it, take it over: {self.command(run_id)}"


def copies_folder() -> Path:
    """Return the folder of the copies of all runs of other machines; it may not exist yet."""
    return state_folder() / "mirrors"


def mark_path(folder: Path) -> Path:
    """Return the path of a folder's mark."""
    return folder / _NAME


def read_mark(folder: Path) -> MirrorMark | None:
    """Return the mark of a folder; `None` if it is not a copy. A damaged mark is one of an old copy."""
    try:
        data = read_file(folder / _NAME, _MOST_BYTES)
    except OSError:
        return None
    try:
        return decode_json(data, MirrorMark)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return MirrorMark("", 0.0)


def write_mark(folder: Path, mark: MirrorMark) -> None:
    """Replace the mark of a folder.

    Raises:
        OSError: The disk is full.
    """
    write_private(folder / _NAME, msgspec.json.encode(mark), is_synced=False)


def remove_mark(folder: Path) -> None:
    """Make a copy an original: readers look for a runner of this machine from now on."""
    (folder / _NAME).unlink(missing_ok=True)


def refuse_mirrored(folder: Path, deed: str) -> None:
    """Refuse a deed on a copy: the run belongs to another machine.

    Args:
        folder: A run's.
        deed: The action, as subject of a sentence.

    Raises:
        RefusedError: The folder is a copy.
    """
    mark = read_mark(folder)
    if mark is not None and mark.is_arriving:
        raise RefusedError(
            f"{deed} was not carried out: {folder.name} is about to be taken over by this machine.",
            hint=f"Repeat that if it was interrupted: {mark.command(folder.name)}",
        )
    if mark is not None:
        who = f"{mark.owner}" if mark.owner else "another machine"
        raise RefusedError(
            f"{deed} was not carried out: {folder.name} belongs to {who}.",
            hint=f"Take it over first: {mark.command(folder.name)}",
        )
