"""The sandbox's own `terraform`, by the driver of the real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from actions.base.errors import ConsoleError, RefusedError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.render import tfvars_of
from actions.blueprint.source_files import located
from actions.blueprint.stages import TerraformStage
from actions.sandbox.locate import ProcessFile, RunningSandbox
from actions.sandbox.statefiles import write_terraform
from actions.sandbox.terraform.simulation import load_simulation
from actions.terraform.backend import StateBackend
from actions.terraform.driver import TerraformDriver
from actions.terraform.events import TerraformEvent
from tests.support.account import an_account, client
from tests.support.polling import until
from tests.unit.terraform.support import a_driver, needs_terraform


def a_root(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "main.tf").write_text("")
    simulation = {"resources": ["terraform_data.a[0]", "terraform_data.a[1]", "x.b"], "outputs": {"n": "${name}-1"}}
    (folder / "simulation.json").write_text(json.dumps(simulation))
    return folder


@pytest.fixture
def driver(tmp_path: Path) -> TerraformDriver:
    program = write_terraform(tmp_path / "sandbox") / "terraform"
    return TerraformDriver(a_root(tmp_path / "root"), tmp_path / "work", {}, program=program)


async def test_a_whole_life_says_what_it_is(driver: TerraformDriver) -> None:
    events: list[TerraformEvent] = []
    await driver.init()
    plan = await driver.plan({"name": "n"}, on_event=events.append)

    assert plan.add == 3
    assert await driver.apply(plan.plan_hash, on_event=events.append) == {"n": "n-1"}
    assert (await driver.state()).everything == ("terraform_data.a[0]", "terraform_data.a[1]", "x.b")
    assert (await driver.plan({"name": "n"})).is_empty
    await driver.destroy({"name": "n"}, on_event=events.append)
    assert (await driver.state()).everything == ()
    assert await driver.ended() is None
    assert any("stand-in for Terraform" in event.message for event in events)


async def test_another_hash_and_an_old_plan_are_refused(driver: TerraformDriver) -> None:
    await driver.init()
    plan = await driver.plan({"name": "n"})
    with pytest.raises(RefusedError):
        await driver.apply("other")
    saved = (driver._directory.folder / "run.tfplan").read_bytes()
    await driver.apply(plan.plan_hash)
    (driver._directory.folder / "run.tfplan").write_bytes(saved)
    driver._directory.record_plan(plan.plan_hash)
    with pytest.raises(ConsoleError, match="The state has changed since the plan was made"):
        await driver.apply(plan.plan_hash)


async def test_an_interrupt_ends_it_after_the_present_resource(driver: TerraformDriver) -> None:
    await driver.init()
    plan = await driver.plan({"name": "n"})
    applied = asyncio.create_task(driver.apply(plan.plan_hash))
    await until(lambda: bool(driver.changes()), "a change")
    running = driver.process()
    assert running is not None
    os.kill(running.process.pid, signal.SIGINT)
    with pytest.raises(ConsoleError, match="interrupted"):
        await applied
    assert len((await driver.state()).everything) == 1
    assert (await driver.plan({"name": "n"})).add == 2


async def test_its_state_lies_in_the_store_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = write_terraform(tmp_path / "sandbox") / "terraform"
    with an_account() as endpoint:
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        for name, value in {"AWS_ENDPOINT_URL": endpoint, **dict.fromkeys(names, "testing")}.items():
            monkeypatch.setenv(name, value)
        client("s3").create_bucket(Bucket="team-runs", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        store = StateBackend("team-runs", "runs/1.tfstate", "us-west-2", is_aws=False)
        driver = TerraformDriver(a_root(tmp_path / "root"), tmp_path / "work", {}, program=program, store=store)
        await driver.init()
        plan = await driver.plan({"name": "n"})
        await driver.apply(plan.plan_hash)
        elsewhere = TerraformDriver(tmp_path / "root", tmp_path / "other", {}, program=program, store=store)
        assert len((await elsewhere.state()).everything) == 3
    assert not (tmp_path / "work" / "terraform.tfstate").exists()


async def test_a_root_without_a_simulation_is_refused(driver: TerraformDriver, tmp_path: Path) -> None:
    (tmp_path / "root" / "simulation.json").unlink()
    with pytest.raises(ConsoleError, match="cannot be simulated"):
        await driver.init()


def test_it_is_on_path_where_there_is_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = ProcessFile(1, 1, "b", "https://127.0.0.1:1", "k", "http://127.0.0.1:2/aws", 6.0)
    sandbox = RunningSandbox("demo", tmp_path, process)
    monkeypatch.setenv("PATH", "/nowhere")
    assert sandbox.environment()["PATH"] == f"{tmp_path / 'bin'}:/nowhere"
    monkeypatch.setenv("PATH", str(write_terraform(tmp_path / "another")))
    assert "PATH" not in sandbox.environment()


@needs_terraform
@pytest.mark.parametrize("stage_id", ["network", "provision", "filesystem"])
async def test_the_rehearsal_makes_what_its_simulation_says(tmp_path: Path, stage_id: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv").under("rehearsal")
    stage = blueprint.stage(stage_id)
    assert isinstance(stage, TerraformStage)
    root = located(blueprint.folder, stage.root)
    simulation = load_simulation(root)
    outputs = {
        "capacity": dict.fromkeys(("zone", "zone_id", "placement_group"), "a"),
        "network": dict.fromkeys(("vpc_id", "vpc_cidr", "private_subnet_ids", "storage_subnet_id"), "a"),
    }
    variables = tfvars_of(blueprint, stage_id, bind(blueprint, {}, preset="rehearsal"), run_id="r", outputs=outputs)

    driver = a_driver(root, tmp_path / "work")
    await driver.init()
    plan = await driver.plan(variables)
    assert {change.address for change in plan.resources} == set(simulation.resources)
    assert set(simulation.outputs) == set(stage.outputs)
