"""What a server answers about its objects, page by page, and what counts as no answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from actions.base.errors import RefusedError
from actions.cluster.limits import OversizeError
from actions.cluster.objects.client import ApiResource, Discovery, ObjectRef, list_pages
from actions.run.context.access import ClusterConnection
from actions.run.objects.ownership import Entry, Inventory, ObjectOwner
from actions.run.objects.survey import Unanswered, fetch_kinds, look, survey, with_owners
from tests.unit.cluster.servers import session_to

SECRETS = ApiResource("v1", "Secret", "secrets", is_namespaced=True)
Answer = Callable[[web.Request], web.Response]


def an_object(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "work", "uid": f"uid-{name}", **metadata}}


def status(code: int, reason: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": "no"}, status=code)


class Api:
    """Answers by path; `asked` are the requests."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[web.Request] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        answer = self.answers.get(request.path)
        return answer(request) if answer else status(404)


def pages_of(count: int, *, expires: int = 0) -> Answer:
    """A list in pages of one, whose second page has expired for the first times."""
    left = expires

    def answer(request: web.Request) -> web.Response:
        nonlocal left
        number = int(request.query.get("continue") or 0)
        if number == 1 and left:
            left -= 1
            return status(410, "Expired")
        metadata = {"continue": str(number + 1)} if number + 1 < count else {}
        return web.json_response({"metadata": metadata, "items": [an_object(f"s{number}")]})

    return answer


def kinds(*names: str, verbs: tuple[str, ...] = ("list", "delete")) -> Answer:
    resources = [{"name": f"{name.lower()}s", "kind": name, "namespaced": True, "verbs": verbs} for name in names]
    return lambda _: web.json_response({"resources": resources})


def groups(*found: tuple[str, ...]) -> Answer:
    listed = [
        {
            "name": name,
            "versions": [{"groupVersion": f"{name}/{version}"} for version in versions],
            "preferredVersion": {"groupVersion": f"{name}/{versions[0]}"},
        }
        for name, *versions in found
    ]
    return lambda _: web.json_response({"groups": listed})


async def test_a_long_list_is_read_to_its_end(tmp_path: Path) -> None:
    async with session_to(Api({"/api/v1/secrets": pages_of(5)}), tmp_path) as session:
        found = await survey(ClusterConnection(session, Discovery(session)), [SECRETS])
    assert [entry.name for entry in found.entries] == ["s0", "s1", "s2", "s3", "s4"]
    assert found.unasked == ()


async def test_a_page_that_has_expired_begins_the_list_anew(tmp_path: Path) -> None:
    api = Api({"/api/v1/secrets": pages_of(3, expires=2)})
    async with session_to(api, tmp_path) as session:
        items = await list_pages(session, "/api/v1/secrets")
    assert [item["metadata"]["name"] for item in items] == ["s0", "s1", "s2"], "nothing twice"
    assert len(api.asked) == 2 + 2 + 3


async def test_a_list_that_expires_for_ever_is_unknown(tmp_path: Path) -> None:
    async with session_to(Api({"/api/v1/secrets": pages_of(3, expires=99)}), tmp_path) as session:
        with pytest.raises(RefusedError):
            await list_pages(session, "/api/v1/secrets")
        found = await survey(ClusterConnection(session, Discovery(session)), [SECRETS])
    assert found.entries == ()
    assert [one.may_pass for one in found.unasked] == [True]


async def test_a_list_that_names_the_same_page_again_is_left(tmp_path: Path) -> None:
    def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"continue": "again"}, "items": []})

    api = Api({"/api/v1/secrets": answer})
    async with session_to(api, tmp_path) as session:
        with pytest.raises(OversizeError, match="does not end"):
            await list_pages(session, "/api/v1/secrets")
        found = await survey(ClusterConnection(session, Discovery(session)), [SECRETS])
    assert [one.may_pass for one in found.unasked] == [True]


async def test_the_contents_of_secrets_are_not_asked_for(tmp_path: Path) -> None:
    api = Api({"/api/v1": kinds("Secret"), "/api/v1/secrets": pages_of(1)})
    api.answers["/api/v1/namespaces/work/secrets/s0"] = lambda _: web.json_response(an_object("s0"))
    async with session_to(api, tmp_path) as session:
        connection = ClusterConnection(session, Discovery(session))
        await survey(connection, [SECRETS])
        assert isinstance(await look(connection, ObjectRef("v1", "Secret", "work", "s0")), Entry)
    asked = [request.headers["Accept"] for request in api.asked if "secrets" in request.path]
    assert [accept.partition(",")[0] for accept in asked] == [
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ]


@pytest.mark.parametrize(
    ("answer", "clause"),
    [
        (lambda _: status(403), "may not list secrets in work"),
        (lambda _: status(500), "could not list secrets in work: "),
        (lambda _: status(405), "could not list secrets in work: "),
        (lambda _: web.json_response({"kind": "SecretList"}), "could not list secrets in work: "),
        (lambda _: web.json_response({"items": {"a": 1}}), "could not list secrets in work: "),
        (lambda _: web.json_response({"items": [{"metadata": {"name": "x"}}]}), "could not list secrets in work: "),
        (lambda _: web.Response(text="<html>"), "could not list secrets in work: "),
        (lambda _: web.json_response([]), "could not list secrets in work: "),
    ],
)
async def test_what_is_no_list_is_not_empty(tmp_path: Path, answer: Answer, clause: str) -> None:
    async with session_to(Api({"/api/v1/namespaces/work/secrets": answer}), tmp_path) as session:
        found = await survey(ClusterConnection(session, Discovery(session)), [SECRETS], namespace="work")
    assert found.entries == ()
    assert [one.clause() for one in found.unasked if one.clause().startswith(clause)]


async def test_a_null_list_is_empty(tmp_path: Path) -> None:
    """As Go writes an empty slice."""
    answer: Answer = lambda _: web.json_response({"items": None})  # noqa: E731
    async with session_to(Api({"/api/v1/secrets": answer}), tmp_path) as session:
        found = await survey(ClusterConnection(session, Discovery(session)), [SECRETS])
    assert (found.entries, found.unasked) == ((), ())


async def test_a_list_that_is_not_found_is_empty_only_if_the_kind_has_gone(tmp_path: Path) -> None:
    api = Api({"/api/v1": kinds("Secret")})
    async with session_to(api, tmp_path) as session:
        connection = ClusterConnection(session, Discovery(session))
        assert len((await survey(connection, [SECRETS])).unasked) == 1
        api.answers["/api/v1"] = kinds("Pod")
        assert (await survey(connection, [SECRETS])).unasked == ()


async def test_kinds_come_from_all_versions_of_all_groups(tmp_path: Path) -> None:
    """As with kubeflow.org, which serves PyTorchJobs in v1 and MPIJobs in v2beta1 only."""
    api = Api(
        {
            "/apis": groups(("kubeflow.org", "v1", "v2beta1"), ("metrics.k8s.io", "v1beta1"), ("broken.io", "v1")),
            "/api/v1": kinds("Secret"),
            "/apis/kubeflow.org/v1": kinds("PyTorchJob", "Both"),
            "/apis/kubeflow.org/v2beta1": kinds("MPIJob", "Both"),
            "/apis/metrics.k8s.io/v1beta1": lambda _: status(503),
            "/apis/broken.io/v1": lambda _: status(503),
        }
    )
    async with session_to(api, tmp_path) as session:
        known = await fetch_kinds(ClusterConnection(session, Discovery(session)))
    assert {(kind.kind, kind.api_version) for kind in known.kinds} == {
        ("Secret", "v1"),
        ("PyTorchJob", "kubeflow.org/v1"),
        ("Both", "kubeflow.org/v1"),
        ("MPIJob", "kubeflow.org/v2beta1"),
    }
    assert [one.clause().partition(": ")[0] for one in known.unasked] == [
        "could not find out the kinds of broken.io/v1"
    ]


async def test_owners_are_found_by_uid_and_not_by_name(tmp_path: Path) -> None:
    def by_name(request: web.Request) -> web.Response:
        name = request.query["fieldSelector"].removeprefix("metadata.name=")
        return web.json_response({"items": [an_object(name)] if name in ("real", "other") else []})

    api = Api({"/api/v1": kinds("ConfigMap", "Hidden")})
    api.answers["/api/v1/namespaces/work/configmaps"] = by_name
    api.answers["/api/v1/namespaces/work/hiddens"] = lambda _: status(403)

    def owned(kind: str, name: str, uid: str) -> Entry:
        return Entry("", "Pod", "work", f"of-{name}", f"of-{name}", owners=(ObjectOwner("v1", kind, name, uid),))

    entries = [
        owned("ConfigMap", "real", "uid-real"),
        owned("ConfigMap", "other", "another uid"),
        owned("ConfigMap", "gone", "x"),
        owned("Hidden", "hidden", "y"),
        owned("NoSuchKind", "z", "z"),
    ]
    async with session_to(api, tmp_path) as session:
        seen = await with_owners(ClusterConnection(session, Discovery(session)), entries, Inventory("run", frozenset()))
    assert [entry.name for entry in seen.entries] == ["real"]
    assert seen.unasked == (Unanswered("list", "hiddens", "work"),)
