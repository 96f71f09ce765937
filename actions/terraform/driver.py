"""The driver of the `terraform` program for one root."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock, SystemClock
from actions.base.decoding import decode_json
from actions.base.errors import FormatError, RefusedError, ToolError, UnreachableError
from actions.base.executors import in_thread
from actions.base.guard import require_guard
from actions.base.process import ProcessIdentity, has_pending_signal, is_stopped, run_tool
from actions.base.readonly import refuse_if_readonly
from actions.base.wording import listed
from actions.terraform import arguments
from actions.terraform.asking import CLI_ENVIRONMENT, ask_state, tool_failure
from actions.terraform.backend import StateBackend, own_backend, require_locks
from actions.terraform.detached import DetachedOperation, lock_ids, logged_to
from actions.terraform.events import (
    VANISHED,
    ChangeProgress,
    OperationProgress,
    PendingOperation,
    TerraformEvent,
    read_events,
)
from actions.terraform.failure import UnknownEndError, failure_of
from actions.terraform.modules import install_modules
from actions.terraform.plans import (
    Ended,
    OnEvent,
    PlanSummary,
    ResourceChange,
    RunningOperation,
    Variables,
    read_plan,
)
from actions.terraform.program import fetch_version, parse_version, product_of, registry_of, without_warnings
from actions.terraform.providers import installing
from actions.terraform.state import (
    EMPTY_STATE,
    DeadHolder,
    StateFile,
    StateLock,
    ended_holder,
)
from actions.terraform.working_directory import (
    LOCK_FILE,
    PUSHED_STATE,
    QUERY_LOG,
    UNSAVED_STATE,
    UPDATE_PLAN_FILE,
    DeletionRecord,
    WorkingDirectory,
    locked_providers,
)

INIT_DEADLINE_SECONDS = 900.0
QUERY_DEADLINE_SECONDS = 120.0

_REMEMBERED_EVENTS = 200
_SHOWN_CHANGES = 3
_CHANGING = ("destroy", "apply")
_OPERATIONS = ("plan", *_CHANGING)


class TerraformDriver:
    """The `terraform` program for one root; at most one operation at a time in a work folder, across runners.

    A living apply or destroy of an earlier runner is adopted: nothing is started twice.

    Args:
        root: The root in the blueprint's folder.
        work: Private folder for the copy of the root, its state, plans and output.
        environment: Variables for the program in addition to the usual ones: credentials, region, proxies.
        program: Of Terraform or OpenTofu.
        clock: The machine's by default.
        modules: Folder of archives of modules, which are then not fetched.
        providers: Folder of archives of providers, likewise.
        store: Where the state is kept, if the root has no backend of its own; the work folder by default.
    """

    def __init__(
        self,
        root: Path,
        work: Path,
        environment: Mapping[str, str],
        *,
        program: Path,
        clock: Clock | None = None,
        modules: Path | None = None,
        providers: Path | None = None,
        store: StateBackend | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._clock = clock
        self._store = store
        self._directory = WorkingDirectory(root, work, program=program)
        self._program = program
        self.program_name = program.name
        self._modules = modules
        self._providers = providers
        self._environment = {**environment, **CLI_ENVIRONMENT}
        self._operations = {name: DetachedOperation(work, name, clock=clock) for name in _OPERATIONS}
        self._interrupted: ProcessIdentity | None = None

    async def init(self, variables: Variables | None = None) -> str:
        """Copy the root into the work folder and install its providers. Leaves a running operation alone.

        Args:
            variables: The root's, written there for commands by hand; `None` if a plan follows, which writes them.

        Returns:
            Sentences on the recorded providers, if the root pins none of the program's registry: later inits of this
            folder install no others.

        Raises:
            UnsavedStateError: An earlier operation could not save its state.
            BlueprintError: The folder is not a root.
            FormatError, ConflictError: The archive of a module is not what was recorded.
            ConfigError: The folder of the providers' cache cannot be made.
            UnreachableError: Providers or modules cannot be downloaded.
            RefusedError: A provider is not the one that the lock file records; or this Terraform is too old to lock a
                state in a store.
            ToolError: Anything else.
        """
        if self.running():
            return ""
        self._directory.require_saved_state()
        store = await self._usable_home()
        self._directory.prepare(store.configuration() if store else b"")
        if self._modules is not None:
            install_modules(
                self._directory.root, self._directory.folder, self._modules, registry=registry_of(self._program)
            )
        is_locked = self._directory.pins_providers
        is_configured = store is not None and self._directory.is_configured
        argv = arguments.init_arguments(self._program, has_lock_file=is_locked, is_configured=is_configured)
        folder = self._directory.folder
        async with installing(
            folder, self._environment, self._clock, mirror=self._providers, registry=registry_of(self._program)
        ) as cached:
            await self._query(argv, deadline_seconds=INIT_DEADLINE_SECONDS, variables=cached)
        if variables is not None:
            self._directory.write_variables(variables)
        recorded = {} if is_locked else locked_providers(self._directory.folder / LOCK_FILE)
        named = ", ".join(f"{name} {version}" for name, version in recorded.items())
        return f"{self._directory.unpinned()} Recorded for this run: {named}." if named else ""

    async def plan(self, variables: Variables, *, on_event: OnEvent | None = None) -> PlanSummary:
        """Compute and save a plan.

        Raises:
            ConflictError: Another process has locked the state, or an apply is running.
            RefusedError: An earlier apply could not save its state.
            ToolError: Terraform refuses.
        """
        async for _ in self._operations["plan"].lines():  # a plan of an earlier runner changes nothing: let it end
            pass
        self._require_idle()
        self._directory.require_saved_state()
        self._directory.forget_plan()
        self._directory.write_variables(variables)
        await self._run("plan", arguments.plan_arguments(self._program), on_event)
        shown = await self._query(arguments.show_plan_arguments(self._program))
        summary = read_plan(shown)
        self._directory.record_plan(summary.plan_hash)
        return summary

    async def apply(self, plan_hash: str = "", *, on_event: OnEvent | None = None) -> dict[str, str]:
        """Apply the saved plan, or adopt a running apply. Returns the outputs.

        Raises:
            NoPlanError: No saved plan, or another one than approved.
            UnsavedStateError: An earlier operation could not save its state.
            StoppedError: It was interrupted.
            StalePlanError: The plan is out of date.
            StateLockedError: Another process has locked the state.
            UnknownEndError: The end of an adopted apply was not observed.
            ToolError: A resource could not be made; those that were made are in the state.
        """
        refuse_if_readonly(f"{self.program_name} apply")
        if self.running() != "apply":
            self._require_idle()
            self._directory.require_saved_state()
            self._directory.require_plan(plan_hash)
        await self._run("apply", arguments.apply_arguments(self._program), on_event)
        self._directory.forget_plan()
        return await self.outputs()

    async def destroy(
        self, variables: Variables, *, on_event: OnEvent | None = None, may_be_gone: bool = False
    ) -> None:
        """Destroy everything in the state, or adopt a running destroy.

        Args:
            variables: The root's.
            on_event: Gets every event.
            may_be_gone: A destroy that another machine saw alone may have deleted any of it: nothing has vanished.

        Raises:
            RefusedError: A state that could not be saved; or it was interrupted.
            ConflictError: Another process has locked the state, or another operation is running.
            ToolError: Something could not be destroyed; it is still in the state.
        """
        refuse_if_readonly(f"{self.program_name} destroy")
        if self.running() != "destroy":
            self._require_idle()
            self._directory.require_saved_state()
            before, record = (await self.state()).managed, self._directory.deletions()
            begun = tuple(dict.fromkeys((*record.begun, *before))) if may_be_gone else record.begun
            self._directory.record_deletions(DeletionRecord(before, begun))
            self._directory.write_variables(variables)
        await self._run("destroy", arguments.destroy_arguments(self._program), on_event)

    async def outputs(self) -> dict[str, str]:
        """Return the outputs in the state, without sensitive ones; values other than texts as JSON.

        Raises:
            FormatError: Terraform prints something else.
        """
        shown = await self._query(arguments.output_arguments(self._program))
        try:
            values = decode_json(shown, dict[str, dict[str, object]])
        except msgspec.DecodeError as error:
            raise FormatError("Terraform's outputs cannot be read.") from error
        return {name: _text(item.get("value")) for name, item in values.items() if not item.get("sensitive")}

    async def state(self) -> StateFile:
        """Return the addresses in the state, from Terraform: only it can find the root's backend.

        Raises:
            UninitialisedError: The root's own backend has to be configured by `init` first.
            ConsoleError: The state cannot be read.
        """
        directory = self._directory
        return await in_thread(
            "terraform",
            ask_state,
            self._program,
            directory.folder,
            self._environment,
            root=directory.root,
            store=self._store,
        )

    def running(self) -> str:
        """Return the running operation, also of an earlier runner; empty if none is."""
        return next((name for name, item in self._operations.items() if item.identity() is not None), "")

    def process(self) -> RunningOperation | None:
        """Return the living process, with the interrupts that its output and the kernel show."""
        name = self.running()
        identity = self._operations[name].identity() if name else None
        if identity is None:
            return None
        progress = self._operations[name].progress()
        return RunningOperation(
            name,
            identity,
            has_heard=progress.has_heard or has_pending_signal(identity, signal.SIGINT),
            would_have_heard=progress.is_working and not is_stopped(identity),
        )

    def interrupt(self) -> bool:
        """Send the running operation one SIGINT, unless it has got one already."""
        running = self.process()
        if running is None:
            return False
        if not running.has_heard and running.process != self._interrupted:
            self._interrupted = running.process
            return self._operations[running.operation].interrupt()
        return True

    def changes(self) -> tuple[ChangeProgress, ...]:
        """Return the changes of the newest apply or destroy so far."""
        name = _newest_change(self._operations)
        return self._operations[name].progress().changes if name else ()

    async def ended(self) -> Ended | None:
        """Return the newest apply or destroy, if it ended early, or if resources vanished in it.

        Raises:
            ConsoleError: The state cannot be read, so that its missing resources are unknown.
        """
        name = _newest_change(self._operations)
        if not name or self.running():
            return None
        identity, progress = self._operations[name].recorded(), self._operations[name].progress()
        if identity is None or (progress.ended_by_itself and name == "apply"):
            return None
        tracked = frozenset((await self.state()).addresses)
        lost = _vanished(self._directory, progress, tracked) if name == "destroy" else []
        if progress.ended_by_itself and not lost:
            return None
        process = f"{identity.boot_id}:{identity.pid}:{identity.start_ticks}"
        return Ended(name, process, (*progress.pending(tracked), *lost))

    def keep_backup(self) -> Path | None:
        """Copy the state from before the newest destroy; `None` if there is none in this folder."""
        return self._directory.keep_backup()

    def unsaved(self) -> tuple[str, ...] | None:
        """Return the addresses in `errored.tfstate`; `None` if there is none.

        Raises:
            FormatError: It cannot be read.
        """
        unsaved = self._directory.unsaved_state()
        return None if unsaved is None else unsaved.addresses

    async def save_state(self) -> str:
        """Push `errored.tfstate` if it is a newer serial of the same state, or there is no state at all."""
        if not (self._directory.folder / UNSAVED_STATE).exists() or self.running():
            return ""
        try:
            unsaved = self._directory.unsaved_state() or EMPTY_STATE
        except FormatError as error:
            raise self._directory.unsaved_error(error.message) from error
        known = await self.state()
        if known == unsaved:
            self._directory.put_unsaved_state_aside(PUSHED_STATE)
            return f"{UNSAVED_STATE} equals the state: renamed to {PUSHED_STATE}."
        is_newer = known.lineage == unsaved.lineage and unsaved.serial > known.serial
        if not is_newer and (known.lineage or known.addresses):
            why = "It is not newer than the state." if known.lineage == unsaved.lineage else "The state is another one."
            raise self._directory.unsaved_error(why)
        refuse_if_readonly(f"{self.program_name} state push")
        await self._query(arguments.state_push_arguments(self._program, UNSAVED_STATE))
        self._directory.put_unsaved_state_aside(PUSHED_STATE)
        count = len(unsaved.addresses)
        return f"Pushed {UNSAVED_STATE}, which an earlier operation could not save: {count} resources."

    async def update_in_place(self, variables: Variables, addresses: Sequence[str]) -> None:
        """Update some resources of the state with other variables; make, replace and destroy none.

        A resource that no longer exists is left out.

        Raises:
            RefusedError: More than an update would happen, or an operation is running.
            StateLockedError: Another process has locked the state.
            ToolError: Terraform refuses.
        """
        refuse_if_readonly(f"{self.program_name} apply")
        self._require_idle()
        self._directory.require_saved_state()
        self._directory.write_variables(variables)

        async def plan(targets: Sequence[str]) -> tuple[ResourceChange, ...]:
            argv = arguments.plan_update_arguments(self._program, targets)
            await self._query(argv, deadline_seconds=INIT_DEADLINE_SECONDS)
            shown = await self._query(arguments.show_plan_arguments(self._program, UPDATE_PLAN_FILE))
            return read_plan(shown).resources

        try:
            planned = await plan(addresses)
            existing = [item.address for item in planned if item.action == "update"]
            if existing and len(existing) < len(planned):
                planned = await plan(existing)
            others = [f"{item.action} {item.address}" for item in planned if item.action != "update"]
            if others and existing:
                raise RefusedError(
                    f"Terraform would do more than update: {listed(others, _SHOWN_CHANGES)}.",
                    hint="Look at the state, then try again.",
                )
            if existing:
                argv = arguments.apply_update_arguments(self._program)
                await self._query(argv, deadline_seconds=INIT_DEADLINE_SECONDS)
        finally:
            (self._directory.folder / UPDATE_PLAN_FILE).unlink(missing_ok=True)

    def dead_holders(self) -> list[DeadHolder]:
        """Return the processes of this work folder that have ended and may have left the lock of the state."""
        found = self._directory.dead_holders()
        for name, item in self._operations.items():
            if item.recorded() is None or item.identity() is not None:
                continue
            progress = item.progress()
            ids = () if progress.is_summarised and not progress.errors else lock_ids(item.lock_log)
            if not progress.ended_by_itself and progress.began_at is not None and progress.worked_at is not None:
                found.append(DeadHolder(name, progress.began_at, progress.worked_at, ids))
            elif ids:
                found.append(ended_holder(name, ids))
        return found

    async def try_lock(self) -> None:
        """Take the lock of the state, and give it back.

        Raises:
            StateLockedError: Another process has it.
        """
        refuse_if_readonly(f"{self.program_name} untaint")
        await self._query(arguments.lock_arguments(self._program))

    async def unlock(self, lock: StateLock) -> None:
        """Remove a lock whose holder is dead.

        Raises:
            ToolError: It is not the lock that is held now.
        """
        refuse_if_readonly(f"{self.program_name} force-unlock")
        await self._query(arguments.unlock_arguments(self._program, lock.id))

    async def _usable_home(self) -> StateBackend | None:
        """Return the store of the state, if it is kept there.

        Raises:
            RefusedError: This Terraform cannot lock it there.
        """
        if self._store is None or own_backend(self._directory.root):
            return None
        found = parse_version(await fetch_version(self._program))
        require_locks(found, str(self._store), product_of(self._program))
        return self._store

    async def _run(self, name: str, argv: Sequence[str], on_event: OnEvent | None) -> None:
        operation = self._operations[name]
        if operation.identity() is None:
            await require_guard(f"{self.program_name} {name}")
            self._start(operation, argv)
        recent: deque[TerraformEvent] = deque(maxlen=_REMEMBERED_EVENTS)
        progress, refused = OperationProgress(name), ""
        async for line in operation.lines():
            if refused:
                continue  # until its end, so that no process is left without a reader
            try:
                for event in read_events(line):
                    recent.append(event)
                    progress.take(event)
                    if on_event is not None:
                        on_event(event)
            except FormatError as error:
                refused = error.sentence()
        exit_code = await operation.exit_code()
        if refused:
            raise FormatError(refused)
        if exit_code == 0 or (exit_code is None and progress.is_summarised):
            return
        if exit_code is None and not progress.errors and not progress.has_heard:
            raise UnknownEndError(f"The end of {self.program_name} {name} was not observed.", hint="Plan again.")
        raise failure_of(argv, list(recent), exit_code=exit_code, interrupted=progress.has_heard, progress=progress)

    def _start(self, operation: DetachedOperation, argv: Sequence[str]) -> None:
        self._directory.record_dead_holders(self.dead_holders())
        newest = _newest_change(self._operations)
        if newest and operation.name in _CHANGING:
            _record_deletions(self._directory, self._operations[newest].progress())
        if operation.name in _CHANGING:  # so that one of them is the newest, whatever the clock
            for name in _CHANGING:
                self._operations[name].forget()
        logged = logged_to(operation.lock_log, self._environment)
        operation.start(argv, environment={**self._environment, **logged})

    def _require_idle(self) -> None:
        name = self.running()
        if name:
            raise RefusedError(
                f"{self.program_name} {name} is still running here.", hint="Wait for its end, or interrupt it."
            )

    async def _query(
        self,
        argv: Sequence[str],
        *,
        deadline_seconds: float = QUERY_DEADLINE_SECONDS,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        await require_guard(f"{self.program_name} {argv[1]}")
        environment, log = {**self._environment, **variables}, self._directory.folder / QUERY_LOG
        is_locking = any(word.startswith("-lock-timeout") for word in argv)
        logged = logged_to(log, environment) if is_locking else {}
        has_failed = True
        try:
            shown = await run_tool(
                argv,
                deadline_seconds=deadline_seconds,
                directory=self._directory.folder,
                extra_environment={**environment, **logged},
            )
            has_failed = False
        except UnreachableError as error:
            raise UnreachableError(
                f"{self.program_name} {argv[1]} did not end within {deadline_seconds:.0f} s."
            ) from error
        except ToolError as error:
            raise tool_failure(argv, error) from error
        finally:
            if logged:
                self._forget_log(argv[1], log, has_failed=has_failed)
        return without_warnings(shown)

    def _forget_log(self, name: str, log: Path, *, has_failed: bool) -> None:
        """Remove the log of a command that has ended; record the locks that it may have left."""
        ids = lock_ids(log) if has_failed else ()
        if ids:
            self._directory.record_dead_holders([ended_holder(name, ids)])
        log.unlink(missing_ok=True)


def _vanished(
    directory: WorkingDirectory, progress: OperationProgress, tracked: frozenset[str]
) -> list[PendingOperation]:
    record = directory.deletions()
    missing = progress.vanished(record.before, record.begun, tracked)
    return [PendingOperation(address, VANISHED, progress.drifted_away.get(address, "")) for address in missing]


def _record_deletions(directory: WorkingDirectory, progress: OperationProgress) -> None:
    """Record the deletions that an operation has begun, before its output is overwritten."""
    record = directory.deletions()
    begun = dict.fromkeys((*record.begun, *sorted(progress.deletions)))
    gone = tuple(address for address in begun if address not in progress.creations)
    directory.record_deletions(replace(record, begun=gone))


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _newest_change(operations: Mapping[str, DetachedOperation]) -> str:
    return next((name for name in _CHANGING if operations[name].recorded() is not None), "")
