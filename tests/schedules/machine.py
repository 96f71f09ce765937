"""A machine of its own for one life: state folder on a small disk, sandbox, relay to it, the program's processes."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from actions.base.process import ProcessIdentity, is_alive
from actions.sandbox.locate import RunningSandbox, find_or_start
from tests.schedules.blueprint import make_run
from tests.schedules.history import History
from tests.schedules.host import HOOK, Command, Console, Host
from tests.schedules.partition import Relay
from tests.support.account import REGION, an_account, client
from tests.support.leftover import send
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.stores import BUCKET, URL, a_proxy

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
    """Everything that a fault can be injected into: a cluster, and one machine or two that work in it."""

    hosts: Sequence[Host]
    sandbox: RunningSandbox
    history: History
    kubeconfig: Path
    """Leads to the sandbox through the relay of the first machine."""
    base: Path
    run_environment: Mapping[str, str]
    """Of the run's processes, beside what operators hand on."""
    has_small_disk: bool
    has_store: bool = False
    account: str = ""
    """The address of the account that has the home, past all faults; empty without one."""
    consoles: list[Console] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    @property
    def clock(self) -> Path:
        """Holds by how many seconds the clock is wrong."""
        return self.base / "clock"

    @property
    def ledger(self) -> Path:
        """The file with what Terraform made and destroyed, one line each."""
        return self.base / "ledger"

    def launch(self, *, auto_approve: bool) -> Path:
        """A run on the first machine; nothing is started."""
        proxy = self.hosts[0].proxy
        with _variables(**({"AWS_ENDPOINT_URL_S3": proxy.address} if proxy else {})):
            return make_run(
                self.base,
                kubeconfig=self.kubeconfig,
                environment=self.run_environment,
                auto_approve=auto_approve,
                store_url=URL if proxy else "",
            )

    def open_console(self, host: Host, run: str) -> Console:
        """The console at the run."""
        console = host.open_console("--kubeconfig", str(self.kubeconfig), "--run", run)
        self.consoles.append(console)
        return console

    def begin(self, host: Host, *arguments: str) -> Command:
        """An operator's command that takes its time."""
        command = host.begin(*arguments)
        self.commands.append(command)
        return command


@contextmanager
def a_machine(base: Path, *, has_store: bool = False, keeps_disks: bool = False) -> Iterator[Machine]:
    """A machine in `base`; all that was started on it is ended, by pid. `XDG_STATE_HOME` is the machine's meanwhile.

    Args:
        base: An empty folder.
        has_store: There is a home for runs, and a second machine.
        keeps_disks: Copy what is on the small disks at the end, to `state-at-end` beside each.
    """
    with ExitStack() as stack:
        (base / "hook").mkdir()
        (base / "hook" / "sitecustomize.py").write_text(_CLOCK_HOOK + HOOK, encoding="utf-8")
        (base / "state").mkdir()
        with _variables(XDG_STATE_HOME=str(base / "world")):
            sandbox = find_or_start("schedules", speed=SPEED)
        stack.callback(_end, sandbox.process.identity())
        stack.enter_context(_variables(XDG_STATE_HOME=str(base / "state"), **CREDENTIALS))
        stack.enter_context(_variables(AWS_SHARED_CREDENTIALS_FILE=str(sandbox.credentials)))
        has_small_disk = stack.enter_context(_small_disk(base / "state", is_kept=keeps_disks))
        history = History(sandbox.kubeconfig)
        stack.callback(history.end)
        environment = {
            **{name: value for name, value in sandbox.environment().items() if name == "PATH"},
            "AWS_ENDPOINT_URL": sandbox.process.aws_endpoint_url,
            "AWS_REGION": "us-west-2",
            "AWS_SHARED_CREDENTIALS_FILE": str(sandbox.credentials),
            "PYTHONPATH": str(base / "hook"),
            "EKSML_TEST_CLOCK": str(base / "clock"),
        }
        account = stack.enter_context(an_account()) if has_store else ""
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # moto's, which names each request
        hosts = [_host(stack, base, "anna", environment, account=account, sandbox=sandbox)]
        if account:
            (base / "second" / "state").mkdir(parents=True)
            stack.enter_context(_small_disk(base / "second" / "state", is_kept=keeps_disks))
            hosts.append(_host(stack, base / "second", "ben", environment, account=account, sandbox=sandbox))
            _make_bucket(account)
        machine = Machine(
            hosts, sandbox, history, hosts[0].kubeconfig, base, environment, has_small_disk, has_store, account
        )
        stack.callback(_end_processes, machine)
        yield machine


def _host(
    stack: ExitStack, base: Path, user: str, environment: Mapping[str, str], *, account: str, sandbox: RunningSandbox
) -> Host:
    proxy = stack.enter_context(a_proxy(account)) if account else None
    port = urlsplit(sandbox.process.url).port or 0
    relay = Relay(port)
    stack.callback(relay.end)
    kubeconfig = base / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig.read_text().replace(f":{port}", f":{relay.port}"), encoding="utf-8")
    kubeconfig.chmod(0o600)
    return Host(Program(base), user, {**CREDENTIALS, **environment}, proxy=proxy, relay=relay, kubeconfig=kubeconfig)


def _make_bucket(account: str) -> None:
    with _variables(AWS_ENDPOINT_URL=account):
        client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})


def can_mount() -> bool:
    """Return whether this user may mount a small disk here."""
    with TemporaryDirectory(prefix="eksml-schedules-") as folder, _small_disk(Path(folder)) as is_mounted:
        return is_mounted


@contextmanager
def _small_disk(folder: Path, *, is_kept: bool = False) -> Iterator[bool]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=700", "schedules", str(folder)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted and is_kept:
            _copy(folder, folder.with_name("state-at-end"))
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def _copy(folder: Path, target: Path) -> None:
    """Copy files and folders; sockets and the like are left out."""

    def others(place: str, names: list[str]) -> list[str]:
        paths = {name: Path(place) / name for name in names}
        return [name for name, path in paths.items() if not (path.is_symlink() or path.is_file() or path.is_dir())]

    shutil.copytree(folder, target, symlinks=True, ignore=others)


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
    send(process, signal.SIGTERM)
    wait(lambda: not is_alive(process), "the end of the sandbox")


def _end_processes(machine: Machine) -> None:
    for console in machine.consoles:
        console.kill()
    for command in machine.commands:
        command.end()
    for host in machine.hosts:
        host.free_disk()
        for process in host.program.processes():
            send(process, signal.SIGCONT)
        host.program.end_all()
