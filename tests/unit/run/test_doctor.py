"""The doctor's checks: plain functions, then an account in moto."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import AsyncMock

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.errors import AccessError, BlueprintError, RefusedError
from actions.base.files import shipped_blueprints
from actions.base.process import is_alive, spawn_detached
from actions.blueprint.catalogue import Catalogue, load_blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.blueprint.stages import ImageStage
from actions.cloud.account import CallerIdentity
from actions.cluster.auth.kubeconfig import ClusterTarget, ContextParts
from actions.run.checks.observation import failed, passed, unknown
from actions.run.client import send_request
from actions.run.context.access import ClusterConnection
from actions.run.doctor import names
from actions.run.doctor.account import Caller, credential_lines, end_observation, own_checks
from actions.run.doctor.cluster import (
    Right,
    check_pairs,
    recommended_rights,
)
from actions.run.doctor.examine import _choice_lines, examination, examine_launch, examine_machine
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.names import NameKind, TakenName, check_kept, check_runs, names_of
from actions.run.doctor.programs import needed_programs, terraform_observation
from actions.run.doctor.report import DoctorLine, doctor_json, doctor_table, has_failed, line_of
from actions.run.doctor.sources import module_questions, repository_for
from actions.run.forget import forget_run, survey_run
from actions.run.journal.folder import environment_path, journal_path
from actions.run.journal.lease import grant_lease
from actions.run.launch import LaunchOrder, create_run
from actions.run.paid import PaidThing, RunPaid
from actions.run.state.records import CheckResult, Operator, RequestKind
from actions.run.state.view import RunState
from actions.run.store.elsewhere import note_elsewhere
from tests.support.account import REGION, an_account, an_image, client
from tests.support.answering import write_kubeconfig
from tests.support.fixed_runs import summaries
from tests.unit.run.world import creation, make_run
from tui.present.blueprints import unknown_lines

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = 3600.0
ALL = sorted(file.parent.name for file in shipped_blueprints().glob("*/blueprint.yaml"))


def a_launch(name: str, *, preset: str = "", existing_cluster: bool = False, **values: Scalar) -> PlannedLaunch:
    blueprint = load_blueprint(shipped_blueprints() / name)
    binding = bind(blueprint, values, preset=preset, existing_cluster=existing_cluster)
    return PlannedLaunch(blueprint=blueprint.under(preset), binding=binding)


def a_caller(
    *, ends_at: datetime | None = None, expires_at: datetime | None = None, is_temporary: bool = False
) -> Caller:
    arn = "arn:aws:iam::123456789012:user/me"
    return Caller(CallerIdentity("123456789012", arn, REGION, "", expires_at, ends_at), is_temporary)


def test_a_line_that_has_passed_has_no_remedy_and_a_report_counts() -> None:
    lines = [
        line_of("one", passed("It is."), "Do it."),
        line_of("two", failed("It is not."), "Do it."),
        line_of("three", unknown("No answer."), "Ask."),
    ]
    assert doctor_table(lines).splitlines() == [
        "pass     one    It is.",
        "fail     two    It is not.",
        "                → Do it.",
        "unknown  three  No answer.",
        "                → Ask.",
        "",
        "1 pass, 1 fail, 1 unknown",
    ]
    assert has_failed(lines)
    assert not has_failed([lines[0], lines[2]])
    document = msgspec.json.decode(doctor_json(lines, blueprint=""))
    assert (document["schema"], document["blueprint"], document["passed"]) == ("eksml-doctor/1", None, False)
    assert document["checks"][1] == {
        "check": "two",
        "result": "fail",
        "detail": "It is not.",
        "remedy": "Do it.",
        "blocks_launch": False,
    }


def test_what_keeps_several_checks_from_an_answer_is_said_once_with_their_names() -> None:
    refused = unknown("Not allowed: nodes.")
    lines = [
        line_of("core", refused, "Ask."),
        line_of("taints", passed("None."), ""),
        line_of("GPUs", refused, "Ask."),
        line_of("room", refused, "Ask."),
        line_of("quota", unknown("No answer."), "Ask."),
    ]
    assert doctor_table(lines).splitlines() == [
        "unknown  core    Not allowed: nodes. Unknown for the same reason: GPUs, room.",
        "                 → Ask.",
        "pass     taints  None.",
        "unknown  quota   No answer.",
        "                 → Ask.",
        "",
        "1 pass, 0 fail, 4 unknown",
    ]
    (shown, other) = unknown_lines(lines, 200)
    words = "? core: Not allowed: nodes. Unknown for the same reason: GPUs, room. → Ask."
    assert "".join(span.text for span in shown) == words
    assert other[0].text.startswith("? quota")
    assert [one["check"] for one in msgspec.json.decode(doctor_json(lines, blueprint=""))["checks"]][2] == "GPUs"


@pytest.mark.parametrize(
    ("version", "result"),
    [
        ("1.4.9", CheckResult.FAILED),
        ("1.5.0", CheckResult.PASSED),
        ("1.11.4", CheckResult.PASSED),
        ("2.0.0", CheckResult.FAILED),
        ("dev", CheckResult.UNKNOWN),
    ],
)
def test_versions_of_terraform(version: str, result: CheckResult) -> None:
    assert terraform_observation(version, Path("/usr/bin/terraform")).result is result


def test_the_bounds_of_terraform_are_those_of_the_roots() -> None:
    roots = (shipped_blueprints() / "common" / "terraform").glob("*/versions.tf")
    bounds = {re.search(r'required_version = "(.*)"', path.read_text())[1] for path in roots}  # type: ignore[index]
    assert bounds == {">= 1.5, < 2.0"}


@pytest.mark.parametrize("name", ALL)
def test_git_is_needed_for_no_module_that_has_an_archive(name: str) -> None:
    assert needed_programs(a_launch(name)) == {}
    assert [question.check for question in module_questions(a_launch(name))] == ["Terraform modules"]
    assert module_questions(a_launch(name, preset="rehearsal")) == []


def test_git_is_needed_for_a_module_that_is_not_pinned(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    (folder / "terraform").mkdir(parents=True)
    (folder / "terraform" / "main.tf").write_text('module "a" {\n  source = "git::https://example.com/a.git"\n}\n')
    (folder / "blueprint.yaml").write_text(
        "schema: eksml/v1\nid: small\ntitle: Small\nsummary: Small.\n"
        "cluster: {name: small, region: us-west-2}\nstages:\n"
        "  - {id: make, kind: terraform, title: Make, root: terraform, expect: 1s..2s}\n"
    )
    blueprint = load_blueprint(folder)
    launch = PlannedLaunch(blueprint=blueprint, binding=bind(blueprint, {}))
    assert "example.com/a.git" in needed_programs(launch)["git"]


@pytest.mark.parametrize(
    ("caller", "needed", "result"),
    [
        (a_caller(), 0.0, CheckResult.PASSED),
        (a_caller(is_temporary=True), 0.0, CheckResult.UNKNOWN),
        (a_caller(is_temporary=True, expires_at=NOW + timedelta(hours=1)), 90 * HOUR, CheckResult.PASSED),
        (a_caller(is_temporary=True, ends_at=NOW + timedelta(hours=1)), 0.5 * HOUR, CheckResult.PASSED),
        (a_caller(is_temporary=True, ends_at=NOW + timedelta(hours=1)), 2 * HOUR, CheckResult.FAILED),
        (a_caller(is_temporary=True, ends_at=NOW - timedelta(hours=1)), 0.0, CheckResult.FAILED),
    ],
)
def test_the_end_of_credentials_is_compared_with_the_length_of_the_run(
    caller: Caller, needed: float, result: CheckResult
) -> None:
    assert end_observation(caller, now=NOW, needed_seconds=needed).result is result


def test_without_credentials_one_line_fails_and_what_needs_them_is_unknown() -> None:
    caller = Caller(refusal=AccessError("There are no AWS credentials.", hint="Log in."))
    (line,) = credential_lines(caller, now=NOW)
    assert (line.result, line.remedy) == (CheckResult.FAILED, "Log in.")
    with pytest.raises(AccessError, match="cannot be asked") as refused:
        caller.require()
    assert refused.value.hint == "Log in."


def test_names_that_the_roots_of_the_program_take() -> None:
    assert names_of(a_launch("nemo-gpt3-5b")) == [
        TakenName(NameKind.CLUSTER, "nemo-gpt3-5b"),
        TakenName(NameKind.REPOSITORY, "nemo-aws"),
        TakenName(NameKind.NODE_GROUP, "gpu", "nemo-gpt3-5b"),
    ]
    assert names_of(a_launch("bionemo-esm1nv", cluster_name="mine")) == [
        TakenName(NameKind.CLUSTER, "mine"),
        TakenName(NameKind.ROLE, "mine-node"),
    ]
    assert names_of(a_launch("nemo-gpt3-5b", preset="rehearsal")) == []


def test_names_are_those_of_the_roots_files() -> None:
    def text(root: str) -> str:
        return (shipped_blueprints() / "common" / "terraform" / root / "main.tf").read_text(encoding="utf-8")

    assert re.search(r'node_iam_role_name += "\$\{var\.cluster_name\}-node"', text("cluster"))
    assert re.search(r"node_iam_role_use_name_prefix += false", text("cluster"))
    assert "name_prefix" in text("nodes").partition('resource "aws_iam_role" "this" {')[2].partition("}")[0]
    assert re.search(r"name += var\.repository_name", text("registry"))


def test_a_role_of_the_file_is_listed_verb_by_verb() -> None:
    rights = recommended_rights("eksml-look")
    assert Right("jobs", "watch", "batch") in rights
    assert Right("pods/log", "get", "") in rights
    assert len(set(rights)) == len(rights)


def test_checks_of_an_image_that_is_yet_to_be_built_are_left_to_the_run() -> None:
    titles = [check.title for check in own_checks(a_launch("nemo-gpt3-5b"))]
    assert "P quota" in titles
    assert "image" not in titles
    assert len(titles) == len(set(titles))
    given = a_launch("nemo-gpt3-5b", image_source="given", image="example.com/nemo:1")
    assert "given image" in [check.title for check in own_checks(given)]


def test_an_output_of_a_stage_is_not_known_before_it() -> None:
    with pytest.raises(BlueprintError, match="only after the stage registry"):
        a_launch("nemo-gpt3-5b").text("${registry.repository_url}")


def test_the_repository_of_an_image_is_that_of_the_registry_stage() -> None:
    launch = a_launch("nemo-gpt3-5b")
    (stage,) = (stage for stage in launch.stages if isinstance(stage, ImageStage))
    found = repository_for(launch, stage, "123456789012")
    assert found is not None
    assert (found.name, found.region) == ("nemo-aws", launch.region)
    assert repository_for(launch, stage, "") is None


async def test_a_second_launch_in_one_namespace_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    launch = a_launch("bionemo-esm1nv", preset="rehearsal", existing_cluster=True)
    assert (await check_runs(launch)).result is CheckResult.PASSED
    target = ClusterTarget(write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1"))
    folder = create_run(
        LaunchOrder(
            load_blueprint(shipped_blueprints() / "bionemo-esm1nv"),
            launch.binding,
            target=target,
            environment={},
            clock=SystemClock(),
        )
    )
    assert (await check_runs(launch)).result is CheckResult.PASSED, "it is in another cluster"
    launch = msgspec.structs.replace(launch, present=ContextParts("here"))
    found = await check_runs(launch)
    assert found.result is CheckResult.FAILED
    assert folder.name in found.detail
    assert f"eksml-tui runs teardown {folder.name} --confirm" in found.remedy
    other = msgspec.structs.replace(launch, wanted_namespace="other")
    assert (await check_runs(other)).result is CheckResult.PASSED

    # its state here is old, and this machine cannot tear it down
    note_elsewhere(folder, Operator("ben", "laptop-2"), 2, "")
    found = await check_runs(launch)
    assert found.result is CheckResult.UNKNOWN
    assert found.detail.startswith(f"ben@laptop-2 has taken over the run {folder.name} of this blueprint")
    assert "teardown" not in found.remedy


async def test_a_rehearsal_whose_embedded_account_has_ended_is_in_nobodys_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    launch = a_launch("bionemo-esm1nv", preset="rehearsal")
    with socket.create_server(("127.0.0.1", 0)) as account:
        address = f"http://127.0.0.1:{account.getsockname()[1]}/aws"
        folder = create_run(
            LaunchOrder(
                load_blueprint(shipped_blueprints() / "bionemo-esm1nv"),
                launch.binding,
                target=ClusterTarget(),
                environment={"AWS_ENDPOINT_URL": address},
                clock=SystemClock(),
            )
        )
        assert (await check_runs(launch)).result is CheckResult.FAILED
        with pytest.raises(RefusedError, match="cannot be forgotten: it is waiting"):
            forget_run(folder, confirm=folder.name)
    assert (await check_runs(launch)).result is CheckResult.PASSED
    with pytest.raises(RefusedError, match=r"embedded account of run .* has ended") as refused:
        send_request(folder, RequestKind.TEARDOWN)
    assert refused.value.hint == f"Forget the run: eksml-tui runs rm {folder.name} --confirm {folder.name}"
    kept = environment_path(folder).read_text("utf-8")
    environment_path(folder).write_text(kept.replace(address, address.removesuffix("/aws")), "utf-8")
    with pytest.raises(RefusedError, match="cannot be forgotten"):  # an emulator of somebody's, which may come back
        forget_run(folder, confirm=folder.name)
    environment_path(folder).write_text(kept, "utf-8")
    runner = spawn_detached(["tail", "-f", "/dev/null"], output=tmp_path / "log")
    grant_lease(journal_path(folder), SystemClock(), lambda: runner)
    forget_run(folder, confirm=folder.name)
    assert not folder.exists()
    assert not is_alive(runner), "it would wait for the account without end"


@pytest.mark.parametrize(("kubeconfig", "may_go"), [("demo/kubeconfig", True), ("kind/kubeconfig", False), ("", False)])
def test_a_rehearsal_on_a_cluster_that_was_there_is_forgotten_if_that_was_the_embedded_one(
    tmp_path: Path, kubeconfig: str, may_go: bool
) -> None:
    place = str(tmp_path / kubeconfig) if kubeconfig else ""
    cluster = msgspec.structs.replace(creation().cluster, kubeconfig=place)
    created = msgspec.structs.replace(creation(), cluster=cluster, existing_cluster=True, is_cost_simulated=True)
    folder = make_run(tmp_path, SystemClock(), created=created)
    with socket.create_server(("127.0.0.1", 0)) as account:
        address = f"http://127.0.0.1:{account.getsockname()[1]}/aws"
    credentials = str(tmp_path / "demo" / "aws-credentials") if kubeconfig else ""
    variables = {"AWS_ENDPOINT_URL": address, "AWS_SHARED_CREDENTIALS_FILE": credentials}
    environment_path(folder).write_bytes(msgspec.json.encode(variables))
    assert (survey_run(folder).obstacles == ()) is may_go


async def test_storage_that_a_torn_down_run_keeps_for_the_cluster_is_named_with_its_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = a_launch("bionemo-esm1nv", preset="rehearsal")
    things = tuple(
        PaidThing(title, Decimal(usd), "old", is_kept=True)
        for title, usd in (("NAT gateway", "0.05"), ("FSx for Lustre, 2400 GiB", "1.12"))
    )
    paid = RunPaid("old", launch.cluster, launch.region, RunState.TORN_DOWN, things, is_simulated=True)
    base = summaries(tmp_path)[0]
    kept = msgspec.structs.replace(base, id="old", cluster=launch.cluster, state=RunState.TORN_DOWN, paid=paid)
    monkeypatch.setattr(names, "list_runs", lambda _home: [kept])
    assert (await check_runs(launch)).result is CheckResult.PASSED, "it refuses no launch"
    found = await check_kept(launch)
    assert found.result is CheckResult.FAILED
    assert "The run old is torn down and keeps data of bionemo-on-eks for" in found.detail
    assert "$1.17/h: NAT gateway, FSx for Lustre, 2400 GiB" in found.detail
    assert found.remedy == "To end it: eksml-tui runs teardown old --confirm bionemo-on-eks --delete-data"
    real = msgspec.structs.replace(kept, paid=msgspec.structs.replace(paid, is_simulated=False))
    monkeypatch.setattr(names, "list_runs", lambda _home: [real])
    assert (await check_kept(launch)).result is CheckResult.PASSED, "a rehearsal costs nothing beside a real one"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with an_account() as address:
        yield address


@pytest.fixture
def account(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty machine with credentials and nothing else: no kubeconfig, no program, no mirror."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    # every address of the internet is refused at once
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


async def examined(name: str, **values: Scalar) -> dict[str, DoctorLine]:
    blueprint = load_blueprint(shipped_blueprints() / name)
    async with examination(ClusterTarget(), region=REGION, clock=SystemClock()) as around:
        lines = await examine_launch(around, blueprint, bind(blueprint, {"region": REGION, **values}))
    assert all(line.remedy for line in lines if line.result is not CheckResult.PASSED), lines
    return {line.check: line for line in lines}


@pytest.mark.usefixtures("account")
async def test_a_machine_with_nothing_but_credentials_is_told_all_that_is_missing() -> None:
    lines = await examined("nemo-gpt3-5b", ngc_api_key="env:NGC_API_KEY")
    missing = {check for check, line in lines.items() if line.result is CheckResult.FAILED}
    assert missing >= {
        "terraform",
        "Terraform modules",
        "operator mpi-operator",
        "operator training-operator",
        "image of image",
        "ngc_api_key",
    }
    free = ("name of EKS cluster", "name of node group", "name of ECR repository", "other runs")
    assert [lines[check].result for check in ("credentials", *free)] == [CheckResult.PASSED] * 5


@pytest.mark.usefixtures("account")
async def test_a_terraform_that_locks_no_state_in_a_home_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "terraform").write_text('#!/bin/sh\necho \'{"terraform_version": "1.9.5"}\'\n')
    (programs / "terraform").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    blueprint = load_blueprint(shipped_blueprints() / "nemo-gpt3-5b")
    binding = bind(blueprint, {"region": REGION})
    for home, result in (("", CheckResult.PASSED), ("s3://team/runs", CheckResult.FAILED)):
        async with examination(ClusterTarget(), region=REGION, clock=SystemClock()) as around:
            lines = await examine_launch(around, blueprint, binding, store=home)
        (line,) = (line for line in lines if line.check == "terraform")
        assert line.result is result, line
        assert line.blocks is bool(home)


@pytest.mark.usefixtures("account")
async def test_names_that_are_taken_in_the_account_are_found() -> None:
    client("iam").create_role(RoleName="taken-node", AssumeRolePolicyDocument="{}")
    role = client("iam").create_role(RoleName="cluster", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    client("eks").create_cluster(name="taken", roleArn=role, resourcesVpcConfig={"subnetIds": []})
    client("eks").create_nodegroup(clusterName="taken", nodegroupName="gpu", nodeRole=role, subnets=["subnet-1"])
    an_image("taken-images", "24.01")
    lines = await examined("nemo-gpt3-5b", cluster_name="taken", repository_name="taken-images", image_tag="24.01")
    for kind in (NameKind.CLUSTER, NameKind.NODE_GROUP, NameKind.REPOSITORY):
        assert lines[f"name of {kind}"].result is CheckResult.FAILED, lines[f"name of {kind}"]
    role_of_nodes = (await examined("bionemo-esm1nv", cluster_name="taken"))["name of IAM role"]
    assert role_of_nodes.result is CheckResult.FAILED
    assert lines["image of image"].result is CheckResult.PASSED


@pytest.mark.usefixtures("account")
async def test_without_a_blueprint_each_of_them_has_a_line() -> None:
    async with examination(ClusterTarget(), region=REGION, clock=SystemClock()) as around:
        lines = await examine_machine(around, Catalogue.usual().list())
    by_name = {line.check: line for line in lines}
    assert set(ALL) <= set(by_name)
    assert by_name["terraform"].result is CheckResult.FAILED
    assert by_name["rights"].result is CheckResult.UNKNOWN
    assert "selfsubjectaccessreviews" in by_name["rights"].detail
    assert all(line.remedy for line in lines if line.result is not CheckResult.PASSED)
    assert by_name["bionemo-esm1nv"].remedy == "Run eksml-tui doctor bionemo-esm1nv."


@pytest.mark.parametrize(("version", "result"), [("1.35", CheckResult.PASSED), ("1.36", CheckResult.UNKNOWN)])
async def test_a_pair_of_versions_that_is_not_declared_is_unknown(version: str, result: CheckResult) -> None:
    blueprint = load_blueprint(shipped_blueprints() / "llama2-trn1-ray")
    (line,) = _choice_lines(blueprint, bind(blueprint, {"eks_version": version}), date(2026, 11, 22))
    assert line.result is result
    assert (
        ("Volcano 1.15.1 with Kubernetes 1.36" in line.detail)
        == bool(line.remedy)
        == (result is not CheckResult.PASSED)
    )
    launch = a_launch("llama2-trn1-ray", existing_cluster=True)
    nothing_there = cast(ClusterConnection, SimpleNamespace(find=AsyncMock(return_value=None)))
    assert (await check_pairs(nothing_there, launch, f"v{version}.2-eks-bb2d")).result is result
