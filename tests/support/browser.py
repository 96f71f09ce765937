"""A headless Chromium, and a page in it, by the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp


class Page:
    """A page: what it asks for, what its console complains of, and what it receives by WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._sent = 0
        self._screen = b""
        self.requested: set[str] = set()
        self.answered: set[str] = set()
        self.complaints: list[str] = []

    async def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method, and return its result."""
        self._sent += 1
        await self._socket.send_json({"id": self._sent, "method": method, "params": parameters})
        while (answer := await self._take()).get("id") != self._sent:
            pass
        return dict(answer["result"])

    async def wait_true(self, script: str) -> Any:
        """Evaluate a script again and again until it gives something that counts as true; return that."""
        async with asyncio.timeout(60):
            while True:
                given = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
                if value := given["result"].get("value"):
                    return value

    async def wait(self, text: str) -> None:
        """Wait until a console has sent a text to the page."""
        async with asyncio.timeout(60):
            while text not in re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", self._screen.decode("utf-8", "replace")):
                await self._take()

    async def _take(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(await self._socket.receive_str())
        parameters = told.get("params", {})
        match told.get("method"):
            case "Network.webSocketFrameReceived" if parameters["response"]["opcode"] == 2:
                self._screen += base64.b64decode(parameters["response"]["payloadData"])
            case "Network.requestWillBeSent":
                self.requested.add(parameters["request"]["url"])
            case "Network.responseReceived":
                self.answered.add(parameters["response"]["url"])
            case "Log.entryAdded" if parameters["entry"]["level"] in {"warning", "error"}:
                self.complaints.append(parameters["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        return told


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Page]:
    """Start a Chromium with a folder of its own, and end it."""
    chromium = await asyncio.create_subprocess_exec(
        *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
        *(f"--user-data-dir={profile}", "about:blank"),
        stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True,
        env={"PATH": os.environ["PATH"], "HOME": str(profile.parent)},
    )  # fmt: skip
    assert chromium.stderr is not None
    drained: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(60):
            while b"DevTools listening on" not in (line := await chromium.stderr.readline()):
                assert line, "Chromium ended"
        drained = asyncio.create_task(chromium.stderr.read())
        port = line.decode().split(":")[2].partition("/")[0]
        async with aiohttp.ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{port}/json") as answer:
                targets = await answer.json()
            target = next(one for one in targets if one["type"] == "page")
            async with client.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Network", "Log", "Runtime", "Page"):
                    await page.call(f"{domain}.enable")
                yield page
    finally:
        os.killpg(chromium.pid, signal.SIGKILL)
        await chromium.wait()
        if drained is not None:
            await drained
