"""A run's watchdog in its cluster: made while jobs hold accelerators, acting for a silent runner, gone afterwards.

On the sandbox, and on the real API server where there is one. Its pod is not started: its program is, with the rights
of its service account.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from actions.base.errors import MissingError
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object
from actions.run.client import load_run, send_request, set_limits
from actions.run.engine import limit_guard
from actions.run.engine.live_backend import LiveBackend
from actions.run.engine.runner_process import main
from actions.run.limits.rules import is_watchdog
from actions.run.state.records import Limits, RequestKind
from actions.run.state.view import RunState
from actions.run.store.access import known_store
from actions.run.watchdog import keeper
from actions.run.watchdog.manifests import config_of, watchdog_name, watched_objects
from actions.run.watchdog.script import NOTE, Api, watch
from tests.support.pods import as_a_pod
from tests.support.polling import until
from tests.support.smallrun import a_small_run, own_name

BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: guarded, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: guarded, region: us-west-2}
  - {id: place, kind: manifests, title: Place, needs: [access], expect: 1s..5s, manifests: [place.yaml]}
  - id: train
    kind: job
    title: Train
    needs: [place]
    expect: 1s..5s
    manifests: [train.yaml]
    target: {api_version: batch/v1, kind: Job, namespace: NAME, name: train}
"""
PLACE = """
apiVersion: v1
kind: Namespace
metadata: {name: NAME}
"""
TRAIN = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: NAME}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox:1.36, command: [sleep, "1000000"]}]
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(keeper, "NOTE_SECONDS", 0.5)
    monkeypatch.setattr(limit_guard, "LOOK_SECONDS", 0.2)


def a_run(tmp_path: Path, kubeconfig: Path) -> Path:
    name = own_name(tmp_path)
    texts = {"blueprint.yaml": BLUEPRINT, "place.yaml": PLACE, "train.yaml": TRAIN}
    files = {file: text.replace("NAME", name) for file, text in texts.items()}
    folder = a_small_run(tmp_path, files, kubeconfig=kubeconfig, existing_cluster=True)
    set_limits(folder, Limits(watchdog_minutes=60), start=False)
    return folder


async def _exists(session: KubeSession, ref: ObjectRef) -> bool:
    try:
        await fetch_object(session, Discovery(session), ref)
    except MissingError:
        return False
    return True


def names_of(folder: Path) -> set[str]:
    return {item.kind for item in load_run(folder).owned if is_watchdog(item) and item.uid}


def own_token(kubeconfig: Path) -> str:
    """The token of an administrator of the sandbox; empty for a real cluster, where one is asked for."""
    return str(yaml.safe_load(kubeconfig.read_text())["users"][0]["user"].get("token", ""))


async def surroundings(kubeconfig: Path, session: KubeSession, account: str, folder: Path) -> dict[str, str]:
    """A pod's means to reach its cluster: address, authority, token. The sandbox has one of its user alone."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = cluster.get("certificate-authority-data")
    text = base64.b64decode(authority) if authority else Path(cluster["certificate-authority"]).read_bytes()
    folder.mkdir()
    (folder / "ca.crt").write_bytes(text)
    (folder / "token").write_text(own_token(kubeconfig) or await _token_of(session, account))
    for place, mode in ((folder, 0o755), (folder / "ca.crt", 0o644), (folder / "token", 0o644)):
        place.chmod(mode)  # as a kubelet mounts them
    address = urlsplit(cluster["server"])
    return {
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
        "EKSML_SERVICE_ACCOUNT": str(folder),
    }


async def _token_of(session: KubeSession, account: str) -> str:
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    answer = await session.request("POST", f"/api/v1/namespaces/default/serviceaccounts/{account}/token", body=body)
    return str(msgspec.json.decode(answer)["status"]["token"])


@asynccontextmanager
async def carried_out(folder: Path) -> AsyncIterator[asyncio.Task[int]]:
    """A runner of the run on a thread of its own, which has ended afterwards, also if the test fails."""
    work = asyncio.create_task(asyncio.to_thread(main, folder, LiveBackend))
    try:
        yield work
    finally:
        if not work.done():
            send_request(folder, RequestKind.TEARDOWN, start=False)
            await work


def as_its_pod(
    cron: dict[str, Any], environment: dict[str, str], *, minutes: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The command of the CronJob's container, as it stands there and under what its pod demands.

    Args:
        cron: The object.
        environment: See `surroundings`.
        minutes: Allowed without a heartbeat, if not those of the run.
    """
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsUser"] == 65534
    assert container["securityContext"]["readOnlyRootFilesystem"]
    program, *arguments = container["command"]
    assert program == "python3"
    config = json.loads(container["env"][0]["value"])
    changed = {} if minutes is None else {"minutes": minutes}
    variables = {name: environment[name] for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")}
    variables["EKSML_WATCHDOG"] = json.dumps(config | changed)
    account = Path(environment["EKSML_SERVICE_ACCOUNT"])
    if os.geteuid() or not shutil.which("unshare"):  # a namespace of mounts is for root alone
        everything = {**os.environ, **variables, "EKSML_SERVICE_ACCOUNT": str(account)}
        return subprocess.run([sys.executable, *arguments], env=everything, capture_output=True, text=True, check=False)
    mebibytes = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
    tried = as_a_pod(["-c", "open('/tmp/x', 'w')"], variables, account, memory_bytes=mebibytes << 20)
    assert "Read-only file system" in tried.stderr, tried.stderr
    return as_a_pod(arguments, variables, account, memory_bytes=mebibytes << 20)


def in_two_hours(environment: dict[str, str], config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """The watchdog's program as its service account on the sandbox, two hours after the last heartbeat."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    api = Api()
    api.headers["Impersonate-User"] = f"system:serviceaccount:default:{watchdog_name(config['run'])}"
    return watch(api, config, datetime.now(UTC) + timedelta(hours=2))


async def test_a_silent_run_is_parked_by_its_watchdog_and_its_runner_takes_note(
    tmp_path: Path, kubeconfig: Path, session: KubeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path, kubeconfig)
    async with carried_out(folder) as work:
        await until(lambda: "CronJob" in names_of(folder), "the watchdog")
        assert names_of(folder) == {"ServiceAccount", "Role", "RoleBinding", "CronJob"}
        lease = ObjectRef("coordination.k8s.io/v1", "Lease", known_store(folder).namespace, f"eksml-run-{folder.name}")
        await until(lambda: _exists(session, lease), "the run's lease")
        environment = await surroundings(kubeconfig, session, watchdog_name(folder.name), tmp_path / "account")
        view = load_run(folder)
        config = config_of(view, watched_objects(view), known_store(folder).namespace)
        cron = await fetch_object(
            session, Discovery(session), ObjectRef("batch/v1", "CronJob", "default", watchdog_name(view.id))
        )
        container = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
        assert json.loads(container["env"][0]["value"]) == config
        early = await asyncio.to_thread(as_its_pod, cron, environment)
        assert (early.returncode, "0 min old: nothing was done" in early.stdout) == (0, True), early.stderr
        if own_token(kubeconfig):
            said = await asyncio.to_thread(in_two_hours, environment, config, monkeypatch)
        else:
            late = await asyncio.to_thread(as_its_pod, cron, environment, minutes=0)
            assert late.returncode == 0, late.stderr
            said = late.stdout
        assert f"suspended Job/{own_name(tmp_path)}/train" in said
        assert await work == 0
    parked = load_run(folder)
    assert parked.state is RunState.PARKED
    assert [one.limit for one in parked.limits_reached] == ["watchdog_minutes"]
    silence = (120, 60) if own_token(kubeconfig) else (0, 0)
    assert "heartbeat was {} min old, {} min are allowed".format(*silence) in parked.limits_reached[0].text
    assert names_of(folder) == set()
    assert NOTE not in ((await fetch_object(session, Discovery(session), lease))["metadata"].get("annotations") or {})
    send_request(folder, RequestKind.TEARDOWN, start=False)
    assert await asyncio.to_thread(main, folder, LiveBackend) == 0
    audit = load_run(folder).audit
    assert audit is not None
    assert audit.is_clean, audit


async def test_a_teardown_removes_the_watchdog_and_its_audit_finds_nothing(
    tmp_path: Path, kubeconfig: Path, session: KubeSession
) -> None:
    folder = a_run(tmp_path, kubeconfig)
    async with carried_out(folder) as work:
        await until(lambda: "CronJob" in names_of(folder), "the watchdog")
        send_request(folder, RequestKind.TEARDOWN, start=False)
        assert await work == 0
    view = load_run(folder)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert view.audit.is_clean, view.audit
    assert names_of(folder) == set()
    assert not await _exists(session, ObjectRef("batch/v1", "CronJob", "default", watchdog_name(view.id)))
