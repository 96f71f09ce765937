"""A question that is forbidden or not answered keeps what it is about; an audit that could not ask reports so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actions.cluster.objects.client import ObjectRef
from actions.run.client import send_request
from actions.run.report import run_table
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView
from actions.sandbox.locate import RunningSandbox
from actions.script.conditions import _audit
from actions.script.report import exit_code_of, run_report
from tests.faults.small import a_run
from tests.faults.somebody import Somebody
from tests.faults.test_stages import DEFINITION
from tests.faults.watched import fault
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.smallrun import carry_out, own_name, torn_down

SANDBOX_SPEED = 100.0

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAME}\n"
INSIDE = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: ours, namespace: NAME}\n"
THINGS = DEFINITION.replace("toys.tests", "things.d01").replace("tests.eksml.dev", "d01.eksml.dev")
THINGS = THINGS.replace("Toy", "Thing").replace("toy", "thing")


def secret(namespace: str, name: str = "foreign-secret") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}


def said(view: RunView, step: str = "objects") -> str:
    return next(one.message for one in view.teardown if one.id == step)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for what may pass: of tests in which it does not."""
    monkeypatch.setattr("actions.run.objects.contents.SETTLE_SECONDS", 0.0)


async def test_d01_a_namespace_in_which_secrets_may_not_be_listed_stays(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    space = own_name(tmp_path)
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE + INSIDE)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    await somebody.put(secret(space))
    foreign = ObjectRef("v1", "Secret", space, "foreign-secret")
    with fault(sandbox, "kind=forbidden", "resources=secrets", "verbs=list"):
        view = await torn_down(folder)
        assert view.state is RunState.FAILED
        assert f"may not list secrets in {space}" in said(view)
        assert "eksml-tui print rbac" in said(view)
        assert await somebody.get(foreign) is not None
        assert await somebody.get(ObjectRef("v1", "ConfigMap", space, "ours")) is not None, "half done"
    send_request(folder, RequestKind.RETRY, start=False)
    assert "Secret foreign-secret, not the run's" in said(await carry_out(folder))
    await somebody.remove(foreign)
    send_request(folder, RequestKind.RETRY, start=False)
    view = await carry_out(folder)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert view.audit.is_clean


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("kind=forbidden", "path=/apis/d01.eksml.dev/v1"), "may not find out the kinds of d01.eksml.dev/v1"),
        (("kind=broken", "path=/apis/d01.eksml.dev/v1"), "could not find out the kinds of d01.eksml.dev/v1: "),
        (("kind=broken", "resources=things", "verbs=list"), "could not list things.d01.eksml.dev in NAME: "),
        (("kind=bad-gateway", "path=/apis/d01.eksml.dev/v1"), "could not find out the kinds of d01.eksml.dev/v1: "),
    ],
    ids=["no discovery", "discovery is down", "list is broken", "a proxy answers"],
)
async def test_d01_a_namespace_stays_while_one_group_does_not_answer(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, settings: tuple[str, ...], words: str
) -> None:
    space = own_name(tmp_path)
    await somebody.put_yaml(THINGS)
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE)
    await carry_out(folder)
    await somebody.put(
        {"apiVersion": "d01.eksml.dev/v1", "kind": "Thing", "metadata": {"name": "theirs", "namespace": space}}
    )
    with fault(sandbox, *settings):
        view = await torn_down(folder)
        assert words.replace("NAME", space) in said(view)
    assert await somebody.get(ObjectRef("d01.eksml.dev/v1", "Thing", space, "theirs")) is not None


async def test_d01_a_definition_whose_objects_may_not_be_listed_stays(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    definition = DEFINITION.replace("toys", "dolls").replace("Toy", "Doll").replace("toy", "doll")
    folder = a_run(tmp_path, sandbox, objects=definition)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    doll = ObjectRef("tests.eksml.dev/v1", "Doll", "default", "theirs")
    await somebody.put(
        {"apiVersion": doll.api_version, "kind": "Doll", "metadata": {"name": "theirs", "namespace": "default"}}
    )
    with fault(sandbox, "kind=forbidden", "resources=dolls", "verbs=list"):
        assert "may not list dolls.tests.eksml.dev" in said(await torn_down(folder))
    assert await somebody.get(doll) is not None
    await somebody.remove(doll)
    send_request(folder, RequestKind.RETRY, start=False)
    assert (await carry_out(folder)).state is RunState.TORN_DOWN


async def test_d01_a_bad_moment_of_one_group_is_waited_for(tmp_path: Path, sandbox: RunningSandbox) -> None:
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE)
    await carry_out(folder)
    with fault(sandbox, "kind=broken", "path=/apis/apps/v1", "count=2"):
        assert (await torn_down(folder)).state is RunState.TORN_DOWN


async def test_d01_an_audit_that_may_not_list_a_kind_is_unknown_wherever_it_is_shown(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = a_run(tmp_path, sandbox)
    run_id = (await carry_out(folder)).id
    left = {"name": own_name(tmp_path) + "-left", "namespace": "default", "labels": {"eksml.dev/run": run_id}}
    await somebody.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": left})
    with fault(sandbox, "kind=forbidden", "resources=configmaps", "verbs=list"):
        view = await torn_down(folder)
    assert view.audit is not None
    elsewhere, here = view.audit.unknown
    assert elsewhere == "This user may not list 1 kind outside of default: configmaps."
    assert here == "This user may not list configmaps in default."
    assert view.audit.leftovers == ()
    assert said(view, "audit").startswith(f"It is unknown whether anything is left. {elsewhere}")
    text = run_table(view)
    assert "Nothing is left" not in text
    assert "torn down, but what is left is unknown" in text
    assert "may not list configmaps" in text
    seen = _audit(view)
    assert (seen.holds, seen.cannot_pass) == (False, True)
    assert "may not list configmaps" in seen.text
    report = run_report(view)
    assert report.unknown == view.audit.unknown
    assert exit_code_of((), report) == 3
    send_request(folder, RequestKind.TEARDOWN, start=False)
    again = await carry_out(folder)
    assert again.audit is not None
    assert again.audit.unknown == ()
    assert [line.partition(": ")[2].partition(";")[0] for line in again.audit.leftovers] == [
        "carries the run's label, but the run never recorded making it"
    ]


async def test_d01_a_right_to_delete_that_is_missing_is_said_before_anything_is_gone(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    name = own_name(tmp_path)
    await somebody.put_yaml(ROLE.replace("NAME", name))
    folder = a_run(tmp_path, sandbox, objects=f"{MAP}---\n{SECRET}")
    await carry_out(folder)
    as_somebody(folder, name)
    view = await torn_down(folder)
    assert "Nothing was removed. this user may not delete secrets in default" in said(view)
    assert await somebody.get(ObjectRef("v1", "ConfigMap", "default", name)) is not None


MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\n"
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules:
  - {apiGroups: ["*"], resources: ["*"], verbs: [get, list]}
  - {apiGroups: [""], resources: [configmaps], verbs: [delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: NAME}]
"""


def as_somebody(folder: Path, user: str) -> None:
    """From now on the run works as another user of its cluster."""
    path = folder / "kubeconfig"
    document = json.loads(path.read_bytes())
    document["users"][0]["user"]["as"] = user
    path.write_text(json.dumps(document))


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    started = Program(tmp_path / "home")
    (started.state / "runs").mkdir(parents=True)
    yield started
    started.end_all()


async def test_d01_the_whole_program_keeps_the_namespace_and_says_why(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, program: Program
) -> None:
    """As it was found: the namespace went, with the secret in it, and the audit found that nothing was left."""
    folder = a_run(tmp_path, sandbox, objects=NAMESPACE, home=program.state / "runs")
    space = own_name(tmp_path)

    def shown() -> dict[str, Any]:
        return dict(json.loads(program.command("runs", "show", folder.name, "--output", "json").stdout))

    assert program.command("runs", "resume", folder.name).returncode == 0
    wait(lambda: shown()["state"] == "succeeded", "the run")
    await somebody.put(secret(space))
    with fault(sandbox, "kind=forbidden", "resources=secrets", "verbs=list"):
        assert program.command("runs", "teardown", folder.name, "--confirm", "bionemo-on-eks").returncode == 0
        wait(lambda: shown()["state"] == "failed", "the end of the teardown")
    assert f"may not list secrets in {space}" in program.command("runs", "show", folder.name).stdout
    assert await somebody.get(ObjectRef("v1", "Secret", space, "foreign-secret")) is not None
