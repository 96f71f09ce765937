"""The cost of everything beside a run: `python -m tests.bench.companions [SECONDS]`.

The fence, the publisher in a store with the lease in the cluster, the guard of limits and the keeper of the watchdog of
one run are in this process, as in its runner; cluster (the sandbox) and store (moto) are in others. Printed are shares
of a core, of all threads of this process, at rest and while it trains: a record every five seconds, twenty points and
2 kB of samples each second.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from actions.base.clock import SystemClock
from actions.base.guard import guarded_by
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.engine.companions import access_of, accompanied, companions_of
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.launch import LaunchOrder, create_run
from actions.run.output.segments import StreamWriter
from actions.run.output.streams import DEVICES, POINTS, stream_path
from actions.run.state.records import Limits, Output
from actions.run.store.access import store_of
from actions.run.store.fence import Fence
from actions.sandbox.locate import RunningSandbox, find_or_start
from tests.bench.replication import POINT, SETTLING_SECONDS, a_store
from tests.support.smallrun import carry_out
from tests.support.stores import URL

CLOCK = SystemClock()
RECORDS = 400
BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For measurements.
cluster: {name: known, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: known, region: us-west-2}
"""


def _a_run(place: Path, sandbox: RunningSandbox) -> Path:
    """A run with a home and a budget."""
    source = place / "small"
    source.mkdir()
    (source / "blueprint.yaml").write_text(BLUEPRINT)
    blueprint = load_blueprint(source)
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {}, existing_cluster=True),
            target=ClusterTarget(sandbox.kubeconfig),
            environment={},
            clock=CLOCK,
            limits=Limits(budget_usd="1000"),
            base=place / "runs",
            store_url=URL,
        )
    )


async def _measured(folder: Path, seconds: float) -> dict[str, float]:
    lease = take_runner_lease(journal_path(folder), CLOCK)
    journal = Journal(journal_path(folder), CLOCK, fence=lease.token)
    runner_journal, backend = RunnerJournal(journal, lease, CLOCK), LiveBackend(folder, CLOCK)
    view = await runner_journal.view()
    said: list[str] = []
    home = store_of(view)
    fence = Fence(
        folder,
        view,
        access_of(folder, runner_journal.view_if_readable, backend, home),
        require_lease=runner_journal.require_lease,
        clock=CLOCK,
        log=said.append,
    )
    companions = [fence, *companions_of(folder, runner_journal, backend, CLOCK, home)]
    points, devices = (StreamWriter(stream_path(folder, "train", stream)) for stream in (POINTS, DEVICES))
    for number in range(RECORDS):
        await runner_journal.write(Output({"n": str(number)}), stage="access", attempt=1)
    with guarded_by(fence):
        tasks = [asyncio.ensure_future(accompanied(one, CLOCK, said.append)) for one in companions]
    await asyncio.sleep(SETTLING_SECONDS)
    shares: dict[str, float] = {"companions": float(len(companions))}
    for name in ("at_rest", "training"):
        began, used = time.monotonic(), time.process_time()
        while time.monotonic() < began + seconds:
            await asyncio.sleep(1)
            if name == "training":
                points.append(POINT * 20)
                devices.append(b"x" * 2000 + b"\n")
                if int(time.monotonic()) % 5 == 0:
                    with guarded_by(fence):
                        await runner_journal.write(Output({"at": str(time.monotonic())}), stage="access", attempt=1)
        shares[f"{name}_percent"] = round(100 * (time.process_time() - used) / (time.monotonic() - began), 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await backend.aclose()
    journal.close()
    sys.stderr.writelines(f"{line}\n" for line in said)
    return shares


def main() -> int:
    """Measure, and print JSON."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory(prefix="eksml-bench-") as name, a_store():
        os.environ["XDG_STATE_HOME"] = str(Path(name) / "state")
        sandbox = find_or_start("bench", speed=60.0)
        try:
            folder = _a_run(Path(name), sandbox)
            asyncio.run(carry_out(folder))
            sys.stdout.write(json.dumps(asyncio.run(_measured(folder, seconds))) + "\n")
        finally:
            os.kill(sandbox.process.pid, signal.SIGTERM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
