"""Stages that work in the account: the rule for EFA, an image in ECR. Against moto; docker is a script of ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actions.base.clock import SystemClock
from actions.run.output.reader import OutputReader
from actions.run.state.view import RunState
from tests.support.account import REGION, a_group, an_account, an_image, client
from tests.support.answering import write_kubeconfig
from tests.support.smallrun import a_small_run, carry_out, torn_down

CLOCK = SystemClock()
BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: small, region: us-west-2}
parameters:
  group: {type: text, title: Group, default: ""}
stages:
"""
NETWORK = "  - {id: efa, kind: network, title: EFA, expect: 1s..5s, security_group: '${group}'}\n"
IMAGE = (
    "  - {id: image, kind: image, title: Image, expect: 1s..5s, repository: REPOSITORY, tag: '24.01',"
    " context: image, build_args: {BASE: '${group}'}, outputs: [image, digest]}\n"
)


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


def self_rules(group: str) -> list[dict[str, Any]]:
    answer = client("ec2").describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])
    return [
        rule for rule in answer["SecurityGroupRules"] if rule.get("ReferencedGroupInfo", {}).get("GroupId") == group
    ]


def a_run(tmp_path: Path, stages: str, **parameters: str) -> Path:
    files = {
        "blueprint.yaml": BLUEPRINT + stages,
        "image/Dockerfile": "ARG BASE\nFROM 123456789012.dkr.ecr.us-west-2.amazonaws.com/x:1\n",
    }
    nobody = write_kubeconfig(tmp_path / "nobody", "http://127.0.0.1:9")
    return a_small_run(tmp_path, files, kubeconfig=nobody, parameters=parameters)


async def test_the_rule_for_efa_is_added_both_ways_and_only_it_is_removed(tmp_path: Path) -> None:
    group = a_group("fresh")
    folder = a_run(tmp_path, NETWORK, group=group)
    view = await carry_out(folder)
    assert (view.state, view.stage("efa").message) == (
        RunState.SUCCEEDED,
        f"{group} is open to itself for all protocols; added: ingress and egress.",
    )
    assert {(rule["IsEgress"], rule["IpProtocol"]) for rule in self_rules(group)} == {(True, "-1"), (False, "-1")}
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
    assert self_rules(group) == []


async def test_f33_a_rule_that_is_not_listed_yet_is_removed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = a_group("unlisted")
    folder = a_run(tmp_path, NETWORK, group=group)
    await carry_out(folder)
    assert len(self_rules(group)) == 2

    async def nothing_yet(*_: object) -> list[object]:
        return []

    monkeypatch.setattr("actions.run.stages.network.fetch_self_rules", nothing_yet)
    await torn_down(folder)
    assert self_rules(group) == []


async def test_a_rule_that_was_there_is_used_and_left(tmp_path: Path) -> None:
    group = a_group("shared")
    pair = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    client("ec2").authorize_security_group_ingress(GroupId=group, IpPermissions=[pair])
    folder = a_run(tmp_path, NETWORK, group=group)
    assert "added: egress." in (await carry_out(folder)).stage("efa").message
    view = await torn_down(folder)
    assert view.stage("efa").message == "1 rules removed."
    (rule,) = self_rules(group)
    assert not rule["IsEgress"]
    assert view.audit is not None
    assert view.audit.retained == (f"SecurityGroupRule {group}/ingress: was there before the run",)


async def test_a_rule_with_a_copied_tag_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actions.run.teardown.audit.ACCOUNT_SETTLE_SECONDS", 0.0)
    group = a_group("copied")
    folder = a_run(tmp_path, NETWORK, group=group)
    view = await carry_out(folder)
    client("ec2").revoke_security_group_ingress(
        GroupId=group, SecurityGroupRuleIds=[rule["SecurityGroupRuleId"] for rule in self_rules(group)
                                             if not rule["IsEgress"]],
    )  # fmt: skip
    pair = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    tags = [{"ResourceType": "security-group-rule", "Tags": [{"Key": "eksml-run", "Value": view.id}]}]
    client("ec2").authorize_security_group_ingress(GroupId=group, IpPermissions=[pair], TagSpecifications=tags)
    view = await torn_down(folder)
    assert view.stage("efa").message == "1 rules removed."
    (rule,) = self_rules(group)
    assert not rule["IsEgress"]


async def test_what_still_carries_the_tag_is_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actions.run.teardown.audit.ACCOUNT_SETTLE_SECONDS", 0.0)
    folder = a_run(tmp_path, NETWORK, group=a_group("audited"))
    view = await carry_out(folder)
    vpc = client("ec2").create_vpc(CidrBlock="10.2.0.0/16")["Vpc"]["VpcId"]
    client("ec2").create_tags(Resources=[vpc], Tags=[{"Key": "eksml-run", "Value": view.id}])
    audit = (await torn_down(folder)).audit
    assert audit is not None
    (line,) = audit.leftovers
    place = f"arn:aws:ec2:{REGION}:123456789012:vpc/{vpc}"
    command = f"aws ec2 delete-vpc --vpc-id {vpc} --region {REGION}"
    assert line == f"AWS {place}: tagged eksml-run={view.id}; remove: {command}"


async def test_an_account_that_cannot_be_asked_is_unknown_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = a_group("open")
    pair = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    client("ec2").authorize_security_group_ingress(GroupId=group, IpPermissions=[pair])
    client("ec2").authorize_security_group_egress(GroupId=group, IpPermissions=[pair])
    folder = a_run(tmp_path, NETWORK, group=group)
    assert (await carry_out(folder)).stage("efa").message == f"{group} is open to itself both ways already."
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    view = await torn_down(folder)
    assert view.audit is not None
    step = next(step for step in view.teardown if step.id == "audit")
    assert step.message.startswith("It is unknown whether anything is left. AWS could not be searched")
    assert not view.audit.is_clean


async def test_a_group_that_is_not_there_is_told(tmp_path: Path) -> None:
    view = await carry_out(a_run(tmp_path, NETWORK, group="sg-00000000000000000"))
    assert view.state is RunState.FAILED
    assert "sg-00000000000000000" in view.stage("efa").message


async def test_an_image_that_is_there_is_named_by_its_digest_and_left(tmp_path: Path) -> None:
    digest = an_image("found", "24.01")
    folder = a_run(tmp_path, IMAGE.replace("REPOSITORY", "found"))
    view = await carry_out(folder)
    url = f"123456789012.dkr.ecr.{REGION}.amazonaws.com/found"
    assert view.stage("image").outputs == {"image": f"{url}@{digest}", "digest": digest}
    await torn_down(folder)
    assert client("ecr").describe_images(repositoryName="found")["imageDetails"][0]["imageDigest"] == digest


async def test_without_docker_the_commands_for_another_machine_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    client("ecr").create_repository(repositoryName="unbuilt")
    view = await carry_out(a_run(tmp_path, IMAGE.replace("REPOSITORY", "unbuilt")))
    assert view.state is RunState.FAILED
    assert "unbuilt:24.01 is not in ECR, and docker does not work here" in view.stage("image").message


DOCKER = """#!/bin/sh
echo "$@" >>{log}
[ "$1" = version ] && {{ echo 27.0.0; exit 0; }}
config=$2
[ "$3" = build ] && {{ cp "$config/config.json" {log}.config; echo "Step 1/1 : FROM x"; exit 0; }}
[ "$3" = push ] && {{ {push}; echo "24.01: digest: pushed"; exit 0; }}
"""

PUSH = '{python} -c \'from tests.support.account import an_image; an_image("built", "24.01")\''


async def test_an_image_is_built_pushed_reported_and_removed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, log = tmp_path / "bin", tmp_path / "log"
    tools.mkdir()
    root = Path(__file__).parents[3]
    push = f"cd {root} && " + PUSH.format(python=sys.executable)
    (tools / "docker").write_text(DOCKER.format(log=log, push=push))
    (tools / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    folder = a_run(tmp_path, IMAGE.replace("REPOSITORY", "built"), group="nvcr.io/nvidia/nemo:24.01")
    view = await carry_out(folder)
    assert view.state is RunState.SUCCEEDED, view.stage("image").message
    asked = log.read_text()
    assert "build --platform linux/amd64 --tag 123456789012.dkr.ecr.us-west-2.amazonaws.com/built:24.01" in asked
    assert "--build-arg BASE=nvcr.io/nvidia/nemo:24.01" in asked
    login = json.loads(Path(f"{log}.config").read_text())
    assert list(login["auths"]) == ["123456789012.dkr.ecr.us-west-2.amazonaws.com"]
    assert "Step 1/1 : FROM x" in [line.text for line in OutputReader(folder, "image").lines()[0]]
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert login["auths"]["123456789012.dkr.ecr.us-west-2.amazonaws.com"]["auth"].encode() not in everything
    await torn_down(folder)
    assert client("ecr").describe_images(repositoryName="built")["imageDetails"] == []
