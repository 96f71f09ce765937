"""Rights: the administrator's, the viewer's, and those that roles give."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from actions.sandbox.apiserver.requests.access import User
from actions.sandbox.controllers.bootstrap import viewer_documents
from tests.unit.sandbox.apiserver.server import ACCESS_KEY, CONFIG_MAPS, PODS, Client, an_api, create

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
VIEWER = {"Authorization": "Bearer secret"}
TOKENS = {"secret": User("viewer")}


async def _with_viewer(client: Client) -> None:
    role, binding = viewer_documents()
    await create(client, f"{RBAC}/clusterroles", role)
    await create(client, f"{RBAC}/clusterrolebindings", binding)


async def _code(client: Client, method: str, path: str, headers: dict[str, str], body: Any = None) -> int:
    async with client.request(method, path, headers=headers, json=body) as answer:
        return answer.status


async def test_a_token_that_is_none_of_ours_is_not_let_in() -> None:
    async with an_api(tokens=TOKENS) as client:
        assert await _code(client, "GET", PODS, {"Authorization": "Bearer other"}) == 401
        assert await _code(client, "GET", "/api", {"Authorization": "Basic c2VjcmV0"}) == 401


async def test_a_role_counts_in_its_namespace_and_for_its_names_only() -> None:
    async with an_api() as client:
        await create(client, "/api/v1/namespaces", {"metadata": {"name": "other"}})
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["mine"]}
        space = f"{RBAC}/namespaces/default"
        await create(client, f"{space}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
        subjects = [{"kind": "Group", "name": "team"}, {"kind": "ServiceAccount", "name": "s", "namespace": "default"}]
        reference = {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects}
        await create(client, f"{space}/rolebindings", binding)
        member = {"Impersonate-User": "somebody", "Impersonate-Group": "team"}
        account = {"Impersonate-User": "system:serviceaccount:default:s"}
        for headers in (member, account):
            assert await _code(client, "GET", f"{CONFIG_MAPS}/mine", headers) == 404
            assert await _code(client, "GET", f"{CONFIG_MAPS}/yours", headers) == 403
            assert await _code(client, "GET", "/api/v1/namespaces/other/configmaps/mine", headers) == 403
        assert await _code(client, "GET", f"{CONFIG_MAPS}/mine", {"Impersonate-User": "nobody"}) == 403


async def test_reviews_tell_each_user_the_truth() -> None:
    async with an_api(tokens=TOKENS) as client:
        await _with_viewer(client)

        async def may(headers: dict[str, str], **attributes: str) -> bool:
            body = {"spec": {"resourceAttributes": attributes}}
            async with client.post(f"{REVIEWS}/selfsubjectaccessreviews", json=body, headers=headers) as answer:
                allowed: bool = (await answer.json())["status"]["allowed"]
                return allowed

        assert await may({}, verb="delete", resource="nodes")
        assert await may(VIEWER, verb="get", resource="pods", subresource="log", namespace="default")
        assert not await may(VIEWER, verb="create", resource="pods", subresource="exec", namespace="default")
        assert not await may(VIEWER, verb="get", resource="secrets", namespace="default")


async def test_only_an_administrator_may_speak_for_others() -> None:
    async with an_api(tokens=TOKENS) as client:
        assert await _code(client, "GET", PODS, VIEWER | {"Impersonate-User": "admin"}) == 403


def _eks_token(key: str) -> dict[str, str]:
    url = f"https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&X-Amz-Credential={key}%2F20250101%2Fus-west-2"
    return {"Authorization": "Bearer k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")}


async def test_a_token_of_eks_is_the_administrators_if_it_is_made_with_the_accounts_key() -> None:
    async with an_api(tokens=TOKENS) as client:
        assert await _code(client, "GET", "/api/v1/nodes", _eks_token(ACCESS_KEY.id)) == 200
        for headers in (_eks_token("AKIABBBBBBBBBBBBBBBB"), {"Authorization": "Bearer k8s-aws-v1.aHR0cHM"}):
            assert await _code(client, "GET", "/api/v1/nodes", headers) == 401


@pytest.mark.parametrize(
    ("path", "code"),
    [("/version", 200), ("/livez", 200), ("/readyz", 200), ("/healthz", 200), ("/api", 401), ("/apis", 401),
     (PODS, 401), ("/openapi/v2", 401), (f"{PODS}/web/exec?command=sh", 401), ("/nothing", 401)],
)  # fmt: skip
async def test_without_a_token_only_health_and_version_are_told(path: str, code: int) -> None:
    async with an_api() as client:
        client.session.headers.popall("Authorization")
        assert await _code(client, "GET", path, {}) == code
        if code == 401:
            async with client.get(path) as answer:
                told = await answer.json()
            assert (told["kind"], told["reason"], told["code"]) == ("Status", "Unauthorized", 401)
