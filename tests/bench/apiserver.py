"""A synthetic API server in a process of its own: a fleet that can be listed, streamed and watched, and its churn.

    python -m tests.bench.apiserver NODES PODS FOLDER

It writes FOLDER/kubeconfig when it serves, and ends with its parent's stdin. `POST /bench/churn?pods=500&nodes=0`
changes so many objects a second until it is told otherwise; `GET /bench/cpu` tells the seconds it has used.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import yaml
from aiohttp import web

from actions.cluster.protowire import CONTENT_TYPE
from tests.bench.fleet import Fleet, as_json, as_protobuf, full_pod
from tests.unit.cluster import protobytes

LOG_PODS = 40
LOG_LINES = 10_000
_LOG_CHUNK = 1 << 15
_TICK_SECONDS = 0.05
_BATCH = 64
_VISIBLE = 40
"""Churn touches pods of so many nodes, those at the top of the table: they are on screen."""


class Kind:
    """One resource: its objects in both forms, and who watches it."""

    def __init__(self, path: str, *, has_protobuf: bool) -> None:
        self.path = path
        self.json: list[bytes] = []
        self.protobuf: list[bytes] = []
        self.has_protobuf = has_protobuf
        self.watchers: set[tuple[asyncio.Queue[bytes], bool]] = set()

    def tell(self, json_event: bytes, frame: bytes) -> None:
        """Send one event to whoever watches."""
        for queue, is_protobuf in self.watchers:
            queue.put_nowait(frame if is_protobuf else json_event)


class ApiServer:
    """Serves one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._version = 100_000
        self._rates = {"pods": 0.0, "nodes": 0.0}
        self.nodes = Kind("/api/v1/nodes", has_protobuf=False)
        self.pods = Kind("/api/v1/pods", has_protobuf=True)
        self._kinds = {kind.path: kind for kind in (self.nodes, self.pods, Kind("/api/v1/events", has_protobuf=False))}
        self._restarts: dict[int, int] = {}
        self._log_body = b"".join(log_line(index) for index in range(LOG_LINES))
        self._visible = fleet.first_shown(_VISIBLE)
        for index in range(fleet.nodes):
            self.nodes.json.append(as_json(fleet.node(index, index)))
        for index in range(fleet.pods):
            pod = fleet.pod(index, index)
            self.pods.json.append(as_json(full_pod(pod)))
            self.pods.protobuf.append(as_protobuf(pod))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Every request."""
        if request.path.startswith("/bench/"):
            return self._command(request)
        kind = self._kinds.get(request.path)
        if kind is not None:
            return await self._watch(request, kind) if "watch" in request.query else self._list(request, kind)
        if request.path.startswith("/api/v1/namespaces/logs/pods/"):
            return await self._log(request)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.34.4-bench"})
        if request.path == "/api/v1/namespaces/kube-system":
            return web.json_response({"metadata": {"uid": "bench"}})
        status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such resource"}
        return web.json_response(status, status=404)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """A container that has written its lines and ended."""
        if not request.path.endswith("/log"):
            ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-20T08:00:00Z"}}
            status = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "restartCount": 0, "state": ended}]}
            document = {"metadata": {"name": "p"}, "spec": {"restartPolicy": "Never"}, "status": status}
            return web.json_response(document)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        for at in range(0, len(self._log_body), _LOG_CHUNK):
            await response.write(self._log_body[at : at + _LOG_CHUNK])
        return response

    def _command(self, request: web.Request) -> web.Response:
        if request.path == "/bench/churn":
            self._rates = {name: float(request.query.get(name, "0")) for name in self._rates}
        return web.json_response({"cpu_seconds": time.process_time(), "version": self._version})

    def _list(self, request: web.Request, kind: Kind) -> web.Response:
        begin, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", "0"))
        end = begin + limit if limit else len(kind.json)
        following = str(end) if end < len(kind.json) else ""
        if kind.has_protobuf and CONTENT_TYPE in request.headers["Accept"]:
            body = protobytes.list_of(kind.protobuf[begin:end], str(self._version), following=following)
            return web.Response(body=body, content_type=CONTENT_TYPE)
        head = f'{{"metadata":{{"resourceVersion":"{self._version}","continue":"{following}"}},"items":['.encode()
        return web.Response(body=head + b",".join(kind.json[begin:end]) + b"]}", content_type="application/json")

    async def _watch(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        is_protobuf = kind.has_protobuf and CONTENT_TYPE in request.headers["Accept"]
        content_type = f"{CONTENT_TYPE};stream=watch" if is_protobuf else "application/json"
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        watcher = (queue, is_protobuf)
        if "sendInitialEvents" in request.query:
            for batch in _batches(kind.protobuf if is_protobuf else kind.json):
                write = protobytes.framed if is_protobuf else _line
                await response.write(b"".join(write("ADDED", each) for each in batch))
            await response.write(self._bookmark(is_protobuf=is_protobuf))
        kind.watchers.add(watcher)
        try:
            while True:
                parts = [await queue.get()]
                while not queue.empty():
                    parts.append(queue.get_nowait())
                await response.write(b"".join(parts))
        finally:
            kind.watchers.discard(watcher)

    def _bookmark(self, *, is_protobuf: bool) -> bytes:
        if is_protobuf:
            return protobytes.bookmark_of(str(self._version), ends_initial=True)
        mark = {"resourceVersion": str(self._version), "annotations": {"k8s.io/initial-events-end": "true"}}
        return _line("BOOKMARK", as_json({"kind": "Bookmark", "metadata": mark}))

    async def churn(self) -> None:
        """Change objects at the rates that were asked for."""
        loop, dice = asyncio.get_running_loop(), random.Random(1)
        owed = dict.fromkeys(self._rates, 0.0)
        last = loop.time()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = loop.time()
            for name, rate in self._rates.items():
                owed[name] += rate * (now - last)
                for _ in range(int(owed[name])):
                    self._change_pod(dice) if name == "pods" else self._beat(dice)
                owed[name] %= 1.0
            last = now

    def _change_pod(self, dice: random.Random) -> None:
        """A pod of a visible node changes what it asks for: its node's sums move."""
        fleet, node = self._fleet, dice.choice(self._visible)
        index = node + fleet.nodes * dice.randrange(max(1, fleet.pods // fleet.nodes))
        self._version += 1
        self._restarts[index] = self._restarts.get(index, 0) + 1
        document = fleet.pod(index, self._version, restarts=self._restarts[index])
        asked = {"cpu": f"{100 + self._version % 900}m", "memory": "128Mi"}
        document["spec"]["containers"][0]["resources"]["requests"] = asked
        self.pods.json[index], self.pods.protobuf[index] = as_json(full_pod(document)), as_protobuf(document)
        self.pods.tell(
            _line("MODIFIED", self.pods.json[index]), protobytes.framed("MODIFIED", self.pods.protobuf[index])
        )

    def _beat(self, dice: random.Random) -> None:
        """A node's heart-beat: nothing that anybody shows changes."""
        index = dice.randrange(self._fleet.nodes)
        self._version += 1
        self.nodes.json[index] = as_json(self._fleet.node(index, self._version))
        self.nodes.tell(_line("MODIFIED", self.nodes.json[index]), b"")


def log_line(index: int) -> bytes:
    """One line of a trainer's log with its timestamp, 170 bytes long."""
    minute, second = divmod(index // 100, 60)
    stamp = f"2026-11-20T08:{minute:02d}:{second:02d}.{index % 100 * 10_000_000 + 1:09d}Z"
    text = f"Epoch 0: {index / LOG_LINES:7.2%} | step {index:6d} | loss={2.5 - index / LOG_LINES:.4f} | lr=0.0001"
    return f"{stamp} {text} {'.' * 60}\n".encode()


def _line(kind: str, document: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + document + b"}\n"


def _batches(objects: list[bytes]) -> Iterable[list[bytes]]:
    return (objects[at : at + _BATCH] for at in range(0, len(objects), _BATCH))


async def serve(fleet: Fleet, folder: Path) -> None:
    """Serve until stdin ends."""
    server = ApiServer(fleet)
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": f"http://{host}:{port}"}}],
        "users": [{"name": "bench", "user": {}}],
    }
    (folder / "kubeconfig.new").write_text(yaml.safe_dump(document))
    (folder / "kubeconfig.new").rename(folder / "kubeconfig")
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ended.set)  # nothing is ever written to it: it becomes readable at its end
    churning = asyncio.create_task(server.churn())
    try:
        await ended.wait()
    finally:
        churning.cancel()
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(Fleet(int(sys.argv[1]), int(sys.argv[2])), Path(sys.argv[3])))
