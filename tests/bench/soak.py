"""Hours of use in minutes: the real console on the embedded cluster, with changing hollow pods, runs, and keys pressed.

An operator is taken to press a key every ten seconds, and the cluster to change a pod a second and to have an event
every five. All of these are played, and as many frames are drawn as four a second allow where the machine can; only the
time between them is shorter, and the cluster forgets events after as many as an hour brings. What this cannot show is
what goes by the clock: tokens that expire, watches that the server ends, connections that idle.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.longlived import use
from tests.bench.operator import ON_A_SANDBOX
from tests.bench.program import Program as Console
from tests.bench.program import environment
from tests.support.program import Program

Figures = dict[str, object]

KEYS_AN_HOUR = 360
PODS_AN_HOUR = 3600
EVENTS_AN_HOUR = 720
FRAMES_AN_HOUR = 4 * 3600
PACE_SECONDS = 0.25
"""From key to key: 720 seconds for eight hours."""
BAR_MB = 150.0
LIVES = 3
"""So often the rehearsal is launched, trained and torn down meanwhile."""
_ROOT = Path(__file__).parents[2]
_SCRIPT = _ROOT / "assets" / "scripts" / "bionemo-esm1nv.yaml"
_SPEED = "20"


def measure_soak(*, hours: float) -> Figures:
    """Play so many hours.

    Returns:
        What `longlived.use` tells, how much of what happened, and whether the bar was held.
    """
    keys = round(hours * KEYS_AN_HOUR)
    seconds = keys * PACE_SECONDS
    with tempfile.TemporaryDirectory(prefix="eksml-soak-", ignore_cleanup_errors=True) as name:
        program = Program(Path(name))
        try:
            with _large_sandbox(program) as kubeconfig:
                return _played(program, kubeconfig, keys=keys, hours=hours, seconds=seconds)
        finally:
            program.end_all()


def _played(program: Program, kubeconfig: Path, *, keys: int, hours: float, seconds: float) -> Figures:
    rates = [f"{hours * rate / seconds:.2f}" for rate in (PODS_AN_HOUR, EVENTS_AN_HOUR)]
    churn = [str(kubeconfig), *rates, str(EVENTS_AN_HOUR)]
    variables = environment(program.home, "") | {"PYTHONPATH": str(_ROOT)}
    del variables["KUBECONFIG"]
    argv = [sys.executable, "-m", "tests.bench.quickframes", "--demo"]
    with _churning(churn) as told, _living(program, seconds), Console(argv, variables) as console:
        console.wait(rb"Ready")
        console.drain(10.0)
        found = use(console, ON_A_SANDBOX, keys=keys, pace_seconds=PACE_SECONDS, tell=_say)
        found["frames"] = console.frames
        found["terminal_mb"] = round(console.bytes_read / 1e6, 1)
    found |= {"hours": hours, "frames_of_life_at_most": round(hours * FRAMES_AN_HOUR), **told}
    found["is_within_150_mb"] = float(str(found["rss_peak_mb"])) <= BAR_MB
    return found


def _say(pressed: int, megabytes: float) -> None:
    if pressed % 100 < 15:
        sys.stderr.write(f"{pressed} keys, {megabytes} MB\n")


@contextmanager
def _large_sandbox(program: Program) -> Iterator[Path]:
    """The sandbox `demo`, with some hundred nodes and a thousand pods that nobody runs."""
    argv = program.argv("sandbox", "--name", "demo", "--speed", _SPEED, "--scale", "nodes=100,pods=1000")
    with subprocess.Popen(argv, env=dict(program.environment), stdout=subprocess.DEVNULL) as serving:
        until = time.monotonic() + 120
        while not (program.state / "sandbox" / "demo" / "process.json").exists():
            if time.monotonic() > until:
                raise RuntimeError("the sandbox did not start")
            time.sleep(0.2)
        try:
            yield program.kubeconfig()
        finally:
            program.end_all()
            serving.terminate()


@contextmanager
def _churning(arguments: list[str]) -> Iterator[dict[str, object]]:
    """Hollow pods change until the context is left; what it yielded then has the counts."""
    argv = [sys.executable, "-m", "tests.bench.hollow_churn", *arguments]
    told: dict[str, object] = {}
    with subprocess.Popen(argv, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield told
        finally:
            told |= json.loads(process.communicate()[0] or "{}")


@contextmanager
def _living(program: Program, seconds: float) -> Iterator[None]:
    """Runs are launched, trained and torn down one after the other, spread over the time."""
    script = program.home / "lives.sh"
    one = " ".join(program.argv("--demo", "--script", str(_SCRIPT), "--artifacts", str(program.home / "lives")))
    rest = max(1.0, seconds / LIVES / 2)
    script.write_text(f"for life in $(seq {LIVES}); do {one}; sleep {rest:.0f}; done\n")
    with (
        (program.home / "lives.log").open("w") as log,
        subprocess.Popen(
            ["sh", str(script)], env=dict(program.environment), stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            yield
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 15)
            process.wait(60)
