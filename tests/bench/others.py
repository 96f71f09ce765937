"""Operators' tools today, on the same cluster: kubectl, k9s, eks-node-viewer and stern, where they are on PATH."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.loglines import NAMESPACE
from tests.bench.measure import churn_of
from tests.bench.program import COLUMNS, ROWS, Program, attempt, environment, load
from tests.bench.target import Target
from tui.widgets.terminal import TerminalScreen

ABSENT = "not on PATH"
_LONGEST_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Screen:
    """A program on a terminal; `pattern` is what it shows when it knows all nodes, with their number for `%s`."""

    name: str
    arguments: tuple[str, ...]
    pattern: str


_SCREENS = (
    Screen("k9s", ("--command", "nodes", "--headless"), r"[Nn]odes\(all\)\[%s\]"),
    Screen("eks-node-viewer", ("--disable-pricing",), r"%s nodes"),
)


def measure_others(target: Target, *, seconds: float) -> dict[str, object]:
    """Each that is there: seconds to complete, cost at rest and under churn; `not on PATH` for those that are not."""
    found: dict[str, object] = {}
    if shutil.which("kubectl"):
        found["kubectl"] = attempt(
            lambda: {f"get {what} seconds": _kubectl(target, what) for what in ("nodes", "pods")}
        )
    else:
        found["kubectl"] = ABSENT
    for screen in _SCREENS:
        path = shutil.which(screen.name)
        found[screen.name] = attempt(partial(_on_screen, screen, path, target, seconds=seconds)) if path else ABSENT
    return found


def counted(number: int) -> str:
    """Return a pattern of a number as programs write it: `5000`, and `5,000` as k9s does since it formats titles."""
    return f"{number:,}".replace(",", ",?")


def until_shown(program: Program, pattern: str, *, seconds: float = _LONGEST_SECONDS) -> float:
    """Until the screen matches; the moment at which it did.

    The screen, not what was written: of a title that changes, programs write only the cells that differ.

    Raises:
        ChildProcessError: The program has ended.
        TimeoutError: It does not match in time.
    """
    screen, wanted = TerminalScreen(COLUMNS, ROWS), re.compile(pattern)
    until = time.perf_counter() + seconds
    while (now := time.perf_counter()) < until:
        data = program.read(min(1.0, until - now))
        if not data:
            program.require_alive()
            continue
        screen.feed(data)
        lines = ["".join(part.text for part in screen.segments(row)) for row in range(ROWS)]
        if any(map(wanted.search, lines)):
            return time.perf_counter()
    raise TimeoutError(f"{pattern!r} was not on the screen within {seconds:.0f} s.")


def measure_stern(kubeconfig: str, *, lines: int) -> object:
    """All logs of the log server through stern: seconds and processor time a line."""
    if not shutil.which("stern"):
        return ABSENT
    argv = ["stern", "--kubeconfig", kubeconfig, "--namespace", NAMESPACE, "--no-follow", "--max-log-requests", "100"]
    argv += ["--color", "never", "--timestamps", "."]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.perf_counter() - began, 2), "cpu_us_per_line": round(used / lines * 1e6, 2)}


def _kubectl(target: Target, what: str) -> float:
    argv = ["kubectl", "--kubeconfig", target.kubeconfig, "get", what, "--all-namespaces", "--no-headers"]
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return round(time.perf_counter() - began, 2)


def _on_screen(screen: Screen, path: str, target: Target, *, seconds: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="eksml-bench-home-", ignore_cleanup_errors=True) as home:
        argv = [path, "--kubeconfig", target.kubeconfig, *screen.arguments]
        with Program(argv, environment(Path(home), target.kubeconfig)) as program:
            complete = until_shown(program, screen.pattern % counted(target.nodes)) - program.began_at
            program.drain(5.0)
            found: dict[str, object] = {"complete_seconds": round(complete, 2), "idle": load(program, seconds)}
            if target.control:
                target.churn(churn_of(target), 0)
                found["churn"] = load(program, seconds)
                target.churn(0, 0)
            found["rss_peak_mb"] = round(program.memory_megabytes()[1], 1)
    return found
