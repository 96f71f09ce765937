"""A run of another machine becomes this machine's, from its store: a bucket, its cluster, or an archive.

The order fences the earlier machine: first the lease with the next epoch, then the record that has the place of that
machine's next one, then the copy, which has both. Until all of it is here, the run's folder has a mark by which no
command and no console starts a runner. So a takeover that is interrupted leaves nothing that acts,
and can be repeated.

Nothing that arrives is believed: a kubeconfig is made anew here, variables are names and places, and no program of
Terraform, plan or permission comes along.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.base.errors import (
    AccessError,
    ConflictError,
    ConsoleError,
    FormatError,
    MissingError,
    RefusedError,
    UsageError,
)
from actions.base.executors import in_thread
from actions.base.files import private_directory, write_private
from actions.base.readonly import refuse_if_readonly
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import start_runner
from actions.run.context.operator import present_operator
from actions.run.context.stage_context import known_cluster_uid
from actions.run.context.store_address import run_key
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.folder import (
    aside_path,
    journal_path,
    kubeconfig_path,
    make_block,
    runs_folder,
    terraform_path,
    watched_path,
)
from actions.run.journal.journal_file import RecordRow
from actions.run.journal.reader import RunReader, load_run
from actions.run.journal.watched import WatchedOnly, end_watching, read_watched, write_watched
from actions.run.state.fold import fold
from actions.run.state.records import JournalRecord, Operator, TakenOver, decode_body
from actions.run.state.view import RunState, StageState
from actions.run.store.access import note_answered
from actions.run.store.archive import ArchivedRun
from actions.run.store.copy import become_original, fetch_run
from actions.run.store.elsewhere import takeover_command
from actions.run.store.fence import GRACE_SECONDS
from actions.run.store.files import MOST_FILE_BYTES
from actions.run.store.kubernetes import open_cluster_store
from actions.run.store.lease import about_run, take_lease, this_holder
from actions.run.store.objects import DamagedError, RunStore, StoreLease, TakenError, taken_by_epoch
from actions.run.store.rows import append_to_store, read_rows
from actions.run.takeover.arrival import ArrivalRecords, arrival_records
from actions.run.takeover.reach import Reached, bring_environment, reach_cluster, require_same_endpoint
from actions.run.takeover.strays import Searched, record_strays
from actions.terraform.state import read_state
from actions.terraform.working_directory import STATE_FILE

CLUSTER = "cluster"
"""Names the connected cluster, or that of `--context`, as the place that a run comes from."""
_CLAIMS = 4
"""Attempts to write between two renewals of the earlier machine's lease."""
YOUNG_SECONDS = 90.0
"""A heartbeat in the cluster that is younger than this may be followed by another one."""
_LOOK_SECONDS = 10.0
"""Limit of the look at the cluster of a run whose store has had no sign for a while."""

_WRITES_AGAIN = "Resume it on the machine that has it: that writes it again."

Say = Callable[[str], None]


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
    store: RunStore,
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
        is_machine_gone: The earlier machine is stated to be gone: it is not waited for, its locks may be removed.
        environment: Variables of the run's processes; see `start_runner`.
        target: A context of this machine for the run's cluster; `None` for what the run began with.
        say: Takes a sentence on each step.
        starts: Start the runner.

    Raises:
        UsageError: The earlier machine may be alive, and `confirm` is not the run's id. Nothing was changed.
        ConflictError: Another machine takes it over at the same time.
        RefusedError: This machine carries it out already, or the run leads to places that this machine has not chosen.
        FormatError: Something in the store is damaged or missing; see `_known_lease` and `_require_records`.
        ConsoleError: The store does not answer, or has no such run.
    """
    refuse_if_readonly(f"the takeover of {run_id}")
    folder = private_directory(runs_folder()) / run_id
    lease = await _known_lease(store, run_id, is_released=is_machine_gone and confirm == run_id)
    if target is not None and _is_idle_own(folder, lease):
        return await _reached_again(folder, clock, lease, target, environment=environment, say=say, starts=starts)
    _refuse_own(folder, lease)
    require_same_endpoint(await _brought_variables(store, run_id), environment or {})
    await _require_silence(run_id, store, clock, lease, confirm, target=target, environment=environment)
    await _require_records(store, run_id, lease, is_machine_gone=is_machine_gone, say=say)
    lease, taken = await _lease_taken(run_id, store, lease, is_confirmed=confirm == run_id)
    say(f"The run's lease is this machine's now (epoch {taken.epoch}).")
    await _brought(store, folder, taken, clock, previous=lease.owner, is_previous_gone=is_machine_gone)
    say(bring_environment(folder, environment or {}))
    with arrival_records(folder, clock) as records:
        since = records.newest_at(before=TakenOver)
        unreached = await _reach(folder, records, clock, target=target, say=say, source=source_of(store))
        heard = await _pointed(folder, records, clock, taken, store)
        found = await _searched(folder, records, clock, since=since)
    _note_store(folder, store)
    if (heard or lease.is_live) and not is_machine_gone:
        say(grace_sentence(lease.owner, heard or heard_sentence(store.address, lease.age_seconds)))
        await clock.sleep(GRACE_SECONDS)
        with arrival_records(folder, clock) as records:  # it may have made something until then
            found = await _searched(folder, records, clock, since=since)
    end_watching(folder)  # until here no command and no console starts a runner, also if this was interrupted
    if starts and _has_work(folder) and (kubeconfig_path(folder).exists() or not unreached):
        start_runner(folder, environment=environment)
    return Takeover(folder, taken.epoch, lease.owner, found.left_out, (*unreached, *found.sentences))


def _note_store(folder: Path, store: RunStore) -> None:
    """Note the store that has had the lease, for the runner's fence; not that of an archive, which the operator has
    stated to be gone."""
    if not isinstance(store, ArchivedRun):
        note_answered(folder, source_of(store))


def _has_work(folder: Path) -> bool:
    return load_run(folder).state is not RunState.TORN_DOWN


async def _known_lease(store: RunStore, run_id: str, *, is_released: bool = False) -> StoreLease:
    """Return the lease of a run that a runner may have begun with.

    Args:
        store: The run's.
        run_id: The run.
        is_released: The operator has stated that no machine has it: for a damaged lease there is a stand-in.

    Raises:
        MissingError: The store has no such run.
        DamagedError: It is damaged.
        RefusedError: It only names the run's store.
    """
    try:
        lease = await store.lease(run_id)
    except DamagedError as error:
        if not is_released:
            error.hint = f"{_WRITES_AGAIN} If it no longer exists: --confirm {run_id} --machine-is-gone."
            raise
        lease = await _stand_in(store, run_id, error)
    if lease is None:
        raise MissingError(
            f"There is no run {run_id!r} in {store.address}.",
            hint="Write its whole id, as `eksml-tui runs list -o wide` prints it with --store or --cluster. "
            "What a run without a store has left: eksml-tui audit CLUSTER",
        )
    if lease.about.store and not store.takes_output:
        raise RefusedError(
            f"Run {run_id} is kept in {lease.about.store}: {store.address} only names that.",
            hint=takeover_command(run_id, lease.about.store),
        )
    return lease


async def _stand_in(store: RunStore, run_id: str, damaged: DamagedError) -> StoreLease:
    """Return what the records of a run tell of its damaged lease, to be written over."""
    rows = await _records(store, run_id)
    records = [
        JournalRecord(row.seq, row.at, row.writer, row.stage, row.attempt, decode_body(row.json)) for row in rows
    ]
    view = fold(records)
    lease = damaged.lease(view.owner or present_operator(), max(damaged.epoch, view.epoch))
    return replace(lease, document=replace(lease.document, about=about_run(view)))


async def _records(store: RunStore, run_id: str) -> list[RecordRow]:
    """Return the records of a run: at least its first one, without which no other machine can carry it out.

    Raises:
        MissingError: The store has none yet.
        FormatError: One is damaged or missing.
    """
    try:
        rows = await read_rows(store, run_id)
    except FormatError as error:
        error.hint = error.hint or _WRITES_AGAIN
        raise
    if not rows:
        raise MissingError(
            f"{store.address} has no record of {run_id} yet: no other machine can carry it out.",
            hint="Try again a little later, or resume it on the machine that has launched it.",
        )
    return rows


async def _require_records(store: RunStore, run_id: str, lease: StoreLease, *, is_machine_gone: bool, say: Say) -> None:
    """Require all records of a run while its lease is the earlier machine's: that alone can write them again.

    Raises:
        MissingError: The store has none yet.
        FormatError: One is damaged or missing. For the newest ones, a machine that no longer exists is not waited for.
    """
    last, known = (await _records(store, run_id))[-1].seq, lease.status.last_seq
    if last >= known:
        return
    lacking = f"The journal in {store.address} ends with record {last}, and has had {known}."
    if not is_machine_gone:
        raise FormatError(lacking, hint=f"{_WRITES_AGAIN} If it no longer exists: --machine-is-gone.")
    say(f"{lacking} What the run did after that is not known.")


async def _brought_variables(store: RunStore, run_id: str) -> dict[str, str]:
    found = await store.get(run_key(run_id, "files/environment.json"), limit_bytes=MOST_FILE_BYTES)
    try:
        return decode_json(found.body, dict[str, str]) if found is not None else {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


async def _lease_taken(
    run_id: str, store: RunStore, lease: StoreLease, *, is_confirmed: bool
) -> tuple[StoreLease, StoreLease]:
    """Take the lease. The earlier machine, if it is alive, renews it; between two of these writes is room.

    Returns:
        The lease as it was last, and the new one.

    Raises:
        ConflictError: Another machine has it now, or that of which no sign was expected is alive.
    """
    for attempt in range(1, _CLAIMS + 1):
        try:
            return lease, await take_lease(store, run_id, present_operator(), after=lease)
        except ConflictError:
            before, lease = lease, await _known_lease(store, run_id)
            if not _is_same_machine(before, lease):
                raise ConflictError(
                    f"{lease.owner} has taken over {run_id} at the same moment. Nothing was changed here.",
                    hint="Look at `eksml-tui runs list --store`: it has who carries it out.",
                ) from None
            if attempt == _CLAIMS:
                raise
            if not is_confirmed:
                require_confirmed(run_id, lease, "", store.address)
    raise AssertionError


def _is_same_machine(before: StoreLease, lease: StoreLease) -> bool:
    """Return whether a lease is still that machine's; before its runner has begun, it names no holder."""
    is_same_owner = (lease.epoch, str(lease.owner)) == (before.epoch, str(before.owner))
    return is_same_owner and (not before.holder or before.holder == lease.holder)


def heard_sentence(where: str, age_seconds: float) -> str:
    """Return the last sign of a machine as a clause: `the last heartbeat in s3://team/ml is 4 s old`."""
    return f"the last heartbeat in {where} is {age_seconds:.0f} s old"


def grace_sentence(owner: Operator, heard: str) -> str:
    """Return the sentence on the wait of a takeover: how long it is, for what, and why.

    Args:
        owner: The earlier one.
        heard: See `heard_sentence`.
    """
    return f"Waiting {GRACE_SECONDS:.0f} s, as {owner} may be alive and about to change something: {heard}."


def require_confirmed(run_id: str, lease: StoreLease, confirm: str, place: str) -> None:
    """Require that the operator has typed the id of a run whose machine may be alive.

    Raises:
        UsageError: With who carries it out, and since when nothing was heard.
    """
    if confirm != run_id:
        raise UsageError(
            f"{lease.owner} carries out {run_id}: {heard_sentence(place, lease.age_seconds)}. "
            "A takeover ends what that machine is doing.",
            hint=f"Add --confirm {run_id} to take it over.",
        )


async def _require_silence(
    run_id: str,
    store: RunStore,
    clock: Clock,
    lease: StoreLease,
    confirm: str,
    *,
    target: ClusterTarget | None,
    environment: Mapping[str, str] | None,
) -> None:
    """Require that the run's store and cluster have had no heartbeat lately: its machine may be cut off from one.

    A cluster that is not reached from here in time means nothing. Nothing on this machine is changed.

    Raises:
        UsageError: One of them has had one.
    """
    if confirm == run_id:
        return
    if lease.is_live:
        require_confirmed(run_id, lease, "", store.address)
    if not store.takes_output:
        return  # it is in the cluster
    try:
        with TemporaryDirectory(prefix="eksml-tui-") as place:  # one for each command: two may look at one moment
            looking = Path(place) / run_id
            await fetch_run(store, run_id, looking, clock=clock)
            kubeconfig_path(looking).unlink(missing_ok=True)
            bring_environment(looking, environment or {})
            async with asyncio.timeout(_LOOK_SECONDS):
                with arrival_records(looking, clock) as records:
                    await reach_cluster(looking, records, clock, target=target)
                    async with cluster_store(looking, records, clock) as cluster:
                        known = await cluster.lease(run_id) if cluster is not None else None
    except (ConsoleError, TimeoutError, OSError):
        return
    if known is not None and known.age_seconds < YOUNG_SECONDS:
        require_confirmed(run_id, known, "", "its cluster")


@asynccontextmanager
async def cluster_store(folder: Path, records: ArrivalRecords, clock: Clock) -> AsyncIterator[RunStore | None]:
    """Open the store in a run's cluster, for the time of a question; `None` before the run has a cluster here."""
    view, backend = records.view(), LiveBackend(folder, clock)
    try:
        is_known = kubeconfig_path(folder).exists() and known_cluster_uid(view)
        connection = await backend.cluster_of(view) if is_known else None
        yield await open_cluster_store(connection.session, view.cluster.namespace) if connection is not None else None
    finally:
        await backend.aclose()


async def _pointed(folder: Path, records: ArrivalRecords, clock: Clock, taken: StoreLease, store: RunStore) -> str:
    """Write the new epoch over the run's lease in its cluster, where the earlier machine sees it without the store.

    Returns:
        The last sign of that machine there, as `heard_sentence`; empty if it is old.

    Raises:
        ConflictError: A later machine has the run, as the cluster says.
    """
    if not store.takes_output:
        return ""
    try:
        async with cluster_store(folder, records, clock) as cluster:
            try:
                found = await cluster.lease(folder.name) if cluster is not None else None
            except DamagedError as error:
                if error.epoch > taken.epoch:
                    raise taken_by_epoch(folder.name, error.epoch) from error
                found = error.lease(taken.owner, taken.epoch)
            if cluster is None or found is None:
                return ""
            if found.epoch > taken.epoch or (found.epoch == taken.epoch and str(found.owner) != str(taken.owner)):
                raise ConflictError(
                    f"The run's cluster has the lease of a later machine: {found.owner} (epoch {found.epoch}).",
                    hint="Look at `eksml-tui runs list --cluster`.",
                )
            with suppress(AccessError):  # a right that its runner lacks, too
                await take_lease(
                    cluster, folder.name, taken.owner, after=found, epoch=taken.epoch, about=about_run(records.view())
                )
            return heard_sentence("its cluster", found.age_seconds) if found.age_seconds < YOUNG_SECONDS else ""
    except ConflictError:
        raise
    except ConsoleError:
        return ""  # the search says that it was not reached


def source_of(store: RunStore) -> str:
    """Return the word for a store behind `--from`."""
    return store.address if store.takes_output else CLUSTER


def _own(folder: Path, lease: StoreLease) -> bool | None:
    """Return whether a runner of this machine is alive, if it carries the run out; `None` if another one does.

    A run whose arrival was cut short is none of this machine's yet. Another machine may have the same name.
    """
    if not journal_path(folder).exists() or read_watched(folder) is not None:
        return None
    reader = RunReader(folder)
    try:
        view = reader.poll()
        is_alive = reader.runner_alive
    finally:
        reader.close()
    owner = present_operator()
    if view is None or view.epoch < lease.epoch or str(lease.owner) != str(owner):
        return None
    return None if lease.is_live and lease.holder not in ("", this_holder(owner)) else is_alive


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
        unreached = await _reach(folder, records, clock, target=target, say=say, source="")
        found = await _searched(folder, records, clock, since=records.newest_at(before=TakenOver))
    if starts:
        start_runner(folder, environment=environment)
    return Takeover(folder, lease.epoch, None, found.left_out, (*unreached, *found.sentences))


async def _brought(
    store: RunStore, folder: Path, lease: StoreLease, clock: Clock, *, previous: Operator, is_previous_gone: bool
) -> None:
    """Write the record of a takeover, and bring the run into its folder. An earlier one there is put aside.

    Raises:
        TakenError: Another machine has taken it over meanwhile.
        ConsoleError: The store or the disk fails; the folder is as it was, and the hint has the remedy for the lease.
    """
    body = TakenOver(lease.owner, lease.epoch, previous, is_previous_gone=is_previous_gone)
    arriving = folder.with_name(f".{folder.name}.arriving")
    shutil.rmtree(arriving, ignore_errors=True)
    try:
        await append_to_store(store, folder.name, body, clock=clock, epoch=lease.epoch)
        await fetch_run(store, folder.name, arriving, clock=clock)
        kubeconfig_path(arriving).unlink(missing_ok=True)  # it may start a program, and is made anew
        await _bring_states(store, arriving, folder.name)
        if isinstance(store, ArchivedRun):
            await in_thread("takeover", store.bring_output, arriving)
    except TakenError:
        raise
    except ConsoleError as error:
        shutil.rmtree(arriving, ignore_errors=True)
        error.hint = f"{error.hint} The lease is this machine's: repeat the command.".strip()
        raise
    await in_thread("takeover", _settle, arriving, folder, source_of(store), lease)


def _settle(arriving: Path, folder: Path, source: str, lease: StoreLease) -> None:
    """Give a run that has arrived its folder, in which it is to be watched only so far: no runner starts there."""
    become_original(arriving)
    text = "Its takeover by this machine has not come to its end."
    again = f"Repeat it if it was interrupted: {takeover_command(folder.name, source)}"
    make_block(watched_path(arriving))
    write_watched(arriving, WatchedOnly(f"{text} {again}", again))
    if folder.exists():
        aside = aside_path(folder, lease.epoch)
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    arriving.rename(folder)


async def _bring_states(store: RunStore, folder: Path, run_id: str) -> None:
    """Write the Terraform states that a store keeps for a run without one in S3, which is a backend of its own.

    Raises:
        FormatError: One is damaged.
    """
    view = load_run(folder)
    if view.store:
        return
    for stage in (each for each in view.stages if each.kind == "terraform"):
        found = await store.get(run_key(run_id, f"terraform/{stage.id}.tfstate"))
        if found is not None:
            read_state(found.body)
            place = private_directory(terraform_path(folder, stage.id))
            write_private(place / STATE_FILE, found.body)


async def _reach(
    folder: Path, records: ArrivalRecords, clock: Clock, *, target: ClusterTarget | None, say: Say, source: str
) -> tuple[str, ...]:
    """Reach the run's cluster by what this machine has for it. Returns a line if that failed.

    A cluster that does not answer does not stop it: the lease in the store is taken. A run that has not reached it,
    by the store's records, may have, if the store was away: then it is tried for a short time.
    """
    view = records.view()
    stage = next((stage for stage in view.stages if stage.kind == "kubeconfig"), None)
    if stage is None or view.state is RunState.TORN_DOWN:
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
    hint = "" if target is not None else f" By another context: {takeover_command(view.id, source)} --context NAME"
    return (f"The run's cluster was not reached: {done.text}{hint}",)


async def _searched(folder: Path, records: ArrivalRecords, clock: Clock, *, since: float) -> Searched:
    """Record what the earlier machine has made after its last record in the store."""
    if not kubeconfig_path(folder).exists():
        return Searched()
    try:
        return await record_strays(folder, records, clock, since=since)
    except ConsoleError as error:
        return Searched(sentences=(f"The run's cluster was not searched: {error.message}",))
