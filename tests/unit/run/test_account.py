"""The account of a run: recorded once, compared before anything is done, and what a destroy did not find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, MissingError
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cloud.aws_session import profile_environment
from actions.run.client import load_run, send_request
from actions.run.context.run_account import account_at_launch, compare_account
from actions.run.journal.folder import journal_path, terraform_path
from actions.run.journal.store import Journal
from actions.run.results import export_results
from actions.run.state.records import Identified, RequestKind, RunAccount, decode_body, encode_body
from actions.run.state.view import RunState, StageState
from actions.run.terraform_changes import terraform_report, terraform_table, waive
from tests.faults.roots import a_root_run, stand_in, work_folder
from tests.support.account import REGION, a_group, an_account, client
from tests.support.answering import write_kubeconfig
from tests.support.smallrun import a_small_run, carry_out, torn_down
from tests.unit.run.test_fold import view_of

CLOCK = SystemClock()
MOTO = "123456789012"
OTHER = RunAccount("999988887777", REGION, "aws", "arn:aws:iam::999988887777:user/other")
GROUP = "aws_eks_node_group.x"
ROOT = """
variable "account_id" {
  default = ""
}
variable "namespace" {
  default = ""
}
resource "aws_eks_node_group" "x" {}
"""
NETWORK = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: small, region: us-west-2}
parameters:
  group: {type: text, title: Group, default: ""}
stages:
  - {id: efa, kind: network, title: EFA, expect: 1s..5s, security_group: '${group}'}
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with an_account() as address:
        yield address


@pytest.fixture(autouse=True)
def _account(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))


def belongs_to(folder: Path, account: RunAccount) -> None:
    """Write the account into the journal of a run that has none yet."""
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(Identified(account))
    journal.close()


@pytest.fixture
async def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> Path:
    """A run whose root holds one resource, made by the stand-in."""
    stand_in(tmp_path, monkeypatch)
    folder = a_root_run(tmp_path, ROOT, endpoint=endpoint)
    terraform_path(folder, "net").mkdir(parents=True)
    (work_folder(folder) / "finish").touch()
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    return folder


def behaves(tmp_path: Path, mode: str) -> None:
    (tmp_path / "bin" / "mode").write_text(mode)


def test_the_account_is_read_as_it_was_written_and_the_first_one_counts() -> None:
    body = Identified(OTHER)
    assert decode_body(encode_body(body)) == body
    assert view_of().account is None
    view = view_of(("", body), ("", Identified(RunAccount(MOTO, REGION, "aws", "arn"))))
    assert view.account == OTHER


async def test_a_run_without_an_account_gets_that_of_its_first_contact(applied: Path) -> None:
    account = load_run(applied).account
    assert account is not None
    assert (account.id, account.region, account.partition) == (MOTO, REGION, "aws")
    assert account.arn.startswith(f"arn:aws:sts::{MOTO}:")


async def test_terraform_is_given_the_account(applied: Path) -> None:
    given = msgspec.json.decode((work_folder(applied) / "run.tfvars.json").read_bytes())
    assert (given["account_id"], given["namespace"]) == (MOTO, "default")


async def test_in_another_account_nothing_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    stand_in(tmp_path, monkeypatch)
    folder = a_root_run(tmp_path, ROOT, endpoint=endpoint)
    belongs_to(folder, OTHER)
    stage = (await carry_out(folder)).stage("net")
    assert stage.state is StageState.FAILED
    assert OTHER.id in stage.message
    assert MOTO in stage.message
    assert not (work_folder(folder) / "plan.jsonl").exists()


async def test_in_another_account_nothing_is_destroyed_and_the_audit_claims_nothing(
    applied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = applied
    found = load_run(folder).account
    assert found is not None

    async def elsewhere(_region: str) -> RunAccount:
        return OTHER

    monkeypatch.setattr("actions.run.context.run_account.fetch_account", elsewhere)
    view = await torn_down(folder)
    undo = next(step for step in view.teardown if step.id == "net")
    assert undo.state is StageState.FAILED
    assert f"works in the AWS account {found.id}" in undo.message
    assert f"of the account {OTHER.id}" in undo.message
    assert not (work_folder(folder) / "destroy.jsonl").exists()
    assert view.state is not RunState.TORN_DOWN or (view.audit is not None and not view.audit.is_clean)


async def test_in_another_account_no_rule_is_made(tmp_path: Path) -> None:
    group = a_group("elsewhere")
    nobody = write_kubeconfig(tmp_path / "nobody", "http://127.0.0.1:9")
    folder = a_small_run(tmp_path, {"blueprint.yaml": NETWORK}, kubeconfig=nobody, parameters={"group": group})
    belongs_to(folder, OTHER)
    assert OTHER.id in (await carry_out(folder)).stage("efa").message
    rules = client("ec2").describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])
    assert not [rule for rule in rules["SecurityGroupRules"] if "ReferencedGroupInfo" in rule]


async def test_a_refusal_names_both_accounts() -> None:
    recorded: list[RunAccount] = []

    async def identify(account: RunAccount) -> None:
        recorded.append(account)

    view = view_of(("", Identified(OTHER)))
    with pytest.raises(ConflictError) as caught:
        await compare_account(view, clock=CLOCK, note=lambda _: None, identify=identify)
    assert OTHER.arn in caught.value.message
    assert MOTO in caught.value.message
    assert recorded == []


async def test_what_a_destroy_did_not_find_is_no_success(applied: Path, tmp_path: Path) -> None:
    behaves(tmp_path, "gone")
    view = await torn_down(applied)
    undo = next(step for step in view.teardown if step.id == "net")
    assert undo.state is StageState.FAILED
    assert f"Terraform did not destroy {GROUP}" in undo.message
    assert "runs waive" in undo.message
    kept = (work_folder(applied) / "vanished.tfstate").read_text()
    assert '"name": "x"' in kept
    report = terraform_report(applied, load_run(applied))
    assert report[0].vanished == (GROUP,)
    assert "vanished.tfstate --confirm vanished.tfstate" in terraform_table(report, "r")
    send_request(applied, RequestKind.RETRY, start=False)  # the state is empty by now, which proves nothing
    undo = next(step for step in (await carry_out(applied)).teardown if step.id == "net")
    assert undo.state is StageState.FAILED


async def test_what_vanished_is_waived_by_name(applied: Path, tmp_path: Path) -> None:
    behaves(tmp_path, "gone")
    await torn_down(applied)
    waive(applied, "vanished.tfstate", confirm="vanished.tfstate")
    with pytest.raises(MissingError):
        waive(applied, GROUP, confirm=GROUP)
    assert (work_folder(applied) / "vanished.tfstate.waived").exists()
    send_request(applied, RequestKind.RETRY, start=False)
    view = await carry_out(applied)
    assert next(step for step in view.teardown if step.id == "net").state is StageState.SUCCEEDED
    assert view.audit is not None
    assert [line for line in view.audit.retained if GROUP in line]


async def test_the_state_from_before_is_put_back_and_destroyed(applied: Path, tmp_path: Path) -> None:
    behaves(tmp_path, "gone")
    await torn_down(applied)
    work = work_folder(applied)
    (work / "terraform.tfstate").write_bytes((work / "vanished.tfstate").read_bytes())
    behaves(tmp_path, "")
    send_request(applied, RequestKind.RETRY, start=False)
    view = await carry_out(applied)
    undo = next(step for step in view.teardown if step.id == "net")
    assert (undo.state, undo.message) == (StageState.SUCCEEDED, "Destroyed.")


async def test_a_launch_that_makes_nothing_in_an_account_needs_none(tmp_path: Path) -> None:
    for text, expected in (('resource "terraform_data" "x" {}\n', None), (ROOT, MOTO)):
        folder = tmp_path / (expected or "none")
        (folder / "terraform" / "net").mkdir(parents=True)
        (folder / "terraform" / "net" / "main.tf").write_text(text)
        stage = "{id: net, kind: terraform, title: Net, expect: 1s..5s, root: terraform/net, own_cluster_only: true}"
        (folder / "blueprint.yaml").write_text(NETWORK.partition("parameters")[0] + f"stages:\n  - {stage}\n")
        blueprint = load_blueprint(folder)
        account = await account_at_launch(blueprint, bind(blueprint, {}))
        assert (account.id if account else None) == expected


async def test_nothing_is_exported_from_another_account(tmp_path: Path) -> None:
    text = NETWORK + "results: {claim: c, mount: /data, folder: /data/out}\n"
    nobody = write_kubeconfig(tmp_path / "nobody", "http://127.0.0.1:9")
    folder = a_small_run(tmp_path, {"blueprint.yaml": text}, kubeconfig=nobody, parameters={"group": "sg-1"})
    belongs_to(folder, OTHER)
    with pytest.raises(ConflictError, match=f"works in the AWS account {OTHER.id}"):
        await export_results(folder, "s3://bucket/prefix", CLOCK, on_line=print)


async def test_the_kubeconfig_of_a_run_hands_its_profile_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    role = "arn:aws:iam::123456789012:role/eks"
    client("eks").create_cluster(name="small", roleArn=role, resourcesVpcConfig={"subnetIds": []})
    (tmp_path / "credentials").write_text("[ops]\naws_access_key_id = testing\naws_secret_access_key = testing\n")
    for name, value in profile_environment("ops").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    text = NETWORK.partition("parameters")[0] + (
        "stages:\n"
        "  - {id: net, kind: terraform, title: Net, expect: 1s..5s, root: net, own_cluster_only: true}\n"
        "  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, needs: [net],"
        " cluster: small, region: us-west-2}\n"
    )
    files = {"blueprint.yaml": text, "net/main.tf": 'resource "terraform_data" "x" {}\n'}
    stand_in(tmp_path, monkeypatch)
    monkeypatch.setattr("actions.run.stages.kubeconfig.KubeconfigHandler._identity", nowhere)
    folder = a_small_run(tmp_path, files, kubeconfig=tmp_path / "none", auto_approve=True)
    terraform_path(folder, "net").mkdir(parents=True)
    (work_folder(folder) / "finish").touch()
    await carry_out(folder)
    assert "name: AWS_PROFILE\n        value: ops" in (folder / "kubeconfig").read_text()


async def nowhere(_self: object) -> None:
    raise MissingError("No cluster answers in this test.")
