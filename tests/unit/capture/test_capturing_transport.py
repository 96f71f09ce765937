"""The edge at which requests are captured: what is kept of them, and what never is."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from actions.base.errors import UnreachableError
from actions.capture.entries import AnswerEnded, AnswerPart, AnyEntry, Asked, Connected
from actions.capture.reader import CaptureReader
from actions.capture.transport import captured
from actions.capture.writer import CaptureWriter
from actions.cluster.auth.kubeconfig import ChosenContext
from actions.cluster.auth.session import REVIEWS
from actions.cluster.http.errors import ApiMissingError, ApiStatus
from actions.cluster.http.transport import AnyTransport
from tests.support.captures import MovedClock

BEARER = "Bearer k8s-aws-v1.aHR0cHM6Ly9zdHMuYW1hem9uYXdz"
SECRET = "AKIAIOSFODNN7EXAMPLE"
HEADERS = {"Accept": "application/vnd.kubernetes.protobuf,application/json", "Authorization": BEARER}
CHOSEN = ChosenContext("file", "context", "cluster", "https://server", "default", token=BEARER)


class _Chunks:
    def __init__(self, chunks: Sequence[bytes | BaseException]) -> None:
        self.content_type = "application/json"
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk


class _Message:
    def __init__(self, data: bytes | str) -> None:
        self.data = data


class _Socket:
    protocol = "v5.channel.k8s.io"

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._messages = list(messages)
        self.sent: list[bytes] = []

    async def receive(self) -> _Message:
        return _Message(self._messages.pop(0))

    async def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)


class FakeTransport:
    """Answers as it is told."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.headers: list[Mapping[str, str]] = []

    async def close(self) -> None:
        return

    async def call(self, method: str, url: str, *, headers: Mapping[str, str], **_: object) -> bytes:
        self.headers.append(headers)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return cast(bytes, answer)

    @asynccontextmanager
    async def stream(self, url: str, *, headers: Mapping[str, str], idle_seconds: float) -> AsyncIterator[_Chunks]:
        self.headers.append(headers)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        yield _Chunks(cast(Any, answer))

    @asynccontextmanager
    async def websocket(self, url: str, *, headers: Mapping[str, str], protocols: object) -> AsyncIterator[_Socket]:
        yield _Socket(cast(Any, self.answers.pop(0)))


class Session:
    """A capture of what one transport answers."""

    def __init__(self, folder: Path, *answers: object) -> None:
        self.inner = FakeTransport(*answers)
        self.file = folder / "a.capture"
        self.writer = CaptureWriter(self.file, clock=MovedClock())
        self.transport = captured(self.writer)(cast(AnyTransport, self.inner), CHOSEN)

    async def call(self, method: str, url: str, body: bytes | None = None) -> bytes:
        return await self.transport.call(method, url, headers=HEADERS, body=body, deadline_seconds=1)

    def kept(self) -> list[AnyEntry]:
        """The records, after the end; with no token anywhere in the bytes."""
        self.writer.close()
        data = gzip.decompress(self.file.read_bytes())
        assert BEARER.removeprefix("Bearer ").encode() not in data
        assert SECRET.encode() not in data
        return list(CaptureReader(self.file).entries())

    def parts(self) -> bytes:
        return b"".join(record.data for record in self.kept() if isinstance(record, AnswerPart))


def ended(records: list[AnyEntry]) -> list[AnswerEnded]:
    return [record for record in records if isinstance(record, AnswerEnded)]


async def test_an_answer_is_kept_and_nothing_of_the_headers(tmp_path: Path) -> None:
    session = Session(tmp_path, json.dumps({"a": f"key {SECRET}"}).encode())
    assert SECRET.encode() in await session.call("GET", "/api/v1/pods?limit=5&labelSelector=a%3Db")
    assert session.inner.headers[0]["Accept"] == "application/json"
    assert session.inner.headers[0]["Authorization"] == BEARER
    records = session.kept()
    assert isinstance(records[1], Connected)
    asked = records[2]
    assert isinstance(asked, Asked)
    assert (asked.method, asked.path, asked.query) == (
        "GET", "/api/v1/pods", (("limit", "5"), ("labelSelector", "a=b")),
    )  # fmt: skip
    assert json.loads(next(r.data for r in records if isinstance(r, AnswerPart))) == {"a": "key «redacted»"}
    assert ended(records)[0].error == ""


async def test_a_secret_that_comes_in_two_chunks_is_found(tmp_path: Path) -> None:
    line = b'{"type":"ADDED","object":{"x":"' + SECRET.encode() + b'"}}\n'
    session = Session(tmp_path, [line[:40], line[40:] + b'{"half', b'":1}'])
    async with session.transport.stream("/api/v1/pods?watch=true", headers=HEADERS, idle_seconds=1) as stream:
        assert b"".join([chunk async for chunk in stream]) == line + b'{"half":1}'
    assert session.parts() == b'{"type":"ADDED","object":{"x":"\xc2\xabredacted\xc2\xbb"}}\n{"half":1}'


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/secrets",
        "/api/v1/namespaces/a/secrets/b",
        "/api/v1/namespaces/a/serviceaccounts/b/token",
        "/api/v1/namespaces/a/configmaps/my-token-x",
    ],
)
async def test_secrets_are_withheld(path: str, tmp_path: Path) -> None:
    session = Session(tmp_path, b'{"data":{"x":"aGVsbG8="}}', [b'{"data":"aGVsbG8="}\n'])
    await session.call("GET", path)
    async with session.transport.stream(path, headers=HEADERS, idle_seconds=1) as stream:
        assert [chunk async for chunk in stream]
    records = session.kept()
    assert not [record for record in records if isinstance(record, AnswerPart)]
    assert [one.error for one in ended(records)] == ["withheld", "withheld"]


async def test_of_a_change_only_method_and_path_are_kept(tmp_path: Path) -> None:
    session = Session(tmp_path, b'{"kind":"Status"}')
    await session.call("DELETE", "/api/v1/namespaces/a/pods/b?x=y", b'{"secret":"in the body"}')
    records = session.kept()
    asked = next(record for record in records if isinstance(record, Asked))
    assert (asked.form, asked.method, asked.path, asked.query, asked.digest) == (
        "act", "DELETE", "/api/v1/namespaces/a/pods/b", (), "",
    )  # fmt: skip
    assert not [record for record in records if isinstance(record, AnswerPart)]


async def test_a_review_is_kept_although_it_is_a_post(tmp_path: Path) -> None:
    session = Session(tmp_path, b'{"status":{"allowed":true}}')
    await session.call("POST", REVIEWS, b"{}")
    assert session.parts() == b'{"status":{"allowed":true}}'


async def test_failures_are_kept_and_raised(tmp_path: Path) -> None:
    missing = ApiMissingError("no such thing (GET /x).", status=ApiStatus(404, "NotFound", "no such thing"))
    lost = UnreachableError(f"The connection broke near {SECRET}.")
    session = Session(tmp_path, missing, [b"a\n", lost], asyncio.CancelledError())
    with pytest.raises(ApiMissingError):
        await session.call("GET", "/x")

    async def read() -> None:
        async with session.transport.stream("/y", headers=HEADERS, idle_seconds=1) as stream:
            async for _ in stream:
                pass

    with pytest.raises(UnreachableError):
        await read()
    with pytest.raises(asyncio.CancelledError):
        await session.call("GET", "/z")
    first, second, third = ended(session.kept())
    assert (first.error, first.code, first.reason) == ("api", 404, "NotFound")
    assert (second.error, second.message) == ("unreachable", "The connection broke near «redacted».")
    assert third.error == "cut"


async def test_the_output_of_a_program_is_kept_and_a_shell_is_not(tmp_path: Path) -> None:
    session = Session(tmp_path, [b"\x01GPU 0 " + SECRET.encode()], [b"\x01my shell"])
    for tty in ("false", "true"):
        url = f"/api/v1/namespaces/a/pods/b/exec?container=c&tty={tty}&command=nvidia-smi"
        async with session.transport.websocket(url, headers=HEADERS, protocols=()) as socket:
            await socket.receive()
            await socket.send_bytes(b"\x00typed password")
    records = session.kept()
    assert [record.data for record in records if isinstance(record, AnswerPart)] == ["\x01GPU 0 «redacted»".encode()]
    asked = [record for record in records if isinstance(record, Asked)]
    assert [one.form for one in asked] == ["exec", "act"]
    assert asked[1].query == ()


async def test_probes_are_not_kept(tmp_path: Path) -> None:
    session = Session(tmp_path, b"ok")
    await session.call("GET", "/livez")
    assert not [record for record in session.kept() if isinstance(record, Asked)]


async def test_a_capture_that_has_stopped_costs_the_console_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path, b"1", b"2")
    stop: Callable[[str], None] = session.writer._stop
    stop("it is full")
    assert await session.call("GET", "/a") == b"1"
    assert await session.call("GET", "/b") == b"2"
