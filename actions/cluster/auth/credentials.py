"""The `Authorization` header of a session: found, kept while it is good, renewed by one caller at a time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from actions.base.clock import Clock, parse_rfc3339
from actions.base.decoding import decode_json
from actions.base.errors import AccessError, ConfigError, ConsoleError, ToolError
from actions.base.executors import in_thread
from actions.base.files import read_file
from actions.base.process import run_tool
from actions.cluster.auth.exec_plugins import allowed_command, factory_argv, plugin_missing_error
from actions.cluster.auth.kubeconfig import ChosenContext, ExecPlugin

_PLUGIN_SECONDS = 30.0
_FILE_LIFE = timedelta(minutes=1)
_RENEW_EARLY = timedelta(seconds=60)
_PAUSE_SECONDS = 5.0
"""The pause after a failure, or after new credentials that are refused too: there may be a dozen callers, and each
would start the plugin."""


class TokenSource(Protocol):
    """A maker of bearer tokens in this process, which keeps them as long as they are valid."""

    async def token(self) -> str:
        """Return a token that is valid now, without `Bearer`.

        Raises:
            AccessError: There are no credentials to make one from.
        """
        ...


TokenFactory = Callable[[Sequence[str]], TokenSource | None]
"""Return the token source that replaces the exec plugin with this argument list; `None` if there is none.

Profile and region from the plugin's environment in the kubeconfig are appended as `--profile` and `--region`. Called
again when the server has refused the source's token.
"""


class ClientCertificate(NamedTuple):
    """The certificate and key of a client for the TLS handshake, in PEM."""

    certificate: str
    key: str


class Credential(NamedTuple):
    """The credential from a plugin or file. `token` may be empty if there is a certificate."""

    token: str
    good_until: datetime | None = None
    certificate: ClientCertificate | None = None


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct):
    status: _ExecStatus | None = None


class Credentials:
    """The session's bearer or basic credentials.

    Used from one loop. `header` is empty if the kubeconfig has no credentials but a client certificate.

    Args:
        chosen: The context.
        clock: For the life of tokens.
        token_factory: Makes tokens in process, in place of some exec plugins.
        load_client_certificate: Loads the client certificate of an exec plugin for handshakes from then on.
        is_vouched_for: Whether the plugin may be started without asking: it was allowed when the file was made.
    """

    def __init__(
        self,
        chosen: ChosenContext,
        *,
        clock: Clock,
        token_factory: TokenFactory | None = None,
        load_client_certificate: Callable[[ClientCertificate], None] = lambda _: None,
        is_vouched_for: bool = False,
    ) -> None:
        self._is_vouched_for = is_vouched_for
        self._load_client_certificate = load_client_certificate
        self._chosen = chosen
        self._clock = clock
        self._factory = token_factory
        self._source = self._make_source()
        self._lock = asyncio.Lock()
        self._header = ""
        self._granted: Credential | None = None
        self._failure: ConsoleError | None = None
        self._failed_at = self._refused_at = float("-inf")
        self._fetch = self._fetcher()

    @property
    def can_renew(self) -> bool:
        """Return whether fetching again may give other credentials."""
        return self._fetch is not None

    async def header(self) -> str:
        """Return the value for `Authorization`; empty if there is none.

        Raises:
            AccessError: The plugin or token source failed.
            ConfigError: The plugin is missing, or a token file is.
        """
        if self._fetch is None:
            return self._fixed()
        if self._is_good():
            return self._header
        async with self._lock:
            if not self._is_good():
                await self._renew(self._fetch)
            return self._header

    def refused(self, header: str) -> None:
        """Forget `header`, which the server answered with 401, unless it was renewed meanwhile or a moment ago."""
        now = self._clock.monotonic()
        if header == self._header and now - self._refused_at >= _PAUSE_SECONDS:
            self._refused_at = now
            self._header, self._granted = "", None
            self._source = self._make_source()

    async def _renew(self, fetch: Callable[[], Awaitable[Credential]]) -> None:
        if self._failure is not None and self._clock.monotonic() - self._failed_at < _PAUSE_SECONDS:
            raise self._failure.with_traceback(None)
        try:
            granted = await fetch()
            if granted.certificate is not None:
                self._load_client_certificate(granted.certificate)
            self._header = _bearer(granted.token, of=self._chosen.context) if granted.token else ""
        except ConsoleError as error:
            self._failure, self._failed_at = error, self._clock.monotonic()
            raise
        self._granted, self._failure = granted, None

    def _is_good(self) -> bool:
        granted = self._granted
        return granted is not None and (granted.good_until is None or self._clock.now() < granted.good_until)

    def _fixed(self) -> str:
        if self._chosen.token:
            return _bearer(self._chosen.token, of=self._chosen.context)
        if self._chosen.username:
            pair = f"{self._chosen.username}:{self._chosen.password}".encode()
            return "Basic " + base64.b64encode(pair).decode("ascii")
        return ""

    def _fetcher(self) -> Callable[[], Awaitable[Credential]] | None:
        if self._chosen.token_file:
            return self._from_file
        if self._chosen.plugin is not None:
            return self._from_plugin
        return None

    def _make_source(self) -> TokenSource | None:
        if self._factory is None or self._chosen.plugin is None:
            return None
        argv = factory_argv(self._chosen.plugin)
        return self._factory(argv) if argv else None

    async def _from_file(self) -> Credential:
        return Credential(load_token(Path(self._chosen.token_file)), self._clock.now() + _FILE_LIFE)

    async def _from_plugin(self) -> Credential:
        if self._source is not None:
            return Credential(await self._source.token(), self._clock.now() + _RENEW_EARLY)
        plugin = self._chosen.plugin
        if plugin is None:
            return Credential("")
        return read_exec_credential(await self._run(plugin), argv=plugin.argv)

    async def _run(self, plugin: ExecPlugin) -> bytes:
        spec: dict[str, object] = {"interactive": False}
        if plugin.cluster_info:
            spec["cluster"] = msgspec.Raw(plugin.cluster_info)
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        environment = dict(plugin.environment) | {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        argv = await in_thread("plugin", allowed_command, self._chosen, plugin, is_vouched_for=self._is_vouched_for)
        try:
            return await run_tool(argv, deadline_seconds=_PLUGIN_SECONDS, extra_environment=environment)
        except ToolError as error:
            if error.exit_code == 127:
                raise plugin_missing_error(self._chosen, plugin) from error
            raise AccessError(f"No token for {self._chosen.context}: {error.message}.", hint="Log in again.") from error


def _bearer(token: str, *, of: str) -> str:
    if not token.isascii() or not token.isprintable():
        raise AccessError(f"The token for {of} holds characters that a request cannot carry.", hint="Check its source.")
    return f"Bearer {token}"


def load_token(path: Path) -> str:
    """Read the token in a small local file (a pod's projected service account token).

    Raises:
        ConfigError: It cannot be read, or is empty.
    """
    try:
        token = read_file(path).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token file {path} cannot be read.", hint="Correct tokenFile.") from error
    if not token:
        raise ConfigError(f"The token file {path} is empty.", hint="Correct tokenFile.")
    return token


def read_exec_credential(output: bytes, *, argv: Sequence[str]) -> Credential:
    """Read token or client certificate, and the time to renew it, from an exec plugin's output.

    Raises:
        AccessError: It has neither.
    """
    try:
        status = decode_json(output, _ExecCredential).status or _ExecStatus()
        expiry = parse_rfc3339(status.expiration_timestamp) if status.expiration_timestamp else None
    except (msgspec.DecodeError, ValueError) as error:
        raise AccessError(f"{argv[0]} did not print an ExecCredential.", hint="Run it by hand to see why.") from error
    certificate = None
    if status.client_certificate_data and status.client_key_data:
        certificate = ClientCertificate(status.client_certificate_data, status.client_key_data)
    if not status.token and certificate is None:
        raise AccessError(f"{argv[0]} printed no token.", hint="Run it by hand to see why.")
    return Credential((status.token or "").strip(), expiry - _RENEW_EARLY if expiry else None, certificate)
