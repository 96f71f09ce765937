"""The pure parts of stages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import BlueprintError, ConfigError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cloud.aws_session import MissingPermissionError
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.objects.client import ObjectRef
from actions.run.checks.cluster import allows_instance_type
from actions.run.context import secrets
from actions.run.context.secrets import fetch_secrets, referenced_environment, resolve_secret
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.folder import blueprint_path, journal_path
from actions.run.journal.reader import load_run
from actions.run.journal.store import Journal
from actions.run.launch import LaunchOrder, create_run
from actions.run.objects.inventory import wait_command
from actions.run.stages.kubeconfig import copy_of
from actions.run.state.records import Action, Intent, Outcome, RequestKind, Result, RunRequest
from actions.run.state.view import StageState
from tests.support.answering import write_kubeconfig
from tests.support.smallrun import a_small_run

ONE_STAGE = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: small, region: us-west-2}
stages:
  - {id: rules, kind: network, title: Rules, expect: 1s..5s, security_group: sg-1}
"""


def test_a_stage_whose_kind_was_changed_in_the_runs_copy_is_refused(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    folder = a_small_run(tmp_path, {"blueprint.yaml": ONE_STAGE}, kubeconfig=kubeconfig)
    changed = ONE_STAGE.replace("kind: network", "kind: check").replace("security_group: sg-1", "checks: []")
    (blueprint_path(folder) / "blueprint.yaml").write_text(changed)
    view = load_run(folder)
    message = "Stage rules is of kind check in the run's copy of its blueprint, and of kind network in its journal."
    with pytest.raises(BlueprintError, match=f"^{re.escape(message)}$"):
        LiveBackend(folder, SystemClock()).describe(view, view.stage("rules"))


@pytest.mark.parametrize("existing_cluster", [False, True])
async def test_a_teardown_removes_the_cluster_from_the_step_on_that_gives_the_way_to_it_up(
    tmp_path: Path, *, existing_cluster: bool
) -> None:
    """The fence of a runner waits no more for such a cluster, which may never answer again."""
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    folder = create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {}, preset="rehearsal", existing_cluster=existing_cluster),
            target=ClusterTarget(kubeconfig),
            environment={},
            clock=SystemClock(),
            base=tmp_path / "runs",
        )
    )
    backend, journal = LiveBackend(folder, SystemClock()), Journal(journal_path(folder), SystemClock())

    def removes() -> bool:
        return backend.removes_cluster(load_run(folder))

    def step(action: Action, stage: str) -> bool:
        journal.append(Intent(action), stage=stage, attempt=1)
        found = removes()
        journal.append(Outcome(action, Result.DONE, ""), stage=stage, attempt=1)
        return found

    made = [stage.id for stage in load_run(folder).stages if stage.state is StageState.PENDING][:6]
    assert not any(step(Action.PERFORM, stage) for stage in made)
    journal.append(RunRequest(RequestKind.TEARDOWN))
    assert not removes()
    order = [one.id for one in load_run(folder).teardown if one.id in made]
    found = {stage: step(Action.UNDO, stage) for stage in order}
    assert existing_cluster or order[0] != "kubeconfig" != order[-1]
    behind = order[order.index("kubeconfig") :]
    assert found == {stage: stage in behind and not existing_cluster for stage in order}
    journal.close()
    await backend.aclose()


def a_pool(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"requirements": list(requirements)}}}}


def wants(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("requirement", "is_allowed"),
    [
        (wants("node.kubernetes.io/instance-type", "In", "g5.12xlarge", "g5.24xlarge"), True),
        (wants("node.kubernetes.io/instance-type", "In", "g5.24xlarge"), False),
        (wants("node.kubernetes.io/instance-type", "NotIn", "g5.12xlarge"), False),
        (wants("karpenter.k8s.aws/instance-family", "In", "g5"), True),
        (wants("karpenter.k8s.aws/instance-family", "In", "g6"), False),
        (wants("karpenter.k8s.aws/instance-size", "In", "2xlarge", "12xlarge"), True),
        (wants("karpenter.k8s.aws/instance-category", "In", "p"), False),
        (wants("karpenter.k8s.aws/instance-generation", "Gt", "4"), True),
        (wants("karpenter.k8s.aws/instance-generation", "Gt", "5"), False),
        (wants("topology.kubernetes.io/zone", "In", "us-west-2d"), True),
    ],
)
def test_a_pool_allows_what_its_requirements_allow(requirement: dict[str, Any], is_allowed: bool) -> None:
    assert allows_instance_type(a_pool(requirement), "g5.12xlarge") is is_allowed


def test_a_copied_context_says_the_same_as_the_original(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("pem")
    told = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "other",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": "https://10.0.0.1", "certificate-authority": "ca.pem", "extensions": told},
            },
            {"name": "other", "cluster": {"server": "https://10.0.0.2"}},
        ],
        "contexts": [
            {"name": "mine", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "other", "context": {"cluster": "other", "user": "u"}},
        ],
        "users": [
            {
                "name": "u",
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "aws",
                        "args": ["eks", "get-token", "--cluster-name", "c"],
                        "env": [{"name": "AWS_PROFILE", "value": "team"}],
                        "provideClusterInfo": True,
                    },
                    "as": "jane",
                    "as-groups": ["dev"],
                },
            }
        ],
    }
    original = tmp_path / "config"
    original.write_text(json.dumps(config))
    chosen = load_context(ClusterTarget(original, context="mine"))
    copied = tmp_path / "elsewhere" / "kubeconfig"
    copied.parent.mkdir()
    copied.write_bytes(copy_of(chosen))
    again = load_context(ClusterTarget(copied))
    for name in ("context", "cluster", "server", "namespace", "ca_file", "plugin", "impersonation"):
        assert getattr(again, name) == getattr(chosen, name)


def test_a_secret_is_read_where_its_reference_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NGC_API_KEY", "from the environment")
    (tmp_path / "key").write_text("from a file\n")
    assert resolve_secret("env:NGC_API_KEY") == "from the environment"
    assert resolve_secret(f"file:{tmp_path / 'key'}") == "from a file"


async def test_a_secret_that_aws_denies_is_named_with_the_right_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def denied(*_: object) -> str:
        raise MissingPermissionError("AWS denies it.", "secretsmanager:GetSecretValue")

    monkeypatch.setattr(secrets, "fetch_secret", denied)
    with pytest.raises(MissingPermissionError) as raised:
        await fetch_secrets(["secretsmanager:ngc"], region="us-west-2")
    assert raised.value.sentence() == (
        "secretsmanager:ngc: AWS denies it. Ask for the permission secretsmanager:GetSecretValue."
    )


@pytest.mark.parametrize("reference", ["env:NOT_SET_ANYWHERE", "file:/does/not/exist", "secretsmanager:key"])
def test_a_secret_that_cannot_be_read_is_named_by_its_reference(reference: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_secret(reference)
    assert reference in caught.value.message


def test_only_variables_that_a_parameter_refers_to_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NGC_API_KEY", "key")
    monkeypatch.setenv("OTHER_KEY", "other")
    assert referenced_environment(["env:NGC_API_KEY", "env:NOT_SET_ANYWHERE", 5, "OTHER_KEY"]) == {"NGC_API_KEY": "key"}


def test_a_wait_is_written_as_kubectl_would_take_it() -> None:
    claim = ObjectRef("v1", "PersistentVolumeClaim", "default", "data")
    assert wait_command(claim) == (
        "kubectl -n default wait --for=jsonpath='{.status.phase}'=Bound persistentvolumeclaim/data"
    )
