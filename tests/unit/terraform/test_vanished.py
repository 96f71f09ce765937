"""Destroys that do not find their resources, and states that only Terraform can find."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.terraform.events import OperationProgress, read_events
from actions.terraform.failure import UninitialisedError
from actions.terraform.state import read_state
from tests.faults.roots import a_state
from tests.unit.terraform.support import a_driver, needs_terraform

STREAM = Path(__file__).parents[2] / "fixtures" / "terraform" / "destroy-vanished.jsonl"
"""Recorded: `terraform destroy -json` of 1.11.4 with a provider that finds neither of two resources."""
ELSEWHERE = 'terraform {\n  backend "local" { path = "../other.tfstate" }\n}\nresource "terraform_data" "x" {}\n'


def recorded() -> OperationProgress:
    events = (event for line in STREAM.read_bytes().splitlines() for event in read_events(line))
    return OperationProgress.of("destroy", events)


def test_terraform_calls_it_a_success_and_says_nothing() -> None:
    progress = recorded()
    assert (progress.is_summarised, progress.errors, progress.changes, progress.drifted_away) == (True, [], (), {})


def test_what_left_the_state_without_being_destroyed_has_vanished() -> None:
    both = ("aws_vpc.x", "aws_vpc.y")
    assert recorded().vanished(both, (), ()) == list(both)
    assert recorded().vanished(both, (), ("aws_vpc.y",)) == ["aws_vpc.x"]


def test_what_an_earlier_destroy_had_begun_to_delete_is_expected_to_be_gone() -> None:
    assert recorded().vanished(("aws_vpc.x", "aws_vpc.y"), ("aws_vpc.x",), ()) == ["aws_vpc.y"]


def test_data_sources_are_no_resources() -> None:
    instance = '"instances":[{}]'
    state = (
        '{"version":4,"serial":1,"lineage":"l","resources":['
        f'{{"mode":"data","type":"aws_region","name":"r","module":"module.data",{instance}}},'
        f'{{"mode":"managed","type":"aws_vpc","name":"v","module":"module.data",{instance}}}]}}'
    )
    found = read_state(state.encode())
    assert found.addresses == ("module.data.data.aws_region.r", "module.data.aws_vpc.v")
    assert found.managed == ("module.data.aws_vpc.v",)


@needs_terraform
async def test_a_root_that_was_never_applied_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "main.tf").write_text('resource "terraform_data" "x" {}\n')
    (tmp_path / "work").mkdir()
    assert (await a_driver(tmp_path / "root", tmp_path / "work").state()).everything == ()


@needs_terraform
async def test_a_state_elsewhere_is_found_and_one_that_cannot_be_looked_for_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "main.tf").write_text(ELSEWHERE)
    driver = a_driver(tmp_path / "root", tmp_path / "work")
    await driver.init()
    (tmp_path / "other.tfstate").write_text(a_state("x"))
    assert (await driver.state()).everything == ("terraform_data.x",)
    for path in (tmp_path / "work" / ".terraform").iterdir():
        path.unlink()
    with pytest.raises(UninitialisedError):
        await driver.state()
    await driver.init()
    assert (await driver.state()).everything == ("terraform_data.x",)


@needs_terraform
async def test_a_real_destroy_accounts_for_everything(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "main.tf").write_text('resource "terraform_data" "x" {}\nresource "terraform_data" "y" {}\n')
    driver = a_driver(tmp_path / "root", tmp_path / "work")
    await driver.init()
    await driver.plan({})
    await driver.apply()
    await driver.destroy({})
    assert await driver.ended() is None
    copy = driver.keep_backup()
    assert copy is not None
    assert len(read_state(copy.read_bytes()).managed) == 2
