"""D15b, S10: a forwarded port is free and local, of its own user, and asks for a token where it serves a browser."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from actions.base.errors import ConsoleError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import apply
from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.cluster.remote.port_forward import PortForward, open_forward
from actions.sandbox.locate import RunningSandbox
from tests.support.otheruser import NOBODY, needs_another_user, status_for_nobody
from tests.support.pods import pod_named
from tests.support.program import Program

SANDBOX_SPEED = 60.0
PORT, TOKEN = 8265, "the-token-of-this-test"


@asynccontextmanager
async def a_session(sandbox: RunningSandbox) -> AsyncIterator[KubeSession]:
    """A session with a sandbox in which the pod `worker` runs, which answers on a port."""
    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig))
    container = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sleep", "100000"],
        "ports": [{"containerPort": PORT}],
    }
    metadata = {"name": "worker", "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    discovery, ref = Discovery(session), ObjectRef("v1", "Pod", "default", "worker")
    try:
        await apply(session, discovery, pod)
        async with asyncio.timeout(60):
            while object_status(await fetch_object(session, discovery, ref)).state is not WorkState.RUNNING:
                await asyncio.sleep(0.02)
        yield session
    finally:
        await session.aclose()


@asynccontextmanager
async def a_forward(sandbox: RunningSandbox, troubles: list[ConsoleError]) -> AsyncIterator[tuple[PortForward, str]]:
    async with (
        a_session(sandbox) as session,
        open_forward(session, "default", pod_named("worker"), PORT, token=TOKEN, on_trouble=troubles.append) as forward,
    ):
        yield forward, f"http://127.0.0.1:{forward.local_port}"


async def _status(http: aiohttp.ClientSession, url: str, **headers: str) -> int:
    async with http.get(url, headers=headers, allow_redirects=False) as answer:
        return answer.status


@needs_another_user
async def test_d15b_another_user_does_not_get_through(sandbox: RunningSandbox) -> None:
    troubles: list[ConsoleError] = []
    async with a_forward(sandbox, troubles) as (_, url):
        for arguments in ((), ("-H", f"Authorization: Bearer {TOKEN}")):
            assert await asyncio.to_thread(status_for_nobody, url, *arguments) == 0
        assert await asyncio.to_thread(status_for_nobody, url.replace("http", "telnet")) == 0
    assert len(troubles) >= 2
    assert {error.message for error in troubles} == {
        f"A connection of the user {NOBODY} to a forwarded port was refused."
    }


async def test_d15b_a_browser_needs_host_and_token(sandbox: RunningSandbox) -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # that of a browser keeps cookies of addresses, too
    async with a_forward(sandbox, []) as (forward, url), aiohttp.ClientSession(cookie_jar=jar) as http:
        assert await _status(http, url) == 401
        assert await _status(http, url, Authorization=f"Bearer {TOKEN}") == 200
        assert await _status(http, f"{url}/?token=guessed", Accept="text/html") == 401
        assert await _status(http, f"{url}/?token={TOKEN}", Accept="text/html") == 303
        async with http.get(f"{url}/somewhere") as answer:
            assert (answer.status, await answer.text()) == (200, f"worker:{PORT}/somewhere\n")
        assert await _status(http, url, Host=f"evil.example:{forward.local_port}") == 403
        assert await _status(http, url, Origin="http://evil.example") == 403
        for headers, status in (({}, 200), ({"Origin": "http://evil.example"}, 403)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(url, headers=headers)
            assert refused.value.status == status  # 200 is what the pod says, which serves no websockets
        http.cookie_jar.clear()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(url)
        assert refused.value.status == 401


async def test_d15b_forty_connections_at_once_get_through(sandbox: RunningSandbox) -> None:
    connector = aiohttp.TCPConnector(limit=40, force_close=True)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with a_forward(sandbox, []) as (_, url), aiohttp.ClientSession(connector=connector, headers=headers) as http:
        assert await asyncio.gather(*(_status(http, url) for _ in range(40))) == [200] * 40


async def test_d15b_what_is_no_http_passes_for_its_own_user(sandbox: RunningSandbox) -> None:
    async with a_forward(sandbox, []) as (forward, _), asyncio.timeout(60):
        for said in (b"hello\n", b"\x00\x01\x02", b"no line end"):
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            writer.write(said)
            assert await reader.readexactly(len(said)) == said
            writer.close()
            await writer.wait_closed()


def test_d15b_no_connection_is_open_when_the_loop_has_ended(sandbox: RunningSandbox) -> None:
    async def talk() -> None:
        async with a_forward(sandbox, []) as (forward, _), asyncio.timeout(60):
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
                writer.write(b"hello\n")
                assert await reader.readexactly(6) == b"hello\n"
                writer.close()
                await writer.wait_closed()

    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(talk())
        gc.collect()
    assert [str(one.message) for one in told if one.category is ResourceWarning] == []


def _listening() -> Iterator[tuple[str, str]]:
    """Address and inode of every listening TCP socket of this machine, as the kernel prints them."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                yield fields[1], fields[9]


def _inodes_of(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:  # closed meanwhile
            continue
        if match := re.fullmatch(r"socket:\[(\d+)\]", target):
            found.add(match[1])
    return found


async def test_s10_nothing_listens_but_on_the_loopback_address(sandbox: RunningSandbox) -> None:
    async with a_forward(sandbox, []) as (forward, _):
        ours = _inodes_of(os.getpid()) | _inodes_of(sandbox.process.pid)
        addresses = [address for address, inode in _listening() if inode in ours]
    assert f"0100007F:{forward.local_port:04X}" in addresses
    assert len(addresses) >= 3  # the forward, the sandbox's API and its account
    assert {address.partition(":")[0] for address in addresses} == {"0100007F"}


SCRIPT = r"""
eksml-script: 1
steps:
  - wait: {pods: {name: worker, namespace: default, phase: Running}, within: 60s}
  - forward: {to: "default/worker:8265"}
  - wait: {text: '127\.0\.0\.1:\d+ leads to default/worker:8265', within: 60s}
  - screenshot: said.svg
  - forward: {}
  - wait: {text: 'http://127\.0\.0\.1:\d+/\?token=', within: 60s}
  - wait: {text: 'Only programs of your own user can connect', within: 60s}
"""


def test_d15b_the_console_takes_a_free_port_and_shows_the_token_on_its_page_only(
    sandbox: RunningSandbox, program: Program
) -> None:
    async def make_pod() -> None:
        async with a_session(sandbox):
            pass

    asyncio.run(make_pod())
    script = program.home / "script.yaml"
    script.write_text(SCRIPT)
    kubeconfig = str(sandbox.kubeconfig)
    done = program.command("--kubeconfig", kubeconfig, "--script", str(script), "--artifacts", str(program.home))
    assert done.returncode == 0, done.stdout + done.stderr
    picture = (program.home / "said.svg").read_text().replace("&#160;", " ")
    said = re.search(r"127\.0\.0\.1:(\d+) leads to", picture)
    assert said is not None
    assert int(said[1]) != PORT
    assert "token=" not in picture
