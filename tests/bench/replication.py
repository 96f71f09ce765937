"""The cost of keeping a run in its store: `python -m tests.bench.replication [SECONDS]`.

Publisher and journal are in this process, the store (moto) is in another. Printed are shares of a core, of all threads
of this process, at rest and under load: a record every five seconds, twenty points and 2 kB of samples each second.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from actions.base.clock import SystemClock
from actions.run.output.segments import StreamWriter
from actions.run.output.streams import DEVICES, POINTS, stream_path
from actions.run.state.records import Output
from tests.support.account import REGION, client
from tests.support.polling import wait
from tests.support.stores import BUCKET, CREDENTIALS, Published, a_run_with_store
from tests.unit.run.world import creation

_RECORDS = 400
POINT = b'{"type":"point","number":0,"metric":"train_loss","step":1,"value":1.5}\n'
SETTLING_SECONDS = 15


@contextmanager
def a_store() -> Iterator[None]:
    """Serve an account in a process of its own, and point this one to it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def answers() -> bool:
        try:
            with urlopen(address):
                return True
        except URLError:
            return False

    try:
        wait(answers, "the store")
        os.environ.update(CREDENTIALS, AWS_ENDPOINT_URL=address)
        client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield
    finally:
        server.kill()
        server.wait()


async def _measured(folder: Path, seconds: float) -> dict[str, float]:
    run = Published(folder, SystemClock())
    points, devices = (StreamWriter(stream_path(folder, "train", stream)) for stream in (POINTS, DEVICES))
    for number in range(_RECORDS):
        await run.journal.write(Output({"n": str(number)}), stage="train", attempt=1)
    task = asyncio.ensure_future(run.publisher.accompany())
    await asyncio.sleep(SETTLING_SECONDS)
    shares = {}
    for name in ("at_rest", "under_load"):
        began, used = time.monotonic(), time.process_time()
        while time.monotonic() < began + seconds:
            await asyncio.sleep(1)
            if name == "under_load":
                points.append(POINT * 20)
                devices.append(b"x" * 2000 + b"\n")
                if int(time.monotonic()) % 5 == 0:
                    await run.journal.write(Output({"at": str(time.monotonic())}), stage="train", attempt=1)
        shares[f"{name}_percent"] = round(100 * (time.process_time() - used) / (time.monotonic() - began), 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    run.close()
    return shares


def main() -> int:
    """Measure, and print JSON."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory(prefix="eksml-bench-") as name, a_store():
        folder = a_run_with_store(Path(name), creation(), SystemClock())
        sys.stdout.write(json.dumps(asyncio.run(_measured(folder, seconds))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
