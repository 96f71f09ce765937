"""The store in a cluster: a Lease for each run, a ConfigMap for each object, a Secret for each state of Terraform.

All are in one namespace: `eksml-tui`, or the run's own where the user has no other. An object's name and size are in
annotations, so that a list needs metadata alone; `resourceVersion` is its etag. What is written goes through the typed
client of the package `kubernetes`; reads are this program's own. Ages are by the API server's clock.

Whoever may write ConfigMaps in the namespace can write one of these: contents are limited in size and are foreign text.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from actions.base.clock import Clock, SystemClock
from actions.base.errors import (
    AccessError,
    ConfigError,
    ConflictError,
    FormatError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from actions.base.executors import at_once
from actions.base.guard import guarded_by
from actions.base.names import is_label, is_subdomain
from actions.base.objects import MOST_OBJECT_BYTES, ListedObject, PreconditionError, StoredObject, WriteReceipt
from actions.base.untrusted import one_line, redact
from actions.blueprint.render import MANAGER, STORED_RUN_LABEL
from actions.cluster.auth.permissions import is_allowed
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiConflictError
from actions.cluster.objects.client import METADATA_LIST, Document, list_pages
from actions.run.context.store_address import run_key
from actions.run.store.lease_object import (
    DOCUMENT,
    LABELS,
    NAME_PREFIX,
    NAMESPACE,
    SELECTOR,
    STORE_LABEL,
    lease_name,
    leases_path,
    read_lease_object,
    run_id_of,
    written_at,
)
from actions.run.store.objects import (
    REMOVAL_ROUNDS,
    DamagedError,
    LeaseConflictError,
    LeaseDocument,
    StoreLease,
    is_state,
    lease_bytes,
    run_id_in,
)

if TYPE_CHECKING:
    from kubernetes.aio.client import V1ObjectMeta

MOST_BYTES = 1_000_000
"""Limit of one object, compressed. An API server takes 1 MiB of data in a ConfigMap or Secret."""
_TEXT_BYTES = 128 << 10
"""Up to this size text is kept as it is, for people."""
_NAME = "eksml.dev/name"
_SIZE = "eksml.dev/size"
_TEXT, _PACKED = "text", "gzip"
_MERGE = "application/merge-patch+json"
_OBJECT = "object"
"""The value of `STORE_LABEL` on objects."""
_NEEDED = (("get", "coordination.k8s.io", "leases"), ("create", "coordination.k8s.io", "leases"),
           ("create", "", "configmaps"), ("create", "", "secrets"))  # fmt: skip
_READABLE = re.compile(r"[^a-z0-9]+")
_LONGEST_READABLE = 48

T = TypeVar("T")


class KubernetesStore:
    """See `RunStore`.

    Args:
        session: With the cluster; not closed with this.
        namespaces: The one that is written in first; a reader also looks for runs in the others.
        clock: For the time of answers that name none.
    """

    takes_output = False
    most_bytes = MOST_BYTES

    def __init__(self, session: KubeSession, *namespaces: str, clock: Clock | None = None) -> None:
        self._session = session
        self._namespaces = namespaces or (NAMESPACE,)
        self._clock: Clock = clock or SystemClock()
        self._found_in: dict[str, str] = {}
        """The namespaces of runs, where there is more than one."""
        self.address = f"the cluster's namespace {self._namespaces[0]}"

    async def run_ids(self) -> list[str]:
        leases = {
            run_id for listed in await self._readable(self._leases_in) for item in listed if (run_id := run_id_of(item))
        }
        return sorted(leases | await self._runs_with_objects())

    async def lease(self, run_id: str) -> StoreLease | None:
        _require_name(run_id)
        refused: AccessError | None = None
        for namespace in self._namespaces:
            try:
                found = await _find(self._session, f"{leases_path(namespace)}/{lease_name(run_id)}")
            except AccessError as error:
                refused = refused or error
                continue
            if found is not None:
                self._found_in[run_id] = namespace
                return _lease_in(found, self._now())
        if refused is not None:
            raise refused
        return None

    async def put_lease(self, run_id: str, document: LeaseDocument, *, after: StoreLease | None) -> StoreLease:
        _require_name(run_id)
        with guarded_by(None):  # its conditions are the fence
            try:
                written = await self._write_lease(run_id, document, after)
            except (ApiConflictError, MissingError) as error:
                found = await self.lease(run_id)
                if found is not None and found.document.nonce == document.nonce:
                    return found
                if found is None and after is None:
                    raise _unsettled(error) from error
                raise LeaseConflictError(f"The lease of {run_id} in {self.address} is another one.", found) from error
        return _lease_in(written, self._now())

    async def get(self, name: str, *, limit_bytes: int = MOST_OBJECT_BYTES) -> StoredObject | None:
        found = await _find(self._session, await self._path(name))
        return None if found is None else self._stored(found, name, limit_bytes)

    async def put_if_absent(self, name: str, data: bytes) -> WriteReceipt:
        try:
            namespace = await self._place(run_id_in(name))
            return self._receipt(await self._in_namespace(namespace, lambda: self._put(name, data, "")))
        except ApiConflictError as error:
            found = await _in_the_way(self, name)
            if found is None:
                raise _unsettled(error) from error
            if found.body != data:
                raise PreconditionError(f"{name} in {self.address} was written by another.", found) from error
            return WriteReceipt(found.etag, found.modified_at)

    async def replace(self, name: str, data: bytes, *, etag: str) -> WriteReceipt:
        try:
            return self._receipt(await self._put(name, data, etag))
        except (ApiConflictError, MissingError) as error:
            found = await _in_the_way(self, name)
            if found is None or found.body != data:
                raise PreconditionError(f"{name} in {self.address} was written by another.", found) from error
            return WriteReceipt(found.etag, found.modified_at)

    async def objects(self, prefix: str) -> list[ListedObject]:
        run_id = run_id_in(prefix)
        namespace, selector = await self._place(run_id), f"{STORED_RUN_LABEL}={run_id}"
        listed = [] if is_state(prefix) else await self._metadata_in("configmaps", namespace, selector)
        if is_state(prefix) or prefix == run_key(run_id):
            with suppress(*([] if is_state(prefix) else [AccessError])):
                listed += await self._metadata_in("secrets", namespace, selector)
        found = [item for entry in listed if (item := _listed(entry)) and item.key.startswith(prefix)]
        return sorted(found, key=lambda item: item.key)

    async def delete(self, name: str) -> None:
        await _remove(self._session, await self._path(name))

    async def remove_run(self, run_id: str) -> None:
        _require_name(run_id)
        for _ in range(REMOVAL_ROUNDS):
            paths = await self._paths_of(run_id)
            if not paths:
                await _remove(self._session, f"{leases_path(await self._place(run_id))}/{lease_name(run_id)}")
                return
            await at_once(paths, lambda path: _remove(self._session, path))
        raise UnreachableError(f"{self.address} gets new objects of {run_id} while it is removed there.")

    def close(self) -> None:
        return

    async def _place(self, run_id: str) -> str:
        """Return the namespace of a run; the first one, if it has no Lease in any."""
        _require_name(run_id)
        if len(self._namespaces) > 1 and run_id not in self._found_in:
            with suppress(FormatError):
                await self.lease(run_id)
        return self._found_in.get(run_id, self._namespaces[0])

    async def _path(self, name: str) -> str:
        namespace = await self._place(run_id_in(name))
        return f"/api/v1/namespaces/{namespace}/{_kind_of(name)}/{object_name(name)}"

    async def _readable(self, look: Callable[[str], Awaitable[T]]) -> list[T]:
        """Return what is seen in those namespaces that the user may look into; at least in one of them."""
        found: list[T] = []
        refused: AccessError | None = None
        for namespace in self._namespaces:
            try:
                found.append(await look(namespace))
            except AccessError as error:
                refused = refused or error
        if not found and refused is not None:
            raise refused
        return found

    async def _leases_in(self, namespace: str) -> list[Document]:
        return await list_pages(self._session, leases_path(namespace), {"labelSelector": SELECTOR}, size=100)

    async def _runs_with_objects(self) -> set[str]:
        found = await self._readable(lambda namespace: self._metadata_in("configmaps", namespace, STORED_RUN_LABEL))
        return {run_id for listed in found for item in listed if (run_id := _run_of(item))}

    async def _metadata_in(self, kind: str, namespace: str, selector: str) -> list[Document]:
        path, query = f"/api/v1/namespaces/{namespace}/{kind}", {"labelSelector": selector}
        return await list_pages(self._session, path, query, accept=METADATA_LIST)

    async def _paths_of(self, run_id: str) -> list[str]:
        """Return the paths of all objects of a run, whatever their names are."""
        namespace, paths = await self._place(run_id), list[str]()
        for kind in ("configmaps", "secrets"):
            listed = await self._metadata_in(kind, namespace, f"{STORED_RUN_LABEL}={run_id}")
            names = [str((item.get("metadata") or {}).get("name")) for item in listed]
            paths += [f"/api/v1/namespaces/{namespace}/{kind}/{name}" for name in names]
        return paths

    async def _write_lease(self, run_id: str, document: LeaseDocument, after: StoreLease | None) -> Document:
        from kubernetes.aio.client import CoordinationV1Api, V1Lease, V1LeaseSpec, V1ObjectMeta

        from actions.cluster.auth.typed import model_document

        leases = CoordinationV1Api(await self._session.typed_client())
        namespace, name = await self._place(run_id), lease_name(run_id)
        metadata = V1ObjectMeta(
            name=name,
            labels={**LABELS, STORED_RUN_LABEL: run_id},
            annotations={DOCUMENT: redact(lease_bytes(document).decode())},
            resource_version=after.tag if after else None,
        )
        spec = V1LeaseSpec(
            holder_identity=_holder(document),
            lease_transitions=document.epoch,
            lease_duration_seconds=max(1, round(document.seconds)),
            renew_time=datetime.fromtimestamp(self._now(), UTC),
        )
        lease = V1Lease(api_version="coordination.k8s.io/v1", kind="Lease", metadata=metadata, spec=spec)
        if after is None:
            made = await self._in_namespace(
                namespace, lambda: leases.create_namespaced_lease(namespace, lease, field_manager=MANAGER)
            )
        else:  # not replaced: another program notes on it what it has stopped
            made = await leases.patch_namespaced_lease(
                name, namespace, lease, field_manager=MANAGER, _content_type=_MERGE
            )
        return model_document(made)

    async def _put(self, name: str, data: bytes, etag: str) -> Document:
        """Create an object, or replace the one with this resource version."""
        from kubernetes.aio.client import CoreV1Api, V1ConfigMap, V1Secret

        from actions.cluster.auth.typed import model_document

        core = CoreV1Api(await self._session.typed_client())
        namespace, place = await self._place(run_id_in(name)), object_name(name)
        metadata = _metadata(name, len(data), etag)
        text, packed = _packed(name, data, self.address)
        if is_state(name):
            secret = V1Secret(metadata=metadata, data=packed)
            if etag:
                changed = core.replace_namespaced_secret(place, namespace, secret, field_manager=MANAGER)
            else:
                changed = core.create_namespaced_secret(namespace, secret, field_manager=MANAGER)
            return model_document(await changed)
        config_map = V1ConfigMap(metadata=metadata, data=text, binary_data=packed)
        if etag:
            written = core.replace_namespaced_config_map(place, namespace, config_map, field_manager=MANAGER)
        else:
            written = core.create_namespaced_config_map(namespace, config_map, field_manager=MANAGER)
        return model_document(await written)

    async def _in_namespace(self, namespace: str, write: Callable[[], Awaitable[T]]) -> T:
        """Create an object; if its namespace is missing, make that first.

        Raises:
            MissingError: There is no such namespace, and it is not this program's.
        """
        try:
            return await write()
        except MissingError:
            if namespace != NAMESPACE:
                raise
        await make_namespace(self._session)
        return await write()

    def _stored(self, found: Document, name: str, limit_bytes: int) -> StoredObject:
        metadata = found.get("metadata") or {}
        etag = str(metadata.get("resourceVersion") or "")
        try:
            body = _body_of(found, f"{name} in {self.address}", limit_bytes, is_secret=is_state(name))
        except FormatError as error:
            raise DamagedError(error.message, etag) from error
        if (metadata.get("annotations") or {}).get(_NAME) != name:
            raise DamagedError(f"{name} in {self.address} is another object.", etag)
        return StoredObject(body, etag, written_at(metadata), self._now())

    def _receipt(self, written: Document) -> WriteReceipt:
        return WriteReceipt(str(written["metadata"]["resourceVersion"]), self._now())

    def _now(self) -> float:
        """Return the present time by the API server's clock, as of its newest answer."""
        answered_at = self._session.answered_at
        return self._clock.now().timestamp() if answered_at is None else answered_at


def _lease_in(found: Document, now: float) -> StoreLease:
    try:
        return read_lease_object(found, now=now)
    except FormatError as error:
        epoch = (found.get("spec") or {}).get("leaseTransitions")
        etag = str(found["metadata"].get("resourceVersion") or "")
        raise DamagedError(error.message, etag, epoch=epoch if isinstance(epoch, int) else 0) from error


async def _in_the_way(store: KubernetesStore, name: str) -> StoredObject | None:
    """Return the object that has refused a write; a damaged one without its content."""
    try:
        return await store.get(name)
    except DamagedError as error:
        return StoredObject(b"", error.etag, 0.0, 0.0)


async def choose_namespace(session: KubeSession, own: str) -> str:
    """Return the namespace for the store of a run: this program's, which is made if that is allowed, else the run's.

    Args:
        session: With the run's cluster.
        own: The run's namespace.

    Raises:
        UnreachableError: The cluster does not answer.
    """
    for verb, group, resource in _NEEDED:
        if await is_allowed(session, verb, group, resource, NAMESPACE) is False:
            return own
    try:
        await session.get(f"/api/v1/namespaces/{NAMESPACE}")
    except MissingError:
        try:
            await make_namespace(session)
        except AccessError:
            return own
    except AccessError:
        pass  # it is known with the first object
    return NAMESPACE


async def make_namespace(session: KubeSession) -> None:
    """Make this program's namespace, if it is not there.

    Raises:
        AccessError: That is not allowed.
    """
    from kubernetes.aio.client import CoreV1Api, V1Namespace, V1ObjectMeta

    core = CoreV1Api(await session.typed_client())
    try:
        await core.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=NAMESPACE)), field_manager=MANAGER)
    except ApiConflictError:
        return


async def open_cluster_store(session: KubeSession, namespace: str = "") -> KubernetesStore:
    """Return the store of a cluster for a reader.

    Args:
        session: With the cluster; not closed with the store.
        namespace: Looked in after this program's own; empty for that alone.
    """
    others = [namespace] if namespace and namespace != NAMESPACE else []
    return KubernetesStore(session, NAMESPACE, *others)


def object_name(name: str) -> str:
    """Return the name of the ConfigMap or Secret with an object.

    Raises:
        ConfigError: The object is of no run, or of one whose id cannot be part of a name.
    """
    run_id = run_id_in(name)
    path = name.split("/", 2)[2]
    _require_name(run_id)
    readable = _READABLE.sub("-", path.lower()).strip("-")[:_LONGEST_READABLE].strip("-")
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{lease_name(run_id)}.{readable}-{digest}" if readable else f"{lease_name(run_id)}.{digest}"


def _require_name(run_id: str) -> None:
    run_key(run_id)
    if not is_label(run_id) or not is_subdomain(f"{NAME_PREFIX}{run_id}"):
        raise ConfigError(f"{run_id[:60]!r} cannot be part of the name of an object in a cluster.")


async def _find(session: KubeSession, path: str) -> Document | None:
    try:
        return await session.get(path)
    except MissingError:
        return None


async def _remove(session: KubeSession, path: str) -> None:
    with suppress(MissingError):
        await session.request("DELETE", path)


def _kind_of(name: str) -> str:
    return "secrets" if is_state(name) else "configmaps"


def _packed(name: str, data: bytes, address: str) -> tuple[dict[str, str] | None, dict[str, bytes | str] | None]:
    """Return an object's text, or its compressed bytes in base64.

    Raises:
        RefusedError: It is too large.
    """
    if not is_state(name) and len(data) <= _TEXT_BYTES:
        try:
            return {_TEXT: data.decode()}, None
        except UnicodeDecodeError:
            pass
    packed = gzip.compress(data, mtime=0)
    if len(packed) > MOST_BYTES:
        raise RefusedError(
            f"{name} has {len(packed)} bytes compressed, and an object in {address} takes {MOST_BYTES}.",
            hint="Give runs like this one a store with --store s3://BUCKET/PREFIX.",
        )
    return None, {_PACKED: base64.b64encode(packed).decode()}


def _metadata(name: str, size: int, etag: str) -> V1ObjectMeta:
    from kubernetes.aio.client import V1ObjectMeta

    return V1ObjectMeta(
        name=object_name(name),
        labels={**LABELS, STORE_LABEL: _OBJECT, STORED_RUN_LABEL: name.split("/")[1]},
        annotations={_NAME: name, _SIZE: str(size)},
        resource_version=etag or None,
    )


def _holder(document: LeaseDocument) -> str:
    """Return `USER@HOST/MACHINE`, without the machine once it has given the lease back."""
    machine = document.holder.rpartition("/")[2]
    return f"{document.owner}/{machine}" if machine and document.seconds else str(document.owner)


def _listed(entry: Document) -> ListedObject | None:
    """Return an object by its metadata; `None` if it is none of this program's."""
    metadata = entry.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    name, size = str(annotations.get(_NAME) or ""), str(annotations.get(_SIZE) or "")
    run_id = _run_of(entry)
    if not name.startswith(f"runs/{run_id}/") or not name.isprintable() or not size.isdecimal() or len(size) > 12:
        return None
    return ListedObject(name, str(metadata.get("resourceVersion") or ""), int(size), written_at(metadata))


def _run_of(entry: Mapping[str, Any]) -> str:
    """Return the id of the run whose object this is; empty for another one."""
    metadata = entry.get("metadata") or {}
    run_id = str((metadata.get("labels") or {}).get(STORED_RUN_LABEL) or "")
    return run_id if str(metadata.get("name")).startswith(f"{NAME_PREFIX}{run_id}") else ""


def _body_of(found: Document, name: str, limit_bytes: int, *, is_secret: bool) -> bytes:
    """Return the content of a ConfigMap or Secret.

    Raises:
        FormatError: It is something else, or too large.
    """
    text = (found.get("data") or {}).get(_TEXT)
    if isinstance(text, str) and not is_secret:
        body = text.encode("utf-8", "replace")
    else:
        packed = (found.get("data" if is_secret else "binaryData") or {}).get(_PACKED)
        try:
            unpacked = zlib.decompressobj(zlib.MAX_WBITS | 16)
            body = unpacked.decompress(base64.b64decode(str(packed), validate=True), limit_bytes + 1)
            is_whole = unpacked.eof or len(body) > limit_bytes
        except (binascii.Error, zlib.error, ValueError) as error:
            raise FormatError(f"{name} is damaged: {one_line(str(error))}.") from error
        if not is_whole:
            raise FormatError(f"{name} is damaged: it ends in the middle.")
    if len(body) > limit_bytes:
        raise FormatError(f"{name} has more than {limit_bytes} bytes.")
    return body


def _unsettled(error: ConflictError | MissingError) -> UnreachableError:
    """Return the error of a refusal that no object explains: the namespace is on its way out, or not there yet."""
    return UnreachableError(f"The cluster does not take the store's objects at present: {one_line(error.message)}")
