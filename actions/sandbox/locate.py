"""The running sandbox of a name: found by its state file, or started."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, UnreachableError
from actions.base.files import PRIVATE_FILE, private_directory, read_file, state_folder, take_lock, wait_for_lock
from actions.base.process import ProcessIdentity, is_alive, kill, own_identity, own_module, spawn_detached, work_of
from actions.base.proxies import past_proxies

SILENCE_SECONDS = 60.0
"""Without any work, after which a sandbox that starts is given up."""
START_SECONDS = 600.0
CREDENTIALS = "aws-credentials"
PROGRAMS = "bin"
REGION = "us-west-2"
_OTHERS_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip
_LOCK, _LOG = "sandbox.lock", "sandbox.log"
_END_SECONDS = 5.0
_POLL_SECONDS = 0.05
_IDENTITY_BYTES = 4096
_JUST_NOW = ProcessIdentity(0, 0, "")
"""Has taken the lock, and not yet written which process it is."""


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
        """Return the identity of the process that serves it."""
        return ProcessIdentity(self.pid, self.start_ticks, self.boot_id)


class RunningSandbox(msgspec.Struct, frozen=True):
    """A sandbox that answers."""

    name: str
    folder: Path
    process: ProcessFile

    @property
    def kubeconfig(self) -> Path:
        """The path of its kubeconfig, 0600."""
        return Path(self.process.kubeconfig)

    @property
    def credentials(self) -> Path:
        """The path of AWS credentials that it accepts, 0600."""
        return self.folder / CREDENTIALS

    @property
    def programs(self) -> Path:
        """The folder of the programs that it brings: `terraform`, its own, which makes nothing real."""
        return self.folder / PROGRAMS

    def environment(self, region: str = "") -> dict[str, str]:
        """Return the variables with which AWS clients reach its account instead of AWS.

        Where there is neither `terraform` nor `tofu`, PATH leads to its own, first: what one has begun, another does
        not continue.
        """
        path = os.environ.get("PATH", os.defpath)
        return {
            "AWS_ENDPOINT_URL": self.process.aws_endpoint_url,
            "AWS_REGION": region or REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": str(self.credentials),
            "AWS_PROFILE": "default",
            "AWS_DEFAULT_PROFILE": "default",
            **(
                {}
                if shutil.which("terraform") or shutil.which("tofu")
                else {"PATH": f"{self.programs}{os.pathsep}{path}"}
            ),
            **past_proxies(os.environ),
            **dict.fromkeys(_OTHERS_CREDENTIALS, ""),  # empty: those of the operator are not for the sandbox
        }


def sandbox_folder(name: str) -> Path:
    """Return the folder where the sandbox `name` keeps its kubeconfig and state file."""
    return state_folder() / "sandbox" / name


def find_sandbox(name: str) -> RunningSandbox | None:
    """Return the sandbox `name` if it runs."""
    folder = sandbox_folder(name)
    try:
        process = decode_json(read_file(folder / "process.json"), ProcessFile)
    except (OSError, msgspec.DecodeError):
        return None
    return RunningSandbox(name, folder, process) if is_alive(process.identity()) else None


def running_sandboxes() -> list[RunningSandbox]:
    """Return all that run, by their state files."""
    names = sorted(file.parent.name for file in (state_folder() / "sandbox").glob("*/process.json"))
    return [found for name in names if (found := find_sandbox(name))]


def find_or_start(name: str, *, speed: float | None = None, nodes: str = "") -> RunningSandbox:
    """Return the sandbox `name`, started in a session of its own if it does not run.

    A process holds the lock of the sandbox's folder from its first step to its end, so of two that are started at once
    one serves, and both callers get it. One that has gone silent is ended if this call has started it.

    Args:
        name: The sandbox's.
        nodes: Nodes that it has from the beginning, as `TYPE=N,…`.
        speed: Factor by which workloads print faster; the usual one if not given. A running sandbox keeps its own.

    Raises:
        ConfigError: Its folder cannot be made, or it ended at once.
        UnreachableError: It has done nothing for a minute, or did not come up in ten.
    """
    found, folder, child = find_sandbox(name), sandbox_folder(name), None
    log = folder / _LOG
    begun = heard = time.monotonic()
    work = 0
    while found is None:
        now = time.monotonic()
        holder = _holder(private_directory(folder))
        if holder is None and (child is None or not is_alive(child)):
            if child is not None:
                raise ConfigError(f"The sandbox {name} ended while starting: {_last_line(log)}", hint=f"See {log}.")
            child = _spawned(name, folder, speed, nodes)
        before, work = work, sum(work_of(process) for process in {holder, child} if process)
        heard = now if work != before else heard
        if now - heard > SILENCE_SECONDS or now - begun > START_SECONDS:
            if child is not None:
                kill(child)
            other = f" End process {holder.pid} to start another." if holder and holder != child else ""
            raise UnreachableError(
                f"The sandbox {name} did not start in {now - begun:.0f} s.{other}", hint=f"See {log}."
            )
        time.sleep(_POLL_SECONDS)  # noqa: TID251 - before there is a loop
        found = find_sandbox(name)
    return found


def take_folder(folder: Path, name: str) -> int:
    """Take the lock of a sandbox's folder for this process, and write into it which one that is; its descriptor.

    Raises:
        ConfigError: Another process starts or serves it, and does not end within seconds.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    if not wait_for_lock(descriptor, _END_SECONDS):
        os.close(descriptor)
        holder = _holder(folder) or _JUST_NOW
        hint = "Choose another --name, or end that process."
        raise ConfigError(f"Process {holder.pid} has the sandbox {name}.", hint=hint)
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, msgspec.json.encode(own_identity()), 0)
    return descriptor


def _holder(folder: Path) -> ProcessIdentity | None:
    """The process that starts, serves or ends the sandbox of a folder; `None` if there is none."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if take_lock(descriptor):
            return None
        return decode_json(os.pread(descriptor, _IDENTITY_BYTES, 0), ProcessIdentity)
    except msgspec.DecodeError:
        return _JUST_NOW
    finally:
        os.close(descriptor)


def _spawned(name: str, folder: Path, speed: float | None, nodes: str) -> ProcessIdentity:
    argv = own_module("actions.sandbox", "--state", str(folder), "--name", name)
    argv += ["--nodes", nodes] if nodes else []
    argv += ["--speed", f"{speed:g}"] if speed is not None else []
    return spawn_detached(argv, output=folder / _LOG, without_aws=True)


def _last_line(log: Path) -> str:
    try:
        lines = read_file(log).decode(errors="replace").splitlines()
    except OSError:
        return "no output"
    return next((line for line in reversed(lines) if line.strip()), "no output")
