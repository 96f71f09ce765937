"""The real program in a state folder of its own, with whatever it started ended afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path

import actions
import tui
from actions.base.process import ProcessIdentity
from actions.run.journal.store import read_runner_lease
from tests.support import zygote
from tests.support.forked import forked
from tests.support.leftover import end
from tui.cli.main import main


@cache
def _import_commands() -> None:
    """Import, once for all copies of this process, what most commands import when they are run."""
    for module in ("tui.cli.catalogue", "tui.cli.inspect.cluster", "tui.cli.runs", "actions.cluster.http.pool"):
        import_module(module)


@dataclass(frozen=True)
class Program:
    """The program `eksml-tui`, to be started on a private state folder."""

    home: Path

    @property
    def state(self) -> Path:
        return self.home / "state" / "eksml-tui"

    @property
    def environment(self) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "PYTHONPATH") if name in os.environ}
        return kept | {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "LC_ALL": "C.UTF-8",
            "TERM": "screen-256color",
            "TEXTUAL_ANIMATIONS": "none",
            "SSL_CERT_FILE": os.devnull,  # nobody asks a system's authorities, and to read them costs each start 0.1 s
            "SSL_CERT_DIR": os.devnull,
        }

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "tui.cli", *arguments]

    def run(self, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run it to its end without a terminal."""
        return subprocess.run(
            self.argv(*arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=dict(self.environment),
            cwd=self.home,
        )

    def command(self, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run it to its end in a copy of this process: of commands of which many are tried, most is the start."""
        _import_commands()
        work = partial(main, arguments)
        if "--script" in arguments:
            zygote.import_all(actions)
            zygote.import_all(tui)
        zygote.before_a_copy()
        done = forked(work, environment=self.environment, directory=self.home, seconds=seconds)
        if "--demo" in arguments:
            zygote.note_started()
        return done

    def run_folders(self) -> list[Path]:
        return sorted(path for path in (self.state / "runs").glob("*") if path.is_dir())

    def kubeconfig(self, name: str = "demo") -> Path:
        return Path(json.loads((self.state / "sandbox" / name / "process.json").read_text())["kubeconfig"])

    def runner(self, folder: Path) -> ProcessIdentity | None:
        """Return the process that carries the run out."""
        lease = read_runner_lease(folder)
        return lease.holder if lease else None

    def processes(self) -> Iterator[ProcessIdentity]:
        """The sandboxes and runners that were started from here, by the state files they keep."""
        for file in (self.state / "sandbox").glob("*/process.json"):
            try:
                data = json.loads(file.read_text())
            except FileNotFoundError:  # of a sandbox that has just ended
                continue
            yield ProcessIdentity(data["pid"], data["start_ticks"], data["boot_id"])
        for folder in self.run_folders():
            runner = self.runner(folder)
            if runner:
                yield runner

    def end_all(self) -> None:
        """End what was started, by pid."""
        end(list(self.processes()), seconds=10)
