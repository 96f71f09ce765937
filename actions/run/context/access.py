"""The run's access to its cluster: one session, and only to the cluster that the run began with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import FormatError, MissingError, RefusedError, UnreachableError
from actions.base.process import user_agent
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.permissions import is_allowed
from actions.cluster.auth.session import KubeSession, TokenFactory, require_one_cluster
from actions.cluster.objects import client as objects
from actions.cluster.objects.apply import FIELD_MANAGER, ApplyConflictError, apply, create
from actions.cluster.objects.client import Discovery, Document, ObjectRef
from actions.run.context.retry import ONCE, RetryPolicy, retry_unreachable


class ClusterConnection(msgspec.Struct, frozen=True):
    """A session with its discovery of the cluster's kinds, and one call for each operation on objects.

    The calls and their errors are those of the same names in `actions.cluster.objects.client` and
    `actions.cluster.objects.apply`.
    """

    session: KubeSession
    discovery: Discovery

    async def fetch(self, ref: ObjectRef) -> Document:
        """Return the object as it is now."""
        return await objects.fetch_object(self.session, self.discovery, ref)

    async def find(self, ref: ObjectRef) -> Document | None:
        """Return the object, or `None` if there is none, or no such kind."""
        try:
            return await self.fetch(ref)
        except MissingError:
            return None

    async def list_objects(
        self, api_version: str, kind: str, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> list[Document]:
        """Return every object of a kind."""
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
        """Return the pods of a namespace with these labels."""
        return await self.list_objects("v1", "Pod", namespace=namespace, label_selector=label_selector)

    async def create(self, manifest: Document, *, dry_run: bool = False) -> Document:
        """Create an object that must not exist yet."""
        return await create(self.session, self.discovery, manifest, dry_run=dry_run)

    async def apply(self, manifest: Document) -> Document:
        """Create an object, or change it to match the manifest.

        What this program has created counts as another manager's for the server, as it was not applied: a conflict with
        that alone is none.
        """
        try:
            return await apply(self.session, self.discovery, manifest)
        except ApplyConflictError as error:
            if any(conflict.owner != FIELD_MANAGER for conflict in error.conflicts):
                raise
        return await apply(self.session, self.discovery, manifest, force=True)

    async def is_out_of_reach(self, ref: ObjectRef) -> bool:
        """Return whether an object is outside of namespaces and this user may neither read nor make it.

        Raises:
            UnreachableError: The cluster does not answer.
        """
        try:
            kind = await self.discovery.find(ref.api_version, ref.kind)
        except MissingError:
            return False
        if kind.is_namespaced:
            return False
        group = ref.api_version.rpartition("/")[0]
        rights = (("get", ref.name), ("create", ""))
        answers = [await is_allowed(self.session, verb, group, kind.plural, name=name) for verb, name in rights]
        return answers == [False, False]

    async def delete(self, ref: ObjectRef, *, uid: str, version: str) -> bool:
        """Request the deletion of an object, if it has not changed since. Returns whether it existed."""
        return await objects.delete(self.session, self.discovery, ref, uid=uid, version=version)


class ClusterAccess:
    """The lazily opened session of a run, kept until it is closed.

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
        """True if there is a kubeconfig."""
        return self._kubeconfig.is_file()

    async def open(
        self, expected_uid: str, *, policy: RetryPolicy = ONCE, note: Callable[[str], None] = lambda _: None
    ) -> ClusterConnection:
        """Return the connection; open it if there is none.

        Args:
            expected_uid: Of the cluster, as `KubeSession.cluster_uid` gives it; empty while it is unknown.
            policy: The retries until the cluster first answers.
            note: Gets the reason of each wait.

        Raises:
            MissingError: The run has no kubeconfig.
            ConflictError: Another cluster answers.
            UnreachableError: No answer, or not that of an API server.
            AccessError: The credentials are not accepted, or a right is missing.
        """

        async def opened() -> ClusterConnection:
            async with self._opening:  # a stage and its collector open it at the same time
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
            raise MissingError(f"{self._kubeconfig} does not exist.", hint="The kubeconfig stage of the run writes it.")
        session = await KubeSession.connect(
            ClusterTarget(self._kubeconfig, namespace=self._namespace),
            token_factory=self._token_factory,
            user_agent=user_agent("eksml-tui-runner"),
            clock=self._clock,
            is_vouched_for=True,  # its exec plugin was checked when the run wrote the file
        )
        try:
            await _verify(session, expected_uid)
        except BaseException:
            await session.aclose()
            raise
        return ClusterConnection(session, Discovery(session, clock=self._clock))


async def _verify(session: KubeSession, expected_uid: str) -> None:
    """Require that it is the run's cluster. Only another uid disproves that; a missing answer does not."""
    if not expected_uid:
        return
    try:
        found = await session.cluster_uid()
    except (MissingError, FormatError, RefusedError) as error:  # a portal, a proxy, a server that is not up yet
        raise UnreachableError(f"{session.server} does not answer as the run's cluster: {error.message}") from error
    require_one_cluster(expected_uid, found, session.server)
