"""The sandbox is a process of its own: found by its file, ended by a signal or by idleness."""

from __future__ import annotations

import asyncio
import signal
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from actions.base.errors import UnreachableError
from actions.base.process import ProcessIdentity, kill, own_module, spawn_detached, wait_for_end
from actions.sandbox import locate
from actions.sandbox.locate import ProcessFile, find_or_start, find_sandbox
from tests.support.polling import until
from tests.support.sandboxes import http_of


@asynccontextmanager
async def a_process(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        *own_module("actions.sandbox", "--state", str(folder), "--speed", "60", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def process_file(folder: Path) -> ProcessFile:
    path = folder / "process.json"
    await until(path.exists, "process.json", deadline_seconds=240)
    return msgspec.json.decode(path.read_bytes(), type=ProcessFile)


async def test_the_first_line_is_the_kubeconfig_and_a_signal_ends_it_cleanly(tmp_path: Path) -> None:
    async with a_process(tmp_path, "--foreground") as child, asyncio.timeout(240):
        assert child.stdout is not None
        first = (await child.stdout.readline()).decode().strip()
        assert first == str(tmp_path / "kubeconfig")
        process = await process_file(tmp_path)
        assert (process.pid, process.kubeconfig) == (child.pid, first)
        for name in ("kubeconfig", "process.json"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        async with http_of(tmp_path / "kubeconfig") as session:
            watch = await session.get("/api/v1/pods", params={"watch": "1"})
            child.send_signal(signal.SIGTERM)
            assert await child.wait() == 0
            watch.close()
        assert child.stderr is not None
        assert await child.stderr.read() == b""
    assert not (tmp_path / "process.json").exists()


async def test_it_ends_by_itself_without_requests(tmp_path: Path) -> None:
    async with a_process(tmp_path, "--idle", "0.5") as child, asyncio.timeout(240):
        assert await child.wait() == 0  # its state file may come and go between two looks at it
    assert (tmp_path / "kubeconfig").exists()
    assert not (tmp_path / "process.json").exists()


async def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server, a_process(tmp_path, "--port", str(server.sockets[0].getsockname()[1])) as child:
        _, err = await child.communicate()
    assert child.returncode == 1
    assert err.decode().count("\n") == 1
    assert "cannot be used" in err.decode()


async def test_a_browser_of_another_site_is_refused(tmp_path: Path) -> None:
    async with a_process(tmp_path) as child:
        process = await process_file(tmp_path)
        async with http_of(tmp_path / "kubeconfig") as session:
            for headers in ({"Host": "evil.example:80"}, {"Origin": "http://evil.example"}):
                for address in ("/api", process.aws_endpoint_url):
                    async with session.get(address, headers=headers) as answer:
                        assert answer.status == 403
                        assert "programs on this machine" in await answer.text()
        child.terminate()
        await child.wait()


_SLOW = """
import runpy, sys, time
from actions.sandbox import server
made = server.make_certificate
def slowly(*arguments):
    end = time.process_time() + 4
    while time.process_time() < end:
        pass
    return made(*arguments)
server.make_certificate = slowly
runpy.run_module("actions.sandbox", run_name="__main__", alter_sys=True)
"""
_START = f"""
import sys
from actions.sandbox import locate
locate.SILENCE_SECONDS = 2.0
if sys.argv[1] == "slowly":
    locate.own_module = lambda module, *words: [sys.executable, "-P", "-c", {_SLOW!r}, *words]
found = locate.find_or_start("twice")
print(found.process.pid, found.credentials.read_text())
"""


async def test_two_that_start_it_at_once_get_one_however_slow_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with asyncio.timeout(240):
        callers = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", _START, how, stdout=asyncio.subprocess.PIPE)
            for how in ("slowly", "slowly")
        ]
        first, second = [(await caller.communicate())[0].decode() for caller in callers]
    running = find_sandbox("twice")
    assert running is not None
    try:
        assert first == second == f"{running.process.pid} {running.credentials.read_text()}\n"
    finally:
        kill(running.process.identity())


def test_one_that_does_nothing_is_given_up_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(locate, "SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(locate, "own_module", lambda *_: ["sleep", "600"])
    children: list[ProcessIdentity] = []

    def spawn(argv: Sequence[str], *, output: Path, without_aws: bool) -> ProcessIdentity:
        children.append(spawn_detached(argv, output=output, without_aws=without_aws))
        return children[-1]

    monkeypatch.setattr(locate, "spawn_detached", spawn)
    with pytest.raises(UnreachableError, match="did not start"):
        find_or_start("silent")
    assert wait_for_end(children[0], seconds=60)


async def test_a_folder_that_another_process_has_is_refused_by_its_number(tmp_path: Path) -> None:
    async with a_process(tmp_path) as first:
        await process_file(tmp_path)
        async with a_process(tmp_path, "--foreground") as second:
            _, err = await second.communicate()
        assert (second.returncode, f"Process {first.pid} has the sandbox demo." in err.decode()) == (1, True)
        first.terminate()
        await first.wait()
