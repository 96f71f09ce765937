"""The gate before a forwarded port: HTTP requests need the session's token.

Any page in a browser can make it send requests to a port of its own machine, and a name that resolves to 127.0.0.1
(DNS rebinding) makes the answers readable. So every HTTP request must name this port as its host, must not come from a
page of another origin, and must have the token: in a cookie, which the address with `?token=` sets, or as
`Authorization: Bearer`. Other protocols pass unchanged.

Source: Jupyter Server `auth/identity.py` and `serverapp.py` (`allow_origin`, `local_hostnames`); RFC 6265, of which
cookies know no port; RFC 9112.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import AsyncIterator
from enum import Enum

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

_NAMES = ("127.0.0.1", "localhost")
_LONGEST_HEAD = 1 << 16
_BEGINS_LIKE_HTTP = re.compile(rb"(?:\r\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]+(?: [^\x00-\x20\x7f]*(?: [HTP/.0-9]*\r?)?)?")
_REQUEST_LINE = re.compile(rb"(?:\r\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^\x00-\x20\x7f]+ HTTP/[01]\.[0-9]\r?")
_SWITCHED = b"HTTP/1.1 101"
_REASONS = {
    303: "See Other",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    431: "Request Header Fields Too Large",
}
_HELP = "This port leads into a pod. Open it by its address with the token: `:forward` in the console shows it.\n"


class ClientProtocol(Enum):
    """The protocol of a connection, by its first bytes."""

    UNDECIDED = "undecided"
    HTTP = "HTTP"
    OTHER = "other"


def client_protocol(begun: bytes) -> ClientProtocol:
    """Return the protocol of a connection by the first bytes of its client."""
    line, end, _ = begun.lstrip(b"\r\n").partition(b"\n")
    if end:
        return ClientProtocol.HTTP if _REQUEST_LINE.fullmatch(line) else ClientProtocol.OTHER
    if len(begun) < _LONGEST_HEAD and (not line or _BEGINS_LIKE_HTTP.fullmatch(line)):
        return ClientProtocol.UNDECIDED
    return ClientProtocol.OTHER


class GateClosed(Exception):
    """The end of a connection at the gate, with the answer to the client."""

    def __init__(self, answer: bytes) -> None:
        super().__init__("closed at the gate")
        self.answer = answer


class Gate(msgspec.Struct, frozen=True):
    """The rules for passing to one forwarded port.

    Args:
        port: The port on 127.0.0.1 that the client connects to.
        token: The session's token.
    """

    port: int
    token: str

    @property
    def cookie(self) -> str:
        """Return the cookie's name, with the port in it: browsers send cookies to all ports of a host."""
        return f"eksml-forward-{self.port}"

    def knows_host(self, host: str) -> bool:
        """Return whether a `Host` header names this port."""
        return host.lower() in {f"{name}:{self.port}" for name in _NAMES}

    def knows_origin(self, origin: str) -> bool:
        """Return whether an `Origin` header is that of a page that came through this port."""
        return origin.lower() in {f"http://{name}:{self.port}" for name in _NAMES}

    def is_token(self, text: bytes) -> bool:
        """Return whether this is the token."""
        return hmac.compare_digest(text, self.token.encode())


class GatedRequests:
    """The requests of one connection, turned from the client's bytes into those for the pod.

    Each head is written again from its parsed form, so that the pod cannot read it in another way; the token is
    removed. After a request to switch protocols nothing passes until the pod has answered it.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._parser = HttpRequestParser(self)
        self._out: list[bytes] = []
        self._refusal: bytes = b""
        self._head_bytes = 0
        self._is_raw = False
        self._awaited: asyncio.Future[bool] | None = None
        self._answer = b""
        self.on_message_begin()

    async def passing(self, data: bytes) -> AsyncIterator[bytes]:
        """Turn the next bytes of the client into those that the pod gets.

        Raises:
            GateClosed: A request is refused, or is not HTTP.
        """
        while data and not self._is_raw:
            data = self._parsed(data)
            if self._refusal:
                raise GateClosed(self._refusal)
            if self._out:
                yield b"".join(self._out)
                self._out.clear()
            if self._awaited is not None:
                self._is_raw = await self._awaited
                self._awaited, self._answer = None, b""
                self._parser = HttpRequestParser(self)
        if data:
            yield data

    def answered(self, data: bytes) -> None:
        """Read the pod's answer to a request to switch protocols, if there is one pending."""
        if self._awaited is not None and not self._awaited.done():
            self._answer += data[: len(_SWITCHED) - len(self._answer)]
            if len(self._answer) == len(_SWITCHED):
                self._awaited.set_result(self._answer == _SWITCHED)

    def _parsed(self, data: bytes) -> bytes:
        """Parse up to a request to switch protocols; return the bytes after it."""
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._awaited = asyncio.get_running_loop().create_future()
            return data[upgrade.args[0] :]
        except HttpParserError:
            self._refuse(400, "This is not a valid HTTP request.\n")
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _LONGEST_HEAD:
                self._refuse(431, "The request's head does not end.\n")
        return b""

    # callbacks of the parser

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_in_head, self._is_chunked = True, False

    def on_url(self, part: bytes) -> None:
        """Take a part of the target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are left out."""
        if self._is_in_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Judge the request, and write its head for the pod."""
        self._is_in_head, self._head_bytes = False, 0
        self._is_chunked = b"chunked" in b",".join(self._values(b"transfer-encoding")).lower()
        if not self._refusal and self._is_known_place():
            self._admit()

    def on_body(self, data: bytes) -> None:
        """Pass a piece of the body on."""
        self._pass_on(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def on_message_complete(self) -> None:
        """End the body."""
        if self._is_chunked:
            self._pass_on(b"0\r\n\r\n")

    # decisions

    def _is_known_place(self) -> bool:
        hosts, origins = self._texts(b"host"), self._texts(b"origin")
        is_known = len(hosts) == 1 and self._gate.knows_host(hosts[0])
        if not is_known or not all(self._gate.knows_origin(origin) for origin in origins):
            self._refuse(403, f"This port is for pages of http://127.0.0.1:{self._gate.port} only.\n")
        elif not self._target.startswith(b"/") and self._target != b"*":
            self._refuse(400, "This port is not a proxy.\n")
        return not self._refusal

    def _admit(self) -> None:
        target, is_in_address = self._without_token()
        is_page = self._parser.get_method() == b"GET" and b"text/html" in b",".join(self._values(b"accept"))
        if is_in_address and is_page:
            self._set_cookie(target)
            return
        kept = [(name, self._stripped(name, value)) for name, value in self._headers]
        if not is_in_address and [value for _, value in kept] == [value for _, value in self._headers]:
            self._refuse(401, _HELP)
            return
        line = b"%b %b HTTP/%b" % (self._parser.get_method(), target, self._parser.get_http_version().encode())
        lines = [line, *(b"%b: %b" % (name, value) for name, value in kept if value is not None)]
        self._pass_on(b"\r\n".join(lines) + b"\r\n\r\n")

    def _without_token(self) -> tuple[bytes, bool]:
        """Return the target without our token, and whether the token was in it."""
        path, mark, query = self._target.partition(b"?")
        pairs = query.split(b"&")
        kept = [one for one in pairs if not (one.startswith(b"token=") and self._is_token(one[len(b"token=") :]))]
        return (path + mark + b"&".join(kept) if kept else path), len(kept) < len(pairs)

    def _stripped(self, name: bytes, value: bytes) -> bytes | None:
        """Return a header without our token; `None` if nothing is left."""
        match name.lower():
            case b"cookie":
                ours = self._gate.cookie.encode() + b"="
                cookies = [one.strip() for one in value.split(b";")]
                kept = [one for one in cookies if not (one.startswith(ours) and self._is_token(one[len(ours) :]))]
                return value if len(kept) == len(cookies) else b"; ".join(kept) or None
            case b"authorization":
                kind, _, token = value.partition(b" ")
                return None if kind.lower() == b"bearer" and self._is_token(token.strip()) else value
        return value

    def _set_cookie(self, target: bytes) -> None:
        """Redirect the browser to the address without the token, which it keeps as a cookie."""
        place = "/" + target.decode("latin-1").lstrip("/\\")
        cookie = f"{self._gate.cookie}={self._gate.token}; Path=/; HttpOnly; SameSite=Strict"
        self._refuse(303, "", f"Location: {place}", f"Set-Cookie: {cookie}", "Referrer-Policy: no-referrer")

    def _refuse(self, status: int, text: str, *headers: str) -> None:
        lines = (
            f"HTTP/1.1 {status} {_REASONS[status]}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(text)}",
            "Cache-Control: no-store",
            "Connection: close",
            *headers,
        )
        self._refusal = self._refusal or ("\r\n".join(lines) + "\r\n\r\n" + text).encode("latin-1")

    def _pass_on(self, data: bytes) -> None:
        if not self._refusal:
            self._out.append(data)

    def _is_token(self, text: bytes) -> bool:
        return self._gate.is_token(text)

    def _values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self._headers if key.lower() == name]

    def _texts(self, name: bytes) -> list[str]:
        return [value.decode("latin-1") for value in self._values(name)]
