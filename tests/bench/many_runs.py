"""Five hundred runs, all but one torn down: what their list costs, and a console that has it on screen.

    python -m tests.bench.many_runs

Each has the journal of a whole life: eleven stages with plans, objects, prices, a teardown and its audit.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from actions.run.journal.folder import journal_path
from actions.run.journal.journal_file import RecordRow
from actions.run.journal.store import copy_rows
from actions.run.state.records import (
    Action,
    Body,
    ClusterName,
    Created,
    Deleted,
    HeldPrice,
    Intent,
    Outcome,
    Owned,
    PlanOffer,
    RequestKind,
    Result,
    RunRequest,
    StageOutline,
    encode_body,
    record_kind,
)
from tests.bench.program import Program, attempt, environment, load
from tests.bench.server import fleet_server
from tests.bench.target import Target

RUNS = 500
_STAGES = (
    "network", "cluster", "filesystem", "access", "volumes", "pool", "operator", "preflight", "sample", "data", "train",
)  # fmt: skip
_OBJECTS = 4
_DAY = 86_400.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_REST_SECONDS = 60.0
_SETTLE_SECONDS = 30.0
"""By then the upkeep of the disk has looked at all runs, as it does once an hour."""


def make_runs(home: Path, count: int = RUNS) -> None:
    """Make so many runs below a state folder, the newest of them still there and paid for, all others torn down."""
    folder = home / "eksml-tui" / "runs"
    folder.mkdir(mode=0o700, parents=True)
    now = time.time()
    order = []
    for number in range(1, count + 1):
        run_id = f"bionemo-esm1nv-{1 + number % 12:02d}{1 + number % 28:02d}-{_word(number)}"
        (folder / run_id).mkdir(mode=0o700)
        begin = now - (count - number + 1) * _DAY
        _write(folder / run_id, run_id, number, begin, is_over=number < count)
        order.append(f"{number} {run_id}\n")
    (folder / ".order").write_text("".join(order))


def _word(number: int) -> str:
    return "".join(_LETTERS[number * factor % 32] for factor in (1, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41))


def _write(folder: Path, run_id: str, number: int, begin: float, *, is_over: bool) -> None:
    rows: list[RecordRow] = []
    for at, stage, body in _life(run_id, number, is_over=is_over):
        writer = "operator" if isinstance(body, Created | RunRequest) else "runner"
        rows.append(RecordRow(len(rows) + 1, begin + at, writer, record_kind(body), stage, 1, encode_body(body)))
    copy_rows(journal_path(folder), rows)


def _life(run_id: str, number: int, *, is_over: bool) -> Iterator[tuple[float, str, Body]]:
    """Yield the records of a life: seconds since its begin, stage and body."""
    at = 0.0
    yield at, "", _created(run_id, number)
    for stage in _STAGES:
        at += 60
        yield at, stage, Intent(Action.PERFORM)
        for index in range(_OBJECTS):
            yield at + index, stage, Owned("v1", "ConfigMap", "default", f"{stage}-{index}", uid=f"{stage}-{index}")
        plan = PlanOffer("hash", 14, 0, 0, tuple(f"+ aws_thing.{stage}_{index}" for index in range(14)))
        yield at + 600, stage, Outcome(Action.PERFORM, Result.DONE, "done", plan=plan)
        at += 600
    if not is_over:
        return
    yield at, "", RunRequest(RequestKind.TEARDOWN)
    for stage in reversed(_STAGES):
        yield at, stage, Intent(Action.UNDO)
        for index in range(_OBJECTS):
            yield at + index, stage, Deleted("v1", "ConfigMap", "default", f"{stage}-{index}")
        yield at + 300, stage, Outcome(Action.UNDO, Result.DONE, "removed")
        at += 300
    for action in (Action.DRAIN, Action.AUDIT):
        yield at, "", Intent(action)
        yield at + 1, "", Outcome(action, Result.DONE)


def _created(run_id: str, number: int) -> Created:
    stages = tuple(
        StageOutline(
            stage, "terraform" if place < 3 else "manifests", stage.title(), _STAGES[max(0, place - 1) : place], 60, 600
        )
        for place, stage in enumerate(_STAGES)
    )
    prices = tuple(HeldPrice(title=stage, stage=stage, usd_per_hour="1.25", source="list") for stage in _STAGES[:6])
    return Created(
        run_id=run_id,
        blueprint_id="bionemo-esm1nv",
        title="BioNeMo ESM-1nv pre-training",
        preset="",
        parameters={"workers": 8},
        cluster=ClusterName("bionemo-on-eks", "us-west-2"),
        stages=stages,
        prices=prices,
        number=number,
    )


def measure_runs(target: Target, folder: Path, *, seconds: float = _REST_SECONDS) -> dict[str, object]:
    """The list of no run and of five hundred on the command line, and consoles at rest with both."""
    without, many = folder / "without", folder / "many"
    make_runs(many / "state")
    (without / "state").mkdir(parents=True)
    found: dict[str, object] = {
        "list_without_cpu_seconds": _listed(without, 0),
        "list_first_cpu_seconds": _listed(many, RUNS),
        "list_cpu_seconds": min(_listed(many, RUNS) for _ in range(3)),
    }
    anew = folder / "anew"
    shutil.copytree(many, anew)  # summaries of other files: none of them is believed
    for name, home in (("without", without), ("many", many), ("anew", anew)):
        found[f"console_{name}"] = attempt(lambda home=home: _at_rest(target, home, seconds))  # type: ignore[misc]
    return found


def _listed(home: Path, count: int) -> float:
    """Return the processor seconds of one `runs list`.

    Raises:
        RuntimeError: It does not print every run.
    """
    argv = [sys.executable, "-m", "tui.cli", "runs", "list"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=_environment(home, ""))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.stdout.count("bionemo-on-eks") != count:
        raise RuntimeError(f"{done.stdout.count('bionemo-on-eks')} runs of {count} were printed")
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3)


def _environment(home: Path, kubeconfig: str) -> dict[str, str]:
    paths = os.pathsep.join(filter(None, sys.path))
    return environment(home, kubeconfig) | {"PYTHONPATH": paths}


def _at_rest(target: Target, home: Path, seconds: float) -> dict[str, object]:
    """A console on Home: seconds to the first runs on screen, then its cost while nothing happens."""
    argv = [sys.executable, "-m", "tui.cli"]
    with Program(argv, _environment(home, str(target.kubeconfig))) as program:
        shown = program.wait(rb"all runs \(%d\)|No run yet" % RUNS)
        program.drain(_SETTLE_SECONDS)
        return {"first_seconds": round(shown - program.began_at, 2), **load(program, seconds)}


def main() -> int:
    """Measure beside a small synthetic fleet."""
    with (
        tempfile.TemporaryDirectory(prefix="eksml-bench-runs-", ignore_cleanup_errors=True) as name,
        fleet_server("synthetic", 50, 500, Path(name)) as target,
    ):
        sys.stdout.write(json.dumps(measure_runs(target, Path(name)), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
