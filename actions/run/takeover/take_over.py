"""A run of another machine, taken over from its store."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import msgspec

from actions.base.clock import Clock, format_rfc3339
from actions.base.errors import (
    AccessError,
    ConfigError,
    ConflictError,
    ConsoleError,
    MissingError,
    RefusedError,
    UsageError,
)
from actions.base.files import private_directory
from actions.base.readonly import refuse_if_readonly
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import start_runner
from actions.run.context.operator import present_operator
from actions.run.context.stage_context import known_cluster_uid
from actions.run.engine.fence import CLUSTER_ARBITER, GRACE_SECONDS, STORE_ARBITER
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.elsewhere import FenceState, read_fence, takeover_command, write_fence
from actions.run.journal.folder import journal_path, kubeconfig_path, restored_path, runs_folder
from actions.run.journal.machine import is_same_copy, is_same_machine, known_machine_id, machine_id
from actions.run.journal.mirrored import read_mark, remove_mark
from actions.run.journal.reader import RunReader, load_run
from actions.run.presence.lease import ClusterLease, claim_cluster_lease, read_cluster_lease
from actions.run.presence.publish import introduce
from actions.run.state.records import Operator, TakenOver
from actions.run.state.view import StageState
from actions.run.store.drivers import open_store
from actions.run.store.mirror import TakenStore, mirror_path
from actions.run.store.objects import StoreLease, TakenError
from actions.run.takeover.access import Reached, bring_environment, reach_cluster
from actions.run.takeover.arrival import (
    ArrivalRecords,
    arrival_records,
    mark_arriving,
    put_aside,
)
from actions.run.takeover.strays import Searched, record_strays

_CLAIMS = 4
"""Attempts to write between two renewals of the earlier machine's lease."""
YOUNG_SECONDS = 90.0
"""A heartbeat in the cluster that is younger than this may be followed by another one."""
_CLOCKS_SECONDS = 30.0
"""Difference of two clocks from which on it is named."""
_LOOK_SECONDS = 10.0
"""Limit of the look at the cluster of a run whose store has had no sign for a while."""


Say = Callable[[str], None]


class TakeoverStore(Protocol):
    """The store of runs, as far as a takeover needs it."""

    async def read(self, run_id: str) -> StoreLease | None:
        """Return the lease of a run; `None` if it was never taken."""
        ...

    async def take(self, run_id: str, owner: Operator, *, after: StoreLease) -> StoreLease:
        """Take the lease with the next epoch.

        Raises:
            ConflictError: Another machine took it since `after` was read.
        """
        ...

    async def record(self, run_id: str, body: TakenOver, lease: StoreLease) -> None:
        """Write the record of the takeover behind all others in the store: no earlier writer can write behind it."""
        ...

    async def fetch(self, run_id: str, folder: Path) -> None:
        """Bring the run into a folder that does not exist yet, as this machine's own.

        Raises:
            MissingError: The store has no such run.
        """
        ...

    async def look(self, run_id: str, folder: Path) -> None:
        """Bring the run's journal and small files into a folder that does not exist yet, as a copy.

        Raises:
            MissingError: The store has no such run.
        """
        ...


def open_takeover_store(url: str, clock: Clock) -> TakeoverStore:
    """Return the store of runs at an address.

    Raises:
        ConfigError: The address is empty, or none of a store.
    """
    if not url:
        raise ConfigError(
            "No store is named to take the run from.",
            hint="Write --store s3://BUCKET/PREFIX (in the console store=s3://…), or store: in config.yaml. "
            "Without a store: eksml-tui runs adopt CLUSTER",
        )
    return TakenStore(open_store(url), clock)


def store_known_here(run_id: str) -> str:
    """Return the store that a run's folder or copy on this machine names; empty if there is neither."""
    with suppress(ConsoleError):
        mark = read_mark(mirror_path(run_id))
        folder = runs_folder() / run_id
        if journal_path(folder).exists():
            return load_run(folder).store
        return mark.store if mark is not None else ""
    return ""


class Takeover(msgspec.Struct, frozen=True):
    """A run that was taken over."""

    folder: Path
    epoch: int
    previous: Operator | None
    left_out: tuple[str, ...] = ()
    """Lines on objects for which there is no evidence."""
    sentences: tuple[str, ...] = ()
    """On places that were not reached, and what is gone."""


async def take_over_run(
    run_id: str,
    store: TakeoverStore,
    clock: Clock,
    *,
    confirm: str = "",
    is_machine_gone: bool = False,
    environment: Mapping[str, str] | None = None,
    target: ClusterTarget | None = None,
    say: Say = lambda _: None,
    starts: bool = True,
) -> Takeover:
    """Make this machine the one that carries a run out. The earlier one, should it wake, changes nothing more.

    Args:
        run_id: The run's whole id.
        store: The run's.
        clock: The machine's.
        confirm: The run's id, typed by the operator: needed while the earlier machine may be alive.
        is_machine_gone: The operator states that the earlier machine no longer exists: locks that it left may
            be removed, and nothing is waited for.
        environment: Variables of the run's processes; see `start_runner`.
        target: A context of this machine for the run's cluster; `None` for what the run began with.
        say: Takes a sentence on each step.
        starts: Start the runner.

    Raises:
        MissingError: The store has no such run.
        UsageError: The earlier machine may be alive, and `confirm` is not the run's id. Nothing was changed.
        ConflictError: Another machine takes it over at the same time.
        RefusedError: This machine carries it out already.
        ConsoleError: The store does not answer.
    """
    refuse_if_readonly(f"the takeover of {run_id}")
    folder = private_directory(runs_folder()) / run_id
    lease = await _known_lease(store, run_id)
    ahead = name_clocks(seconds_ahead(clock, lease), "the store", say)
    if target is not None and _is_idle_own(folder, lease):
        return await _reached_again(folder, clock, lease, target, environment=environment, say=say, starts=starts)
    _refuse_own(folder, lease)
    if confirm != run_id:
        await _require_silence(folder, store, clock, lease, target=target, environment=environment)
    lease, taken = await _lease_taken(run_id, store, lease, is_confirmed=confirm == run_id)
    say(f"The run's lease is this machine's now (epoch {taken.epoch}).")
    await _brought(store, folder, taken, clock, previous=lease.owner, is_previous_gone=is_machine_gone)
    say(bring_environment(folder, environment or {}))
    with arrival_records(folder, clock) as records:
        since = records.newest_at(before=TakenOver)
        unreached = await _reach(folder, records, clock, target=target, say=say)
        found, heard = await _searched(folder, records, clock, taken, since=since, ahead=ahead)
    write_fence(folder, FenceState(known_to=(STORE_ARBITER, CLUSTER_ARBITER)))
    if (heard or lease.is_live) and not is_machine_gone:
        say(grace_sentence(lease.owner, heard or heard_sentence("its store", lease.age_seconds)))
        await clock.sleep(GRACE_SECONDS)
        with arrival_records(folder, clock) as records:  # it may have made something until then
            found, _ = await _searched(folder, records, clock, taken, since=since)
    remove_mark(folder)  # until here no command and no console starts a runner, also if this was interrupted
    if starts and (kubeconfig_path(folder).exists() or not unreached):
        start_runner(folder, environment=environment)
    return Takeover(folder, taken.epoch, lease.owner, found.left_out, (*unreached, *found.sentences))


async def _lease_taken(
    run_id: str, store: TakeoverStore, lease: StoreLease, *, is_confirmed: bool
) -> tuple[StoreLease, StoreLease]:
    """Take the lease. The earlier machine, if it is alive, renews it; between two of these writes is room.

    Returns:
        The lease as it was last, and the new one.

    Raises:
        ConflictError: Another machine has it now, or that of which no sign was expected is alive.
    """
    for attempt in range(1, _CLAIMS + 1):
        try:
            return lease, await store.take(run_id, present_operator(), after=lease)
        except ConflictError:
            before, lease = lease, await _known_lease(store, run_id)
            is_same = (lease.epoch, str(lease.owner), lease.holder) == (
                before.epoch,
                str(before.owner),
                before.holder,
            )
            if not is_same:
                raise _taken_meanwhile(run_id, lease) from None
            if attempt == _CLAIMS:
                raise
            if not is_confirmed:
                require_confirmed(run_id, lease.owner, lease.age_seconds, "", "its store")
    raise AssertionError


def _taken_meanwhile(run_id: str, lease: StoreLease) -> ConflictError:
    return ConflictError(
        f"{lease.owner} has taken over {run_id} at the same moment. Nothing was changed here.",
        hint="Look at `eksml-tui runs list --store`: it has who carries it out.",
    )


def seconds_ahead(clock: Clock, lease: StoreLease) -> float:
    """Return how far this machine's clock is ahead of the store's: by it, a heartbeat of a moment ago would be old."""
    return max(0.0, clock.now().timestamp() - lease.renewed_at - lease.age_seconds)


async def _require_silence(
    folder: Path,
    store: TakeoverStore,
    clock: Clock,
    lease: StoreLease,
    *,
    target: ClusterTarget | None,
    environment: Mapping[str, str] | None,
) -> None:
    """Require that the run's store and cluster have had no heartbeat lately: its machine may be cut off from one.

    A cluster that is not reached from here in time means nothing. Nothing on this machine is changed.

    Raises:
        UsageError: One of them has had one.
    """
    ahead = seconds_ahead(clock, lease)
    if lease.is_live:
        require_confirmed(folder.name, lease.owner, lease.age_seconds, "", "its store")
    try:
        with TemporaryDirectory(prefix="eksml-tui-") as place:  # one for each command: two may look at one moment
            looking = Path(place) / folder.name
            await store.look(folder.name, looking)
            bring_environment(looking, environment or {})
            async with asyncio.timeout(_LOOK_SECONDS):
                with arrival_records(looking, clock) as records:
                    known = await _lease_in_cluster(looking, records, clock, target=target)
    except (ConsoleError, TimeoutError, OSError):
        return
    now = clock.now().timestamp() - ahead
    if known is not None and is_young(known, now):
        require_confirmed(folder.name, known.owner, now - known.seen_at, "", "its cluster")


async def _lease_in_cluster(
    folder: Path, records: ArrivalRecords, clock: Clock, *, target: ClusterTarget | None
) -> ClusterLease | None:
    await reach_cluster(folder, records, clock, target=target)
    view, backend = records.view(), LiveBackend(folder, clock)
    try:
        connection = await backend.cluster_of(view) if kubeconfig_path(folder).exists() else None
        return await read_cluster_lease(connection, view.id) if connection is not None else None
    finally:
        await backend.aclose()


async def _known_lease(store: TakeoverStore, run_id: str) -> StoreLease:
    lease = await store.read(run_id)
    if lease is None:
        raise MissingError(
            f"The store has no run {run_id!r} that a runner has carried out.",
            hint="Write its whole id, as `eksml-tui runs list --store -o wide` prints it. "
            "If the store has lost it: eksml-tui runs adopt CLUSTER",
        )
    return lease


async def _reach(
    folder: Path, records: ArrivalRecords, clock: Clock, *, target: ClusterTarget | None, say: Say
) -> tuple[str, ...]:
    """Reach the run's cluster by what this machine has for it. Returns a line if that failed.

    A cluster that does not answer does not stop it: the lease in the store is taken. A run that has not reached it,
    by the store's records, may have, if the store was away: then it is tried for a short time.
    """
    view = records.view()
    stage = next((stage for stage in view.stages if stage.kind == "kubeconfig"), None)
    if stage is None:
        return ()
    try:
        done = await reach_cluster(folder, records, clock, target=target)
    except ConsoleError as error:
        done = Reached(is_reached=False, text=error.message)
    if done.is_reached:
        say(done.text)
        return ()
    if stage.state is not StageState.SUCCEEDED:
        return ()
    hint = "" if target is not None else f" By another context: {takeover_command(view.id, view.store)} --context NAME"
    return (f"The run's cluster was not reached: {done.text}{hint}",)


async def _searched(
    folder: Path, records: ArrivalRecords, clock: Clock, lease: StoreLease, *, since: float, ahead: float = 0.0
) -> tuple[Searched, str]:
    """Take the lease in the run's cluster, and record objects without a record.

    Returns what was found, and the age of the last heartbeat in the cluster as a clause; empty if that is old.
    """
    if not kubeconfig_path(folder).exists():
        return Searched(), ""
    try:
        heard = await _claimed(folder, records, clock, lease, ahead)
        was_known = bool(known_cluster_uid(records.view()))
        found = await record_strays(folder, records, clock, since=since)
        if not was_known and known_cluster_uid(records.view()):  # by what the earlier machine has made there
            heard = await _claimed(folder, records, clock, lease, ahead) or heard
        return found, heard
    except ConflictError:
        raise
    except ConsoleError as error:
        return Searched(sentences=(f"The run's cluster was not searched: {error.message}",)), ""


async def _claimed(folder: Path, records: ArrivalRecords, clock: Clock, lease: StoreLease, ahead: float = 0.0) -> str:
    """Write the new epoch into the run's ConfigMap. Returns the age of its last heartbeat, as `_searched`.

    A cluster that has none yet gets it here: the earlier machine, if it was cut off and reaches the cluster before the
    store, learns there that it has lost the run.
    """
    view = records.view()
    backend = LiveBackend(folder, clock)
    try:
        connection = await backend.cluster_of(view)
        if connection is None:
            return ""
        machine = machine_id(folder)
        known = await read_cluster_lease(connection, view.id)
        if known is None:
            with suppress(AccessError, RefusedError):  # a right that its runner lacks, too
                await introduce(connection, view, records.created(), now=clock.now().timestamp(), machine=machine)
            return ""
        is_same = str(known.owner) == str(lease.owner) and is_same_copy(machine, known.presence.machine)
        is_anothers = known.epoch == lease.epoch and not is_same
        if known.epoch > lease.epoch or is_anothers:
            raise ConflictError(
                f"The run's cluster has the record of a later machine: {known.owner} (epoch {known.epoch}).",
                hint="Look at `eksml-tui runs list --cluster`.",
            )
        now = clock.now()
        await claim_cluster_lease(
            connection, known, lease.owner, epoch=lease.epoch, heartbeat=format_rfc3339(now), machine=machine
        )
        at = now.timestamp() - ahead
        return heard_sentence("its cluster", at - known.seen_at) if is_young(known, at) else ""
    finally:
        await backend.aclose()


def is_young(lease: ClusterLease, now: float) -> bool:
    """Return whether the machine that carries a run out has given a sign lately.

    Args:
        lease: As the cluster has it.
        now: Seconds since the epoch, of a clock that is not ahead.
    """
    return lease.seen_at > now - YOUNG_SECONDS


def heard_sentence(where: str, age_seconds: float) -> str:
    """Return the last sign of a machine as a clause: `the last heartbeat in its store is 4 s old`."""
    return f"the last heartbeat in {where} is {max(age_seconds, 0.0):.0f} s old"


def name_clocks(ahead_seconds: float, place: str, say: Say) -> float:
    """Print a sentence if the clock of this machine differs much from that of a place. Returns `ahead_seconds`.

    Args:
        ahead_seconds: By which this machine's is ahead; negative if it is behind.
        place: `the store` or `the cluster`.
        say: Takes the sentence.
    """
    if abs(ahead_seconds) >= _CLOCKS_SECONDS:
        way = "ahead of" if ahead_seconds > 0 else "behind"
        say(
            f"The clock of this machine is {abs(ahead_seconds):.0f} s {way} that of {place}, which counts for the age "
            "of a heartbeat. Set it right: what this machine records has its times."
        )
    return ahead_seconds


def grace_sentence(owner: Operator | None, heard: str) -> str:
    """Return the sentence on the wait of a takeover: how long it is, for what, and why.

    Args:
        owner: The earlier one.
        heard: See `heard_sentence`.
    """
    earlier = owner or "the earlier machine"
    return f"Waiting {GRACE_SECONDS:.0f} s, as {earlier} may be alive and about to change something: {heard}."


def require_confirmed(run_id: str, owner: Operator | None, age_seconds: float, confirm: str, where: str) -> None:
    """Require that the operator has typed the id of a run whose machine may be alive.

    Raises:
        UsageError: With who carries it out, and since when nothing was heard.
    """
    if confirm == run_id:
        return
    raise UsageError(
        f"{owner or 'Another machine'} carries out {run_id}: {heard_sentence(where, age_seconds)}. "
        "A takeover ends what that machine is doing.",
        hint=f"Add --confirm {run_id} to take it over.",
    )


def _own(folder: Path, lease: StoreLease) -> bool | None:
    """Return whether a runner of this machine is alive, if it carries the run out; `None` if another one does.

    A run whose arrival was cut short is none of this machine's yet. Another machine may have the same name.
    """
    if not journal_path(folder).exists() or read_fence(folder).epoch or restored_path(folder).exists():
        return None
    if read_mark(folder) is not None:
        return None
    reader = RunReader(folder)
    try:
        view = reader.poll()
        is_alive = reader.runner_alive
    finally:
        reader.close()
    if view is None or view.epoch < lease.epoch or str(lease.owner) != str(present_operator()):
        return None
    mine = known_machine_id(folder)
    if lease.holder and not is_same_copy(mine or "?", lease.holder):
        return None
    return None if lease.is_live and not is_same_machine(mine, lease.holder) else is_alive


def _is_idle_own(folder: Path, lease: StoreLease) -> bool:
    return _own(folder, lease) is False


def _refuse_own(folder: Path, lease: StoreLease) -> None:
    """Refuse to take a run over from this machine itself."""
    is_alive = _own(folder, lease)
    if is_alive is None:
        return
    what = "carries it out" if is_alive else "has it"
    raise RefusedError(f"This machine {what} already.", hint=f"Resume it with `eksml-tui runs resume {folder.name}`.")


async def _reached_again(
    folder: Path,
    clock: Clock,
    lease: StoreLease,
    target: ClusterTarget,
    *,
    environment: Mapping[str, str] | None,
    say: Say,
    starts: bool,
) -> Takeover:
    """Reach the cluster of a run that this machine has by another context: it was taken over without one that fits."""
    say("This machine has the run: only the way to its cluster is changed.")
    say(bring_environment(folder, environment or {}))
    with arrival_records(folder, clock) as records:
        unreached = await _reach(folder, records, clock, target=target, say=say)
        found, _ = await _searched(folder, records, clock, lease, since=records.newest_at(before=TakenOver))
    if starts:
        start_runner(folder, environment=environment)
    return Takeover(folder, lease.epoch, None, found.left_out, (*unreached, *found.sentences))


async def _brought(
    store: TakeoverStore, folder: Path, lease: StoreLease, clock: Clock, *, previous: Operator, is_previous_gone: bool
) -> None:
    """Write the record of a takeover, and bring the run here.

    In this order: from the record on the earlier machine has no place left for one of its own in the store.

    Raises:
        TakenError: Another machine has taken it over meanwhile.
        ConsoleError: The store fails; its hint has the remedy for the lease.
    """
    body = TakenOver(lease.owner, lease.epoch, previous, is_previous_gone=is_previous_gone)
    try:
        await store.record(folder.name, body, lease)
        await _fetched(store, folder, lease, clock)
    except TakenError:
        raise
    except ConsoleError as error:
        error.hint = f"{error.hint} The lease is this machine's: repeat the command.".strip()
        raise


async def _fetched(store: TakeoverStore, folder: Path, lease: StoreLease, clock: Clock) -> None:
    """Bring the run into its folder. An earlier copy is put aside: what the store has is the run.

    Raises:
        ConsoleError: It cannot be fetched; nothing on this machine was changed.
    """
    arriving = folder.with_name(f".{folder.name}.arriving")
    shutil.rmtree(arriving, ignore_errors=True)
    try:
        await store.fetch(folder.name, arriving)
    except ConsoleError:
        shutil.rmtree(arriving, ignore_errors=True)
        raise
    mark_arriving(arriving, lease.owner, lease.epoch, clock)
    put_aside(folder, lease.epoch)
    arriving.rename(folder)
