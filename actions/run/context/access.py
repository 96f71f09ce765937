"""The run's way into its cluster: one session, and never into another cluster than the one it began with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConflictError, FormatError, MissingError, RefusedError, UnreachableError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession, TokenFactory
from actions.cluster.objects import client as objects
from actions.cluster.objects.apply import apply
from actions.cluster.objects.client import Discovery, Document, ObjectRef
from actions.run.context.retry import ONCE, RetryPolicy, retry_unreachable

_HOME = "/api/v1/namespaces/kube-system"
"""The namespace whose uid is the cluster's."""


class ClusterConnection(msgspec.Struct, frozen=True):
    """A session with what it knows of the cluster's kinds, and one call for each thing that is done with objects.

    The calls and their errors are those of the same names in
    `actions.cluster.objects.client` and `actions.cluster.objects.apply`.
    """

    session: KubeSession
    discovery: Discovery

    async def fetch(self, ref: ObjectRef) -> Document:
        """The object as it is now."""
        return await objects.fetch(self.session, self.discovery, ref)

    async def find(self, ref: ObjectRef) -> Document | None:
        """The object, or `None` if there is none, or no such kind."""
        try:
            return await self.fetch(ref)
        except MissingError:
            return None

    async def list_objects(
        self, api_version: str, kind: str, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> list[Document]:
        """Every object of a kind."""
        return await objects.list_objects(
            self.session,
            self.discovery,
            api_version,
            kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    async def pods(self, *, namespace: str, label_selector: str) -> list[Document]:
        """The pods of a namespace with these labels."""
        return await self.list_objects("v1", "Pod", namespace=namespace, label_selector=label_selector)

    async def create(self, manifest: Document) -> Document:
        """Make an object that must not exist yet."""
        return await objects.create(self.session, self.discovery, manifest)

    async def apply(self, manifest: Document) -> Document:
        """Make an object, or change it to be as the manifest says."""
        return await apply(self.session, self.discovery, manifest)

    async def delete(self, ref: ObjectRef, *, uid: str, version: str) -> bool:
        """Ask for an object to be deleted, as it was seen. Returns whether there was one."""
        return await objects.delete(self.session, self.discovery, ref, uid=uid, version=version)


class ClusterAccess:
    """Opens the session when it is needed first, and keeps it.

    Args:
        kubeconfig: The run's own.
        namespace: Of the run.
        clock: For tokens.
        token_factory: Makes EKS tokens in this process.
    """

    def __init__(self, kubeconfig: Path, namespace: str, clock: Clock, token_factory: TokenFactory | None) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._clock = clock
        self._token_factory = token_factory
        self._connection: ClusterConnection | None = None
        self._opening = asyncio.Lock()

    @property
    def is_possible(self) -> bool:
        """Whether there is a kubeconfig."""
        return self._kubeconfig.is_file()

    async def open(
        self, expected_uid: str, *, policy: RetryPolicy = ONCE, note: Callable[[str], None] = lambda _: None
    ) -> ClusterConnection:
        """The connection.

        Args:
            expected_uid: Of the cluster's `kube-system`; empty if the run does not know it yet.
            policy: How long the cluster's first answer is waited for.
            note: Told what is waited for.

        Raises:
            MissingError: The run has no kubeconfig.
            ConflictError: Another cluster answers.
            UnreachableError: Nobody answers, or something that is no API server.
            AccessError: The credentials are not accepted, or a right is missing.
        """

        async def opened() -> ClusterConnection:
            async with self._opening:  # a stage and its watcher ask at the same time
                if self._connection is None:
                    self._connection = await self._connected(expected_uid)
                return self._connection

        return await retry_unreachable(opened, clock=self._clock, note=note, policy=policy)

    async def aclose(self) -> None:
        """Close the session; the next `open` makes a new one."""
        async with self._opening:
            if self._connection is not None:
                await self._connection.session.aclose()
                self._connection = None

    async def _connected(self, expected_uid: str) -> ClusterConnection:
        if not self.is_possible:
            raise MissingError(f"{self._kubeconfig} is not there.", hint="The run has to reach its access stage first.")
        session = await KubeSession.connect(
            ClusterTarget(self._kubeconfig, namespace=self._namespace),
            token_factory=self._token_factory,
            user_agent="eksml-tui-runner",
            clock=self._clock,
            is_vouched_for=True,  # looked at when the file was written, which is the run's own
        )
        try:
            await _verify(session, expected_uid)
        except BaseException:
            await session.aclose()
            raise
        return ClusterConnection(session, Discovery(session, clock=self._clock))


async def _verify(session: KubeSession, expected_uid: str) -> None:
    """Make sure that it is the run's cluster. Only another uid says that it is not: no answer says nothing."""
    if not expected_uid:
        return
    try:
        document = await session.get(_HOME)
    except (MissingError, FormatError, RefusedError) as error:  # a portal, a proxy, a server that is not up yet
        raise UnreachableError(f"{session.server} does not answer as the run's cluster: {error.message}") from error
    metadata = document.get("metadata")
    found = str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""
    if not found:
        raise UnreachableError(f"{session.server} does not say which cluster it is.")
    if found != expected_uid:
        raise ConflictError(
            f"{session.server} is another cluster than the one that the run began with.",
            hint="Nothing was touched. Bring the run's own cluster back, or begin a new run.",
        )
