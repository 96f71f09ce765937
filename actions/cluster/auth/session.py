"""The session with a cluster: its identity, credentials and limits, and the refusal of changes in a read-only one.

Requests go over one aiohttp session. The TLS rules of unusual kubeconfigs and the typed client come from the package
`kubernetes`, which is imported only where a session needs one of them: importing this module is cheap.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import msgspec

from actions.base import process
from actions.base.clock import Clock, SystemClock
from actions.base.decoding import convert, decode_json
from actions.base.errors import AccessError, ConflictError, FormatError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.base.files import read_file
from actions.base.guard import require_guard
from actions.base.names import require_path
from actions.base.proxies import proxy_for
from actions.base.readonly import is_reading_command, is_readonly
from actions.base.untrusted import one_line
from actions.cluster.auth.credentials import Credentials, TokenFactory, TokenSource
from actions.cluster.auth.kubeconfig import ChosenContext, ClusterTarget, load_context
from actions.cluster.auth.tls import default_tls_context, load_client_certificate, tls_files
from actions.cluster.http.endpoint import Endpoint
from actions.cluster.http.errors import ApiAccessError, ApiError
from actions.cluster.http.transport import ByteStream, Transport

if TYPE_CHECKING:
    import ssl

    import aiohttp

    from actions.cluster.auth.typed import TypedClient

T = TypeVar("T")

__all__ = ["ClusterIdentity", "ClusterTarget", "KubeSession", "RequestClass", "TokenFactory", "TokenSource"]

_EKS_ARN = re.compile(r"arn:aws[\w-]*:eks:(?P<region>[\w-]+):(?P<account>\d+):cluster/(?P<name>[\w-]+)")
_EKS_HOST = re.compile(r"\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)\.eks\.amazonaws\.com")
_REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""The path of access reviews: a POST that changes nothing, so that a read-only session sends it too."""
_ALIVE = "/livez"
_FORBIDDEN = 403
_IDENTIFIED_BY = "/api/v1/namespaces/kube-system"
_NAMESPACE = re.compile(r"/namespaces/([^/]+)")


class RequestClass(Enum):
    """A class of call; each has its own limit of calls at once, so that none starves another."""

    CALLS = "calls"
    WATCH = "watch"
    LOGS = "logs"
    EXEC = "exec"
    FORWARD = "forward"


_LIMITS = {
    RequestClass.CALLS: 16,
    RequestClass.WATCH: 256,
    RequestClass.LOGS: 150,
    RequestClass.EXEC: 16,
    RequestClass.FORWARD: 150,
}


class ClusterIdentity(msgspec.Struct, frozen=True):
    """The identity of a cluster.

    Empty fields are unknown (no right to read them, not an EKS cluster).
    """

    uid: str
    """The facts by which clusters of one name differ, for `are_one_cluster`; see `KubeSession.cluster_uid`."""
    version: str
    name: str
    region: str
    account: str


def are_one_cluster(known: str, found: str) -> bool | None:
    """Return whether two values of `cluster_uid` are one cluster's: by uid, or where one lacks it by digest.

    `None` means that it is not known: one cluster can have several addresses.
    """
    (known_uid, _, known_digest), (uid, _, digest) = known.partition(" "), found.partition(" ")
    if known_uid and uid:
        return known_uid == uid
    return True if digest and known_digest == digest else None


def leads_to_same_cluster(
    server: str, identity: ClusterIdentity | None, other_server: str, other_identity: ClusterIdentity | None
) -> bool:
    """Return whether two sessions certainly lead to one cluster: by address, else by what is known of both."""
    if server and server == other_server:
        return True
    if identity is None or other_identity is None:
        return False
    return are_one_cluster(identity.uid, other_identity.uid) is True


def require_one_cluster(known: str, found: str, server: str) -> None:
    """Require that a server is the known cluster's.

    Raises:
        ConflictError: It is another cluster's.
        AccessError: That cannot be known: the namespace kube-system may not be read.
    """
    match are_one_cluster(known, found):
        case True:
            return
        case False:
            raise ConflictError(
                f"{server} is another cluster than the one that the run began with.",
                hint="Nothing was changed. Restore the run's own cluster, or launch a new run.",
            )
        case None:
            raise AccessError(
                f"Whether {server} is the cluster that the run began with is not known: its address or certificate"
                " authority differs, and its namespace kube-system may not be read.",
                hint="Use the kubeconfig that the run was begun with, or have get on that namespace.",
            )


class _Metadata(msgspec.Struct):
    uid: str | None = None
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata | None = None


class KubeSession:
    """One session with one API server, made by `connect`, ended by `aclose`. Used from one event loop.

    `context`, `cluster` and `namespace` are the kubeconfig's names, `server` is the address without a trailing slash.
    Every call may raise, besides what it names: `UnreachableError`, `ApiError` (see `actions.cluster.http.errors`),
    `ConfigError` for an untrusted certificate.
    """

    def __init__(
        self,
        chosen: ChosenContext,
        transport: Transport,
        credentials: Credentials,
        *,
        readonly: bool,
        digest: str = "",
    ) -> None:
        self.context = chosen.context
        self.cluster = chosen.cluster
        self.server = chosen.server
        self.namespace = chosen.namespace or "default"
        self.readonly = readonly
        self._digest = digest
        self._transport = transport
        self._credentials = credentials
        self._slots = {request_class: asyncio.Semaphore(limit) for request_class, limit in _LIMITS.items()}
        self._typed_client: TypedClient | None = None
        self._imported = set[str]()
        self._importing = asyncio.Lock()

    @classmethod
    async def connect(
        cls,
        target: ClusterTarget,
        *,
        readonly: bool = False,
        token_factory: TokenFactory | None = None,
        user_agent: str = "",
        clock: Clock | None = None,
        is_vouched_for: bool = False,
    ) -> KubeSession:
        """Read the kubeconfig and prepare a session. No network is used and no plugin started.

        Args:
            target: The kubeconfig, context and namespace.
            readonly: Refuse everything that could change the cluster; a read-only process refuses it anyhow.
            token_factory: Makes tokens in process, in place of some exec plugins.
            user_agent: Sent with every request; by default the program's, with this process and machine. It should not
                begin with `curl`, `Wget` or `Mozilla`, for which API servers indent JSON, at twice the size.
            clock: For the life of tokens.
            is_vouched_for: The kubeconfig's exec plugin was allowed when a run took it over; see
                `actions.cluster.auth.exec_plugins`.

        Raises:
            ConfigError: The kubeconfig, its context or its certificates cannot be used.
        """
        chosen, endpoint, digest = await _prepared(target)
        credentials = Credentials(
            chosen,
            clock=clock or SystemClock(),
            token_factory=token_factory,
            load_client_certificate=partial(load_client_certificate, chosen, endpoint.tls),
            is_vouched_for=is_vouched_for,
        )
        is_bound = readonly or is_readonly()
        transport = Transport(endpoint, user_agent=user_agent or process.user_agent("eksml-tui"))
        return cls(chosen, transport, credentials, readonly=is_bound, digest=digest)

    @property
    def answered_at(self) -> float | None:
        """The time of the newest answer to a request by the server's clock; see `Transport.answered_at`."""
        return self._transport.answered_at

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        deadline_seconds: float = 30.0,
    ) -> bytes:
        """Send one request and return the answer's body as it came.

        Raises:
            RefusedError: The session is read-only and `method` could change something.
            FencedError: It could, and this process is a runner that may change nothing more.
        """
        changes = method not in {"GET", "HEAD"} and path != REVIEWS
        if self.readonly and changes:
            raise self._readonly_error(f"{method} {path}")
        headers = {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
        url = _url(path, query)

        async def send(authorized: dict[str, str]) -> bytes:
            if changes:
                await require_guard(f"{method} {path}", in_cluster=True)
            return await self._transport.call(
                method, url, headers=authorized, body=body, deadline_seconds=deadline_seconds
            )

        async with self._slots[RequestClass.CALLS]:
            return await self._authorized(send, headers)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """GET one JSON document.

        Raises:
            FormatError: The answer is not a JSON object.
        """
        return decode_document(await self.request("GET", path, query=query), source=f"{self.server}{path}")

    async def typed_client(self, *classes: str) -> TypedClient:
        """Return the client of the package's typed calls over this session; see `actions.cluster.auth.typed`.

        Args:
            classes: Those of the package to import in the same thread; `CoreV1Api` alone takes 0.4 s.
        """
        async with self._importing:
            if self._typed_client is None or not self._imported.issuperset(classes):
                self._typed_client = await in_thread("kube-types", self._load_typed_client, classes)
                self._imported.update(classes)
            return self._typed_client

    def _load_typed_client(self, classes: Sequence[str]) -> TypedClient:
        from kubernetes.aio import client

        from actions.cluster.auth.typed import TypedClient

        for name in classes:
            getattr(client, name)
        return self._typed_client or TypedClient(self.request, self.context)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        idle_seconds: float = 70.0,
        accept: str = "application/json",
        request_class: RequestClass = RequestClass.WATCH,
    ) -> AsyncIterator[ByteStream]:
        """Open an endless GET (watch, log). The connection is closed when the context is left, however it is left.

        Args:
            path: Path below the server's address.
            query: Query parameters.
            idle_seconds: After so much silence the stream raises `SilenceError`.
            accept: Media types.
            request_class: The class whose limit applies; `stream` waits while that many run.
        """
        url = _url(path, query)
        async with self._slots[request_class], AsyncExitStack() as stack:

            async def enter(authorized: dict[str, str]) -> ByteStream:
                opening = self._transport.stream(url, headers=authorized, idle_seconds=idle_seconds)
                return await stack.enter_async_context(opening)

            yield await self._authorized(enter, {"Accept": accept})

    @asynccontextmanager
    async def websocket(
        self,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        protocols: Sequence[str] = (),
        request_class: RequestClass = RequestClass.EXEC,
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a websocket (exec, attach, port-forward).

        Raises:
            RefusedError: The session is read-only, and this is not an exec of one of our commands that read devices.
        """
        if self.readonly and not _only_reads(path, query):
            raise self._readonly_error(path.rpartition("/")[2])
        url = _url(path, query)
        async with self._slots[request_class], AsyncExitStack() as stack:

            async def enter(authorized: dict[str, str]) -> aiohttp.ClientWebSocketResponse:
                await require_guard(path, in_cluster=True)
                opening = self._transport.websocket(url, headers=authorized, protocols=protocols)
                return await stack.enter_async_context(opening)

            yield await self._authorized(enter, {})

    async def ping(self, *, deadline_seconds: float) -> None:
        """Check that the server answers, outside all limits and without credentials; any answer will do.

        Raises:
            UnreachableError: There was no answer in time.
            ConfigError: Its certificate is not trusted.
        """
        with suppress(ApiError):
            await self._transport.call(
                "GET", _ALIVE, headers={"Accept": "*/*"}, body=None, deadline_seconds=deadline_seconds
            )

    async def identity(self) -> ClusterIdentity:
        """Ask the cluster for its identity; unknown fields are empty.

        Raises:
            UnreachableError: It does not answer.
        """
        version = str((await self.get("/version")).get("gitVersion", ""))
        try:
            uid = await self.cluster_uid()
        except (ApiAccessError, MissingError, FormatError):
            uid = ""
        nodes = (await self._seen("/api/v1/nodes", {"limit": "1"})).get("items") or [{}]
        labels = _metadata_of(nodes[0]).labels or {}
        arn = self._arn()
        return ClusterIdentity(
            uid=uid,
            version=one_line(version),
            name=arn["name"] if arn else self.cluster,
            region=self.region or one_line(next((labels[label] for label in _REGION_LABELS if label in labels), "")),
            account=arn["account"] if arn else "",
        )

    @property
    def region(self) -> str:
        """The AWS region in the cluster's ARN or address; empty if neither is one of EKS."""
        found = self._arn() or _EKS_HOST.search(self.server)
        return found["region"] if found else ""

    def _arn(self) -> re.Match[str] | None:
        return _EKS_ARN.fullmatch(self.cluster) or _EKS_ARN.fullmatch(self.context)

    async def cluster_uid(self) -> str:
        """Ask for the facts that identify the cluster, as in `identity`.

        Returns:
            The uid of the `kube-system` namespace, empty if it may not be read, a space, and the digest of the
            certificate authority and the server's address.

        Raises:
            UnreachableError: The cluster does not answer.
            MissingError, FormatError: It does, but not as an API server.
            AccessError: The credentials are not accepted.
        """
        uid = ""
        try:
            uid = _metadata_of(await self.get(_IDENTIFIED_BY)).uid or ""
        except ApiAccessError as error:
            if error.status.code != _FORBIDDEN:
                raise
        else:
            if not uid:
                raise FormatError(f"{self.server} does not give the uid of its kube-system namespace.")
        return f"{uid} {self._digest}"

    async def _seen(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Get a document; an empty one if it does not exist or the user may not read it."""
        try:
            return await self.get(path, query)
        except (ApiAccessError, MissingError):
            return {}

    async def aclose(self) -> None:
        """Close every connection. Streams that are still read end with `UnreachableError`."""
        await self._transport.close()

    async def _authorized(self, send: Callable[[dict[str, str]], Awaitable[T]], headers: Mapping[str, str]) -> T:
        """Send with credentials; once more with new ones if the server does not accept them."""
        value = await self._credentials.header()
        try:
            return await send(_with(headers, value))
        except ApiAccessError as error:
            if error.status.code != 401 or not self._credentials.can_renew:
                raise
            self._credentials.refused(value)
            renewed = await self._credentials.header()
            if renewed == value:
                raise
        return await send(_with(headers, renewed))

    def _readonly_error(self, what: str) -> RefusedError:
        namespace = _NAMESPACE.search(what)
        where = f" in {namespace[1]}" if namespace else ""
        return RefusedError(
            f"This session is read-only: {what.partition('?')[0]}{where} was not sent to {self.context}.",
            hint="Start without --readonly.",
        )


def _only_reads(path: str, query: Sequence[tuple[str, str]]) -> bool:
    """Return whether a websocket is an exec, without input, of exactly one of our commands that only read."""
    asked = {name for name, value in query if value == "true"}
    argv = tuple(value for name, value in query if name == "command")
    return path.endswith("/exec") and asked <= {"stdout", "stderr"} and is_reading_command(argv)


def _metadata_of(document: object) -> _Metadata:
    """Return the metadata of an object; empty for a document that is not one."""
    try:
        return convert(document, _Object).metadata or _Metadata()
    except msgspec.ValidationError:
        return _Metadata()


def decode_document(data: bytes, *, source: str) -> dict[str, Any]:
    """Decode one JSON object.

    Raises:
        FormatError: It is something else; the message names `source`.
    """
    try:
        return decode_json(data, dict[str, Any])
    except msgspec.DecodeError as error:
        raise FormatError(f"{source} did not answer with a JSON object: {error}.") from error


def _url(path: str, query: Mapping[str, str] | Sequence[tuple[str, str]] | None) -> str:
    require_path(path)
    return f"{path}?{urlencode(query)}" if query else path


def _with(headers: Mapping[str, str], authorization: str) -> dict[str, str]:
    return dict(headers) | {"Authorization": authorization} if authorization else dict(headers)


async def _prepared(target: ClusterTarget) -> tuple[ChosenContext, Endpoint, str]:
    """Do disk I/O, imports and TLS set-up in a thread: together they would block the loop for half a second."""
    return await in_thread("kube-connect", _prepare, target)


def _prepare(target: ClusterTarget) -> tuple[ChosenContext, Endpoint, str]:
    chosen = load_context(target)
    tls = (default_tls_context(chosen) or library_tls(chosen)) if chosen.server.startswith("https") else None
    endpoint = Endpoint(
        server=chosen.server,
        context=chosen.context,
        server_name=chosen.tls_server_name,
        proxy=chosen.proxy_url or proxy_for(chosen.server, os.environ),
        tls=tls,
        headers=chosen.impersonation.headers(),
    )
    with tls_files(chosen) as files:
        authority = read_file(Path(files.authority)) if files.authority else b""
    return chosen, endpoint, hashlib.sha256(b" ".join((*authority.split(), chosen.server.encode()))).hexdigest()


def library_tls(chosen: ChosenContext) -> ssl.SSLContext:
    """Return the TLS settings that the client library makes for a context.

    Raises:
        ConfigError: A certificate or key is missing or cannot be used.
    """
    from kubernetes.aio.client import ApiClient, Configuration

    configuration = Configuration(host=chosen.server)
    configuration.verify_ssl = not chosen.is_insecure
    with tls_files(chosen) as files:
        configuration.ssl_ca_cert = files.authority
        configuration.cert_file = files.certificate
        configuration.key_file = files.key
        made: ssl.SSLContext = ApiClient(configuration).rest_client.ssl_context
    return made
