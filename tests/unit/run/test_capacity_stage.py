"""The capacity stage of a run on the sandbox's account: what it reports, refuses and waits for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actions.run.state.records import CheckResult
from actions.run.state.view import RunState, RunView
from tests.support.answering import write_kubeconfig
from tests.support.sandboxes import account_of
from tests.support.smallrun import a_small_run, carry_out
from tests.unit.sandbox.controllers.server import cloud_alone

BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: small, region: us-west-2}
parameters:
  zone: {type: text, title: Zone, default: auto}
  reservation: {type: text, title: Reservation, default: ""}
  capacity_type: {type: text, title: Capacity, default: ON_DEMAND}
  vcpus: {type: integer, title: vCPUs, default: 96}
stages:
  - id: capacity
    kind: capacity
    title: Capacity
    instance_type: p5.48xlarge
    count: 2
    zone: "${zone}"
    capacity_type: "${capacity_type}"
    reservation: "${reservation}"
    expect: 1s..5s
    outputs: [zone, zone_id, placement_group]
    quotas:
      - {check: quota, title: P quota, code: L-417A185B, amount: "${vcpus}", capacity_type: "${capacity_type}"}
"""
AWAITED = """
  - {id: reservation, kind: capacity, title: Reservation, expect: 0s..5s, needs: [capacity],
     instance_type: p5.48xlarge, count: 2, reservation: "${reservation}", is_awaited: true}
"""


@pytest.fixture(autouse=True)
async def _account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    folder = tmp_path / "sandbox"
    folder.mkdir()
    async with cloud_alone(folder):
        for name, value in account_of(folder).items():
            monkeypatch.setenv(name, value)
        yield


async def outcome(tmp_path: Path, stages: str = "", **parameters: str) -> RunView:
    nobody = write_kubeconfig(tmp_path / "nobody", "http://127.0.0.1:9")
    files = {"blueprint.yaml": BLUEPRINT + stages}
    return await carry_out(a_small_run(tmp_path, files, kubeconfig=nobody, parameters=parameters))


async def test_the_zone_is_chosen_and_stands_in_the_journal(tmp_path: Path) -> None:
    view = await outcome(tmp_path)
    assert view.state is RunState.SUCCEEDED
    assert view.outputs["capacity"] == {"zone": "us-west-2a", "zone_id": "usw2-az2", "placement_group": ""}
    assert "p5.48xlarge is offered in us-west-2a (usw2-az2)" in view.stage("capacity").message


async def test_a_zone_by_id_reaches_the_next_stage_by_name(tmp_path: Path) -> None:
    assert (await outcome(tmp_path, zone="usw2-az1")).outputs["capacity"]["zone"] == "us-west-2b"


async def test_a_zone_without_the_type_fails_with_those_that_have_it(tmp_path: Path) -> None:
    view = await outcome(tmp_path, zone="us-west-2d")
    assert view.state is RunState.FAILED
    message = view.stage("capacity").message
    assert "us-west-2d (usw2-az4) does not offer p5.48xlarge" in message
    assert "us-west-2b (usw2-az1)" in message


async def test_a_reservation_of_another_zone_or_type_fails(tmp_path: Path) -> None:
    view = await outcome(tmp_path, zone="us-west-2b", reservation="cr-10123456789abcdef")
    assert "is in us-west-2a (usw2-az2), not in us-west-2b" in view.stage("capacity").message
    (tmp_path / "other").mkdir()
    other = await outcome(tmp_path / "other", reservation="cr-00123456789abcdef")
    assert "is for p4de.24xlarge, not p5.48xlarge" in other.stage("capacity").message


async def test_a_scheduled_reservation_is_waited_for_where_the_nodes_begin(tmp_path: Path) -> None:
    view = await outcome(tmp_path, AWAITED, reservation="cr-1111111111111115c")
    assert view.state is RunState.SUCCEEDED
    assert "is active" in view.stage("reservation").message


async def test_no_reservation_is_waited_for_where_none_is_named(tmp_path: Path) -> None:
    view = await outcome(tmp_path, AWAITED)
    assert view.stage("reservation").message == "No reservation is named."


async def test_quotas_are_compared_with_what_is_left_of_them(tmp_path: Path) -> None:
    view = await outcome(tmp_path, vcpus="2000")
    assert view.state is RunState.FAILED
    assert "0 of the quota of 1152 are in use, 2000 more are required" in view.stage("capacity").message


async def test_a_capacity_block_counts_for_no_quota(tmp_path: Path) -> None:
    view = await outcome(tmp_path, vcpus="2000", capacity_type="CAPACITY_BLOCK", reservation="cr-111111111111111b1")
    assert view.state is RunState.SUCCEEDED
    place, quota = view.stage("capacity").findings
    assert (quota.result, quota.detail) == (CheckResult.PASSED, "Instances of a capacity block count for no quota.")
    assert "EC2 ends its instances from" in place.detail
