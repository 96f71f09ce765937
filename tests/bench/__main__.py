"""`make bench`: the whole program against a fleet, in numbers, beside the bare client in the same run.

    python -m tests.bench [--sizes 500/5000,5000/50000] [--kubeconfig FILE --nodes N] [--seconds S] [--output FILE]

Without `--kubeconfig` a synthetic API server is started for each size. With it, the fleet is what that cluster has,
and churn is what happens there. The result is JSON on stdout or in FILE.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

from tests.bench.measure import measure_fleet, measure_logs, measure_start
from tests.bench.server import Target, running


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="make bench", description="The whole program in numbers.")
    parser.add_argument("--sizes", default="500/5000,5000/50000", help="NODES/PODS, separated by commas")
    parser.add_argument("--kubeconfig", type=Path, help="measure on this cluster instead of a synthetic one")
    parser.add_argument("--nodes", type=int, default=0, help="how many nodes that cluster has")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each load is watched")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    options = parser.parse_args()
    result: dict[str, object] = {"machine": f"{os.cpu_count()} cores, Python {platform.python_version()}"}
    with tempfile.TemporaryDirectory(prefix="eksml-bench-") as name:
        folder = Path(name)
        result["start"] = measure_start()
        if options.kubeconfig:
            target = Target(options.kubeconfig, options.nodes, churn=None)
            result["cluster"] = measure_fleet(target, folder, seconds=options.seconds)
        else:
            with running(1, 1, folder) as target:
                result["logs"] = measure_logs(target)
            for size in options.sizes.split(","):
                nodes, _, pods = size.partition("/")
                with running(int(nodes), int(pods), folder) as target:
                    result[size] = measure_fleet(target, folder, seconds=options.seconds)
    text = json.dumps(result, indent=2) + "\n"
    if options.output:
        options.output.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
