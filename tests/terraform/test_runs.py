"""Runs whose stages are the shared roots: the runner and real Terraform, failures of the account, and teardowns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import send_request
from actions.run.launch import LaunchOrder, create_run
from actions.run.state.records import Action, RequestKind
from actions.run.state.view import RunState, RunView
from actions.terraform.driver import TerraformDriver
from actions.terraform.program import find_program
from tests.faults.rehearsal import wait_for_run
from tests.faults.roots import CREDENTIALS, begin
from tests.support.account import an_account
from tests.terraform.stub import StubAccount
from tests.terraform.workspaces import VARIABLES, Variables, Workspace, copied_root

BLUEPRINT = """
schema: eksml/v1
id: one-root
title: One root
summary: For tests.
cluster: {name: nemo, region: us-west-2, namespace: default}
stages:
  - id: made
    kind: terraform
    title: Made
    expect: 1s..5s
    root: terraform/made
    own_cluster_only: true
    variables: [run_id]
    values: VALUES
"""
TOO_FEW = "InsufficientInstanceCapacity: We currently do not have sufficient p4de.24xlarge capacity"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with an_account() as address:
        yield address


@pytest.fixture
def environment(
    terraform_environment: Mapping[str, str], account: StubAccount, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    """The environment of a run: its Terraform works on the stub, its audit asks moto."""
    found = {**terraform_environment, "STUB_ACCOUNT": str(account.folder), "AWS_ENDPOINT_URL": endpoint}
    for name, value in {**found, **CREDENTIALS, "AWS_REGION": "us-west-2"}.items():
        monkeypatch.setenv(name, value)
    return found


def a_run(tmp_path: Path, root: str, variables: Variables, environment: Mapping[str, str]) -> Path:
    """A run with one stage, which is begun."""
    folder = tmp_path / "blueprint"
    (folder / "terraform").mkdir(parents=True)
    copied_root(root, folder / "terraform" / "made")
    values = {name: value for name, value in variables.items() if name != "run_id"}
    text = BLUEPRINT.replace("VALUES", json.dumps(values))
    (folder / "blueprint.yaml").write_text(text)
    blueprint = load_blueprint(folder)
    run = create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {}),
            target=ClusterTarget(),
            environment={**environment, "AWS_REGION": "us-west-2"},
            clock=SystemClock(),
            auto_approve=True,
            base=tmp_path / "runs",
        )
    )
    begin(run)
    return run


def ended(run: Path, state: RunState) -> RunView:
    """The run, when it has come to a state."""
    return wait_for_run(run, lambda view: view.state is state, str(state))


def tear_down(run: Path, state: RunState = RunState.TORN_DOWN, *, delete_data: bool = False) -> RunView:
    """The run, when its teardown has come to a state."""
    send_request(run, RequestKind.TEARDOWN, delete_data=delete_data, environment=CREDENTIALS)
    return ended(run, state)


def test_a_node_group_without_capacity_is_made_by_a_retry(
    tmp_path: Path, account: StubAccount, environment: Mapping[str, str]
) -> None:
    account.fail("create", "aws_eks_node_group", TOO_FEW, leaves="failed")
    run = a_run(tmp_path, "nodes", VARIABLES["nodes"], environment)
    failed = ended(run, RunState.FAILED)
    assert "InsufficientInstanceCapacity" in failed.stage("made").message

    send_request(run, RequestKind.RETRY, environment=CREDENTIALS)
    ended(run, RunState.SUCCEEDED)
    assert account.calls_of("aws_eks_node_group") == ["create", "delete", "create"]
    assert account.objects()["aws_eks_node_group"] == ["nemo:gpu"]

    assert list(run.glob("terraform/*/.terraform/providers"))
    tear_down(run)
    assert account.objects() == {}
    assert list(run.glob("terraform/*/.terraform/*")) == []


def test_a_network_that_was_half_made_is_finished_and_nothing_of_it_made_twice(
    tmp_path: Path, account: StubAccount, environment: Mapping[str, str]
) -> None:
    account.fail("create", "aws_eip", "AddressLimitExceeded: The maximum number of addresses has been reached")
    run = a_run(tmp_path, "network", VARIABLES["network"], environment)
    assert "AddressLimitExceeded" in ended(run, RunState.FAILED).stage("made").message
    half = account.objects()
    assert half["aws_subnet"]
    assert "aws_nat_gateway" not in half

    send_request(run, RequestKind.RETRY, environment=CREDENTIALS)
    ended(run, RunState.SUCCEEDED)
    assert account.calls_of("aws_subnet") == ["create"] * 4
    assert account.calls_of("aws_vpc") == ["create"]
    assert "delete" not in {verb for verb, _, _ in account.calls}
    assert len(account.objects()["aws_nat_gateway"]) == 1


def test_a_bucket_with_data_is_emptied_only_by_a_teardown_that_may(
    tmp_path: Path, account: StubAccount, environment: Mapping[str, str]
) -> None:
    run = a_run(tmp_path, "filesystem", VARIABLES["filesystem"], environment)
    ended(run, RunState.SUCCEEDED)
    (bucket,) = account.objects()["aws_s3_bucket"]
    account.fill(bucket)

    refused = tear_down(run, RunState.FAILED)
    assert "BucketNotEmpty" in refused.ending[Action.UNDO, "made"].message
    assert account.is_filled(bucket)

    tear_down(run, delete_data=True)
    assert not account.is_filled(bucket)
    assert account.objects() == {}


async def test_a_bucket_that_is_gone_is_not_made_again_to_be_emptied(
    tmp_path: Path, account: StubAccount, environment: Mapping[str, str]
) -> None:
    program = find_program()
    assert program is not None
    driver = TerraformDriver(
        copied_root("filesystem", tmp_path / "root"), tmp_path / "work", environment, program=program
    )
    await driver.init()
    await driver.plan(VARIABLES["filesystem"])
    await driver.apply()
    account.lose("aws_s3_bucket")
    await driver.update_in_place({**VARIABLES["filesystem"], "delete_data": True}, ["aws_s3_bucket.data[0]"])
    assert account.calls_of("aws_s3_bucket") == ["create"]
    await driver.destroy(VARIABLES["filesystem"])
    assert account.objects() == {}


def test_a_node_group_of_which_terraform_never_learned_is_named_by_the_retry_and_not_taken_for_ours(
    tmp_path: Path, account: StubAccount, environment: Mapping[str, str]
) -> None:
    account.fail("create", "aws_eks_node_group", "RequestTimeout: no answer", leaves="unknown")
    run = a_run(tmp_path, "nodes", VARIABLES["nodes"], environment)
    assert "RequestTimeout" in ended(run, RunState.FAILED).stage("made").message

    send_request(run, RequestKind.RETRY, environment=CREDENTIALS)
    again = wait_for_run(
        run, lambda view: "already exists" in view.stage("made").message, "the retry to find the group"
    )
    assert "NodeGroup already exists" in again.stage("made").message
    tear_down(run)
    assert account.objects() == {"aws_eks_node_group": ["nemo:gpu"]}


def test_a_teardown_that_finds_nothing_is_no_success(
    tmp_path: Path, account: StubAccount, environment: Mapping[str, str]
) -> None:
    run = a_run(tmp_path, "registry", VARIABLES["registry"], environment)
    ended(run, RunState.SUCCEEDED)
    account.lose_everything()
    failed = tear_down(run, RunState.FAILED)
    message = failed.ending[Action.UNDO, "made"].message
    assert "aws_ecr_repository.this" in message
    assert "delete" not in {verb for verb, _, _ in account.calls}
    assert list(run.glob("terraform/made/vanished.tfstate"))


def test_a_cluster_of_which_terraform_never_learned_is_not_taken_for_ours(
    terraform_environment: Mapping[str, str], account: StubAccount, tmp_path: Path
) -> None:
    account.fail("create", "aws_eks_node_group", "RequestTimeout", leaves="unknown")
    work = Workspace("nodes", tmp_path / "root", account, terraform_environment).init()
    work.plan(VARIABLES["nodes"])
    assert "RequestTimeout" in work.apply(is_refused=True)
    assert set(work.plan(VARIABLES["nodes"])) == {"aws_eks_node_group.this"}
    assert "NodeGroup already exists" in work.apply(is_refused=True)
    work.destroy()
    assert account.objects() == {"aws_eks_node_group": ["nemo:gpu"]}


def test_a_destroy_that_finds_nothing_deletes_nothing(
    terraform_environment: Mapping[str, str], account: StubAccount, tmp_path: Path
) -> None:
    work = Workspace("registry", tmp_path / "root", account, terraform_environment).init()
    work.plan(VARIABLES["registry"])
    work.apply()
    account.lose_everything()
    assert "Destroy complete! Resources: 0 destroyed." in work.destroy()
    assert account.calls_of("aws_ecr_repository") == ["create"]
    assert work.tracked() == set()
