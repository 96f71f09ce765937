"""One HTTP/1.1 response out of bytes that are cut anywhere, by llhttp."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from httptools import HttpParserError, HttpResponseParser

from actions.base.errors import FormatError
from actions.cluster.limits import HEAD_BYTES, INFORMATIONAL_ANSWERS

_INFORMATIONAL = range(100, 200)


class ResponseHead(msgspec.Struct, frozen=True):
    """What comes before the body. Names of headers are written `Like-This`; of equal ones the last counts."""

    status: int
    headers: Mapping[str, str]

    @property
    def content_type(self) -> str:
        """Without its parameters, in small letters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class HttpResponse:
    """Takes bytes as they arrive and gives the body out of them. For one response of a connection not used again.

    `head` is there once it has come whole; `is_complete` tells whether the body has.
    """

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.is_complete = False
        self._parser = HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._bare_bytes = 0
        self._informational = 0
        self._body: list[bytes] = []

    @property
    def may_end(self) -> bool:
        """Whether the connection may end here without a loss: a body of unknown length lasts as long as it does."""
        return self.is_complete or (self.head is not None and not _has_length(self.head))

    def feed(self, data: bytes | memoryview) -> None:
        """Take what arrived; nothing of `data` itself is kept.

        Raises:
            FormatError: It is no HTTP.
        """
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            raise FormatError(f"What answers does not speak HTTP: {error}.") from error
        if self._informational > INFORMATIONAL_ANSWERS:
            raise FormatError("The answer does not begin: one answer after the other only says that it will.")
        self._bare_bytes = 0 if self._body else self._bare_bytes + len(data)
        if self._bare_bytes > HEAD_BYTES:
            where = "The answer's head" if self.head is None else "What is said between the parts of the answer"
            raise FormatError(f"{where} does not end.")

    def take(self) -> bytes:
        """The part of the body that has come since this was last called; empty if there is none."""
        body = b"".join(self._body)
        self._body.clear()
        return body

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser, for trailers too."""
        self._headers[name.decode("latin-1").title()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Called by the parser, for informational answers too, which come before the one that was asked for."""
        status = self._parser.get_status_code()
        if status in _INFORMATIONAL:
            self._informational += 1
        else:
            self.head = ResponseHead(status, self._headers)
        self._headers = {}

    def on_body(self, body: bytes) -> None:
        """Called by the parser for each chunk that has come, or its part."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self.is_complete = self.head is not None


def _has_length(head: ResponseHead) -> bool:
    return "Content-Length" in head.headers or head.headers.get("Transfer-Encoding", "").lower() == "chunked"
