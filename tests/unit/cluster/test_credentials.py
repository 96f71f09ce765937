"""Credentials of plugins and files: how often they are requested, which cannot be used, and acting as others."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from actions.base.errors import AccessError, ConfigError, ConsoleError
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.auth.session import KubeSession
from tests.unit.cluster.clocks import HandClock
from tests.unit.cluster.servers import serving, session_to, write_kubeconfig


async def _echo(request: web.Request) -> web.Response:
    return web.json_response({"authorization": request.headers.get("Authorization", "")})


async def _refuse(request: web.Request) -> web.Response:
    del request
    return web.json_response({"message": "Unauthorized", "code": 401}, status=401)


def _plugin(folder: Path, body: str, **more: object) -> dict[str, object]:
    """A user with a plugin that notes each of its runs."""
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)} | more}


def _runs(folder: Path) -> int:
    return len((folder / "runs").read_text().split())


@asynccontextmanager
async def _session(
    folder: Path, user: dict[str, object], clock: HandClock, *, refuses: bool = False
) -> AsyncIterator[KubeSession]:
    async with serving(_refuse if refuses else _echo) as address:
        target = ClusterTarget(kubeconfig=write_kubeconfig(folder, address, user))
        session = await KubeSession.connect(target, clock=clock, is_vouched_for=True)
        try:
            yield session
        finally:
            await session.aclose()


async def _failure(session: KubeSession) -> str:
    with pytest.raises(ConsoleError) as caught:
        await session.get("/x")
    return caught.value.message


async def test_a_plugin_that_fails_is_not_started_again_for_each_caller(tmp_path: Path) -> None:
    clock = HandClock()
    async with _session(tmp_path, _plugin(tmp_path, "echo expired >&2; exit 3"), clock) as session:
        said = await asyncio.gather(*(_failure(session) for _ in range(10)))
        assert _runs(tmp_path) == 1
        assert all("expired" in one for one in said)
        clock.pass_by(6)
        await _failure(session)
    assert _runs(tmp_path) == 2


async def test_a_plugin_whose_tokens_are_refused_is_not_started_again_for_each_caller(tmp_path: Path) -> None:
    clock = HandClock()
    user = _plugin(tmp_path, """echo '{"status": {"token": "t"}}'""")
    async with _session(tmp_path, user, clock, refuses=True) as session:
        for _ in range(5):
            await _failure(session)
        assert _runs(tmp_path) == 2
        clock.pass_by(6)
        await _failure(session)
    assert _runs(tmp_path) == 3


@pytest.mark.parametrize("token", ["two\\nlines", "töken"])
async def test_a_token_that_no_header_can_carry_is_said_to_be_so(tmp_path: Path, token: str) -> None:
    user = _plugin(tmp_path, f"""cat <<'END'\n{{"status": {{"token": "{token}"}}}}\nEND""")
    async with _session(tmp_path, user, HandClock()) as session:
        with pytest.raises(AccessError, match="The token for here holds characters that a request cannot carry"):
            await session.get("/x")
        with pytest.raises(AccessError, match="that a request cannot carry"):
            async with session.stream("/x"):
                pass


async def test_an_empty_token_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    async with session_to(_echo, tmp_path, user={"tokenFile": "token"}) as session:
        with pytest.raises(ConfigError, match="token is empty"):
            await session.get("/x")


async def test_a_token_file_is_read_again_after_a_minute_and_after_a_refusal(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", HandClock()
    path.write_text("first")
    valid = ["first", "second"]

    async def check(request: web.Request) -> web.Response:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        return await (_echo if token in valid else _refuse)(request)

    async with serving(check) as address:
        session = await KubeSession.connect(
            ClusterTarget(write_kubeconfig(tmp_path, address, {"tokenFile": "token"})), clock=clock
        )
        assert await session.get("/x") == {"authorization": "Bearer first"}
        path.write_text("second")
        assert await session.get("/x") == {"authorization": "Bearer first"}
        clock.pass_by(61)
        assert await session.get("/x") == {"authorization": "Bearer second"}
        path.write_text("third")
        valid[:] = ["third"]
        assert await session.get("/x") == {"authorization": "Bearer third"}
        await session.aclose()


async def test_a_plugin_that_asks_for_it_is_told_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"pem")
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://far.invalid",
                    "certificate-authority": "ca.pem",
                    "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
                },
            }
        ],
        "users": [{"name": "u", "user": {"exec": {"command": "login", "provideClusterInfo": True}}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    plugin = load_context(ClusterTarget(path)).plugin
    assert plugin is not None
    told = {"server": "https://far.invalid", "certificate-authority-data": "cGVt", "config": {"audience": "a"}}
    assert json.loads(plugin.cluster_info) == told


async def test_a_plugin_hears_of_its_cluster_and_that_no_operator_can_be_asked(tmp_path: Path) -> None:
    body = f"""printenv KUBERNETES_EXEC_INFO > {tmp_path}/info; echo '{{"status": {{"token": "t"}}}}'"""
    async with session_to(_echo, tmp_path, user=_plugin(tmp_path, body, provideClusterInfo=True)) as session:
        await session.get("/x")
        spec = json.loads((tmp_path / "info").read_text())["spec"]
        assert spec == {"interactive": False, "cluster": {"server": session.server}}


async def test_requests_and_streams_say_as_whom_to_act(tmp_path: Path) -> None:
    said: list[dict[str, list[str]]] = []

    async def note(request: web.Request) -> web.Response:
        names = [name for name in request.headers if name.startswith("Impersonate-")]
        said.append({name: request.headers.getall(name) for name in names})
        return web.json_response({})

    user: dict[str, Any] = {
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"acme.com/Project": ["x", "y z"]},
    }
    async with session_to(note, tmp_path, user=user) as session:
        await session.get("/x")
        async with session.stream("/x") as stream:
            assert [chunk async for chunk in stream] == [b"{}"]
    wanted = {
        "Impersonate-User": ["jane"],
        "Impersonate-Uid": ["7"],
        "Impersonate-Group": ["dev", "ops"],
        "Impersonate-Extra-acme.com%2Fproject": ["x", "y z"],
    }
    assert said == [wanted, wanted]


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"as-groups": ["dev"]}, "need `as`"),
        ({"as": "jane\nX-Evil: 1"}, "printable ASCII"),
        ({"as": "jane", "as-groups": "dev"}, "is not valid"),
    ],
)
async def test_impersonation_that_cannot_be_meant_is_one_sentence(
    tmp_path: Path, user: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_context(ClusterTarget(write_kubeconfig(tmp_path, "https://far.invalid", user)))


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "{a: " * 50_000, "- " * 50_000, "[\n" * 100_000, "a: " + "9" * 5000, "users: [{1: 2}]"]
)
def test_a_kubeconfig_that_is_none_is_refused_at_once(text: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    began = time.process_time()
    with pytest.raises(ConfigError):
        load_context(ClusterTarget(tmp_path / "config"))
    assert time.process_time() - began < 2


def test_an_entry_whose_keys_are_numbers_is_no_traceback(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://far.invalid")
    path.write_text(path.read_text().replace("user: {}", "user: {1: 2, as: me}"))
    assert load_context(ClusterTarget(path)).impersonation.user == "me"
