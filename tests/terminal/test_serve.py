"""The console in a browser: with the token alone, read-only, and gone with its server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from argparse import Namespace
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from actions.base.process import identity_of, is_alive
from tests.support.browser import browser
from tests.support.missing import needs, needs_module
from tests.support.polling import until
from tests.support.program import Program
from tui.cli.arguments import parse_arguments
from tui.cli.sharing.serve import console_command

_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/([\w-]{32})/\n")


@asynccontextmanager
async def served(home: Path, *arguments: str) -> AsyncIterator[tuple[str, Process]]:
    """The server, with its address; ended as an operator ends it."""
    program = Program(home)
    started = await asyncio.create_subprocess_exec(
        *program.argv("serve", *arguments), stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=dict(program.environment)
    )
    assert started.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = (await started.stdout.readline()).decode()
        assert _ADDRESS.fullmatch(line), line
        yield line.strip(), started
    finally:
        if started.returncode is None:
            started.send_signal(signal.SIGTERM)
        await asyncio.wait_for(started.wait(), 120)


def options(*words: str) -> Namespace:
    return parse_arguments(["serve", *words])


def test_a_console_is_read_only_unless_changes_are_allowed() -> None:
    assert console_command(options())[-1] == "--readonly"
    assert "--readonly" not in console_command(options("--allow-changes"))
    both = parse_arguments(["--readonly", "serve", "--allow-changes", "--context", "a b;c", "--allow-plugin", "x"])
    assert console_command(both)[4:] == ["--context", "a b;c", "--allow-plugin", "x", "--readonly"]


@needs_module("textual_serve")
async def test_nothing_is_answered_without_the_token_or_to_another_site(tmp_path: Path) -> None:
    async with served(tmp_path) as (address, _), aiohttp.ClientSession() as client:
        place = address.removesuffix("/").rpartition("/")[0]
        token = address.removesuffix("/").rpartition("/")[2]
        refused = [
            (f"{place}/", {}, 401),
            (f"{place}/static/js/textual.js", {}, 401),
            (f"{place}/ws", {}, 401),
            (f"{place}/{token[:-1]}x/", {}, 401),
            (address, {"Host": "evil.example"}, 403),
            (address, {"Origin": "http://evil.example"}, 403),
            (f"{address}ws", {"Origin": "http://127.0.0.1:1"}, 403),
        ]
        for url, headers, status in refused:
            async with client.get(url, headers=headers) as answer:
                assert answer.status == status, url
                assert token not in await answer.text()
        async with client.get(address) as answer:
            assert answer.status == 200
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@needs_module("textual_serve")
async def test_a_page_has_a_read_only_console_that_ends_with_the_page_and_with_the_server(tmp_path: Path) -> None:
    async with served(tmp_path) as (address, server), aiohttp.ClientSession() as client:
        async with client.ws_connect(f"{address}ws?width=100&height=30") as page:
            first = await _seen(page, "read-only")
            assert "eksml" in first or "home" in first
            (console,) = _children(server.pid)
            process = identity_of(console)
        assert process is not None
        await until(lambda: not is_alive(process), "the end of the page's console")
        async with client.ws_connect(f"{address}ws?width=100&height=30") as page:
            await _seen(page, "read-only")
            await page.send_json(["stdin", "\x1b[200~\x1b[31mq\rq\r\x1b[201~"])
            await page.send_json(["stdin", "?"])
            await _seen(page, "help")
            (console,) = _children(server.pid)
            process = identity_of(console)
            assert process is not None
            server.send_signal(signal.SIGKILL)
            await until(lambda: not is_alive(process), "the end of a console whose server was killed")


@needs_module("textual_serve")
@needs("chromium")
async def test_a_browser_shows_it_and_hands_it_keys(tmp_path: Path) -> None:
    async with served(tmp_path) as (address, _), browser(tmp_path / "profile") as page:
        await page.call("Page.navigate", url=address)
        await page.wait("read-only")
        await page.call("Input.dispatchKeyEvent", type="char", text="?")
        await page.wait("help")
        asked = {url for url in page.requested if not url.startswith(address)}
        loaded = {url for url in asked if url in page.answered}
        assert {url for url in loaded if not url.endswith("/favicon.ico")} == set(), "nothing is loaded from elsewhere"


@needs_module("textual_serve")
async def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    async with served(tmp_path) as (address, _):
        match = re.search(r":(\d+)/", address)
        assert match is not None
        done = Program(tmp_path).run("serve", "--port", match[1])
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "cannot be used" in done.stderr


def test_without_the_library_one_sentence_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "textual_serve").mkdir()
    (tmp_path / "textual_serve" / "__init__.py").write_text("raise ImportError('hidden')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = Program(tmp_path).run("serve")
    assert done.returncode == 1
    assert 'uv tool install "eksml-tui[serve]"' in done.stderr
    assert done.stderr.count("\n") == 1


def _children(pid: int) -> list[int]:
    """Return the children that are alive: one that has ended may not have been waited for yet."""
    found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in found if identity_of(child) is not None]


async def _seen(page: aiohttp.ClientWebSocketResponse, text: str) -> str:
    """Receive frames until a text is in them; return all, without escapes."""
    data = b""
    async with asyncio.timeout(60):
        while text not in (plain := re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", data.decode("utf-8", "replace"))):
            message = await page.receive()
            if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                raise AssertionError(f"the console ended: {plain}")
            data += message.data if isinstance(message.data, bytes) else b""
    return plain


RUBBISH = (
    "", "x", "[]", "{}", "[1]", "null", '["stdin"]', '["stdin", 1]', '["resize", {}]', '["resize", {"width": "a"}]',
    '["resize", {"width": 1000000000, "height": 9}]', '["resize", {"width": -1, "height": 9}]', '["unknown", 1]',
    '["stdin", "\\ud800"]', "[" * 100_000, "9" * 6000,
)  # fmt: skip


async def _until_there_is_room(client: aiohttp.ClientSession, address: str) -> None:
    """Wait while all consoles that may be open are: one that was closed counts until its process has ended."""
    refused = 503
    async with asyncio.timeout(60):
        while refused == 503:
            async with client.get(f"{address}ws?width=999999999&height=24") as answer:
                refused = answer.status
    assert refused == 400


@needs_module("textual_serve")
async def test_rubbish_of_a_browser_closes_its_page_in_one_sentence(tmp_path: Path) -> None:
    async with served(tmp_path) as (address, server), aiohttp.ClientSession() as client:
        for text in RUBBISH[:: 1 if os.environ.get("CI") else 3]:
            await _until_there_is_room(client, address)
            async with client.ws_connect(f"{address}ws?width=80&height=24") as page:
                await page.send_str(text)
                async with asyncio.timeout(60):
                    while (await page.receive()).type is not aiohttp.WSMsgType.CLOSE:
                        pass
        await _until_there_is_room(client, address)
        async with client.ws_connect(f"{address}ws?width=100&height=30") as page:
            await page.send_json(["resize", {"width": 90, "height": 30}])
            await _seen(page, "read-only")
        server.send_signal(signal.SIGTERM)
        assert server.stderr is not None
        told = (await server.stderr.read()).decode()
    assert "Traceback" not in told
    assert set(told.splitlines()) == {"eksml-tui: A browser has sent what no page of this console sends. It is closed."}
