"""A console that follows two clusters at once beside one that follows one of them.

    python -m tests.bench --only clusters

Both change; keys are pressed on the table of the nodes of both.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from tests.bench.measure import Figures, churn_of, keys_under
from tests.bench.program import Program, environment, load
from tests.bench.server import fleet_server
from tests.bench.target import Target

ROOT = Path(__file__).parents[2]
_LOAD_SECONDS = 10.0
"""After the first nodes: until the others are there, and what is put off until then is done."""


def measure_clusters(folder: Path, *, nodes: int, pods: int, seconds: float) -> Figures:
    """Measure one cluster alone, then two of that size in one console."""
    with ExitStack() as stack:
        targets = [stack.enter_context(fleet_server("synthetic", nodes, pods, folder)) for _ in range(2)]
        one, two = (_at_work(targets[:count], folder, seconds=seconds) for count in (1, 2))
    more = float(str(two["rss_peak_mb"])) - float(str(one["rss_peak_mb"]))
    return {"nodes": nodes, "pods": pods, "one": one, "two": two, "further_cluster_mb": round(more, 1)}


def _at_work(targets: Sequence[Target], folder: Path, *, seconds: float) -> Figures:
    """At rest and while all change, on the table of nodes and on Home."""
    found: Figures = {}
    total = sum(target.nodes for target in targets)
    with _console(targets, folder) as program:
        program.wait(rb"%s nodes" % f"{total:,}".encode())
        found["complete_cpu_seconds"] = round(program.cpu_seconds(), 2)
        program.drain(_LOAD_SECONDS)
        found["rss_mb_at_rest"] = round(program.memory_megabytes()[0], 1)
        found["idle_on_home"] = load(program, seconds)
        for target in targets:
            target.churn(churn_of(target), 0)
        program.drain(2.0)
        found["churn_on_home"] = load(program, seconds)
        program.type(b"1")
        program.drain(2.0)
        found["churn_on_nodes"] = load(program, seconds)
        found["churn_keys"] = keys_under(program, total)
        for target in targets:
            target.churn(0, 0)
        now, peak = program.memory_megabytes()
        found["rss_mb"], found["rss_peak_mb"] = round(now, 1), round(peak, 1)
    return found


@contextmanager
def _console(targets: Sequence[Target], folder: Path) -> Iterator[Program]:
    with tempfile.TemporaryDirectory(prefix="home-", dir=folder, ignore_cleanup_errors=True) as name:
        home = Path(name)
        kubeconfig = home / "kubeconfig"
        kubeconfig.write_text(json.dumps(_merged(targets)))
        argv = [sys.executable, "-m", "tests.bench.probe", str(home / "stall")]
        argv += ["--contexts", "all"] * (len(targets) > 1)
        variables = environment(home, str(kubeconfig)) | {"PYTHONPATH": str(ROOT)}
        with Program(argv, variables, stall_file=home / "stall") as program:
            yield program


def _merged(targets: Sequence[Target]) -> dict[str, object]:
    """Return one kubeconfig with a context `cluster-N` for each."""
    found: dict[str, list[object]] = {"clusters": [], "users": [], "contexts": []}
    for number, target in enumerate(targets):
        given, name = yaml.safe_load(Path(target.kubeconfig).read_text()), f"cluster-{number}"
        found["clusters"].append({"name": name, "cluster": given["clusters"][0]["cluster"]})
        found["users"].append({"name": name, "user": given["users"][0]["user"]})
        found["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    return {"apiVersion": "v1", "kind": "Config", "current-context": "cluster-0", **found}
