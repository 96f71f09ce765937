"""A synthetic API server in a process of its own: a fleet that can be listed, streamed and watched, and its churn.

    python -m tests.bench.apiserver NODES PODS [EVENTS] FOLDER

It writes FOLDER/target.json when it serves, and ends with its parent's stdin.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml
from aiohttp import web

from actions.cluster.watch.protobuf_format import CONTENT_TYPE
from tests.bench.churn import Churn
from tests.bench.fleet import Document, Fleet, as_json, as_protobuf, full_pod
from tests.bench.loglines import LINES, finished_pod, log_line
from tests.bench.serving import in_background, serving, until_stdin_ends
from tests.bench.target import Target
from tests.unit.cluster import protobytes

_LOG_CHUNK = 1 << 15
_BATCH = 64


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
        self.version = 100_000
        self.nodes = Kind("/api/v1/nodes", has_protobuf=False)
        self.pods = Kind("/api/v1/pods", has_protobuf=True)
        self.events = Kind("/api/v1/events", has_protobuf=False)
        self._kinds = {kind.path: kind for kind in (self.nodes, self.pods, self.events)}
        self._places: dict[str, int] = {}
        self._log_body = "".join(f"{stamp} {text}\n" for stamp, text in map(log_line, range(LINES))).encode()
        for index in range(fleet.nodes):
            node = fleet.node(index, index)
            self._places[node["metadata"]["uid"]] = index
            self.nodes.json.append(as_json(node))
        for index in range(fleet.pods):
            pod = fleet.pod(index, index)
            self._places[pod["metadata"]["uid"]] = index
            self.pods.json.append(as_json(full_pod(pod)))
            self.pods.protobuf.append(as_protobuf(pod))
        self.events.json += [as_json(fleet.event(index, index)) for index in range(fleet.events)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Every request."""
        kind = self._kinds.get(request.path)
        if kind is not None:
            return await self._watch(request, kind) if "watch" in request.query else self._list(request, kind)
        if request.path.startswith("/api/v1/namespaces/logs/pods/"):
            return await self._log(request)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.34.4-bench"})
        if request.path == "/api/v1/namespaces/kube-system":
            return web.json_response({"metadata": {"uid": f"bench-{os.getpid()}"}})
        status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such resource"}
        return web.json_response(status, status=404)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """A container that has written its lines and ended."""
        if not request.path.endswith("/log"):
            return web.json_response(finished_pod(request.path.rpartition("/")[2], "node"))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        for at in range(0, len(self._log_body), _LOG_CHUNK):
            await response.write(self._log_body[at : at + _LOG_CHUNK])
        return response

    def _list(self, request: web.Request, kind: Kind) -> web.Response:
        begin, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", "0"))
        end = begin + limit if limit else len(kind.json)
        following = str(end) if end < len(kind.json) else ""
        if kind.has_protobuf and CONTENT_TYPE in request.headers["Accept"]:
            body = protobytes.list_of(kind.protobuf[begin:end], str(self.version), following=following)
            return web.Response(body=body, content_type=CONTENT_TYPE)
        head = f'{{"metadata":{{"resourceVersion":"{self.version}","continue":"{following}"}},"items":['.encode()
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
            return protobytes.bookmark_of(str(self.version), ends_initial=True)
        mark = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        return _line("BOOKMARK", as_json({"kind": "Bookmark", "metadata": mark}))

    async def put(self, documents: list[Document]) -> None:
        """Take changed objects, and tell whoever watches."""
        for document in documents:
            if document["kind"] == "Event":
                self.events.json.append(as_json(document))
                self.events.tell(_line("ADDED", self.events.json[-1]), b"")
                continue
            is_pod = document["kind"] == "Pod"
            kind = self.pods if is_pod else self.nodes
            index = self._places[document["metadata"]["uid"]]
            kind.json[index] = as_json(full_pod(document))
            frame = b""
            if is_pod:
                kind.protobuf[index] = as_protobuf(document)
                frame = protobytes.framed("MODIFIED", kind.protobuf[index])
            kind.tell(_line("MODIFIED", kind.json[index]), frame)


def _line(kind: str, document: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + document + b"}\n"


def _batches(objects: list[bytes]) -> Iterable[list[bytes]]:
    return (objects[at : at + _BATCH] for at in range(0, len(objects), _BATCH))


async def serve(fleet: Fleet, folder: Path) -> None:
    """Serve until stdin ends."""
    server = ApiServer(fleet)
    churn = Churn(fleet, server.put, version=server.version)
    application = web.Application()
    application.router.add_get("/bench/churn", churn.command)
    application.router.add_route("*", "/{tail:.*}", server.handle)
    async with serving(application) as address:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bench",
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "clusters": [{"name": "bench", "cluster": {"server": address}}],
            "users": [{"name": "bench", "user": {}}],
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(document))
        Target(
            server="synthetic",
            kubeconfig=str(folder / "kubeconfig"),
            nodes=fleet.nodes,
            pods=fleet.pods,
            control=address,
            events=fleet.events,
        ).write(folder)
        async with in_background(churn.run()):
            await until_stdin_ends()


if __name__ == "__main__":
    asyncio.run(serve(Fleet(*map(int, sys.argv[1:-1])), Path(sys.argv[-1])))
