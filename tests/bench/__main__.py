"""`make bench`: the whole program against a fleet, in numbers, beside the bare client in the same run.

    python -m tests.bench [--sizes 500/5000,5000/50000] [--seconds S] [--runs N] [--output FILE]
    python -m tests.bench --at FOLDER                      a fleet that tests.bench.realserver serves already
    python -m tests.bench --kubeconfig FILE --nodes N      any cluster; churn is what happens there
    python -m tests.bench --only clusters,runs,events      these alone

A real API server is built and started where there is Go, else the synthetic one; the result names which. It is JSON on
stdout or in FILE.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.bench.clusters import measure_clusters
from tests.bench.logpane import measure_log_pane
from tests.bench.logs import measure_logs
from tests.bench.many_runs import measure_runs
from tests.bench.measure import (
    machine,
    measure_events,
    measure_fleet,
    measure_growth,
    measure_long_life,
    measure_restart,
    measure_start,
)
from tests.bench.others import measure_others
from tests.bench.panes import STEPS, measure_panes
from tests.bench.program import attempt
from tests.bench.server import best_kind, fleet_server
from tests.bench.target import Target

_ON_SYNTHETIC = ("runs", "long_life", "events", "panes", "clusters")


def main() -> int:
    """Measure what was asked for."""
    options = _options()
    result: dict[str, object] = {"python": platform.python_version(), "begun_on": machine()}
    if options.only:
        with tempfile.TemporaryDirectory(prefix="eksml-bench-", ignore_cleanup_errors=True) as name:
            result |= _chosen(options, Path(name))
        return _put(result, options.output)
    result["start"] = attempt(measure_start)
    with tempfile.TemporaryDirectory(prefix="eksml-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if options.at or options.kubeconfig:
            target = Target.read(options.at) if options.at else Target("given", str(options.kubeconfig), options.nodes)
            result["cluster"] = _measured(target, options)
        else:
            kind = options.server or best_kind()
            result["log_pane"] = attempt(partial(measure_log_pane, folder))
            result["logs"] = attempt(partial(measure_logs, kind, folder))
            result |= _chosen(options, folder)
            for size in options.sizes.split(","):
                result[size] = attempt(partial(_measured_size, size, kind, folder, options))
    return _put(result, options.output)


def _put(result: dict[str, object], output: Path | None) -> int:
    """Write what was measured."""
    result["ended_on"] = machine()
    text = json.dumps(result, indent=2) + "\n"
    if output:
        output.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


def _chosen(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Measure what needs a synthetic server: many runs, keys pressed for long, many events, a long curve."""
    wanted = options.only.split(",") if options.only else _ON_SYNTHETIC
    found: dict[str, object] = {}
    if "runs" in wanted:
        with fleet_server("synthetic", 50, 500, folder) as target:
            found["runs"] = attempt(partial(measure_runs, target, folder / "runs"))
    if "long_life" in wanted:
        with fleet_server("synthetic", 500, 5_000, folder) as target:
            found["long_life"] = attempt(partial(measure_long_life, target, keys=options.keys))
    if "events" in wanted:
        with fleet_server("synthetic", 500, 5_000, folder, events=options.events) as target:
            found["events"] = attempt(partial(measure_events, target, seconds=options.seconds))
    if "panes" in wanted:
        with fleet_server("synthetic", 500, 5_000, folder) as target:
            found["panes"] = attempt(partial(measure_panes, target, folder / "panes", steps=options.steps))
    if "clusters" in wanted:
        for size in options.sizes.split(","):
            nodes, _, pods = size.partition("/")
            measure = partial(measure_clusters, folder, nodes=int(nodes), pods=int(pods), seconds=options.seconds)
            found[f"clusters {size}"] = attempt(measure)
    return found


def _measured_size(size: str, kind: str, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    nodes, _, pods = size.partition("/")
    with fleet_server(kind, int(nodes), int(pods), folder) as target:
        return _measured(target, options)


def _measured(target: Target, options: argparse.Namespace) -> dict[str, object]:
    found = attempt(partial(measure_fleet, target, seconds=options.seconds, runs=options.runs))
    sys.stderr.write(json.dumps(found) + "\n")  # kept even if what follows is broken off
    found["restart"] = attempt(partial(measure_restart, target, runs=options.runs))
    found["others"] = measure_others(target, seconds=options.seconds)
    if options.growth and target.control:
        found["growth"] = attempt(partial(measure_growth, target, minutes=options.growth))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="The whole program in numbers.")
    parser.add_argument("--sizes", default="500/5000,5000/50000", help="NODES/PODS, separated by commas")
    parser.add_argument("--server", choices=["real", "synthetic"], help="instead of the best that can be had")
    parser.add_argument("--at", type=Path, help="measure on the fleet that is served in this folder")
    parser.add_argument("--kubeconfig", type=Path, help="measure on this cluster")
    parser.add_argument("--nodes", type=int, default=0, help="how many nodes that cluster has")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each load is watched")
    parser.add_argument("--runs", type=int, default=5, help="how often loading is measured")
    parser.add_argument("--growth", type=float, default=0.0, metavar="MINUTES", help="also watch memory under churn")
    parser.add_argument("--keys", type=int, default=1200, help="pressed at the console that lives long")
    parser.add_argument("--events", type=int, default=200_000, help="kept by the cluster that has many")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the training whose curves are on screen")
    parser.add_argument(
        "--only", default="", help="of runs, long_life, events, panes and clusters, separated by commas"
    )
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
