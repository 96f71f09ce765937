"""The edge at which requests to a cluster are captured: a transport around the one that sends them.

Objects are requested in JSON, not protobuf: that is what can be redacted, read by others, and answered from again.
Nothing is kept of the headers. Secrets, tokens and whatever changes something are noted by method and path alone, and
so are shells: only programs without a terminal, which the console itself runs, are kept with their output.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from actions.base.errors import ConsoleError
from actions.capture.entries import PART_BYTES, Answered, AnswerEnded, AnswerPart, AnyEntry, Asked, Connected, ended_by
from actions.capture.redaction import redacted_document, redacted_documents, redacted_lines, redacted_text
from actions.capture.writer import CaptureWriter
from actions.cluster.auth.session import REVIEWS
from actions.cluster.http.transport import AnyTransport, ByteStream

if TYPE_CHECKING:
    import aiohttp

    from actions.cluster.auth.kubeconfig import ChosenContext

_PROBE = "/livez"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_WITHHELD = re.compile(r"/(?:secrets|configmaps/[^/]*(?:token|secret|credential)[^/]*)(?:/|\Z)|/token\Z")
_LOG = re.compile(r"/log\Z")
Redact = Callable[[bytes], bytes]


def captured(writer: CaptureWriter) -> Callable[[AnyTransport, ChosenContext], AnyTransport]:
    """Return what `KubeSession.connect` takes as `through`: every session's transport is captured."""

    def wrapped(inner: AnyTransport, chosen: ChosenContext) -> AnyTransport:
        session = writer.next_id()
        writer.put(
            Connected(
                at=writer.at,
                session=session,
                context=chosen.context,
                cluster=chosen.cluster,
                server=chosen.server,
                namespace=chosen.namespace,
            )
        )
        return CapturingTransport(inner, writer, session)

    return wrapped


class CapturingTransport:
    """A transport that keeps every answer of another one. Used on the session's loop.

    Args:
        inner: The one that sends.
        writer: The capture.
        session: The session's number in it.
    """

    def __init__(self, inner: AnyTransport, writer: CaptureWriter, session: int) -> None:
        self._inner = inner
        self._writer = writer
        self._session = session

    @property
    def answered_at(self) -> float | None:
        """See `AnyTransport.answered_at`."""
        return self._inner.answered_at

    async def close(self) -> None:
        """End every connection."""
        await self._inner.close()

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_seconds: float
    ) -> bytes:
        """See `Transport.call`."""
        path, _, _ = url.partition("?")
        headers = _without_protobuf(headers)
        if path == _PROBE:
            return await self._inner.call(method, url, headers=headers, body=body, deadline_seconds=deadline_seconds)
        acts = method not in {"GET", "HEAD"} and path != REVIEWS
        number = self._ask("act" if acts else "call", method, url, headers, b"" if acts else body)
        is_kept = not acts and not _WITHHELD.search(path)
        with _Outcome(self._writer, number) as outcome:
            answer = await self._inner.call(method, url, headers=headers, body=body, deadline_seconds=deadline_seconds)
            if is_kept:
                redact = redacted_lines if _LOG.search(path) else redacted_document
                self._keep(number, answer, redact)
            elif not acts:
                outcome.error = "withheld"
            return answer

    @asynccontextmanager
    async def stream(self, url: str, *, headers: Mapping[str, str], idle_seconds: float) -> AsyncIterator[ByteStream]:
        """See `Transport.stream`."""
        path, _, _ = url.partition("?")
        headers = _without_protobuf(headers)
        number = self._ask("stream", "GET", url, headers, None)
        is_kept = not _WITHHELD.search(path)
        with _Outcome(self._writer, number) as outcome:
            outcome.error = "" if is_kept else "withheld"
            async with self._inner.stream(url, headers=headers, idle_seconds=idle_seconds) as stream:
                if not is_kept:
                    yield stream
                    return
                self._writer.put(Answered(id=number, at=self._writer.at, content_type=stream.content_type))
                lines = _KeptLines(number, redacted_lines if _LOG.search(path) else redacted_documents)
                outcome.lines = lines
                yield _CapturedStream(stream, self._writer, lines)

    @asynccontextmanager
    async def websocket(
        self, url: str, *, headers: Mapping[str, str], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """See `Transport.websocket`."""
        path, _, query = url.partition("?")
        runs_program = path.endswith("/exec") and ("tty", "true") not in parse_qsl(query)
        number = self._ask("exec" if runs_program else "act", "GET", url, headers, None)
        with _Outcome(self._writer, number):
            async with self._inner.websocket(url, headers=headers, protocols=protocols) as socket:
                if not runs_program:
                    yield socket
                    return
                self._writer.put(Answered(id=number, at=self._writer.at, content_type=socket.protocol or ""))
                yield cast("aiohttp.ClientWebSocketResponse", _CapturedSocket(socket, self._writer, number))

    def _ask(self, form: str, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> int:
        number = self._writer.next_id()
        path, _, query = url.partition("?")
        pairs = () if form == "act" else tuple((name, redacted_text(value)) for name, value in parse_qsl(query))
        digest = hashlib.sha256(body).hexdigest()[:16] if body else ""
        accept = headers.get("Accept", "")
        self._writer.put(
            Asked(
                at=self._writer.at,
                id=number,
                session=self._session,
                form=form,
                method=method,
                path=path,
                query=pairs,
                accept=accept,
                digest=digest,
            )
        )
        return number

    def _keep(self, number: int, answer: bytes, redact: Redact) -> None:
        at = self._writer.at

        def work() -> Iterable[AnyEntry]:
            yield Answered(id=number, at=at)
            yield from parts_of(number, at, redact(answer))

        self._writer.put_work(work, len(answer))


def parts_of(number: int, at: float, data: bytes) -> Iterable[AnswerPart]:
    """Return the parts of a body."""
    for begin in range(0, len(data), PART_BYTES):
        yield AnswerPart(id=number, at=at, data=data[begin : begin + PART_BYTES])


def _without_protobuf(headers: Mapping[str, str]) -> dict[str, str]:
    if _PROTOBUF not in headers.get("Accept", ""):
        return dict(headers)
    return {**headers, "Accept": "application/json"}


class _KeptLines:
    """The lines of one stream, on the writer's thread: a secret must not be cut in two."""

    def __init__(self, number: int, redact: Redact) -> None:
        self._number = number
        self._redact = redact
        self._begun: list[bytes] = []

    def take(self, at: float, chunk: bytes) -> Iterable[AnswerPart]:
        """Return the lines that are complete by now, without secrets."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._begun.append(chunk)
            return ()
        lines = b"".join((*self._begun, chunk[:end]))
        self._begun = [chunk[end:]] if end < len(chunk) else []
        return parts_of(self._number, at, self._redact(lines))

    def rest(self, at: float) -> Iterable[AnswerPart]:
        """Return the last line, which did not end."""
        left, self._begun = b"".join(self._begun), []
        return parts_of(self._number, at, self._redact(left))


class _Outcome:
    """Notes the end of an answer, however it ends."""

    def __init__(self, writer: CaptureWriter, number: int) -> None:
        self.error = ""
        self.lines: _KeptLines | None = None
        self._writer = writer
        self._number = number

    def __enter__(self) -> _Outcome:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        at, number, lines = self._writer.at, self._number, self.lines
        if isinstance(error, ConsoleError):
            ended = ended_by(error, id=number, at=at, clean={"message": redacted_text(error.message)})
        else:
            ended = AnswerEnded(id=number, at=at, error=self.error or ("cut" if error is not None else ""))
        if lines is not None:
            self._writer.put_work(lambda: lines.rest(at), 0)
        self._writer.put(ended)


class _CapturedStream:
    """A stream whose chunks are kept as they are read."""

    def __init__(self, inner: ByteStream, writer: CaptureWriter, lines: _KeptLines) -> None:
        self.content_type = inner.content_type
        self._inner = inner
        self._writer = writer
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Chunks, cut anywhere; see `ByteStream`."""
        async for chunk in self._inner:
            self._put(chunk)
            yield chunk

    def _put(self, chunk: bytes) -> None:
        at = self._writer.at
        self._writer.put_work(lambda: self._lines.take(at, chunk), len(chunk))


class _CapturedSocket:
    """The websocket of a program whose messages are kept as they are received; what is sent to it is not."""

    def __init__(self, inner: Any, writer: CaptureWriter, number: int) -> None:
        self.protocol = inner.protocol
        self._inner = inner
        self._writer = writer
        self._number = number

    async def receive(self) -> Any:
        """Return the next message."""
        message = await self._inner.receive()
        data = message.data
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, bytes) and data:
            self._put(data)
        return message

    async def send_bytes(self, data: bytes) -> None:
        """Send a message."""
        await self._inner.send_bytes(data)

    def _put(self, data: bytes) -> None:
        at, number = self._writer.at, self._number
        self._writer.put_work(lambda: parts_of(number, at, data[:1] + redacted_lines(data[1:])), len(data))
