"""The simulation: answers like the driver, says what it is, matches the real rehearsal."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from actions.base.errors import BlueprintError, ConfigError, RefusedError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.render import tfvars_of
from actions.blueprint.source_files import located
from actions.blueprint.stages import TerraformStage
from actions.terraform.driver import open_terraform
from actions.terraform.events import TerraformEvent
from actions.terraform.simulation.terraform import SimulatedTerraform, Simulation
from tests.unit.terraform.support import a_driver, needs_terraform


class Quick:
    """A clock whose sleeps take no time."""

    async def sleep(self, seconds: float) -> None:
        return None


def simulated(root: Path, work: Path) -> SimulatedTerraform:
    root.mkdir(exist_ok=True)
    (root / "simulation.json").write_text(json.dumps({"resources": ["x.a", "x.b"], "outputs": {"n": "${name}-1"}}))
    terraform = SimulatedTerraform(root, work)
    terraform._clock = Quick()  # type: ignore[assignment]
    return terraform


async def test_a_whole_life_is_simulated_and_says_so(tmp_path: Path) -> None:
    terraform = simulated(tmp_path / "root", tmp_path / "work")
    events: list[TerraformEvent] = []
    await terraform.init()
    plan = await terraform.plan({"name": "n"}, on_event=events.append)

    assert plan.add == 2
    assert await terraform.apply(plan.plan_hash, on_event=events.append) == {"n": "n-1"}
    assert (await terraform.state()).everything == ("x.a", "x.b")
    assert (await terraform.plan({"name": "n"})).is_empty
    await terraform.destroy({"name": "n"}, on_event=events.append)
    assert (await terraform.state()).everything == ()
    assert all("simulated" in event.message for event in events)


async def test_another_hash_is_refused(tmp_path: Path) -> None:
    terraform = simulated(tmp_path / "root", tmp_path / "work")
    await terraform.plan({"name": "n"})
    with pytest.raises(RefusedError):
        await terraform.apply("other")


async def test_a_root_without_simulation_cannot_be_simulated(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(BlueprintError, match="cannot be simulated"):
        await SimulatedTerraform(tmp_path / "root", tmp_path / "work").init()


def test_without_program_only_a_preset_that_allows_it_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert open_terraform(tmp_path, tmp_path / "work", {}, may_simulate=True).is_simulated
    with pytest.raises(ConfigError, match="not on PATH"):
        open_terraform(tmp_path, tmp_path / "work", {})


async def test_what_was_begun_simulated_is_ended_simulated(tmp_path: Path) -> None:
    await simulated(tmp_path / "root", tmp_path / "work").plan({"name": "n"})
    program = Path("/opt/terraform")
    assert open_terraform(tmp_path, tmp_path / "work", {}, may_simulate=True, program=program).is_simulated
    assert not open_terraform(tmp_path, tmp_path / "fresh", {}, may_simulate=True, program=program).is_simulated


@needs_terraform
@pytest.mark.parametrize("stage_id", ["network", "provision", "filesystem"])
async def test_the_rehearsal_makes_what_its_simulation_says(tmp_path: Path, stage_id: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv").under("rehearsal")
    stage = blueprint.stage(stage_id)
    assert isinstance(stage, TerraformStage)
    root = located(blueprint.folder, stage.root)
    simulation = msgspec.json.decode((root / "simulation.json").read_bytes(), type=Simulation)
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
