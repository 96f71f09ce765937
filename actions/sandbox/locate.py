"""The running sandbox of a name: found by its state file, or started."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError, UnreachableError
from actions.base.files import PRIVATE_FILE, private_directory, read_file, state_folder, take_lock
from actions.base.process import ProcessIdentity, is_alive, own_module, spawn_detached
from actions.base.proxies import past_proxies

START_SECONDS = 60.0
CREDENTIALS = "aws-credentials"
PROGRAMS = "bin"
REGION = "us-west-2"
_OTHERS_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip
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

    Args:
        name: The sandbox's.
        nodes: Nodes that it has from the beginning, as `TYPE=N,…`.
        speed: Factor by which workloads print faster; the usual one if not given. A running sandbox keeps its own.

    Raises:
        ConfigError: Its folder cannot be made, or it ended at once.
        UnreachableError: It did not come up in a minute.
    """
    found = find_sandbox(name)
    if found:
        return found
    folder = private_directory(sandbox_folder(name))
    deadline = time.monotonic() + START_SECONDS
    with _starting(folder, deadline):
        return find_sandbox(name) or _started(name, folder, speed, nodes, deadline)


def _started(name: str, folder: Path, speed: float | None, nodes: str, deadline: float) -> RunningSandbox:
    log = folder / "sandbox.log"
    argv = own_module("actions.sandbox", "--state", str(folder), "--name", name)
    argv += ["--nodes", nodes] if nodes else []
    if speed is not None:
        argv += ["--speed", f"{speed:g}"]
    child = spawn_detached(argv, output=log, without_aws=True)
    while time.monotonic() < deadline:
        found = find_sandbox(name)
        if found:
            return found
        if not is_alive(child):
            raise ConfigError(f"The sandbox {name} ended while starting: {_last_line(log)}", hint=f"See {log}.")
        time.sleep(_POLL_SECONDS)  # noqa: TID251 - before there is a loop
    raise UnreachableError(f"The sandbox {name} did not start in {START_SECONDS:.0f} s.", hint=f"See {log}.")


@contextmanager
def _starting(folder: Path, deadline: float) -> Iterator[None]:
    """Hold the right to start the sandbox of `folder`: of two processes, the second waits for the first one's."""
    descriptor = os.open(folder / "starting.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        while not take_lock(descriptor):
            if time.monotonic() > deadline:
                raise UnreachableError(f"Another process has been starting {folder.name} for a minute.")
            time.sleep(_POLL_SECONDS)  # noqa: TID251 - before there is a loop
        yield
    finally:
        os.close(descriptor)


def _last_line(log: Path) -> str:
    try:
        lines = read_file(log).decode(errors="replace").splitlines()
    except OSError:
        return "no output"
    return next((line for line in reversed(lines) if line.strip()), "no output")
