"""The driver of the `terraform` program for one root."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from actions.base.clock import Clock, SystemClock
from actions.base.errors import FormatError, RefusedError, ToolError, UnreachableError
from actions.base.process import run_tool
from actions.terraform import arguments
from actions.terraform.detached import DetachedOperation
from actions.terraform.events import EventKind, TerraformEvent, read_event
from actions.terraform.failure import failure_of
from actions.terraform.plans import read_plan
from actions.terraform.protocol import OnEvent, PlanSummary, Variables
from actions.terraform.workspace import Workspace

INIT_DEADLINE_SECONDS = 900.0
QUERY_DEADLINE_SECONDS = 120.0
CLI_ENVIRONMENT: Mapping[str, str] = {"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}

_REMEMBERED_EVENTS = 200
_OPERATIONS = ("plan", "apply", "destroy")


class TerraformDriver:
    """Runs the program; at most one operation at a time in a work folder, whoever started it.

    An apply or a destroy that an earlier runner started and that is still alive is adopted: nothing is started twice.

    Args:
        root: The root as the blueprint holds it.
        work: Private folder for the copy of the root, its state, plans and output.
        environment: For the program, beside the usual names: credentials, region, proxies.
        program: The `terraform` program.
        clock: The machine's by default.
    """

    is_simulated = False

    def __init__(
        self,
        root: Path,
        work: Path,
        environment: Mapping[str, str],
        *,
        program: Path,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._workspace = Workspace(root, work)
        self._program = program
        self._environment = {**environment, **CLI_ENVIRONMENT}
        self._operations = {name: DetachedOperation(work, name, clock=clock) for name in _OPERATIONS}
        self._is_interrupted = False

    async def init(self) -> None:
        """Bring the root into the work folder and install its providers. Leaves a running operation alone.

        Raises:
            BlueprintError: The root is none.
            UnreachableError: Providers or modules cannot be downloaded.
            ToolError: Anything else.
        """
        if self.running():
            return
        self._workspace.prepare()
        argv = arguments.init_arguments(self._program, has_lock_file=self._workspace.has_lock_file)
        await self._query(argv, deadline_seconds=INIT_DEADLINE_SECONDS)

    async def plan(self, variables: Variables, *, on_event: OnEvent | None = None) -> PlanSummary:
        """Compare, and save a plan.

        Raises:
            ConflictError: Somebody else holds the state, or an apply is running.
            RefusedError: An earlier apply could not save its state.
            ToolError: Terraform refuses.
        """
        async for _ in self._operations["plan"].lines():  # one of an earlier runner: it changes nothing, let it end
            pass
        self._require_idle()
        self._workspace.require_saved_state()
        self._workspace.forget_plan()
        self._workspace.write_variables(variables)
        await self._run("plan", arguments.plan_arguments(self._program), on_event)
        shown = await self._query(arguments.show_plan_arguments(self._program))
        summary = read_plan(shown)
        self._workspace.record_plan(summary.plan_hash)
        return summary

    async def apply(self, plan_hash: str = "", *, on_event: OnEvent | None = None) -> dict[str, str]:
        """Apply the saved plan, or adopt an apply that is running. Returns the outputs.

        Raises:
            RefusedError: No saved plan, another one than approved, a state that could not be saved; or it was
                asked to stop.
            ConflictError: Somebody else holds the state, or the plan is out of date.
            ToolError: Something could not be made; what was made is in the state.
        """
        if self.running() != "apply":
            self._require_idle()
            self._workspace.require_saved_state()
            self._workspace.require_plan(plan_hash)
        await self._run("apply", arguments.apply_arguments(self._program), on_event)
        self._workspace.forget_plan()
        return await self.outputs()

    async def destroy(self, variables: Variables, *, on_event: OnEvent | None = None) -> None:
        """Destroy everything in the state, or adopt a destroy that is running.

        Raises:
            RefusedError: A state that could not be saved; or it was asked to stop.
            ConflictError: Somebody else holds the state, or another operation is running.
            ToolError: Something could not be destroyed; it is still in the state.
        """
        if self.running() != "destroy":
            self._require_idle()
            self._workspace.require_saved_state()
            self._workspace.write_variables(variables)
        await self._run("destroy", arguments.destroy_arguments(self._program), on_event)

    async def outputs(self) -> dict[str, str]:
        """The outputs in the state, without sensitive ones; other than texts as JSON.

        Raises:
            FormatError: Terraform prints something else.
        """
        shown = await self._query(arguments.output_arguments(self._program))
        try:
            values = msgspec.json.decode(shown, type=dict[str, dict[str, object]])
        except msgspec.DecodeError as error:
            raise FormatError("Terraform's outputs cannot be read.") from error
        return {name: _text(item.get("value")) for name, item in values.items() if not item.get("sensitive")}

    async def state_list(self) -> tuple[str, ...]:
        """Addresses of everything in the state."""
        if not self._workspace.has_state:
            return ()
        listed = await self._query(arguments.state_list_arguments(self._program))
        return tuple(line for line in listed.decode(errors="replace").splitlines() if line)

    def running(self) -> str:
        """The operation that is alive, also of an earlier runner; empty if none is."""
        return next((name for name, item in self._operations.items() if item.identity() is not None), "")

    def interrupt(self) -> bool:
        """Ask the running operation to stop after what it is doing. Only the first call sends a signal.

        A second signal would make Terraform forget what it is just making.
        """
        name = self.running()
        if not name:
            return False
        if not self._is_interrupted:
            self._is_interrupted = self._operations[name].interrupt()
        return True

    async def _run(self, name: str, argv: Sequence[str], on_event: OnEvent | None) -> None:
        operation = self._operations[name]
        if operation.identity() is None:
            self._is_interrupted = False
            operation.start(argv, environment=self._environment)
        recent: deque[TerraformEvent] = deque(maxlen=_REMEMBERED_EVENTS)
        is_done = False
        async for line in operation.lines():
            event = read_event(line)
            if event is None:
                continue
            recent.append(event)
            is_done = is_done or (event.kind is EventKind.CHANGE_SUMMARY and event.operation == name)
            if on_event is not None:
                on_event(event)
        exit_code = operation.exit_code()
        if exit_code or not is_done:  # without its summary it has not come to its end, whatever the code says
            raise failure_of(argv, list(recent), exit_code=exit_code, interrupted=self._is_interrupted)

    def _require_idle(self) -> None:
        name = self.running()
        if name:
            raise RefusedError(f"Terraform {name} is still running here.", hint="Wait for its end, or interrupt it.")

    async def _query(self, argv: Sequence[str], *, deadline_seconds: float = QUERY_DEADLINE_SECONDS) -> bytes:
        try:
            return await run_tool(
                argv,
                deadline_seconds=deadline_seconds,
                directory=self._workspace.folder,
                extra_environment=self._environment,
            )
        except UnreachableError as error:
            raise UnreachableError(f"terraform {argv[1]} did not end within {deadline_seconds:.0f} s.") from error
        except ToolError as error:
            said = [event for line in error.tail.encode().splitlines() if (event := read_event(line)) is not None]
            raise failure_of(argv, said, exit_code=error.exit_code, interrupted=False) from error


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
