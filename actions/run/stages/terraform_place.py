"""The place of a Terraform stage's root on this machine: its working directory, its state, the locks on that."""

from __future__ import annotations

from actions.base.executors import in_thread
from actions.blueprint.operators import mirror_folder
from actions.blueprint.source_files import located
from actions.blueprint.terraform_modules import archives_path, packages_path
from actions.run.context.retry import STAGE, retry_unreachable
from actions.run.context.stage_context import StageContext
from actions.run.context.state_backend import gone_holders, state_backend_of
from actions.run.journal.folder import load_environment, terraform_path
from actions.run.stages.terraform_takeover import has_lost_state, lost_state_error, may_hold
from actions.run.state.records import Unlocked
from actions.terraform.backend import StateBackend, own_backend
from actions.terraform.driver import TerraformDriver
from actions.terraform.failure import StateLockedError, UninitialisedError
from actions.terraform.program import find_program, require_program
from actions.terraform.state import StateFile, StateLock, reason_to_unlock
from actions.terraform.working_directory import has_history, has_unsaved, is_prepared


class RootPlace:
    """The place of one stage's root.

    Args:
        context: The stage's.
        root: The root, as the stage names it.
    """

    def __init__(self, context: StageContext, root: str) -> None:
        self._context = context
        self._root = located(context.blueprint.folder, root)
        self.work = terraform_path(context.folder, context.stage.id)
        self.is_prepared = is_prepared(self.work)
        """The working directory was on this machine when the handler was made."""
        self.has_history = has_history(self.work)
        """Operations of the stage were started on this machine before."""

    def may_hold(self) -> bool:
        """Return whether the stage may have made something, here or on another machine."""
        backend = own_backend(self._root)
        return may_hold(self._context.view, self._context.stage, is_prepared=self.is_prepared, backend=backend)

    @property
    def program_name(self) -> str:
        """The name of the program, for commands that are shown."""
        program = find_program(load_environment(self._context.folder))
        return program.name if program else "terraform"

    @property
    def has_own_backend(self) -> bool:
        """True if the root configures a backend, which keeps the state of other runs, too, if its key is the same."""
        return bool(own_backend(self._root))

    async def store(self) -> StateBackend | None:
        """Return the place of the state in the run's store; the first time, fetch the region of its bucket.

        Raises:
            ConsoleError: The store's bucket does not exist, or S3 does not answer.
        """
        context = self._context
        environment = load_environment(context.folder)

        async def find() -> StateBackend | None:
            return await in_thread(
                "s3",
                state_backend_of,
                context.view,
                context.stage.id,
                work=self.work,
                root=self._root,
                environment=environment,
            )

        return await retry_unreachable(find, clock=context.clock, note=context.journal.note, policy=STAGE)

    async def open(self) -> TerraformDriver:
        """Return the root's Terraform.

        Raises:
            ConfigError: There is no program.
            ConsoleError: As `store`.
        """
        store, context = await self.store(), self._context
        environment = load_environment(context.folder)
        return TerraformDriver(
            self._root,
            self.work,
            environment,
            program=require_program(environment),
            modules=archives_path(context.folder),
            providers=packages_path(mirror_folder()),
            clock=context.clock,
            store=store,
        )

    async def state(self, terraform: TerraformDriver) -> StateFile:
        """Return the state, wherever the root's backend keeps it.

        Raises:
            MissingError: There is none any more.
            ConsoleError: It cannot be read.
        """

        async def find() -> StateFile:
            try:
                return await terraform.state()
            except UninitialisedError:
                self._context.journal.note("Setting up the working directory.")
                await terraform.init()
                return await terraform.state()

        context = self._context
        state = await retry_unreachable(find, clock=context.clock, note=context.journal.note, policy=STAGE)
        if has_unsaved(self.work):
            return state  # that may be pushed
        is_kept_here = not context.view.store and own_backend(self._root) in ("", "local")
        if has_lost_state(context.view, context.stage, state, is_kept_here=is_kept_here, has_history=self.has_history):
            raise lost_state_error(context.view.id, context.stage.id)
        return state

    async def unlocked(self, terraform: TerraformDriver, lock: StateLock) -> str:
        """Remove the lock of a holder that is certainly dead, on record before that.

        Returns:
            Why it is dead, as a clause; empty if that is not known, and the lock is left as it is.

        Raises:
            ToolError: It is not the lock that is held now.
        """
        reason = reason_to_unlock(lock, terraform.dead_holders(), gone_holders(self._context.view))
        if not reason or terraform.running():
            return ""
        await self._context.journal.remember(Unlocked(lock.id, lock.who, lock.created, lock.operation, reason))
        await terraform.unlock(lock)
        return reason

    async def freed(self, terraform: TerraformDriver) -> str:
        """Remove the lock that is held now, as `unlocked`. Returns a sentence on it; empty if it is none, or stays.

        Raises:
            ConsoleError: The state does not answer.
        """
        try:
            await terraform.try_lock()
        except StateLockedError as error:
            reason = await self.unlocked(terraform, error.lock)
            return f"{error.message} Unlocked, as {reason}." if reason else ""
        return ""
