"""One file from the internet: whole, of bounded size, never by a way less safe than that of its address."""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from actions.base.errors import ConfigError, MissingError, RefusedError, UnreachableError
from actions.base.untrusted import one_line

MOST_BYTES = 32 << 20
_CONNECT_SECONDS = 20.0
_SILENT_SECONDS = 60.0
_MOST_REDIRECTS = 5
_PIECE = 1 << 16


async def download(url: str, *, limit_bytes: int = MOST_BYTES, total_seconds: float = 300.0) -> bytes:
    """Fetch a file. Proxies and their exceptions come from the environment (`HTTPS_PROXY`, `NO_PROXY`).

    Raises:
        ConfigError: This is not the address of a file.
        MissingError: The server does not have it.
        RefusedError: It does not give it, leads to a less safe place, or gives too much.
        UnreachableError: No answer, or not all of it.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ConfigError(f"{url!r} is not the address of a file.", hint="Write https://…")
    timeout = aiohttp.ClientTimeout(total=total_seconds, connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
            return await _fetched(session, url, limit_bytes)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        late = f"not done within {total_seconds:.0f} seconds" if isinstance(error, TimeoutError) else ""
        said = one_line(str(error)) or late or type(error).__name__
        raise UnreachableError(
            f"{url} could not be fetched: {said}.", hint="Check the network and HTTPS_PROXY, or give the file by hand."
        ) from error


async def _fetched(session: aiohttp.ClientSession, url: str, limit_bytes: int) -> bytes:
    at = url
    for _ in range(_MOST_REDIRECTS + 1):
        async with session.get(at, allow_redirects=False) as response:
            if response.status in (301, 302, 303, 307, 308) and "Location" in response.headers:
                at = _next(at, str(response.url.join(URL(response.headers["Location"]))))
                continue
            if response.status in (404, 410):
                raise MissingError(f"{at} does not exist (HTTP {response.status}).", hint="Check name and version.")
            if response.status != 200:
                raise RefusedError(f"The server refused {at} (HTTP {response.status}).", hint="Give the file by hand.")
            return await _body(response, limit_bytes)
    raise RefusedError(f"{url} redirects too many times.")


def _next(before: str, after: str) -> str:
    """Return the target of a redirect; refuse one from https to http."""
    if urlsplit(before).scheme == "https" and urlsplit(after).scheme != "https":
        raise RefusedError(f"{before} redirects to {after}, which is not encrypted.", hint="Give the file by hand.")
    return after


async def _body(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_chunked(_PIECE):
        size += len(piece)
        if size > limit_bytes:
            raise RefusedError(f"{response.url} is larger than {limit_bytes >> 20} MiB.", hint="Is it the right file?")
        pieces.append(piece)
    return b"".join(pieces)


async def post(url: str, body: bytes, *, total_seconds: float) -> None:
    """Send JSON to a webhook, as Slack's take it (`{"text": "…"}`). Its address is a secret: no message names it.

    Raises:
        ConfigError: This is not the address of a webhook, or not one by https.
        RefusedError: The server does not take it.
        UnreachableError: No answer in time.
    """
    host = urlsplit(url).hostname
    if not host or (urlsplit(url).scheme != "https" and host not in ("127.0.0.1", "localhost")):
        raise ConfigError("The webhook is not an address by https.", hint="Write https://…")
    timeout = aiohttp.ClientTimeout(total=total_seconds)
    try:
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
            sent = session.post(url, data=body, headers={"Content-Type": "application/json"}, allow_redirects=False)
            async with sent as response:
                status = response.status
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise UnreachableError(f"The webhook at {host} did not answer: {type(error).__name__}.") from error
    if not 200 <= status < 300:
        raise RefusedError(f"The webhook at {host} answered HTTP {status}.")
