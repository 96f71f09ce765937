"""The console on the node table of a fleet, and the bare client on the same fleet, in one run."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench.longlived import use
from tests.bench.program import Program, attempt, cpu_seconds_of, environment, load
from tests.bench.target import Target

ROOT = Path(__file__).parents[2]
CHURN = {500: 200}
USUAL_CHURN = 500
"""Pods that change a second."""
_HEARTBEATS = 20
_KEYS = 40
_PACE_SECONDS = 0.15
_WARM_UP_SECONDS = 180.0
_SETTLE_SECONDS = 6.0
"""The time within which all is done that is put off until the fleet is there (catalogue, credentials)."""

Figures = dict[str, object]


def measure_start() -> dict[str, float]:
    """Seconds that `--help` takes."""
    return {"help_seconds": round(statistics.median(_help_seconds() for _ in range(5)), 3)}


def _help_seconds() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tui.cli", "--help"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure_fleet(target: Target, *, seconds: float, runs: int) -> Figures:
    """Start to complete, several times; then at rest, under heart-beats and churn, with keys, on the last one."""
    loads: list[dict[str, float]] = []
    references: list[dict[str, float]] = []
    once: list[dict[str, float]] = []
    for _ in range(runs):
        references.append(_reference_load(target))
        once.append({command: _once_seconds(target, command) for command in ("nodes", "pods")})
        with _console(target) as program:
            loads.append(_load_of(program, target))
    console: Figures = _medians(loads)
    reference: Figures = _medians(references)
    console |= attempt(partial(_at_work, target, seconds=seconds))
    if target.control:
        reference |= attempt(lambda: {"churn_cpu_percent": _reference_churn(target, seconds=seconds)})
    ratios = _ratios(console, reference) | once_ratios(once, references)
    return {
        "server": target.server,
        "console": console,
        "once": _medians(once, all_of="nodes"),
        "reference": reference,
        "ratios": ratios,
    }


def _once_seconds(target: Target, command: str) -> float:
    """Seconds of a command that prints the fleet once."""
    with tempfile.TemporaryDirectory(prefix="eksml-bench-home-", ignore_cleanup_errors=True) as name:
        variables = environment(Path(name), target.kubeconfig) | {"PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "tui.cli", command]
        began = time.perf_counter()
        subprocess.run(argv, cwd=ROOT, env=variables, check=True, stdout=subprocess.DEVNULL)
    return round(time.perf_counter() - began, 3)


def once_ratios(once: list[dict[str, float]], references: list[dict[str, float]]) -> dict[str, float]:
    """Medians of the seconds of `nodes` and `pods` to those of the bare client just before, which prints nothing."""
    pairs = list(zip(once, references, strict=True))
    return {
        f"{command}_once": round(statistics.median(one[command] / bare["complete_seconds"] for one, bare in pairs), 2)
        for command in once[0]
    }


def _at_work(target: Target, *, seconds: float) -> Figures:
    """One console at rest, with keys, and under change."""
    found: Figures = {}
    with _console(target) as program:
        _load_of(program, target)
        program.drain(_SETTLE_SECONDS)
        found["idle"] = load(program, seconds)
        found["idle_keys"] = attempt(lambda: keys_under(program, target.nodes))
        if target.control:
            found |= attempt(lambda: _under_change(program, target, seconds=seconds))
        now, peak = program.memory_megabytes()
        found["rss_mb"], found["rss_peak_mb"] = round(now, 1), round(peak, 1)
    return found


def measure_growth(target: Target, *, minutes: float) -> Figures:
    """Resident memory through minutes of churn, after three of warming up: libraries keep what they have measured."""
    with _console(target) as program:
        _load_of(program, target)
        target.churn(churn_of(target), _HEARTBEATS)
        program.drain(_WARM_UP_SECONDS)
        readings = []
        for _ in range(max(2, round(minutes * 4) + 1)):
            readings.append(round(program.memory_megabytes()[0], 2))
            program.drain(15.0)
        target.churn(0, 0)
    slope = statistics.linear_regression(range(len(readings)), readings).slope * (len(readings) - 1)
    return {"minutes": minutes, "growth_mb": round(slope, 2), "readings_mb": readings}


def measure_long_life(target: Target, *, keys: int) -> Figures:
    """Memory and processor time of a console at which keys are pressed, seven a second, on a fleet that changes."""
    with _console(target) as program:
        _load_of(program, target)
        program.drain(_SETTLE_SECONDS)
        if target.control:
            target.churn(churn_of(target) / 10, _HEARTBEATS)
        try:
            return use(program, keys=keys, pace_seconds=_PACE_SECONDS)
        finally:
            if target.control:
                target.churn(0, 0)


def measure_events(target: Target, *, seconds: float) -> Figures:
    """A console on a cluster that keeps a great many events, of which five more come every second."""
    with _console(target) as program:
        found: Figures = {"events": target.events, **_load_of(program, target)}
        program.drain(_SETTLE_SECONDS)
        found["rss_peak_mb"] = round(program.memory_megabytes()[1], 1)
        target.churn(0, 0, events_a_second=5)
        program.drain(1.0)
        found["on_nodes"] = load(program, seconds)
        program.type(b"8")
        program.drain(1.0)
        found["on_events"] = load(program, seconds)
        target.churn(0, 0)
        now, peak = program.memory_megabytes()
        found["rss_mb"], found["rss_peak_mb"] = round(now, 1), round(peak, 1)
    return found


def churn_of(target: Target) -> float:
    """Pods that are to change a second on a fleet of this size."""
    return CHURN.get(target.nodes, USUAL_CHURN)


def measure_restart(target: Target, *, runs: int) -> Figures:
    """Second starts on the fleet: seconds from the first frame to the kept snapshot, and to the live one; medians."""
    with tempfile.TemporaryDirectory(prefix="eksml-bench-home-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        with _console_of(target, home) as program:
            _load_of(program, target)
            program.drain(_SETTLE_SECONDS)
        return _medians([_restart_of(target, home) for _ in range(runs)], all_of="kept_after_first_frame_seconds")


def _restart_of(target: Target, home: Path) -> dict[str, float]:
    with _console_of(target, home) as program:
        first_frame = program.wait(rb"nodes")
        program.wait(rb"as of \d\d:\d\d UTC")
        program.wait(rb"%s nodes" % f"{target.nodes:,}".encode())
        kept = program.wait(rb"\$[\d,]+\.\d\d/h")
        cpu = program.cpu_seconds()
        live = program.wait(rb"live")
        live_cpu = program.cpu_seconds()
        program.drain(2.0)
        wall, busy = program.longest_stall_ms()
        rss = program.memory_megabytes()
    return {
        "kept_after_first_frame_seconds": kept - first_frame,
        "kept_cpu_seconds": cpu,
        "live_after_first_frame_seconds": live - first_frame,
        "live_cpu_seconds": live_cpu,
        "longest_stall_ms": wall,
        "longest_stall_cpu_ms": busy,
        "rss_mb": rss[0],
        "rss_peak_mb": rss[1],
    }


@contextmanager
def _console(target: Target) -> Iterator[Program]:
    prefix = "eksml-bench-home-"
    with (
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name,
        _console_of(target, Path(name)) as program,
    ):
        yield program


@contextmanager
def _console_of(target: Target, home: Path) -> Iterator[Program]:
    argv = [sys.executable, "-m", "tests.bench.probe", str(home / "stall")]
    variables = environment(home, target.kubeconfig) | {"PYTHONPATH": str(ROOT)}
    with Program(argv, variables, stall_file=home / "stall") as program:
        yield program


def _load_of(program: Program, target: Target) -> dict[str, float]:
    """Start to complete: the full count of nodes, and the price, which needs all nodes and all pods; then the table.

    The first pane has the fleet's sums; everything else is measured on the table of nodes.
    """
    first_frame = program.wait(rb"nodes") - program.began_at
    program.wait(rb"%s nodes" % f"{target.nodes:,}".encode())
    complete = program.wait(rb"\$[\d,]+\.\d\d/h") - program.began_at
    cpu = program.cpu_seconds()
    program.drain(2.0)
    wall, busy = program.longest_stall_ms()
    program.type(b"1")
    program.drain(1.0)
    return {
        "first_frame_seconds": round(first_frame, 3),
        "complete_seconds": round(complete, 3),
        "load_cpu_seconds": round(cpu, 2),
        "load_longest_stall_ms": wall,
        "load_longest_stall_cpu_ms": busy,
    }


def _under_change(program: Program, target: Target, *, seconds: float) -> Figures:
    found: Figures = {}
    target.churn(0, _HEARTBEATS)
    program.drain(1.0)
    found["heartbeats"] = load(program, seconds)
    target.churn(churn_of(target), 0)
    program.drain(1.0)
    found["churn"] = load(program, seconds)
    found["churn_keys"] = keys_under(program, target.nodes)
    program.type(b"2")
    program.drain(2.0)
    found["churn_on_pods"] = load(program, seconds)
    program.type(b"H")
    program.drain(2.0)
    found["churn_on_home"] = load(program, seconds)
    target.churn(0, 0)
    program.drain(_SETTLE_SECONDS)
    found["idle_on_home"] = load(program, seconds)
    return found


def keys_under(program: Program, nodes: int) -> dict[str, float]:
    """Milliseconds from a key to the new position in the footer."""
    total = f"{nodes:,}".encode()
    times: list[float] = []
    program.type(b"g")
    program.drain(0.5)
    for position in range(2, _KEYS + 2):
        program.forget()
        began = time.perf_counter()
        program.type(b"j")
        times.append((program.wait(rb"%d of %s" % (position, total), seconds=5) - began) * 1000)
        program.drain(0.11)
    return keys_in_order(times)


def keys_in_order(times: list[float]) -> dict[str, float]:
    """Return the middle, the 95th part in a hundred, and the longest of milliseconds from a key to its effect."""
    ordered = sorted(times)
    return {
        "p50_ms": round(ordered[len(ordered) // 2], 1),
        "p95_ms": round(ordered[int(len(ordered) * 0.95) - 1], 1),
        "max_ms": round(ordered[-1], 1),
    }


@contextmanager
def _reference(target: Target) -> Iterator[tuple[int, dict[str, float]]]:
    """The bare client, complete: its process, and what it told."""
    argv = [sys.executable, "-m", "tests.bench.reference", target.kubeconfig]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as process:
        if process.stdout is None:
            raise RuntimeError("the reference client has no output")
        began = time.perf_counter()
        told = json.loads(process.stdout.readline())
        yield (
            process.pid,
            {
                "complete_seconds": round(time.perf_counter() - began, 3),
                "load_cpu_seconds": round(told["cpu_seconds"], 2),
            },
        )
        process.terminate()


def _reference_load(target: Target) -> dict[str, float]:
    with _reference(target) as (_, told):
        return told


def _reference_churn(target: Target, *, seconds: float) -> float:
    with _reference(target) as (pid, _):
        target.churn(churn_of(target), 0)
        time.sleep(1.0)
        cpu = cpu_seconds_of(pid)
        time.sleep(seconds)
        percent = (cpu_seconds_of(pid) - cpu) / seconds * 100
        target.churn(0, 0)
    return round(percent, 2)


def _medians(readings: list[dict[str, float]], *, all_of: str = "complete_seconds") -> Figures:
    """The median of each figure, with all values of the one that has a bar."""
    found: Figures = {name: round(statistics.median(one[name] for one in readings), 3) for name in readings[0]}
    found[f"{all_of}_of_all"] = sorted(round(one[all_of], 3) for one in readings)
    return found


def _ratios(console: Mapping[str, object], reference: Mapping[str, object]) -> dict[str, float]:
    def ratio(name: str) -> float:
        return round(float(str(console[name])) / float(str(reference[name])), 2)

    found = {"complete": ratio("complete_seconds"), "load_cpu": ratio("load_cpu_seconds")}
    churn = console.get("churn")
    percent = float(str(reference.get("churn_cpu_percent", 0)))
    if isinstance(churn, dict) and percent:
        found["churn_cpu"] = round(churn["cpu_percent"] / percent, 2)
    return found


def machine() -> dict[str, object]:
    """Return the machine that this is measured on, and its other load."""
    return {"cores": os.cpu_count(), "load_average": [round(one, 2) for one in os.getloadavg()]}
