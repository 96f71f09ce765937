"""The program: the commands of `terraform` that the driver uses, for a root with a `simulation.json`.

Events and ends are those of Terraform 1.11.4: the first SIGINT ends an operation after its present change, the second
at once. Nothing is locked, and nothing is refreshed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConsoleError, FormatError, MissingError, RefusedError
from actions.base.files import read_file, write_private
from actions.sandbox.terraform.simulation import RootNodeGroup, Variables, load_simulation
from actions.sandbox.terraform.state import VERSION, State, read_state, save, store_of

RESOURCE_SECONDS = 0.2

_NOTICE = "This is the demo's stand-in for Terraform: everything is simulated, nothing is made."
_HEARD = "\nInterrupt received.\nGracefully shutting down...\n"
_HEARD_TWICE = "\nTwo interrupts received. Exiting immediately.\n"


class Plan(msgspec.Struct):
    """The content of a plan file."""

    lineage: str
    serial: int
    missing: list[str]
    outputs: dict[str, str]
    variables: dict[str, str | int | float | bool]


class Interrupts:
    """The signals that this process has got, each reported at once."""

    def __init__(self) -> None:
        self.count = 0
        signal.signal(signal.SIGINT, self._take)

    def _take(self, _number: int, _frame: object) -> None:
        self.count += 1
        _tell("log", _HEARD if self.count == 1 else _HEARD_TWICE)
        if self.count > 1:
            os._exit(1)

    def require_none(self) -> None:
        """Raise `RefusedError` after an interrupt."""
        if self.count:
            raise RefusedError("execution halted")


def _tell(kind: str, message: str, *, level: str = "info", **fields: Any) -> None:
    """Write one event of the JSON stream; keys are in Terraform's order."""
    head = {"@level": level, "@message": message, "@module": "terraform.ui", "@timestamp": _now()}
    os.write(1, msgspec.json.encode({**head, **fields, "type": kind}) + b"\n")


def _now() -> str:
    return datetime.now(UTC).isoformat()  # noqa: TID251 - the time of an event, as the machine has it


def _begin() -> Interrupts:
    interrupts = Interrupts()
    _tell("version", f"Terraform {VERSION}", terraform=VERSION, ui="1.2")
    _tell("log", _NOTICE)
    return interrupts


def _work(address: str, action: str, step: str) -> None:
    resource = {"addr": address, "resource_type": address.partition(".")[0]}
    done = " complete" if step == "apply_complete" else ""
    _tell(step, f"{address}: simulated {action}{done}", hook={"resource": resource, "action": action})


def _summarise(operation: str, *, add: int = 0, remove: int = 0) -> None:
    changes = {"add": add, "change": 0, "remove": remove, "operation": operation}
    _tell("change_summary", f"{add} to add, {remove} to destroy, simulated.", changes=changes)


def initialise(folder: Path) -> None:
    """Check that the root can be simulated; a folder with nothing but a backend is fine."""
    if any(folder.glob("*.tf")):
        load_simulation(folder)


def plan(folder: Path, options: Sequence[str]) -> None:
    """Compare state and simulation, and save what is missing."""
    state, simulation, variables = read_state(store_of(folder).read()), load_simulation(folder), _variables(options)
    targets = _values(options, "-target")
    missing = [
        address
        for address in simulation.resources
        if address not in state.addresses and (not targets or address in targets)
    ]
    outputs = state.outputs if targets else simulation.outputs_of(variables)
    saved = Plan(state.lineage, state.serial, missing, outputs, dict(variables))
    write_private(folder / _values(options, "-out")[0], msgspec.json.encode(saved))
    if "-json" in options:
        _begin()
        _summarise("plan", add=len(missing))


def show(folder: Path, file: str) -> None:
    """Print a saved plan."""
    saved, known = _plan_in(folder / file), read_state(store_of(folder).read()).outputs
    changes = [{"address": address, "change": {"actions": ["create"]}} for address in saved.missing]
    outputs = {
        name: {"actions": ["no-op" if known.get(name) == value else "create"], "after": value}
        for name, value in saved.outputs.items()
    }
    _print({"format_version": "1.2", "resource_changes": changes, "output_changes": outputs})


def apply(folder: Path, file: str) -> None:
    """Make what a saved plan lacks."""
    saved, store = _plan_in(folder / file), store_of(folder)
    simulation, state = load_simulation(folder), read_state(store.read())
    if (saved.lineage, saved.serial) != (state.lineage, state.serial):
        raise RefusedError("Saved plan is stale")
    interrupts = _begin()
    for address in saved.missing:
        interrupts.require_none()
        _work(address, "create", "apply_start")
        _pause()
        state.addresses.append(address)
        save(store, state)
        if address == simulation.node_group:
            RootNodeGroup(saved.variables).make()
        _work(address, "create", "apply_complete")
    interrupts.require_none()
    state.outputs = saved.outputs
    save(store, state)
    _summarise("apply", add=len(saved.missing))


def destroy(folder: Path, options: Sequence[str]) -> None:
    """Take back what is in the state."""
    store, variables = store_of(folder), _variables(options)
    simulation, state = load_simulation(folder), read_state(store.read())
    interrupts, before = _begin(), list(state.addresses)
    for address in reversed(before):
        interrupts.require_none()
        _work(address, "delete", "apply_start")
        _pause()
        if address == simulation.node_group:
            RootNodeGroup(variables).unmake()
        state.addresses.remove(address)
        save(store, state)
        _work(address, "delete", "apply_complete")
    state.outputs = {}
    save(store, state)
    _summarise("destroy", remove=len(before))


def push(folder: Path, file: str) -> None:
    """Put a state in the place of the present one, unless that is newer or another one."""
    store, pushed = store_of(folder), read_state(read_file(folder / file))
    state: State = read_state(store.read())
    if state.lineage and (state.lineage != pushed.lineage or state.serial > pushed.serial):
        raise RefusedError("cannot import state: the present one is newer, or another one")
    store.write(pushed.encoded())


def _pause() -> None:
    time.sleep(RESOURCE_SECONDS)  # noqa: TID251 - a program that has nothing else to do


def _values(options: Sequence[str], name: str) -> list[str]:
    """Return the values of an option: of `-target=x` it is `x`."""
    return [word.partition("=")[2] for word in options if word.startswith(f"{name}=")]


def _variables(options: Sequence[str]) -> Variables:
    found: dict[str, str | int | float | bool] = {}
    for file in _values(options, "-var-file"):
        found |= decode_json(read_file(Path(file)), dict[str, str | int | float | bool])
    return found


def _plan_in(path: Path) -> Plan:
    try:
        return decode_json(read_file(path), Plan)
    except msgspec.DecodeError as error:
        raise FormatError(f"{path.name} is not a plan of this program: {error}.") from error


def _print(document: Any) -> None:
    os.write(1, msgspec.json.encode(document) + b"\n")


def carry_out(words: Sequence[str], folder: Path) -> None:  # noqa: C901 - one case for each command
    """Carry out one command in the folder of a root.

    Raises:
        ConsoleError: It failed.
    """
    match words:
        case ["version", *_]:
            _print({"terraform_version": VERSION})
        case ["init", *_]:
            initialise(folder)
        case ["plan", *options]:
            plan(folder, options)
        case ["show", *_, file]:
            show(folder, file)
        case ["apply", *_, file]:
            apply(folder, file)
        case ["destroy", *options]:
            destroy(folder, options)
        case ["output", *_]:
            outputs = read_state(store_of(folder).read()).outputs
            _print({name: {"value": value, "sensitive": False} for name, value in outputs.items()})
        case ["state", "pull"]:
            os.write(1, store_of(folder).read())
        case ["state", "push", *_, file]:
            push(folder, file)
        case ["force-unlock", *_]:
            pass
        case _:
            raise MissingError(f"The demo's stand-in for Terraform has no command: {' '.join(words)}.")


def main() -> int:
    """Run the program and return its exit code."""
    words = sys.argv[1:]
    try:
        carry_out(words, Path())
    except (ConsoleError, OSError) as error:
        text = error.sentence() if isinstance(error, ConsoleError) else f"{error}"
        if "-json" in words:
            diagnostic = {"severity": "error", "summary": text, "detail": ""}
            _tell("diagnostic", f"Error: {text}", level="error", diagnostic=diagnostic)
        else:
            os.write(2, f"Error: {text}\n".encode())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
