"""A machine of an operator: the program with a state folder of its own, and its way to the home of runs."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from actions.base.process import ProcessIdentity, boot_id
from tests.schedules.partition import Relay
from tests.support import zygote
from tests.support.forked import forked
from tests.support.program import Program
from tests.support.stores import Proxy
from tui.cli.main import main

_KEPT_CHARACTERS = 1 << 17
HOOK = """\
import os
try:
    from actions.base import process
except ImportError:
    process = None
if process is not None:
    process._PASSED_ON = (*process._PASSED_ON, "PYTHONPATH", "EKSML_TEST_CLOCK")
if "XDG_STATE_HOME" in os.environ:
    with open("/proc/self/stat") as file:
        ticks = file.read().rpartition(")")[2].split()[19]
    with open(os.environ["XDG_STATE_HOME"] + "-processes", "a") as file:
        file.write(f"{os.getpid()} {ticks}\\n")
"""
"""A `sitecustomize` by which each process of the program is noted beside the state folder of its machine.

It is handed on to every runner: one that a takeover starts gets the variables of its own machine, and not the run's.
"""


class Request(msgspec.Struct, frozen=True):
    """A request that changed something in the home."""

    at: float
    """Seconds since the epoch at which it was begun."""
    text: str


class Host:
    """One machine.

    Args:
        program: With a home of its own.
        user: Who works there.
        environment: Of all machines of the life.
        proxy: The way to the home, if there is one.
        relay: The way to the cluster.
        kubeconfig: Leads there.
    """

    def __init__(
        self,
        program: Program,
        user: str,
        environment: Mapping[str, str],
        *,
        proxy: Proxy | None,
        relay: Relay,
        kubeconfig: Path,
    ) -> None:
        self.program = program
        self.user = user
        self._shared = environment
        self.proxy = proxy
        self.relay = relay
        self.kubeconfig = kubeconfig

    @property
    def environment(self) -> dict[str, str]:
        """Of the operator's processes."""
        own = {"LOGNAME": self.user}
        if self.proxy is not None:
            own["AWS_ENDPOINT_URL_S3"] = self.proxy.address
        return {**self.program.environment, **self._shared, **own}

    @property
    def state(self) -> Path:
        """The disk that may fill up."""
        return self.program.home / "state"

    def folder(self, run: str) -> Path:
        """The folder of a run here, if it is here."""
        return self.program.state / "runs" / run

    def requests(self) -> list[Request]:
        """All that came from this machine and changed the home, by the account's own answers."""
        return [Request(at, text) for at, text in (self.proxy.changes if self.proxy else ())]

    def processes(self) -> list[ProcessIdentity]:
        """All processes of the program that were ever begun on this machine."""
        file = self.state.with_name("state-processes")
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        pairs = (line.split() for line in lines)
        return [ProcessIdentity(int(pid), int(ticks), boot_id()) for pid, ticks in pairs]

    def pids(self) -> frozenset[int]:
        """Of these processes."""
        return frozenset(process.pid for process in self.processes())

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """An operator's command, to its end."""

        def work() -> int:
            zygote.take_hooks(self.environment)
            return main(arguments)

        zygote.before_a_copy()
        return forked(work, environment=self.environment, directory=self.program.home, seconds=120)

    def begin(self, *arguments: str) -> Command:
        """An operator's command that takes its time."""
        return Command(self.program.argv(*arguments), self.environment, self.program.home)

    def terraform(self, work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """An operator's command of Terraform in a working directory."""
        argv = ["terraform", f"-chdir={work}", *arguments]
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=60, check=False)

    def open_console(self, *arguments: str) -> Console:
        """The console in a terminal of its own."""
        return Console(self.program.argv(*arguments), self.environment, self.program.home)

    def cut_off(self) -> None:
        """Lose what it sends to cluster and home, and what they send."""
        self.relay.hush()
        if self.proxy is not None:
            self.proxy.is_cut_off = True

    def reconnect(self) -> None:
        """Let it reach both again: the home first, which alone knows a run before its record is in the cluster."""
        if self.proxy is not None:
            self.proxy.is_cut_off = False
        self.relay.flow()

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


class Command:
    """A command that is under way."""

    def __init__(self, argv: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self._output = TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output, env=dict(environment), cwd=folder
        )

    def code(self) -> int | None:
        """Its exit code; `None` while it is at work."""
        return self._process.poll()

    def text(self) -> str:
        """Its output, in one line."""
        self._output.seek(0)
        return " ".join(self._output.read().decode().split())

    def end(self) -> None:
        """Kill it if it is still at work, and forget it."""
        self._process.kill()
        self._process.wait()
        self._output.close()


class Console:
    """A console whose terminal is read by nobody but a drain."""

    def __init__(self, argv: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self.text = ""
        """The end of what it has written."""
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=dict(environment), cwd=folder, start_new_session=True
        )
        os.close(slave)
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL, as when the machine runs out of memory."""
        self._process.kill()
        self._process.wait()
        self._drain.join(10)
        if self._master >= 0:  # closed once: by now its number may be that of another file
            os.close(self._master)
            self._master = -1

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self._master, 1 << 16):
                self.text = (self.text + data.decode(errors="replace"))[-_KEPT_CHARACTERS:]
