"""Operators' tools today, on the same cluster: kubectl, k9s, eks-node-viewer and stern, where they are on PATH."""

from __future__ import annotations

import os
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
_ALL_OF_THE_PAST = "87600h"
"""stern goes back 48 hours unless told, and the made-up lines are older."""
_READ_BYTES = 1 << 20


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
    """All logs of the log server through stern: seconds and processor time a line; or why it has no figure."""
    if not shutil.which("stern"):
        return ABSENT
    argv = ["stern", "--kubeconfig", kubeconfig, "--namespace", NAMESPACE, "--no-follow", "--max-log-requests", "100"]
    argv += ["--color", "never", "--timestamps", "--since", _ALL_OF_THE_PAST, "."]

    def measure() -> dict[str, float]:
        seconds, cpu_seconds = _printing(argv, lines)
        return {"seconds": round(seconds, 2), "cpu_us_per_line": round(cpu_seconds / lines * 1e6, 2)}

    return attempt(measure)


def _kubectl(target: Target, what: str) -> float:
    argv = ["kubectl", "--kubeconfig", target.kubeconfig, "get", what, "--all-namespaces", "--no-headers"]
    return round(_printing(argv, target.nodes)[0], 2)


def _printing(argv: list[str], lines: int) -> tuple[float, float]:
    """Return the seconds and the processor seconds of a program that has to print at least so many lines.

    Raises:
        RuntimeError: It printed fewer, or failed: what it did not do is no figure.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, printed = time.perf_counter(), 0
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as program:
        while data := os.read(program.stdout.fileno(), _READ_BYTES) if program.stdout else b"":
            printed += data.count(b"\n")
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if program.returncode or printed < lines:
        raise RuntimeError(f"{argv[0]} ended with {program.returncode} after {printed} of {lines} lines")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
