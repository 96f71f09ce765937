"""What is measured, one thing after the other."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.program import Program, environment, load
from tests.bench.server import Target

_CHURN = {500: 200, 5000: 500}
_HEARTBEATS = 20
_KEYS = 30
_ROOT = Path(__file__).parents[2]


def measure_start() -> dict[str, float]:
    """Seconds that `--help` takes."""
    return {"help_seconds": round(statistics.median(_help_seconds() for _ in range(5)), 3)}


def _help_seconds() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tui.cli", "--help"], cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure_fleet(target: Target, folder: Path, *, seconds: float) -> dict[str, object]:
    """The console on the node table: start to complete, at rest, heart-beats, churn, keys; and the bare client."""
    reference = _measure_reference(target, seconds=seconds)
    home = folder / f"home-{target.nodes}"
    home.mkdir()
    stall_file = home / "stall"
    argv = [sys.executable, "-m", "tests.bench.probe", str(stall_file)]
    console: dict[str, object] = {}
    with Program(
        argv, environment(home, target.kubeconfig) | {"PYTHONPATH": str(_ROOT)}, stall_file=stall_file
    ) as program:
        console["first_frame_seconds"] = round(program.wait(rb"nodes") - program.began_at, 3)
        program.wait(rb"%s nodes" % f"{target.nodes:,}".encode())
        complete = program.wait(rb"\$[\d,]+\.\d\d/h") - program.began_at
        console["complete_seconds"] = round(complete, 3)
        console["load_cpu_seconds"] = round(program.cpu_seconds(), 2)
        program.drain(2.0)
        console["load_longest_stall_ms"] = round(program.longest_stall_ms(), 1)
        console["idle"] = load(program, seconds)
        console["idle_keys"] = _keys(program, target.nodes)
        if target.churn is not None:
            rate = _CHURN.get(target.nodes, 500)
            target.churn(0, _HEARTBEATS)
            console["heartbeats"] = load(program, seconds)
            target.churn(rate, 0)
            console["churn"] = load(program, seconds)
            console["churn_keys"] = _keys(program, target.nodes)
            program.type(b"2")
            program.drain(2.0)
            console["churn_on_pods"] = load(program, seconds)
            target.churn(0, 0)
        now, peak = program.memory_megabytes()
        console["rss_mb"], console["rss_peak_mb"] = round(now, 1), round(peak, 1)
    return {"console": console, "reference": reference, "ratios": _ratios(console, reference)}


def measure_logs(target: Target) -> dict[str, object]:
    """Forty finished logs at once, through our follower and through a bare client, one after the other."""
    ours, bare = _read_logs("ours", target), _read_logs("bare", target)
    ratio = ours["cpu_us_per_line"] / bare["cpu_us_per_line"]
    return {"console": ours, "reference": bare, "ratios": {"cpu": round(ratio, 2)}}


def _read_logs(way: str, target: Target) -> dict[str, float]:
    argv = [sys.executable, "-m", "tests.bench.logs", way, str(target.kubeconfig)]
    done = subprocess.run(argv, cwd=_ROOT, check=True, stdout=subprocess.PIPE)
    told: dict[str, float] = json.loads(done.stdout)
    return told


def _keys(program: Program, nodes: int) -> dict[str, float]:
    """Milliseconds from a key to the new position in the footer."""
    total = f"{nodes:,}".encode()
    times: list[float] = []
    program.type(b"g")
    program.drain(0.5)
    for position in range(2, _KEYS + 2):
        program.forget()
        began = time.perf_counter()
        program.type(b"j")
        times.append((program.wait(rb"%d \xc2\xb7 %s" % (position, total), seconds=5) - began) * 1000)
        program.drain(0.11)
    ordered = sorted(times)
    return {
        "p50_ms": round(ordered[len(ordered) // 2], 1),
        "p95_ms": round(ordered[int(len(ordered) * 0.95) - 1], 1),
        "max_ms": round(ordered[-1], 1),
    }


def _measure_reference(target: Target, *, seconds: float) -> dict[str, float]:
    """The bare client on the same cluster."""
    argv = [sys.executable, "-m", "tests.bench.reference", str(target.kubeconfig)]
    with subprocess.Popen(argv, cwd=_ROOT, stdout=subprocess.PIPE) as process:
        if process.stdout is None:
            raise RuntimeError("the reference client has no output")
        began = time.perf_counter()
        told = json.loads(process.stdout.readline())
        complete = time.perf_counter() - began
        churn_percent = 0.0
        if target.churn is not None:
            target.churn(_CHURN.get(target.nodes, 500), 0)
            cpu = _cpu_seconds(process.pid)
            time.sleep(seconds)
            churn_percent = (_cpu_seconds(process.pid) - cpu) / seconds * 100
            target.churn(0, 0)
        process.terminate()
    return {
        "complete_seconds": round(complete, 3),
        "load_cpu_seconds": round(told["cpu_seconds"], 2),
        "churn_cpu_percent": round(churn_percent, 2),
    }


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(fields[0]) / 1e9


def _ratios(console: dict[str, object], reference: dict[str, float]) -> dict[str, float]:
    ratios = {"complete": float(str(console["complete_seconds"])) / reference["complete_seconds"]}
    churn = console.get("churn")
    if isinstance(churn, dict) and reference["churn_cpu_percent"]:
        ratios["churn_cpu"] = churn["cpu_percent"] / reference["churn_cpu_percent"]
    return {name: round(value, 2) for name, value in ratios.items()}
