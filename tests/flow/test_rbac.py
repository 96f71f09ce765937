"""The rights of `assets/rbac.yaml`: enough to tear down and to be sure of it; and with each one taken away, no harm.

On the sandbox, and on the real API server where there is one. The run is launched by an administrator; then its own
kubeconfig says `as` somebody who has the role `eksml-teardown` and nothing else.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.files import asset
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import apply
from actions.cluster.objects.client import Discovery, ObjectRef, delete, fetch_object
from actions.run.client import send_request
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView
from tests.support.applying import apply_all
from tests.support.smallrun import a_small_run, carry_out, own_name, torn_down

ROLES = {one["metadata"]["name"]: one for one in yaml.safe_load_all(asset("rbac.yaml").read_text(encoding="utf-8"))}
RULES: list[dict[str, Any]] = ROLES["eksml-teardown"]["rules"]
MADE = {"configmaps", "namespaces", "secrets", "serviceaccounts", "services", "deployments", "jobs", "clusterroles",
        "customresourcedefinitions", "*"}  # fmt: skip
"""The resources that the run makes; of the other rules, one is tried."""
NEEDED = [number for number, rule in enumerate(RULES) if MADE & set(rule["resources"])]
SPARE = next(number for number in range(len(RULES)) if number not in NEEDED)
VERBS = [(number, verb) for number in (*NEEDED, SPARE) for verb in RULES[number]["verbs"]]

BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: rights, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: rights, region: us-west-2}
  - {id: objects, kind: manifests, title: Objects, needs: [access], expect: 1s..5s, manifests: [objects.yaml]}
"""
OBJECTS = """
apiVersion: v1
kind: Namespace
metadata: {name: NAME}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAMEs.rights.eksml.dev}
spec:
  group: rights.eksml.dev
  scope: Namespaced
  names: {kind: K-NAME, listKind: K-NAMEList, plural: NAMEs, singular: NAME}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: NAME}
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: NAME}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: NAME}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME-operator}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAME}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAME}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: example.com/web}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: work, namespace: NAME}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/work}]}}}
"""
LOADED = ("configmaps", "secrets", "deployments", "jobs", "leases", "endpointslices", "NAMEs")
"""Resources of the run's namespace that one may be left without."""


@dataclass(frozen=True)
class Place:
    """A cluster in the hands of its administrator."""

    kubeconfig: Path
    session: KubeSession
    discovery: Discovery

    async def put(self, manifest: dict[str, Any]) -> None:
        await apply(self.session, self.discovery, manifest, manager="somebody-else", force=True)

    async def is_there(self, ref: ObjectRef) -> bool:
        self.discovery.forget()
        return bool(await fetch_object(self.session, self.discovery, ref))

    async def resources(self) -> list[tuple[str, str]]:
        """Group and plural of all there are."""
        groups = (await self.session.get("/apis"))["groups"]
        versions = ["v1", *(one["groupVersion"] for group in groups for one in group["versions"])]
        found: dict[tuple[str, str], None] = {}
        for version in versions:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for one in (await self.session.get(root))["resources"]:
                found[(version.rpartition("/")[0], one["name"])] = None
        return list(found)


@pytest.fixture
def place(kubeconfig: Path, session: KubeSession) -> Place:
    return Place(kubeconfig, session, Discovery(session))


@contextmanager
def as_user(folder: Path, user: str) -> Iterator[None]:
    """The run's kubeconfig says `as` somebody."""
    path = folder / "kubeconfig"
    before = path.read_bytes()
    document = json.loads(before)
    document["users"][0]["user"]["as"] = user
    path.write_text(json.dumps(document))
    yield
    path.write_bytes(before)


@asynccontextmanager
async def bound(place: Place, name: str, rules: list[dict[str, Any]]) -> AsyncIterator[str]:
    """A user of this name with these rules and no others."""
    api = "rbac.authorization.k8s.io"
    metadata = {"metadata": {"name": f"{name}-rights"}}
    role = {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "rules": rules, **metadata}
    reference = {"apiGroup": api, "kind": "ClusterRole", "name": f"{name}-rights"}
    subjects = [{"apiGroup": api, "kind": "User", "name": name}]
    binding = {"apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "roleRef": reference, **metadata}
    await apply_all(place.session, place.discovery, [role, {**binding, "subjects": subjects}])
    yield name
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        await delete(place.session, place.discovery, ObjectRef(f"{api}/v1", kind, "", f"{name}-rights"))


async def launched(tmp_path: Path, place: Place) -> Path:
    """A run that has made its objects."""
    files = {"blueprint.yaml": BLUEPRINT, "objects.yaml": OBJECTS.replace("NAME", name_of(tmp_path))}
    folder = a_small_run(tmp_path, files, kubeconfig=place.kubeconfig)
    view = await carry_out(folder)
    assert view.state is RunState.SUCCEEDED, [stage.message for stage in view.stages]
    return folder


def name_of(tmp_path: Path) -> str:
    return "r" + own_name(tmp_path).replace("-", "")[-30:]


async def cleared(folder: Path) -> None:
    """Torn down by the administrator."""
    send_request(folder, RequestKind.RETRY, start=False)
    view = await carry_out(folder)
    if view.state is not RunState.TORN_DOWN:
        raise AssertionError([step.message for step in view.teardown])


def is_said(view: RunView) -> bool:
    """Return whether the run reports that it lacks a right."""
    audit = view.audit.unknown if view.audit else ()
    return any("may not" in text or "Not allowed" in text for text in (*audit, *(one.message for one in view.teardown)))


async def test_s11_the_role_is_enough_for_a_teardown_and_for_its_audit(tmp_path: Path, place: Place) -> None:
    folder = await launched(tmp_path, place)
    async with bound(place, name_of(tmp_path), RULES) as user:
        with as_user(folder, user):
            view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN, [step.message for step in view.teardown]
    assert view.audit is not None
    assert (view.audit.leftovers, view.audit.unknown) == ((), ())


@pytest.mark.parametrize(("number", "verb"), VERBS, ids=[f"{number}-{verb}" for number, verb in VERBS])
async def test_s11_without_one_of_its_verbs_nothing_foreign_is_deleted(
    tmp_path: Path, place: Place, number: int, verb: str
) -> None:
    folder, name = await launched(tmp_path, place), name_of(tmp_path)
    foreign = await put_foreign(place, name)
    rules = copy.deepcopy(RULES)
    rules[number]["verbs"].remove(verb)
    async with bound(place, name, [rule for rule in rules if rule["verbs"]]) as user:
        with as_user(folder, user):
            view = await torn_down(folder)
            assert view.state is RunState.FAILED
            for ref in foreign:
                assert await place.is_there(ref), ref
            for ref in foreign:
                await delete(place.session, place.discovery, ref)
            send_request(folder, RequestKind.RETRY, start=False)
            view = await carry_out(folder)
            is_clean = view.state is RunState.TORN_DOWN and view.audit is not None and view.audit.is_clean
            assert is_clean is not (number in NEEDED)
            assert is_said(view) is (number in NEEDED)
    if not is_clean:
        await cleared(folder)


@pytest.mark.parametrize("resource", LOADED)
async def test_d01_without_the_right_to_list_one_resource_its_foreign_objects_stay(
    tmp_path: Path, place: Place, resource: str
) -> None:
    folder, name = await launched(tmp_path, place), name_of(tmp_path)
    hidden = resource.replace("NAME", name)
    foreign = await put_foreign(place, name)
    listed: dict[str, list[str]] = {}
    for group, plural in await place.resources():
        if plural != hidden:
            listed.setdefault(group, []).append(plural)
    lists = [{"apiGroups": [group], "resources": names, "verbs": ["list"]} for group, names in listed.items()]
    async with bound(place, name, [*lists, *RULES[1:]]) as user:
        with as_user(folder, user):
            view = await torn_down(folder)
            assert any(f"may not list {hidden}" in step.message for step in view.teardown)
            for ref in foreign:
                assert await place.is_there(ref), ref
    for ref in foreign:
        await delete(place.session, place.discovery, ref)
    await cleared(folder)


async def put_foreign(place: Place, name: str) -> list[ObjectRef]:
    """Somebody else's objects in the run's namespace, and of the run's kind, some with its label."""
    refs = [
        ObjectRef("v1", "Secret", name, "foreign"),
        ObjectRef("v1", "ConfigMap", name, "foreign"),
        ObjectRef("coordination.k8s.io/v1", "Lease", name, "foreign"),
        ObjectRef("rights.eksml.dev/v1", f"K-{name}", "default", f"foreign-{name}"),
    ]
    place.discovery.forget()
    for ref in refs:
        metadata = {"name": ref.name, "namespace": ref.namespace}
        await place.put({"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata})
    return refs


def test_s11_no_role_opens_more_than_it_says() -> None:
    """No wildcard but the lists, no way to act as somebody else; secrets are read by those that have to only."""
    for name, role in ROLES.items():
        for rule in role["rules"]:
            verbs = set(rule["verbs"])
            assert "*" not in verbs
            assert not verbs & {"impersonate"}
            assert not verbs & {"bind", "escalate"} or name == "eksml-prepare"
            assert "*" not in rule["resources"] or (name, verbs) == ("eksml-teardown", {"list"})
            assert not {"nodes/proxy", "serviceaccounts/token"} & set(rule["resources"])
            assert "pods/exec" not in rule["resources"] or name == "eksml-shell"
            assert "services/proxy" not in rule["resources"] or (name, verbs) == ("eksml-history", {"get"})
    assert not any("secrets" in rule["resources"] for rule in ROLES["eksml-look"]["rules"])
