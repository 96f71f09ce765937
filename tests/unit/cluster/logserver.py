"""A pod whose log is served as a kubelet does, and cut off wherever a test wishes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiohttp import web

from actions.base.clock import parse_rfc3339


def stamped(index: int, text: str, *, per_second: int = 10) -> bytes:
    """The line number `index` with its timestamp; two lines share each timestamp."""
    second, rest = divmod(index, per_second)
    minute, second = divmod(second, 60)
    stamp = f"2026-11-21T10:{minute:02d}:{second:02d}.{rest // 2 * 1000 + 1:09d}Z "
    return stamp.encode() + text.encode() + b"\n"


@dataclass
class LogServer:
    """One container. `cuts` gives, for each follow request, after how many bytes its connection is aborted.

    `previous_cuts` does so for requests of the log before the restart. `ends` gives, for each request of an ended log,
    after how many bytes the answer ends as if it were whole; `None` for all of it.
    """

    lines: list[bytes] = field(default_factory=list)
    previous: list[bytes] = field(default_factory=list)
    cuts: Iterator[int] = field(default_factory=lambda: iter(()))
    previous_cuts: Iterator[int] = field(default_factory=lambda: iter(()))
    ends: Iterator[int | None] = field(default_factory=lambda: iter(()))
    chunk: int = 1 << 16
    uid: str = "u1"
    restarts: int = 0
    restart_policy: str = "Never"
    exit_code: int | None = 0
    is_gone: bool = False
    queries: list[dict[str, str]] = field(default_factory=list)
    began: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if self.is_gone:
            return web.json_response({"code": 404, "message": "pods p not found", "reason": "NotFound"}, status=404)
        if not request.path.endswith("/log"):
            return web.json_response(self._pod())
        self.queries.append(dict(request.query))
        return await self._log(request)

    def _pod(self) -> dict[str, object]:
        ended = {"terminated": {"exitCode": self.exit_code, "reason": "Completed", "startedAt": "2026-11-21T10:00:00Z"}}
        state = {"running": {"startedAt": "2026-11-21T10:00:00Z"}} if self.exit_code is None else ended
        last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}} if self.restarts else {}
        entry = {"name": "main", "restartCount": self.restarts, "state": state, "lastState": last}
        phase = "Running" if self.exit_code is None else "Failed" if self.exit_code else "Succeeded"
        return {
            "metadata": {"name": "p", "uid": self.uid},
            "spec": {"restartPolicy": self.restart_policy},
            "status": {"phase": phase, "containerStatuses": [entry]},
        }

    async def _log(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        is_previous = query.get("previous") == "true"
        lines = self.previous if is_previous else self.lines
        if "sinceTime" in query:
            since = parse_rfc3339(query["sinceTime"])
            lines = [line for line in lines if parse_rfc3339(line.split(b" ")[0].decode()) >= since]
        if "tailLines" in query:
            lines = lines[-int(query["tailLines"]) :]
        body = b"".join(lines)
        cut = next(self.cuts, None) if query.get("follow") == "true" else None
        if is_previous:
            cut = next(self.previous_cuts, None)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        end = next(self.ends, None) if query.get("follow") != "true" else None
        sent = body[:end] if cut is None else body[:cut]
        for start in range(0, len(sent), self.chunk):
            await response.write(sent[start : start + self.chunk])
        self.began.set()
        if cut is not None and request.transport is not None:
            await asyncio.sleep(0)
            request.transport.abort()
        elif self.exit_code is None and query.get("follow") == "true":
            await asyncio.Event().wait()
        return response
