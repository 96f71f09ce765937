"""Where an API server is, how it is reached, and the sentences for when it is not."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import msgspec

from actions.base.errors import ConfigError, UnreachableError
from actions.base.untrusted import one_line

CONNECT_SECONDS = 10.0
"""For making a connection, and for reading what a refusal says."""
CHECK_ADDRESS = "Check the network, VPN and the address in the kubeconfig."
_LONGEST_REASON = 160


class UntrustedError(ConfigError):
    """A TLS connection cannot be made. It may be the kubeconfig; it may be a portal in between, until one logs in."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where an API server is and how it is reached. `server_name` and `proxy` are empty for the usual way."""

    server: str
    context: str
    server_name: str
    proxy: str
    tls: ssl.SSLContext | None
    headers: tuple[tuple[str, str], ...] = ()
    """What every request says besides its own; a name may come several times."""


def tls_error(endpoint: Endpoint, reason: object) -> UntrustedError:
    """The sentence for a TLS connection that cannot be made."""
    said = one_line(str(reason), limit=_LONGEST_REASON)
    return UntrustedError(
        f"The TLS connection to {endpoint.server} (context {endpoint.context}) fails: {said}.",
        hint="Check certificate-authority and the client certificate in the kubeconfig.",
    )


def connect_error(endpoint: Endpoint, error: OSError) -> UnreachableError:
    """The sentence for a connection that cannot be made."""
    reason = one_line(error.strerror or str(error), limit=_LONGEST_REASON)
    return UnreachableError(
        f"{endpoint.server} (context {endpoint.context}) cannot be reached: {reason}.", hint=CHECK_ADDRESS
    )


def proxy_error(endpoint: Endpoint, reason: object) -> UnreachableError:
    """The sentence for a proxy that is not there or lets nobody through; its user and password are left out."""
    proxy = urlsplit(endpoint.proxy)
    said = one_line(str(reason), limit=_LONGEST_REASON)
    return UnreachableError(
        f"The proxy {proxy.scheme}://{proxy.netloc.rpartition('@')[2]} leads nowhere"
        f" (to {endpoint.server}, context {endpoint.context}): {said}.",
        hint="Check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY.",
    )


def connection_lost_error(endpoint: Endpoint, error: BaseException) -> UnreachableError:
    """The sentence for a connection that was made and broke."""
    reason = one_line(str(error) or type(error).__name__).rstrip(".")
    return UnreachableError(f"The connection to {endpoint.server} broke: {reason}.")
