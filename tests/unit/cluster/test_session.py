"""The session: kubeconfigs, credentials, refusals, read-only."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from aiohttp import web

from actions.base.errors import AccessError, ConfigError, MissingError, RefusedError, UnreachableError
from actions.cluster.auth import session
from actions.cluster.auth.kubeconfig import ChosenContext, ClusterTarget, load_context
from actions.cluster.auth.session import KubeSession, TokenSource
from actions.cluster.http.errors import ApiConflictError, ApiUnavailableError, SilenceError
from actions.telemetry.tools.devices import NEURON_COMMAND, NVIDIA_COMMAND
from tests.support.virtual import virtually
from tests.unit.cluster.servers import serving, session_to, write_kubeconfig


async def _echo(request: web.Request) -> web.Response:
    return web.json_response({"authorization": request.headers.get("Authorization", ""), "path": request.path_qs})


def test_importing_the_session_imports_no_client_library() -> None:
    code = "import sys, actions.cluster.auth.session; print([m for m in ('kubernetes', 'aiohttp') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=str(tmp_path / "nowhere")):
        load_context(ClusterTarget(kubeconfig=tmp_path / "nowhere"))


def test_a_kubeconfig_that_is_not_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("clusters:\n- {name: [\n")
    with pytest.raises(ConfigError, match=f"{path}:3"):
        load_context(ClusterTarget(kubeconfig=path))


def test_a_kubeconfig_with_unreadable_bytes_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read: it is not text"):
        load_context(ClusterTarget(kubeconfig=path))


def test_an_unknown_context_names_the_known_ones(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    with pytest.raises(ConfigError) as caught:
        load_context(ClusterTarget(kubeconfig=path, context="there"))
    assert "'there'" in caught.value.message
    assert "here" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("contexts: 5", "`contexts` is not a list"),
        ("contexts: [five]", "an entry of `contexts`"),
        ("clusters: [{name: c1, cluster: five}]", "an entry of `clusters`"),
        ("clusters: [{name: c1, cluster: {server: 'https://host:port'}}]", "no usable server address"),
        ("clusters: [{name: c1, cluster: {server: 'http://h', proxy-url: 'socks5://h:1'}}]", "proxy-url of c1"),
        ("users: [{name: me, user: {exec: {args: [x]}}}]", "exec plugin of the user me"),
        ("users: [{name: me, user: {exec: {command: x, env: [five]}}}]", "exec plugin of the user me"),
        ("users: [{name: me, user: {auth-provider: {name: gcp}}}]", "auth-provider"),
        ("users: []", "no user 'me'"),
        ("when: 2026-99-99", "is not YAML"),
    ],
)
def test_a_wrong_entry_is_one_sentence_that_names_the_file(tmp_path: Path, line: str, said: str) -> None:
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    key = line.partition(":")[0]
    kept = yaml.safe_load(path.read_text())
    kept.pop(key, None)
    path.write_text(yaml.safe_dump(kept) + line + "\n")
    with pytest.raises(ConfigError, match=said) as caught:
        load_context(ClusterTarget(kubeconfig=path))
    assert str(path) in caught.value.message


def test_the_first_file_that_names_a_thing_wins(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = write_kubeconfig(tmp_path / "a", "http://first")
    second = write_kubeconfig(tmp_path / "b", "http://second")
    environment = {"KUBECONFIG": f"{tmp_path / 'none'}:{first}:{second}"}
    assert load_context(ClusterTarget(), environment).server == "http://first"


def test_an_empty_file_among_several_is_passed_over(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    real = write_kubeconfig(tmp_path, "https://a.example")
    assert load_context(ClusterTarget(), {"KUBECONFIG": f"{empty}:{tmp_path}/none:{real}"}).context == "here"
    with pytest.raises(ConfigError, match="does not exist or is empty"):
        load_context(ClusterTarget(), {"KUBECONFIG": str(empty)})


def test_no_kubeconfig_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_context(ClusterTarget(), {"HOME": str(tmp_path)})
    assert "--kubeconfig" in caught.value.hint


async def test_a_certificate_that_is_not_base64_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://127.0.0.1:1", {"client-certificate-data": "*", "client-key-data": "*"})
    with pytest.raises(ConfigError, match="client-certificate-data of here is not base64"):
        await KubeSession.connect(ClusterTarget(kubeconfig=path))


async def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    session = await KubeSession.connect(ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, "http://127.0.0.1:9")))
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:9 \(context here\) cannot be reached"):
        await session.get("/version")
    await session.aclose()


async def test_a_plain_server_behind_https_is_a_sentence_not_a_traceback(tmp_path: Path) -> None:
    async with serving(_echo) as address:
        path = write_kubeconfig(tmp_path, address.replace("http://", "https://"))
        session = await KubeSession.connect(ClusterTarget(kubeconfig=path))
        with pytest.raises((ConfigError, UnreachableError), match=r"https://127\.0\.0\.1"):
            await session.get("/version")
        await session.aclose()


async def test_a_token_goes_with_every_request(tmp_path: Path) -> None:
    async with session_to(_echo, tmp_path, user={"token": "abc"}) as session:
        assert (await session.get("/x", {"a": "b c"})) == {"authorization": "Bearer abc", "path": "/x?a=b+c"}


def _plugin(folder: Path, body: str) -> dict[str, object]:
    program = folder / "plugin"
    program.write_text("#!/bin/sh\n" + body)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}


async def test_an_exec_plugin_runs_once_for_many_callers(tmp_path: Path) -> None:
    count = tmp_path / "count"
    user = _plugin(tmp_path, f'echo run >> {count}; sleep 0.1; echo \'{{"status": {{"token": "t1"}}}}\'')
    async with session_to(_echo, tmp_path, user=user) as session:
        answers = await asyncio.gather(*(session.get("/x") for _ in range(10)))
    assert {answer["authorization"] for answer in answers} == {"Bearer t1"}
    assert count.read_text().splitlines() == ["run"]


async def test_a_401_renews_the_token_once(tmp_path: Path) -> None:
    count = tmp_path / "count"
    user = _plugin(
        tmp_path, f'echo run >> {count}; echo "{{\\"status\\": {{\\"token\\": \\"t$(wc -l < {count})\\"}}}}"'
    )

    async def old_token_is_refused(request: web.Request) -> web.Response:
        if request.headers["Authorization"].strip() == "Bearer t1":
            return web.json_response({"message": "Unauthorized", "code": 401}, status=401)
        return await _echo(request)

    async with session_to(old_token_is_refused, tmp_path, user=user) as session:
        assert (await session.get("/x"))["authorization"] == "Bearer t2"


async def test_a_401_that_stays_is_an_access_error(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"message": "Unauthorized", "code": 401}, status=401)

    async with session_to(refuse, tmp_path, user={"token": "abc"}) as session:
        with pytest.raises(AccessError, match="of here does not accept our credentials"):
            await session.get("/x")


async def test_a_plugin_that_fails_is_quoted(tmp_path: Path) -> None:
    user = _plugin(tmp_path, "echo 'SSO session expired' >&2; exit 3")
    async with session_to(_echo, tmp_path, user=user) as session:
        with pytest.raises(AccessError, match="SSO session expired"):
            await session.get("/x")


async def test_a_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    user: dict[str, object] = {"exec": {"command": "no-such-plugin-here", "installHint": "Get it."}}
    async with session_to(_echo, tmp_path, user=user) as session:
        with pytest.raises(ConfigError, match="no-such-plugin-here") as caught:
            await session.get("/x")
        assert caught.value.hint == "Get it."


class _Fixed:
    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


async def test_a_known_plugin_is_replaced_by_a_source_in_process(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def factory(argv: Sequence[str]) -> TokenSource | None:
        asked.append(tuple(argv))
        return _Fixed("in-process")

    user: dict[str, object] = {
        "exec": {
            "command": "aws",
            "args": ["eks", "get-token", "--cluster-name", "x"],
            "env": [{"name": "AWS_PROFILE", "value": "night"}],
        }
    }
    async with serving(_echo) as address:
        target = ClusterTarget(kubeconfig=write_kubeconfig(tmp_path, address, user))
        session = await KubeSession.connect(target, token_factory=factory)
        assert (await session.get("/x"))["authorization"] == "Bearer in-process"
        await session.aclose()
    assert asked == [("aws", "eks", "get-token", "--cluster-name", "x", "--profile", "night")]


async def test_read_only_sends_nothing_that_changes(tmp_path: Path) -> None:
    sent: list[str] = []

    async def note(request: web.Request) -> web.Response:
        sent.append(request.method)
        return web.json_response({})

    async with session_to(note, tmp_path, readonly=True) as session:
        await session.get("/api")
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(RefusedError, match="read-only"):
                await session.request(method, "/api/v1/namespaces/x/pods/y")
        with pytest.raises(RefusedError, match="read-only"):
            async with session.websocket("/api/v1/namespaces/x/pods/y/exec"):
                pass
    assert sent == ["GET"]


@pytest.mark.parametrize(
    ("argv", "further", "is_sent"),
    [
        (NVIDIA_COMMAND, (), True),
        (NEURON_COMMAND, (), True),
        (NVIDIA_COMMAND, (("stdin", "true"),), False),
        (NVIDIA_COMMAND, (("tty", "true"),), False),
        (("nvidia-smi", "-r"), (), False),
        ((*NVIDIA_COMMAND, "x"), (), False),
        (NVIDIA_COMMAND[:2], (), False),
        ((), (), False),
    ],
)
async def test_a_read_only_session_has_exactly_the_commands_carried_out_that_read_devices(
    tmp_path: Path, argv: tuple[str, ...], further: tuple[tuple[str, str], ...], is_sent: bool
) -> None:
    sent = list[str]()

    async def note(request: web.Request) -> web.WebSocketResponse:
        sent.append(request.path)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        return socket

    query = [("container", "x"), ("stdout", "true"), ("stderr", "true"), *further, *(("command", one) for one in argv)]
    async with session_to(note, tmp_path, readonly=True) as session:
        for what in ("attach", "portforward", "exec"):
            with suppress(RefusedError):
                async with session.websocket(f"/api/v1/namespaces/x/pods/y/{what}", query=query):
                    pass
    assert sent == ["/api/v1/namespaces/x/pods/y/exec"] * is_sent


def test_no_other_command_is_called_a_reading_one() -> None:
    sources = Path(session.__file__).parents[3].glob("*/**/*.py")
    named = [line for path in sources if path.parts[-4:-3] != ("tests",) for line in _reading_commands_in(path)]
    assert named == ["NVIDIA_COMMAND", "NEURON_COMMAND"]


def _reading_commands_in(path: Path) -> list[str]:
    lines = path.read_text(errors="replace").splitlines() if "tests" not in path.parts else []
    return [line.partition(" =")[0] for line in lines if " reading_command(" in line and not line.startswith("def ")]


def test_a_region_is_that_of_the_arn_or_of_the_address() -> None:
    def region_of(context: str, server: str = "https://10.0.0.1") -> str:
        chosen = ChosenContext("config", context, context, server, "default")
        return KubeSession(chosen, cast(Any, None), cast(Any, None), readonly=True).region

    assert region_of("arn:aws:eks:eu-west-1:111122223333:cluster/train") == "eu-west-1"
    assert region_of("arn:aws-us-gov:eks:us-gov-west-1:111122223333:cluster/train") == "us-gov-west-1"
    assert region_of("train", "https://4F2A77.gr7.us-east-2.eks.amazonaws.com") == "us-east-2"
    assert region_of("kind-train") == ""


async def test_refusals_carry_the_status(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.Response:
        code = int(request.path[1:])
        body = {"kind": "Status", "code": code, "message": "because", "reason": "Why"}
        return web.json_response(body, status=code, headers={"Retry-After": "7"})

    async with session_to(refuse, tmp_path) as session:
        with pytest.raises(MissingError, match="because"):
            await session.get("/404")
        with pytest.raises(ApiConflictError) as conflict:
            await session.get("/409")
        assert conflict.value.status.reason == "Why"
        with pytest.raises(ApiUnavailableError, match="429") as throttled:
            await session.get("/429")
        assert throttled.value.status.retry_after_seconds == 7.0
        with pytest.raises(RefusedError):
            await session.get("/422")
        with pytest.raises(AccessError, match="Not allowed"):
            await session.get("/403")


async def test_html_from_a_proxy_becomes_one_line(tmp_path: Path) -> None:
    async def proxy(request: web.Request) -> web.Response:
        return web.Response(status=502, text="<html>\n<h1>Bad\x1b[31m Gateway</h1></html>", content_type="text/html")

    async with session_to(proxy, tmp_path) as session:
        with pytest.raises(UnreachableError, match="502: <html> <h1>Bad Gateway</h1></html>"):
            await session.get("/x")


@virtually
async def test_a_silent_stream_is_noticed(tmp_path: Path) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one")
        await asyncio.Event().wait()
        return response

    async with session_to(silent, tmp_path) as session:
        got: list[bytes] = []

        async def read() -> None:
            async with session.stream("/x", idle_seconds=0.2) as stream:
                async for chunk in stream:
                    got.append(chunk)

        with pytest.raises(SilenceError):
            await read()
        assert got == [b"one"]


async def test_an_error_inside_a_stream_is_not_taken_for_a_login_problem(tmp_path: Path) -> None:
    opened = 0

    async def one_line(request: web.Request) -> web.Response:
        nonlocal opened
        opened += 1
        return web.Response(text="x\n")

    async with session_to(one_line, tmp_path) as session:
        with pytest.raises(AccessError):
            async with session.stream("/x"):
                raise AccessError("mine")
    assert opened == 1


async def test_the_identity_is_read_from_the_cluster(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        answers: dict[str, object] = {
            "/version": {"gitVersion": "v1.32.3-eks"},
            "/api/v1/namespaces/kube-system": {"metadata": {"uid": "u-1"}},
            "/api/v1/nodes": {"items": [{"metadata": {"labels": {"topology.kubernetes.io/region": "us-west-2"}}}]},
        }
        return web.json_response(answers[request.path])

    async with session_to(answer, tmp_path) as session:
        identity = await session.identity()
    assert (identity.uid.partition(" ")[0], identity.version, identity.region) == ("u-1", "v1.32.3-eks", "us-west-2")


async def test_of_a_cluster_whose_objects_are_odd_little_is_known(tmp_path: Path) -> None:
    async def odd(request: web.Request) -> web.Response:
        if request.path == "/api/v1/nodes":
            return web.json_response({"items": [None]})
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.31.0"})
        return web.json_response({"message": "not found", "code": 404}, status=404)

    async with session_to(odd, tmp_path) as session:
        identity = await session.identity()
    assert (identity.version, identity.uid, identity.region) == ("v1.31.0", "", "")


async def test_the_time_of_the_newest_answer_is_the_servers(tmp_path: Path) -> None:
    dates = iter(["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT", "yesterday"])

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, headers={"Date": next(dates)})

    async with session_to(answer, tmp_path) as session:
        assert session.answered_at is None
        seen: list[float | None] = []
        for _ in range(3):
            await session.get("/version")
            seen.append(session.answered_at)
    assert seen == [784111777.0, 784111837.0, None]
