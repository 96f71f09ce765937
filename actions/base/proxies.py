"""The proxy that the environment names for an address, by the rules of Go's HTTP client, and so of kubectl.

They differ from Python's: addresses of this machine never go through a proxy, and `NO_PROXY` may hold networks.

Source: golang.org/x/net `http/httpproxy/proxy.go`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from actions.base.errors import ConfigError

_STANDARD_PORTS = {"https": 443, "http": 80}
_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_OWN_NAMES = ("localhost", "127.0.0.1", "::1")


def proxy_for(address: str, environment: Mapping[str, str]) -> str:
    """The URL of the proxy by which to reach an http or https address; empty for the direct way.

    Raises:
        ConfigError: The variable names no http or https proxy.
    """
    target = urlsplit(address)
    name, proxy = _first(environment, (f"{target.scheme.upper()}_PROXY", f"{target.scheme}_proxy"))
    host = (target.hostname or "").rstrip(".")
    if not proxy or _is_own(host):
        return ""
    _, exceptions = _first(environment, _EXCEPTIONS)
    port = target.port or _STANDARD_PORTS[target.scheme]
    if any(_matches(one.strip().lower(), host, port) for one in exceptions.split(",") if one.strip()):
        return ""
    written = proxy if "://" in proxy else f"http://{proxy}"
    if not is_web_address(written):
        raise ConfigError(f"${name} is not a proxy that can be used.", hint="Use an http or https proxy.")
    return written


def is_web_address(text: str) -> bool:
    """Return whether this is an http or https URL with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in _STANDARD_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables for child processes and libraries, so that they too reach this machine without a proxy."""
    _, exceptions = _first(environment, _EXCEPTIONS)
    return dict.fromkeys(_EXCEPTIONS, ",".join(filter(None, (exceptions, *_OWN_NAMES))))


def _first(environment: Mapping[str, str], names: tuple[str, str]) -> tuple[str, str]:
    return next(((name, environment[name]) for name in names if environment.get(name)), (names[0], ""))


def _is_own(host: str) -> bool:
    literal = _literal(host)
    return host == "localhost" or (literal is not None and literal.is_loopback)


def _matches(exception: str, host: str, port: int) -> bool:
    """Return whether an entry of `NO_PROXY` covers the host: `*`, a network, address or domain, maybe with a port."""
    if exception == "*":
        return True
    literal = _literal(host)
    if "/" in exception:
        return literal is not None and _is_within(literal, exception)
    name, wanted_port = _host_and_port(exception)
    if wanted_port and wanted_port != str(port):
        return False
    if literal is not None:
        return literal == _literal(name)
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_within(literal: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return literal in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _host_and_port(text: str) -> tuple[str, str]:
    """An address of version 6 has brackets where it has a port."""
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        return name, rest.removeprefix(":")
    name, colon, port = text.rpartition(":")
    return (name, port) if colon and ":" not in name else (text, "")
