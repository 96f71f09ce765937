"""Questions about a state that are put to Terraform itself, in a folder that holds nothing but the backend.

Neither modules nor providers are needed for that, nor the working directory of the root: a state in a store is read on
any machine. Only for a backend that the root configures itself the question is put in the working directory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from actions.base.errors import ConsoleError, ToolError, UnreachableError
from actions.base.process import run_tool_now
from actions.base.untrusted import plain_text
from actions.terraform import arguments
from actions.terraform.backend import StateBackend, own_backend
from actions.terraform.events import read_events
from actions.terraform.failure import UninitialisedError, backend_failure, failure_of
from actions.terraform.program import without_warnings
from actions.terraform.state import EMPTY_STATE, StateFile, read_state
from actions.terraform.working_directory import STATE_FILE, is_prepared

CLI_ENVIRONMENT: Mapping[str, str] = {"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}
SECONDS = 120.0


def ask_state(
    program: Path,
    work: Path,
    environment: Mapping[str, str],
    *,
    root: Path | None = None,
    store: StateBackend | None = None,
) -> StateFile:
    """Return the state of a root, from Terraform. Blocks, up to some seconds; writes nothing.

    Args:
        program: Of Terraform or OpenTofu.
        work: The working directory of the root; it may not exist.
        environment: Variables for the program in addition to the usual ones.
        root: The root, for the backend that it configures itself; the working directory by default.
        store: Where the state is, if the root has no backend of its own.

    Raises:
        UninitialisedError: The root's own backend has to be configured in the working directory by `init` first.
        StateLockedError: Another process holds the lock.
        FormatError: It is not a state of a version that is known.
        ConsoleError: The backend does not answer, or refuses.
    """
    if own_backend(root or work):
        if not is_prepared(work):
            raise UninitialisedError(
                "The root is not initialised in its folder here.", hint=f"Run: {program.name} init."
            )
        return read_state(_run(arguments.state_pull_arguments(program), work, environment))
    with tempfile.TemporaryDirectory(prefix="eksml-state-") as name:
        folder = Path(name)
        if store is not None:
            (folder / "backend.tf.json").write_bytes(store.configuration())
            _run(arguments.init_arguments(program, has_lock_file=False), folder, environment)
        elif not (work / STATE_FILE).exists():
            return EMPTY_STATE
        else:
            (folder / STATE_FILE).symlink_to((work / STATE_FILE).absolute())
        return read_state(_run(arguments.state_pull_arguments(program), folder, environment))


def _run(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bytes:
    try:
        known = {**environment, **CLI_ENVIRONMENT}
        return without_warnings(run_tool_now(argv, deadline_seconds=SECONDS, directory=folder, extra_environment=known))
    except UnreachableError as error:
        raise UnreachableError(f"{Path(argv[0]).name} {argv[1]} did not end within {SECONDS:.0f} s.") from error
    except ToolError as error:
        raise tool_failure(argv, error) from error


def tool_failure(argv: Sequence[str], error: ToolError) -> ConsoleError:
    """Return the failure of a command that prints plain text; some print it in colours, to a pipe as well."""
    text = plain_text(error.tail)
    away = backend_failure(text)
    if away is not None:
        return away
    events = [event for line in text.encode().splitlines() for event in read_events(line)]
    return failure_of(argv, events, exit_code=error.exit_code, interrupted=False)
