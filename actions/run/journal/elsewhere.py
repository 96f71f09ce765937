"""The fence block in a run's folder: what is known here of the run's store, and who has taken the run over.

Its runner writes it while it works, and last when it learns of another machine that has the run. Every command that
acts on the run reads it first, and refuses.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.decoding import decode_json
from actions.base.errors import RefusedError
from actions.base.untrusted import one_line
from actions.run.journal.folder import fence_path, read_block, write_block
from actions.run.state.records import Operator
from actions.run.state.view import RunView


class FenceState(msgspec.Struct, frozen=True):
    """The content of a run's fence block."""

    store: str = ""
    """Address of the store that has had the run's lease; empty if none is known to."""
    namespace: str = ""
    """That of the run's objects in its cluster; empty while none has been chosen."""
    is_removed: bool = False
    """This run's own teardown has removed its objects from that, or is about to."""
    is_vouched: bool = False
    """A person has stated that no other machine has the run; holds until the store answers."""
    taken_by: Operator | None = None
    epoch: int = 0
    """Of the machine that has taken it over; 0 if none has."""
    is_copy: bool = False
    """It has the run at the epoch that this machine has, by a copy of its folder."""


def read_fence(folder: Path) -> FenceState:
    """Return the state of a run's fence on this machine."""
    try:
        return decode_json(read_block(fence_path(folder)), FenceState)
    except msgspec.MsgspecError:
        return FenceState()


def write_fence(folder: Path, state: FenceState) -> None:
    """Replace the state of a run's fence; failure is ignored, as on a full disk."""
    write_block(fence_path(folder), msgspec.json.encode(state))


def note_answered(folder: Path, store: str) -> None:
    """Record that a store has had the run's lease; what a person has stated for want of an answer counts no more."""
    _change(folder, replace(read_fence(folder), store=store, is_vouched=False))


def note_namespace(folder: Path, namespace: str) -> None:
    """Record the namespace in which the run's objects in its cluster are."""
    _change(folder, replace(read_fence(folder), namespace=namespace))


def note_removed(folder: Path) -> None:
    """Record that the run's objects are about to be removed from its store: no runner waits for its lease there."""
    _change(folder, replace(read_fence(folder), is_removed=True))


def note_vouched(folder: Path) -> None:
    """Record the statement of a person that no other machine has the run."""
    _change(folder, replace(read_fence(folder), is_vouched=True))


def _change(folder: Path, state: FenceState) -> None:
    if state != read_fence(folder):
        write_fence(folder, state)


class Elsewhere(msgspec.Struct, frozen=True):
    """The machine that has taken a run over, or carries out a copy of its folder, with its operator."""

    owner: Operator | None
    """`None` if it has not been named."""
    epoch: int
    at: float
    """Seconds since the epoch: when this machine found out."""
    is_copy: bool = False
    """See `FenceState`."""

    @property
    def name(self) -> str:
        """`USER@HOST`, or what stands for it."""
        return one_line(str(self.owner)) if self.owner else "another machine"

    @property
    def deed(self) -> str:
        """The middle of a sentence: what that machine has done."""
        return deed_of(self.owner, self.epoch, is_copy=self.is_copy)


def note_elsewhere(folder: Path, owner: Operator | None, epoch: int, *, is_copy: bool = False) -> None:
    """Record that another machine carries the run out. To be called by the run's runner, which ends then."""
    write_fence(folder, replace(read_fence(folder), taken_by=owner, epoch=epoch, is_copy=is_copy))


def deed_of(owner: Operator | None, epoch: int, *, is_copy: bool) -> str:
    """Return what another machine has done to a run, as the middle of a sentence."""
    who = one_line(str(owner)) if owner else ""
    if is_copy:
        return f"is carried out by another machine{f', {who},' if who else ''} that has a copy of its folder"
    return f"was taken over{f' by {who}' if who else ''} (epoch {epoch})"


def read_elsewhere(folder: Path, epoch: int) -> Elsewhere | None:
    """Return the machine that has taken a run over; `None` if none has, or it was taken back.

    Args:
        folder: The run's.
        epoch: Of the run in the journal here: an epoch up to it is past.
    """
    fence = read_fence(folder)
    if fence.epoch < epoch or (fence.epoch == epoch and not fence.is_copy):
        return None
    try:
        at = fence_path(folder).stat().st_mtime
    except OSError:
        return None
    return Elsewhere(fence.taken_by, fence.epoch, at, fence.is_copy)


def elsewhere_sentence(run_id: str, owner: str) -> str:
    """Return the sentence that refuses a request: where the run is carried out."""
    return f"Run {run_id} is carried out by {owner}, and can only be watched here."


def takeover_command(run_id: str, store: str = "") -> str:
    """Return the command that takes a run over; `store` is its store, as far as it is known."""
    return f"eksml-tui runs takeover {run_id}{f' --from {shlex.quote(store)}' if store else ''}"


def takeover_hint(run_id: str, store: str = "") -> str:
    """Return the remedy."""
    return f"Ask them, or take it over: {takeover_command(run_id, store)}"


def refuse_elsewhere(folder: Path, view: RunView) -> None:
    """Refuse what would act on a run that another machine has taken over.

    Raises:
        RefusedError: With its owner, and the command that takes it over.
    """
    other = read_elsewhere(folder, view.epoch)
    if other is not None:
        raise RefusedError(
            f"Run {view.id} {other.deed}, and can only be watched here.",
            hint=takeover_hint(view.id, view.store),
        )
