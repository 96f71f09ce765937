"""The faults that are injected into a life of a run, and when: the same for the same seed, on every machine."""

from __future__ import annotations

import random
from enum import StrEnum

import msgspec


class FaultKind(StrEnum):
    """The kind of what is injected. What lasts has seconds; the rest happens at once."""

    KILL_RUNNER = "SIGKILL runner"
    KILL_TERRAFORM = "SIGKILL terraform"
    KILL_BOTH = "SIGKILL runner and terraform"
    TERMINATE = "SIGTERM runner"
    HANG_UP = "SIGHUP runner"
    STOP = "SIGSTOP runner"
    KILL_CONSOLE = "SIGKILL console"
    FULL_DISK = "full disk"
    REFUSED = "connection refused"
    RESET = "connections reset"
    BROKEN = "500"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    THROTTLED = "429"
    EXPIRED = "410"
    CUT = "streams cut"
    SHORT_LOG = "logs that end early"
    SKEW = "cluster clock ahead"
    CLOCK = "runner clock jumps"
    CANCEL = "operator cancels"
    PAUSE = "operator pauses"
    RETRY = "operator retries"
    PARK = "operator parks"
    TEARDOWN = "operator tears down"
    APPROVE = "operator approves"
    RESUME = "operator resumes"
    FOREIGN = "foreign object in the namespace"
    FOREIGN_LABEL = "foreign object with the run's label"
    FOREIGN_OWNED = "foreign object of another owner"
    STORE_AWAY = "home away"
    HOME_BROKEN = "home 503"
    STORE_REFUSED = "home refused"
    HOME_EXPIRED = "home token expired"
    HOME_SLOW = "home slow"
    HOME_LOST = "home answers lost"
    OTHER_APPROVE = "other machine approves"
    OTHER_TEARDOWN = "other machine tears down"
    TAKE_OVER = "taken over"
    TAKE_OVER_LOST = "machine lost and taken over"
    TAKE_OVER_STOPPED = "stopped, taken over, continued"
    SILENT = "no packet arrives"
    TAKE_OVER_CUT_OFF = "cut off, taken over, there again"


KILLS = (
    FaultKind.KILL_RUNNER,
    FaultKind.KILL_BOTH,
    FaultKind.KILL_TERRAFORM,
    FaultKind.TERMINATE,
    FaultKind.HANG_UP,
    FaultKind.STOP,
    FaultKind.KILL_CONSOLE,
)
PARTITIONS = (
    FaultKind.REFUSED,
    FaultKind.RESET,
    FaultKind.BROKEN,
    FaultKind.UNAUTHORIZED,
    FaultKind.FORBIDDEN,
    FaultKind.THROTTLED,
    FaultKind.EXPIRED,
    FaultKind.CUT,
    FaultKind.SHORT_LOG,
)
WISHES = (
    FaultKind.CANCEL,
    FaultKind.PAUSE,
    FaultKind.RETRY,
    FaultKind.PARK,
    FaultKind.TEARDOWN,
    FaultKind.APPROVE,
    FaultKind.RESUME,
)
FOREIGN = (FaultKind.FOREIGN, FaultKind.FOREIGN_LABEL, FaultKind.FOREIGN_OWNED)
HOME = (
    FaultKind.STORE_AWAY,
    FaultKind.HOME_BROKEN,
    FaultKind.STORE_REFUSED,
    FaultKind.HOME_EXPIRED,
    FaultKind.HOME_SLOW,
    FaultKind.HOME_LOST,
)
OTHERS = (FaultKind.OTHER_APPROVE, FaultKind.OTHER_TEARDOWN)
MOVES = (FaultKind.TAKE_OVER, FaultKind.TAKE_OVER_LOST, FaultKind.TAKE_OVER_STOPPED)
CUT_OFF = (FaultKind.SILENT, FaultKind.TAKE_OVER_CUT_OFF)
STOPS = (FaultKind.STOP, FaultKind.TAKE_OVER_STOPPED)
CLOCKS = (FaultKind.SKEW, FaultKind.CLOCK)
TEAM_SEEDS = 1000
"""From this one on, the run of a seed has a home, and a second machine beside its own."""
CUT_OFF_SEEDS = 2000
"""From this one on, it also is cut off: packets are lost, and nobody is told."""
ONLY_WITH_TERRAFORM = frozenset({FaultKind.KILL_TERRAFORM, FaultKind.KILL_BOTH})

_LASTING = frozenset(
    {*PARTITIONS, *CLOCKS, *HOME, *CUT_OFF, FaultKind.STOP, FaultKind.FULL_DISK, FaultKind.KILL_CONSOLE}
)
_RECORDS_FORWARD = 22
"""About so many records has a quiet life before its teardown, and so many with it:"""
_RECORDS = 39


class Moment(msgspec.Struct, frozen=True):
    """A condition on the run: the first time it holds, the fault is injected."""

    record: int = 0
    """The journal has so many records."""
    stage: str = ""
    """The stage is under way."""
    lines: int = 0
    """With a stage: so many lines of its log are in its output."""
    undo: str = ""
    """The teardown undoes this stage."""

    def __str__(self) -> str:
        if self.undo:
            return f"while {self.undo} is undone"
        if self.stage:
            return f"while {self.stage} runs" + (f", after {self.lines} lines" if self.lines else "")
        return f"at record {self.record}"


class Fault(msgspec.Struct, frozen=True):
    """One fault."""

    kind: FaultKind
    moment: Moment
    seconds: float = 0.0
    """The time that it lasts."""
    amount: float = 0.0
    """Of a clock: seconds, also negative."""

    def __str__(self) -> str:
        size = f" by {self.amount:+.0f} s" if self.amount else ""
        return f"{self.kind.value}{size} {self.moment}" + (f", for {self.seconds:.1f} s" if self.seconds else "")


class Schedule(msgspec.Struct, frozen=True):
    """All that is injected into one life."""

    seed: int
    faults: tuple[Fault, ...]
    is_approved_by_hand: bool = False
    """Terraform's plan waits for the operator."""
    absence_seconds: float = 0.0
    """The time that the operator takes to notice that no runner is at work."""
    has_store: bool = False
    """The run is replicated to a home, and there is a second machine."""
    has_own_ways: bool = False
    """Each machine reaches the cluster by a way of its own, which the other's loss leaves alone."""

    def lines(self) -> list[str]:
        """For people."""
        approval = "by hand" if self.is_approved_by_hand else "automatic"
        home = ", with a home" if self.has_store else ""
        head = f"seed {self.seed}: approval {approval}, operator comes after {self.absence_seconds:.1f} s{home}"
        return [head, *(f"  {number}. {fault}" for number, fault in enumerate(self.faults, start=1))]


def schedule_of(seed: int, *, without: frozenset[FaultKind] = frozenset()) -> Schedule:
    """The schedule of a seed: one kill, one fault of a kind that goes round with the seed, and up to two more.

    From `TEAM_SEEDS` on, faults of a home and of a second machine follow, drawn after the others; from `CUT_OFF_SEEDS`
    on one more, or two.

    Args:
        seed: Any number.
        without: Kinds that cannot be injected on this machine; they are left out and nothing else moves.
    """
    rng = random.Random(f"schedule {seed}")
    turn = (*PARTITIONS, FaultKind.FULL_DISK, *WISHES, *FOREIGN, *CLOCKS, FaultKind.FULL_DISK, FaultKind.KILL_CONSOLE)
    kinds = [_kill(rng), turn[seed % len(turn)]]
    others = (*PARTITIONS, *WISHES, *KILLS, *KILLS, *[FaultKind.FULL_DISK] * 5, *FOREIGN, *CLOCKS)
    kinds += rng.choices(others, k=rng.choice((0, 1, 1, 2, 2)))
    faults = tuple(_fault(rng, kind) for kind in kinds)
    is_approved_by_hand = rng.random() < 0.4 or FaultKind.APPROVE in kinds
    absence_seconds = rng.choice((0.0, 0.3, 1.0, 2.0))
    has_store = seed >= TEAM_SEEDS
    if has_store:
        faults += tuple(_fault(rng, kind) for kind in _team_kinds(rng, seed))
    if seed >= CUT_OFF_SEEDS:
        faults += tuple(_fault(rng, kind) for kind in CUT_OFF[seed % len(CUT_OFF) :])
    return Schedule(
        seed,
        tuple(fault for fault in faults if fault.kind not in without),
        is_approved_by_hand=is_approved_by_hand,
        absence_seconds=absence_seconds,
        has_store=has_store,
        has_own_ways=seed >= CUT_OFF_SEEDS,
    )


def _kill(rng: random.Random) -> FaultKind:
    return rng.choices(KILLS, weights=(6, 3, 2, 2, 1, 2, 1))[0]


def _team_kinds(rng: random.Random, seed: int) -> list[FaultKind]:
    moves = (*MOVES, *MOVES, FaultKind.TAKE_OVER_STOPPED, None)
    kinds = [HOME[seed % len(HOME)], rng.choice(moves)]
    kinds += rng.choices((*HOME, *OTHERS, *OTHERS, *MOVES), k=rng.choice((0, 1, 1, 2)))
    return [kind for kind in kinds if kind is not None]


def _fault(rng: random.Random, kind: FaultKind) -> Fault:
    seconds = round(rng.uniform(0.5, 6.0), 1) if kind in _LASTING else 0.0
    if kind in (FaultKind.TAKE_OVER_STOPPED, FaultKind.TAKE_OVER_CUT_OFF):
        seconds = round(rng.uniform(2.0, 30.0), 1)
    amount = rng.choice((-86400.0, -420.0, 420.0, 86400.0)) if kind in CLOCKS else 0.0
    return Fault(kind, _moment(rng, kind), seconds, amount)


def _moment(rng: random.Random, kind: FaultKind) -> Moment:
    if kind in ONLY_WITH_TERRAFORM:
        choices = [Moment(stage="network", lines=rng.randrange(8, 14)), Moment(undo="network")]
        return rng.choices(choices, weights=(3, 1))[0]
    if kind in FOREIGN:
        return rng.choice((Moment(stage="train"), Moment(stage="train", lines=rng.randrange(1, 40))))
    if kind in WISHES and rng.random() < 0.8:
        return Moment(record=rng.randrange(2, _RECORDS_FORWARD))
    watched = Moment(stage="train", lines=rng.randrange(1, 60))
    undone = Moment(undo=rng.choice(("train", "objects", "network")))
    anywhere = Moment(record=rng.randrange(2, _RECORDS))
    return rng.choices([watched, undone, anywhere, Moment(stage="train")], weights=(4, 1, 5, 1))[0]
