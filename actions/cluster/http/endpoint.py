"""The address of an API server with the way to it, and the errors of a connection to it."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import msgspec

from actions.base.errors import ConfigError, UnreachableError
from actions.base.untrusted import one_line

CONNECT_SECONDS = 10.0
"""To make a connection, and to read the body of a refusal."""
CHECK_ADDRESS = "Check the network, VPN and the address in the kubeconfig."
_LONGEST_REASON = 160


class UntrustedError(ConfigError):
    """A TLS connection cannot be made: the kubeconfig is wrong, or a login portal stands in between."""


class Endpoint(msgspec.Struct, frozen=True):
    """The address of an API server and the way to it. `server_name` and `proxy` are empty for the usual way."""

    server: str
    context: str
    server_name: str
    proxy: str
    tls: ssl.SSLContext | None
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request, besides its own; a name may occur several times."""


def tls_error(endpoint: Endpoint, reason: object) -> UntrustedError:
    """Return the error for a TLS connection that cannot be made."""
    reason_text = one_line(str(reason), limit=_LONGEST_REASON)
    return UntrustedError(
        f"The TLS connection to {endpoint.server} (context {endpoint.context}) fails: {reason_text}.",
        hint="Check certificate-authority and the client certificate in the kubeconfig.",
    )


def connect_error(endpoint: Endpoint, error: OSError) -> UnreachableError:
    """Return the error for a connection that cannot be made."""
    reason = one_line(error.strerror or str(error), limit=_LONGEST_REASON)
    return UnreachableError(
        f"{endpoint.server} (context {endpoint.context}) cannot be reached: {reason}.", hint=CHECK_ADDRESS
    )


def proxy_error(endpoint: Endpoint, reason: object) -> UnreachableError:
    """Return the error for a proxy that is absent or refuses; its user and password are left out of it."""
    proxy = urlsplit(endpoint.proxy)
    reason_text = one_line(str(reason), limit=_LONGEST_REASON)
    return UnreachableError(
        f"The proxy {proxy.scheme}://{proxy.netloc.rpartition('@')[2]} does not connect"
        f" to {endpoint.server} (context {endpoint.context}): {reason_text}.",
        hint="Check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY.",
    )


def connection_lost_error(endpoint: Endpoint, error: BaseException) -> UnreachableError:
    """Return the error for a connection that was made and broke."""
    reason = one_line(str(error) or type(error).__name__).rstrip(".")
    return UnreachableError(f"The connection to {endpoint.server} broke: {reason}.")
