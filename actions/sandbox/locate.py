"""The running sandbox of a name: found by its state file, or started."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from actions.base.errors import ConfigError, UnreachableError
from actions.base.files import private_directory, state_home
from actions.base.process import ProcessIdentity, is_alive, own_module, spawn_detached

START_SECONDS = 60.0
_POLL_SECONDS = 0.05


class ProcessFile(msgspec.Struct, frozen=True):
    """`process.json`, which a sandbox writes last, in one step, when it can be used."""

    pid: int
    start_ticks: int
    boot_id: str
    url: str
    kubeconfig: str
    aws_endpoint_url: str
    speed: float

    def identity(self) -> ProcessIdentity:
        """Who serves it."""
        return ProcessIdentity(self.pid, self.start_ticks, self.boot_id)


@dataclass(frozen=True, slots=True)
class RunningSandbox:
    """A sandbox that answers."""

    name: str
    folder: Path
    process: ProcessFile

    @property
    def kubeconfig(self) -> Path:
        """Its kubeconfig, 0600."""
        return Path(self.process.kubeconfig)


def sandbox_folder(name: str) -> Path:
    """Where the sandbox `name` keeps its kubeconfig and state file."""
    return state_home() / "sandbox" / name


def find_sandbox(name: str) -> RunningSandbox | None:
    """The sandbox `name` if it runs."""
    folder = sandbox_folder(name)
    try:
        process = msgspec.json.decode((folder / "process.json").read_bytes(), type=ProcessFile)
    except (OSError, msgspec.DecodeError):
        return None
    return RunningSandbox(name, folder, process) if is_alive(process.identity()) else None


def find_or_start(name: str, *, speed: float | None = None) -> RunningSandbox:
    """The sandbox `name`, started in a session of its own if need be.

    Args:
        name: Of the sandbox.
        speed: Factor by which workloads print faster; the usual one if not given. A running sandbox keeps its own.

    Raises:
        ConfigError: Its folder cannot be made.
        UnreachableError: It did not come up in a minute, or ended at once.
    """
    found = find_sandbox(name)
    if found:
        return found
    folder = private_directory(sandbox_folder(name))
    log = folder / "sandbox.log"
    argv = own_module("actions.sandbox", "--state", str(folder), "--name", name)
    if speed is not None:
        argv += ["--speed", f"{speed:g}"]
    child = spawn_detached(argv, output=log)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = find_sandbox(name)
        if found:
            return found
        if not is_alive(child):
            raise ConfigError(f"The sandbox {name} ended while starting: {_last_line(log)}", hint=f"See {log}.")
        time.sleep(_POLL_SECONDS)  # noqa: TID251 - before there is a loop
    raise UnreachableError(f"The sandbox {name} did not start in {START_SECONDS:.0f} s.", hint=f"See {log}.")


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "no output"
    return next((line for line in reversed(lines) if line.strip()), "no output")
