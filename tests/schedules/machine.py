"""A machine of its own for one life: state folder on a small disk, sandbox, relay to it, the program's processes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from actions.base.process import ProcessIdentity, is_alive
from actions.sandbox.locate import RunningSandbox, find_or_start
from tests.schedules.blueprint import make_run
from tests.schedules.history import History
from tests.schedules.partition import Relay
from tests.support import zygote
from tests.support.forked import forked
from tests.support.polling import wait
from tests.support.program import Program
from tui.cli.main import main

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
"""None of the machine's: the sandbox's own are in a file."""
SPEED = 20.0
_DISK_BYTES = 24 << 20
_CLOCK_HOOK = """\
import datetime, os
try:
    from actions.base import clock
except ImportError:
    clock = None

def _now(self):
    try:
        offset = float(open(os.environ["EKSML_TEST_CLOCK"]).read() or 0)
    except (OSError, KeyError, ValueError):
        offset = 0.0
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=offset)

if clock is not None:
    clock.SystemClock.now = _now
"""
"""A `sitecustomize` that moves the wall clock of the program's processes; the machine's own is left alone."""


@dataclass
class Machine:
    """Everything that a fault can be injected into."""

    program: Program
    sandbox: RunningSandbox
    relay: Relay
    history: History
    kubeconfig: Path
    """Leads to the sandbox through the relay."""
    has_small_disk: bool
    consoles: list[Console] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Of the operators' processes."""
        hook = {"PYTHONPATH": str(self.program.home / "hook"), "EKSML_TEST_CLOCK": str(self.clock)}
        return {**self.program.environment, **CREDENTIALS, **hook, **self.run_environment}

    @property
    def run_environment(self) -> dict[str, str]:
        """Of the run's processes, beside what operators hand on."""
        return {
            "AWS_ENDPOINT_URL": self.sandbox.process.aws_endpoint_url,
            "AWS_REGION": "us-west-2",
            "AWS_SHARED_CREDENTIALS_FILE": str(self.sandbox.credentials),
            "PYTHONPATH": str(self.program.home / "hook"),
            "EKSML_TEST_CLOCK": str(self.clock),
        }

    @property
    def clock(self) -> Path:
        """Holds by how many seconds the clock is wrong."""
        return self.program.home / "clock"

    @property
    def ledger(self) -> Path:
        """The file with what Terraform made and destroyed, one line each."""
        return self.program.home / "ledger"

    @property
    def state(self) -> Path:
        """The disk that may fill up."""
        return self.program.home / "state"

    def launch(self, *, auto_approve: bool) -> Path:
        """A run; nothing is started."""
        return make_run(
            self.program.home,
            kubeconfig=self.kubeconfig,
            environment=self.run_environment,
            auto_approve=auto_approve,
        )

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """An operator's command, to its end."""

        def work() -> int:
            zygote.take_hooks(self.environment)
            return main(arguments)

        zygote.before_a_copy()
        return forked(work, environment=self.environment, directory=self.program.home, seconds=120)

    def open_console(self, run: str) -> Console:
        """The console in a terminal of its own, at the run."""
        argv = self.program.argv("--kubeconfig", str(self.kubeconfig), "--run", run)
        console = Console(argv, self.environment, self.program.home)
        self.consoles.append(console)
        return console

    def fill_disk(self) -> None:
        """Leave no byte."""
        with (self.state / "ballast").open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 9, 1):
                with suppress(OSError):
                    while file.write(b"x" * size):
                        pass

    def free_disk(self) -> None:
        """As it was before."""
        (self.state / "ballast").unlink(missing_ok=True)


class Console:
    """A console whose terminal is read by nobody but a drain."""

    def __init__(self, argv: list[str], environment: dict[str, str], folder: Path) -> None:
        self.bytes_read = 0
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder, start_new_session=True
        )
        os.close(slave)
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()

    def kill(self) -> None:
        """SIGKILL, as when the machine runs out of memory."""
        self._process.kill()
        self._process.wait()
        self._drain.join(10)
        with suppress(OSError):
            os.close(self._master)

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self._master, 1 << 16):
                self.bytes_read += len(data)


@contextmanager
def a_machine(home: Path) -> Iterator[Machine]:
    """A machine in `home`; all that was started on it is ended, by pid. `XDG_STATE_HOME` is the machine's meanwhile."""
    with ExitStack() as stack:
        program = Program(home)
        (home / "hook").mkdir()
        (home / "hook" / "sitecustomize.py").write_text(_CLOCK_HOOK, encoding="utf-8")
        (home / "state").mkdir()
        with _variables(XDG_STATE_HOME=str(home / "world")):
            sandbox = find_or_start("schedules", speed=SPEED)
        stack.callback(_end, sandbox.process.identity())
        stack.enter_context(_variables(XDG_STATE_HOME=str(home / "state"), **CREDENTIALS))
        stack.enter_context(_variables(AWS_SHARED_CREDENTIALS_FILE=str(sandbox.credentials)))
        has_small_disk = stack.enter_context(_small_disk(home / "state"))
        port = urlsplit(sandbox.process.url).port or 0
        relay = Relay(port)
        stack.callback(relay.end)
        kubeconfig = home / "kubeconfig"
        kubeconfig.write_text(sandbox.kubeconfig.read_text().replace(f":{port}", f":{relay.port}"), encoding="utf-8")
        kubeconfig.chmod(0o600)
        history = History(sandbox.kubeconfig)
        stack.callback(history.end)
        machine = Machine(program, sandbox, relay, history, kubeconfig, has_small_disk)
        stack.callback(_end_processes, machine)
        yield machine


def can_mount() -> bool:
    """Return whether this user may mount a small disk here."""
    folder = Path(f"/tmp/eksml-schedules-{os.getpid()}")
    folder.mkdir()
    try:
        with _small_disk(folder) as is_mounted:
            return is_mounted
    finally:
        folder.rmdir()


@contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=700", "schedules", str(folder)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


@contextmanager
def _variables(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end(process: ProcessIdentity) -> None:
    if is_alive(process):
        os.kill(process.pid, signal.SIGTERM)
        wait(lambda: not is_alive(process), "the end of the sandbox")


def _end_processes(machine: Machine) -> None:
    for console in machine.consoles:
        console.kill()
    machine.free_disk()
    for process in machine.program.processes():
        if is_alive(process):
            os.kill(process.pid, signal.SIGCONT)
    machine.program.end_all()
