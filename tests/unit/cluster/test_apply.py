"""Apply: order, strictness, conflicts, immutable fields; single objects through discovery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from actions.base.errors import ConflictError, InputError, MissingError, RefusedError, UnreachableError
from actions.cluster.objects.apply import ApplyConflictError, FieldConflict, apply, create
from actions.cluster.objects.client import Discovery, ObjectRef, delete, fetch_object, list_objects, merge_patch
from tests.unit.cluster.servers import session_to

_GROUPS = {
    "/api/v1": [
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "pods/log", "kind": "Pod", "namespaced": True},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
    ],
    "/apis/batch/v1": [{"name": "jobs", "kind": "Job", "namespaced": True}],
}


class Api:
    """Discovery, and whatever `answers` has for `METHOD path`."""

    def __init__(self, **answers: tuple[int, dict[str, Any]]) -> None:
        self.answers = answers
        self.calls: list[tuple[str, str, dict[str, str], dict[str, Any]]] = []

    async def __call__(self, request: web.Request) -> web.Response:
        if request.path in _GROUPS:
            return web.json_response({"resources": _GROUPS[request.path]})
        if request.path.startswith("/apis/x.io/v1"):
            return web.json_response({"code": 404, "message": "not found"}, status=404)
        body = json.loads(await request.text() or "{}")
        self.calls.append((request.method, request.path, dict(request.query), body))
        code, answer = self.answers.get(request.method, (200, body))
        return web.json_response(answer, status=code)


def _manifest(api_version: str, kind: str, name: str, **metadata: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}


async def test_apply_is_server_side_strict_and_lands_in_the_sessions_namespace(tmp_path: Path) -> None:
    api = Api()
    async with session_to(api, tmp_path) as session:
        await apply(session, Discovery(session), _manifest("batch/v1", "Job", "j"), dry_run=True)
    ((method, path, query, _),) = api.calls
    assert (method, path) == ("PATCH", "/apis/batch/v1/namespaces/work/jobs/j")
    assert query == {"fieldManager": "eksml-tui", "fieldValidation": "Strict", "force": "false", "dryRun": "All"}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("(a/j; batch/v1, Kind=Job): .spec.tpyo: field not declared in schema", ".spec.tpyo: field not declared"),
        (
            "(a/j; batch/v1, Kind=Job): errors:\n  .spec.a: expected string\n  .spec.b: expected string",
            "refused: .spec.a: expected string .spec.b: expected string",
        ),
    ],
)
async def test_a_field_of_another_type_is_a_mistake_not_a_bad_moment(tmp_path: Path, message: str, said: str) -> None:
    api = Api(PATCH=(500, {"code": 500, "message": f"failed to create typed patch object {message}"}))
    async with session_to(api, tmp_path) as session:
        with pytest.raises(RefusedError) as caught:
            await apply(session, Discovery(session), _manifest("batch/v1", "Job", "j"))
        assert said in caught.value.message
        api.answers["PATCH"] = (500, {"code": 500, "message": "etcdserver: request timed out"})
        with pytest.raises(UnreachableError):
            await apply(session, Discovery(session), _manifest("batch/v1", "Job", "j"))


async def test_a_namespace_that_is_being_deleted_is_a_conflict_that_passes(tmp_path: Path) -> None:
    cause = {"reason": "NamespaceTerminating", "message": "namespace a is being terminated"}
    answer = {"code": 403, "reason": "Forbidden", "message": 'jobs "j" is forbidden', "details": {"causes": [cause]}}
    async with session_to(Api(PATCH=(403, answer)), tmp_path) as session:
        with pytest.raises(ConflictError) as caught:
            await apply(session, Discovery(session), _manifest("batch/v1", "Job", "j"))
    assert caught.value.hint == "Wait until the namespace is gone, then try again."


async def test_a_manifest_without_an_object_as_metadata_is_one_sentence(tmp_path: Path) -> None:
    async with session_to(Api(), tmp_path) as session:
        with pytest.raises(InputError, match=r"has no metadata\.name"):
            await apply(session, Discovery(session), {"apiVersion": "v1", "kind": "Pod", "metadata": ["x"]})


async def test_a_conflict_names_owner_and_field(tmp_path: Path) -> None:
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "kubectl-client-side-apply" using batch/v1',
        "field": ".spec.parallelism",
    }
    answer = {"code": 409, "reason": "Conflict", "message": "conflicts", "details": {"causes": [cause]}}
    async with session_to(Api(PATCH=(409, answer)), tmp_path) as session:
        with pytest.raises(ApplyConflictError, match=r"Job work/j: \.spec\.parallelism belongs to kubectl") as caught:
            await apply(session, Discovery(session), _manifest("batch/v1", "Job", "j"))
    assert caught.value.conflicts == (FieldConflict("kubectl-client-side-apply", ".spec.parallelism"),)
    assert isinstance(caught.value, ConflictError)


async def test_an_immutable_job_says_what_to_do(tmp_path: Path) -> None:
    cause = {"reason": "FieldValueInvalid", "message": "Invalid value: …: field is immutable", "field": "spec.template"}
    answer = {"code": 422, "reason": "Invalid", "message": 'Job "j" is invalid', "details": {"causes": [cause]}}
    async with session_to(Api(PATCH=(422, answer)), tmp_path) as session:
        with pytest.raises(RefusedError, match=r"Job work/j exists, and spec\.template cannot be changed") as caught:
            await apply(session, Discovery(session), _manifest("batch/v1", "Job", "j"))
    assert "Delete the Job" in caught.value.hint


async def test_an_unknown_field_is_quoted_with_the_object(tmp_path: Path) -> None:
    answer = {"code": 400, "reason": "BadRequest", "message": 'strict decoding error: unknown field "spec.tpyo"'}
    async with session_to(Api(PATCH=(400, answer)), tmp_path) as session:
        with pytest.raises(RefusedError, match=r'Job work/j is refused: .*unknown field "spec\.tpyo"'):
            await apply(session, Discovery(session), _manifest("batch/v1", "Job", "j"))


async def test_an_unknown_kind_names_the_operator_to_install(tmp_path: Path) -> None:
    async with session_to(Api(), tmp_path) as session:
        with pytest.raises(MissingError, match=r"does not know the kind Thing of x\.io/v1") as caught:
            await fetch_object(session, Discovery(session), ObjectRef("x.io/v1", "Thing", "n", "t"))
    assert "operator" in caught.value.hint


async def test_a_manifest_without_a_name_is_an_input_error(tmp_path: Path) -> None:
    async with session_to(Api(), tmp_path) as session:
        with pytest.raises(InputError, match=r"metadata\.name"):
            await apply(session, Discovery(session), {"apiVersion": "v1", "kind": "Pod"})


async def test_single_objects_go_to_the_right_paths(tmp_path: Path) -> None:
    api = Api()
    pod = ObjectRef("v1", "Pod", "n", "p")
    async with session_to(api, tmp_path) as session:
        discovery = Discovery(session)
        await create(session, discovery, _manifest("v1", "Pod", "p", namespace="n"))
        await merge_patch(session, discovery, pod, {"metadata": {"labels": {"a": "b"}}})
        assert await delete(session, discovery, pod, uid="u1") is True
        await fetch_object(session, discovery, ObjectRef("v1", "Namespace", "", "n"))
    assert [(method, path) for method, path, _, _ in api.calls] == [
        ("POST", "/api/v1/namespaces/n/pods"),
        ("PATCH", "/api/v1/namespaces/n/pods/p"),
        ("DELETE", "/api/v1/namespaces/n/pods/p"),
        ("GET", "/api/v1/namespaces/n"),
    ]
    assert api.calls[2][3]["preconditions"] == {"uid": "u1"}


async def test_deleting_what_is_gone_is_not_an_error(tmp_path: Path) -> None:
    async with session_to(Api(DELETE=(404, {"code": 404, "message": "gone"})), tmp_path) as session:
        assert await delete(session, Discovery(session), ObjectRef("v1", "Pod", "n", "p")) is False


async def test_a_list_is_read_page_by_page_and_its_items_name_their_kind(tmp_path: Path) -> None:
    pages = {
        "": {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "a"}}]},
        "more": {"metadata": {}, "items": [{"metadata": {"name": "b"}}]},
    }
    seen: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path in _GROUPS:
            return web.json_response({"resources": _GROUPS[request.path]})
        seen.append(dict(request.query))
        return web.json_response(pages[request.query.get("continue", "")])

    async with session_to(answer, tmp_path) as session:
        found = await list_objects(session, Discovery(session), "v1", "Pod", label_selector="a=b")
    assert [(pod["kind"], pod["metadata"]["name"]) for pod in found] == [("Pod", "a"), ("Pod", "b")]
    assert all(query["labelSelector"] == "a=b" for query in seen)
