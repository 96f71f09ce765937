"""Variables from Secrets and ConfigMaps: there when the container starts, waited for when they are not."""

from __future__ import annotations

from pathlib import Path

from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import CONFIG_MAPS, PODS, SECRETS, Document
from tests.unit.sandbox.controllers.server import until, whole_cluster


def _pod(container: Document) -> Document:
    base = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sh", "-c", "echo $USER_NAME $PASSWORD $APP_COLOUR $NONE."],
    }
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"restartPolicy": "Never", "containers": [base | container]},
    }


def _waits_because(pod: Document | None) -> str:
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    waiting = (statuses[0].get("state") or {}).get("waiting") or {}
    return f"{waiting.get('reason')}: {waiting.get('message')}"


def _is_done(pod: Document | None) -> bool:
    return ((pod or {}).get("status") or {}).get("phase") == "Succeeded"


async def _log(client: ApiClient) -> str:
    return (await client.session.request("GET", PODS.path("default/p") + "/log")).decode()


async def test_a_container_waits_for_what_its_variables_refer_to(tmp_path: Path) -> None:
    container: Document = {
        "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "settings"}}],
        "env": [
            {"name": "USER_NAME", "value": "me"},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "no", "optional": True}}},
        ],
    }
    async with whole_cluster(tmp_path) as client:
        await client.create(PODS, _pod(container))
        wanted = 'CreateContainerConfigError: configmap "settings" not found'
        await until(client, PODS, "default/p", lambda pod: _waits_because(pod) == wanted)
        place = {"namespace": "default"}
        await client.create(CONFIG_MAPS, {"metadata": {"name": "settings", **place}, "data": {"COLOUR": "red"}})
        await client.create(SECRETS, {"metadata": {"name": "login", **place}, "data": {"other": "eA=="}})
        wanted = "CreateContainerConfigError: couldn't find key password in Secret default/login"
        await until(client, PODS, "default/p", lambda pod: _waits_because(pod) == wanted)
        await client.patch(SECRETS, "default/login", {"data": {"password": "c2VjcmV0"}})
        await until(client, PODS, "default/p", _is_done)
        assert await _log(client) == "me secret red .\n"
