"""The bare client: loads and follows a fleet in the program's way, with no state, no screen and no care.

    python -m tests.bench.reference KUBECONFIG

It prints the seconds to complete, then reads on; it ends when it is told to.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.state.decode import decode_node
from actions.cluster.state.pod_protobuf import decode_pod
from actions.cluster.watch import json_format as wire
from actions.cluster.watch import protobuf_format as protowire
from actions.cluster.watch.json_format import Raw, WireFormat
from actions.fleet.facts import NodeFacts, PodFacts

_JSON = "application/json"
_QUERY = {
    "watch": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


async def _follow(
    session: KubeSession,
    path: str,
    *,
    wire_: WireFormat,
    accept: str,
    decode: Callable[[Raw], NodeFacts | PodFacts],
    complete: asyncio.Event,
) -> None:
    facts: dict[str, NodeFacts | PodFacts] = {}
    async with session.stream(path, query=_QUERY, accept=accept) as stream:
        async for frames in wire_.frames_of(aiter(stream)):
            for frame in frames:
                kind, raw = wire_.read_event(frame)
                if kind == "ERROR":
                    raise RuntimeError(f"{path}: {wire_.error_status(raw).message}")
                if kind == "BOOKMARK":
                    complete.set()
                else:
                    fact = decode(raw)
                    facts[fact.uid] = fact
            await asyncio.sleep(0)
    raise RuntimeError(f"{path}: the server ended the stream")


async def main(kubeconfig: Path) -> None:
    """Load, tell, follow."""
    began = time.perf_counter()
    session = await KubeSession.connect(ClusterTarget(kubeconfig=kubeconfig))
    nodes, pods = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:  # one that fails ends the others: nobody waits for what will not come
        group.create_task(
            _follow(session, "/api/v1/nodes", wire_=wire, accept=_JSON, decode=decode_node, complete=nodes)
        )
        group.create_task(
            _follow(session, "/api/v1/pods", wire_=protowire, accept=protowire.ACCEPT, decode=decode_pod, complete=pods)
        )
        await nodes.wait()
        await pods.wait()
        took = time.perf_counter() - began
        sys.stdout.write(json.dumps({"complete_seconds": took, "cpu_seconds": time.process_time()}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
