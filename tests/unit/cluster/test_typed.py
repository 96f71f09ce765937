"""The typed client: what it sends, what it raises, and the rules of the session that hold for it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client import (
    AuthorizationV1Api,
    BatchV1Api,
    CoordinationV1Api,
    CoreV1Api,
    V1DeleteOptions,
    V1Job,
    V1JobSpec,
    V1Lease,
    V1LeaseSpec,
    V1ObjectMeta,
    V1PodSpec,
    V1PodTemplateSpec,
    V1Preconditions,
    V1ResourceAttributes,
    V1SelfSubjectAccessReview,
    V1SelfSubjectAccessReviewSpec,
)

from actions.base.errors import ConflictError, ConsoleError, FormatError, RefusedError, UnreachableError
from actions.base.guard import FencedError, guarded_by
from actions.cluster.auth import typed
from actions.cluster.auth.typed import model_document
from actions.cluster.bounds import OversizeError
from actions.cluster.http.errors import (
    ApiAccessError,
    ApiConflictError,
    ApiMissingError,
    ApiRefusedError,
    ApiUnavailableError,
)
from tests.unit.cluster.servers import session_to

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
LEASE = V1Lease(metadata=V1ObjectMeta(name="run"), spec=V1LeaseSpec(holder_identity="anna", renew_time=NOON))


class Api:
    """Answers each request with `code` and `body`, by default with what it was sent; keeps what came."""

    def __init__(self, code: int = 200, body: bytes | None = None) -> None:
        self.code = code
        self.body = body
        self.seen: list[web.Request] = []
        self.sent: list[Any] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        self.sent.append(json.loads(await request.text() or "null"))
        body = json.dumps(self.sent[-1]).encode() if self.body is None else self.body
        return web.Response(body=body, status=self.code, content_type="application/json")


def _document(kind: str, **fields: object) -> bytes:
    return json.dumps({"kind": kind, **fields}).encode()


async def test_a_call_is_a_request_of_the_session(tmp_path: Path) -> None:
    api = Api(body=_document("LeaseList", items=[{"metadata": {"name": "run"}, "spec": {"leaseTransitions": 3}}]))
    async with session_to(api, tmp_path, user={"token": "abc", "as": "ben"}) as session:
        leases = CoordinationV1Api(await session.typed_client())
        found = await leases.list_namespaced_lease("training", label_selector="a in (b, c)", limit=7)
    assert [one.spec and one.spec.lease_transitions for one in found.items] == [3]
    (request,) = api.seen
    assert (request.method, request.path) == ("GET", "/apis/coordination.k8s.io/v1/namespaces/training/leases")
    assert dict(request.query) == {"labelSelector": "a in (b, c)", "limit": "7"}
    assert request.headers["Authorization"] == "Bearer abc"
    assert request.headers["Impersonate-User"] == "ben"
    assert request.headers["User-Agent"].startswith("eksml-tui")


async def test_all_of_a_session_share_one_client(tmp_path: Path) -> None:
    async with session_to(Api(), tmp_path) as session:
        first, *others = await asyncio.gather(*(session.typed_client("CoordinationV1Api") for _ in range(4)))
        assert all(other is first for other in (*others, await session.typed_client("AuthorizationV1Api")))


async def test_a_moment_has_the_six_decimals_that_a_server_demands(tmp_path: Path) -> None:
    api = Api()
    api.body = _document("Lease")
    async with session_to(api, tmp_path) as session:
        await CoordinationV1Api(await session.typed_client()).create_namespaced_lease("training", LEASE)
    assert api.sent[0]["spec"]["renewTime"] == "2026-11-28T12:00:00.000000+00:00"


@pytest.mark.parametrize(
    ("body", "asked", "sent"),
    [
        ({"metadata": {}}, None, "application/strategic-merge-patch+json"),
        ([{"op": "test", "path": "/kind", "value": "Lease"}], None, "application/json-patch+json"),
        ({"metadata": {}}, "application/merge-patch+json", "application/merge-patch+json"),
        ({"metadata": {}}, "application/apply-patch+yaml", "application/apply-patch+yaml"),
    ],
)
async def test_a_patch_is_of_the_form_that_its_body_has(
    tmp_path: Path, body: Any, asked: str | None, sent: str
) -> None:
    api = Api(body=_document("Lease"))
    async with session_to(api, tmp_path) as session:
        leases = CoordinationV1Api(await session.typed_client())
        await leases.patch_namespaced_lease("run", "training", body, _content_type=asked)
    assert api.seen[0].headers["Content-Type"] == sent
    assert api.sent == [body]


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (401, "Unauthorized", ApiAccessError),
        (403, "Forbidden", ApiAccessError),
        (404, "NotFound", ApiMissingError),
        (409, "Conflict", ApiConflictError),
        (410, "Expired", ApiRefusedError),
        (422, "Invalid", ApiRefusedError),
        (429, "TooManyRequests", ApiUnavailableError),
        (503, "ServiceUnavailable", ApiUnavailableError),
    ],
)
async def test_a_refusal_is_the_error_that_the_session_raises(
    tmp_path: Path, code: int, reason: str, expected: type[ConsoleError]
) -> None:
    api = Api(code, _document("Status", code=code, reason=reason, message="no"))
    async with session_to(api, tmp_path) as session:
        leases = CoordinationV1Api(await session.typed_client())
        with pytest.raises(expected) as typed_error:
            await leases.read_namespaced_lease("run", "training")
        with pytest.raises(expected) as plain_error:
            await session.get("/apis/coordination.k8s.io/v1/namespaces/training/leases/run")
    assert typed_error.value.sentence() == plain_error.value.sentence()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "dictionary"),
        (b"<html>log in</html>", "dictionary"),
        (b"\xff\xfe", "UnicodeDecodeError"),
        (b"null", "another kind"),
        (b"{}", "another kind"),
        (b"[]", "dictionary"),
        (b"[" * 200_000, "RecursionError"),
        (_document("Pod", metadata={"name": "run"}), "another kind"),
        (_document("Lease", metadata="hunter2"), "ObjectMeta"),
        (_document("Lease", spec={"leaseTransitions": "hunter2"}), r"leaseTransitions: .*valid integer"),
        (_document("Lease", spec={"renewTime": "hunter2"}), "renewTime"),
    ],
)
async def test_an_answer_that_is_not_the_object_is_one_sentence_without_its_values(
    tmp_path: Path, body: bytes, said: str
) -> None:
    async with session_to(Api(body=body), tmp_path) as session:
        leases = CoordinationV1Api(await session.typed_client())
        with pytest.raises(FormatError, match=rf"API server of here did not answer with a Lease .*{said}") as caught:
            await leases.read_namespaced_lease("run", "training")
    assert "hunter2" not in caught.value.message
    assert caught.value.__cause__ is None


async def test_an_answer_above_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed, "TYPED_BYTES", 1 << 20)
    async with session_to(Api(body=b" " * ((1 << 20) + 1)), tmp_path) as session:
        with pytest.raises(OversizeError, match="more than 1 MiB"):
            await CoreV1Api(await session.typed_client()).list_namespaced_secret("training")


async def test_a_newer_server_may_have_fields_that_the_package_lacks(tmp_path: Path) -> None:
    async with session_to(Api(body=_document("Lease", spec={"fence": 1}, more={})), tmp_path) as session:
        found = await CoordinationV1Api(await session.typed_client()).read_namespaced_lease("run", "training")
    assert found.spec == V1LeaseSpec()


@pytest.mark.parametrize("kind", ["Status", "Job"])
async def test_a_deletion_is_accepted_whether_the_object_is_gone_or_held(tmp_path: Path, kind: str) -> None:
    status: object = "Success" if kind == "Status" else {"active": 1}
    api = Api(body=_document(kind, status=status))
    options = V1DeleteOptions(propagation_policy="Foreground", preconditions=V1Preconditions(uid="u"))
    async with session_to(api, tmp_path) as session:
        await BatchV1Api(await session.typed_client()).delete_namespaced_job("j", "training", body=options)
        api.body = b"<html>log in</html>"
        with pytest.raises(FormatError, match="Status"):
            await BatchV1Api(await session.typed_client()).delete_namespaced_job("j", "training")
    assert api.sent[0] == {"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}}


@pytest.mark.parametrize("name", ["..", "a/../../b", "", "."])
async def test_a_name_never_leads_to_another_path(tmp_path: Path, name: str) -> None:
    api = Api(body=_document("Lease"))
    async with session_to(api, tmp_path) as session:
        leases = CoordinationV1Api(await session.typed_client())
        if "/" in name:
            await leases.read_namespaced_lease(name, "training")
            assert api.seen[0].raw_path.endswith("/a%2F..%2F..%2Fb")
            return
        with pytest.raises(RefusedError, match="not a path"):
            await leases.read_namespaced_lease(name, "training")
    assert not api.seen


async def test_a_deadline_ends_a_call(tmp_path: Path) -> None:
    async def silent(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with session_to(silent, tmp_path) as session:
        leases = CoordinationV1Api(await session.typed_client())
        with pytest.raises(UnreachableError):
            await leases.read_namespaced_lease("run", "training", _request_timeout=0.1)


async def test_a_token_that_is_refused_is_renewed(tmp_path: Path) -> None:
    async def guarded(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer 2":
            return web.Response(body=_document("Status", code=401), status=401)
        return web.Response(body=_document("Lease"))

    count = tmp_path / "count"
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!/bin/sh\necho >> {count}\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        f' "status": {{"token": "\'$(wc -l < {count})\'"}}}}\'\n'
    )
    plugin.chmod(0o700)
    user: dict[str, object] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    async with session_to(guarded, tmp_path, user=user) as session:
        await CoordinationV1Api(await session.typed_client()).read_namespaced_lease("run", "training")
    assert count.read_text() == "\n\n"


def _review() -> V1SelfSubjectAccessReview:
    attributes = V1ResourceAttributes(verb="get", resource="pods")
    return V1SelfSubjectAccessReview(spec=V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))


async def test_a_read_only_session_sends_reads_and_access_reviews_alone(tmp_path: Path) -> None:
    api = Api(body=_document("Lease"))
    async with session_to(api, tmp_path, readonly=True) as session:
        client = await session.typed_client()
        leases = CoordinationV1Api(client)
        await leases.read_namespaced_lease("run", "training")
        for change in (
            leases.create_namespaced_lease("training", LEASE),
            leases.replace_namespaced_lease("run", "training", LEASE),
            leases.patch_namespaced_lease("run", "training", {}),
            leases.delete_namespaced_lease("run", "training"),
            leases.delete_collection_namespaced_lease("training"),
        ):
            with pytest.raises(RefusedError, match="read-only"):
                await change
        api.body = _document("SelfSubjectAccessReview", spec={}, status={"allowed": True})
        answer = await AuthorizationV1Api(client).create_self_subject_access_review(_review())
    assert answer.status is not None
    assert answer.status.allowed is True
    assert [request.method for request in api.seen] == ["GET", "POST"]


class Guard:
    """Lets nothing pass, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def require(self, deed: str, **_where: bool) -> None:
        self.asked.append(deed)
        raise FencedError("Another machine has the run.")

    def dismiss(self, place: str) -> None:
        raise AssertionError(place)


async def test_the_guard_is_asked_before_each_change_and_before_no_read(tmp_path: Path) -> None:
    api = Api(body=_document("Lease"))
    guard = Guard()
    async with session_to(api, tmp_path) as session:
        leases = CoordinationV1Api(await session.typed_client())
        with guarded_by(guard):
            await leases.read_namespaced_lease("run", "training")
            with pytest.raises(ConflictError):
                await leases.replace_namespaced_lease("run", "training", LEASE)
    assert guard.asked == ["PUT /apis/coordination.k8s.io/v1/namespaces/training/leases/run"]
    assert [request.method for request in api.seen] == ["GET"]


def test_a_model_as_a_document_has_what_is_set() -> None:
    template = V1PodTemplateSpec(spec=V1PodSpec(containers=[], restart_policy="Never"))
    job = V1Job(api_version="batch/v1", kind="Job", spec=V1JobSpec(backoff_limit=0, template=template))
    assert model_document(job) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"backoffLimit": 0, "template": {"spec": {"containers": [], "restartPolicy": "Never"}}},
    }
