"""The shared roots: well written, the rehearsal like the real thing, node groups made by calls of EKS."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from actions.base.errors import ConsoleError
from actions.base.files import shipped_blueprints
from actions.blueprint.source_files import SHARED, Declarations, declarations_of, empty_variables, variables_of
from actions.sandbox.statefiles import write_terraform
from actions.sandbox.terraform.simulation import load_simulation
from actions.terraform.driver import TerraformDriver
from tests.support.missing import skip_without
from tests.unit.terraform.support import PROGRAM, needs_terraform

HOME = shipped_blueprints() / SHARED
ROOTS = sorted(path.name for path in (HOME / "terraform").iterdir())
VARIABLES: dict[str, str | int | float | bool] = {
    "run_id": "r",
    "cluster_name": "c",
    "region": "us-west-2",
    "subnet_ids": "subnet-1",
    "node_group_name": "g",
    "instance_type": "g5.8xlarge",
    "node_count": 2,
    "ami_type": "AL2023_x86_64_NVIDIA",
    "taints": '[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]',
}
ABSENT = {"x-amzn-ErrorType": "ResourceNotFoundException"}


class Groups:
    """Node groups as EKS answers for them."""

    def __init__(self, *states: str) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self._states = [*states, "ACTIVE"]
        self._deleting: dict[str, int] = {}

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["nodegroupName"] in self.bodies:
            return web.json_response({"message": "it exists"}, status=409)
        self.bodies[body["nodegroupName"]] = body
        return web.json_response({"nodegroup": {"status": "CREATING"}})

    async def describe(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self._deleting.get(name) == 0:
            self.bodies.pop(name, None)
        if name not in self.bodies:
            return web.json_response({"message": "none"}, status=404, headers=ABSENT)
        if name in self._deleting:
            self._deleting[name] -= 1
            return web.json_response({"nodegroup": {"status": "DELETING", "tags": self.bodies[name]["tags"]}})
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        return web.json_response({"nodegroup": {"status": state, "tags": self.bodies[name]["tags"]}})

    async def delete(self, request: web.Request) -> web.Response:
        if request.match_info["name"] not in self.bodies:
            return web.json_response({"message": "none"}, status=404, headers=ABSENT)
        self._deleting[request.match_info["name"]] = 1
        return web.json_response({"nodegroup": {"status": "DELETING"}})


@asynccontextmanager
async def eks(groups: Groups) -> AsyncIterator[dict[str, str]]:
    """The environment that leads to `groups`."""
    app = web.Application()
    app.router.add_post("/clusters/c/node-groups", groups.create)
    app.router.add_get("/clusters/c/node-groups/{name}", groups.describe)
    app.router.add_delete("/clusters/c/node-groups/{name}", groups.delete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        yield {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", **keys}
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("name", ROOTS)
def test_a_rehearsal_takes_and_gives_what_the_real_root_does(name: str) -> None:
    real, rehearsed = f"terraform/{name}", f"rehearsal/{name}"
    needed = {variable for variable, is_needed in variables_of(HOME, real).items() if is_needed}
    rehearsed_variables = variables_of(HOME, rehearsed)
    assert needed == {variable for variable, is_needed in rehearsed_variables.items() if is_needed}
    assert set(rehearsed_variables) <= set(variables_of(HOME, real))
    assert declarations_of(HOME, real).outputs == declarations_of(HOME, rehearsed).outputs
    assert set(load_simulation(HOME / rehearsed).outputs) == declarations_of(HOME, rehearsed).outputs


@needs_terraform
def test_the_roots_are_formatted_as_terraform_does() -> None:
    assert PROGRAM is not None
    done = subprocess.run(
        [PROGRAM, "fmt", "-check", "-recursive", "-list=true", HOME], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(params=["terraform", "stand-in"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Terraform, and the sandbox's own: both make the same calls."""
    if request.param == "stand-in":
        return write_terraform(tmp_path / "programs") / "terraform"
    return PROGRAM or skip_without("terraform")


async def test_a_rehearsal_makes_a_node_group_and_takes_it_away(tmp_path: Path, program: Path) -> None:
    groups = Groups("CREATING")
    async with eks(groups) as environment:
        driver = TerraformDriver(HOME / "rehearsal" / "nodes", tmp_path / "work", environment, program=program)
        await driver.init()
        plan = await driver.plan(VARIABLES)
        outputs = await driver.apply(plan.plan_hash)
        body = groups.bodies["g"]
        await driver.destroy(VARIABLES)
    assert outputs == {"node_group_name": "g", "node_count": "2"}
    assert (body["instanceTypes"], body["labels"]) == (["g5.8xlarge"], {"accelerator": "nvidia"})
    assert body["scalingConfig"]["desiredSize"] == 2
    assert body["subnets"] == ["subnet-1"]
    assert body["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
    assert body["tags"]["eksml-run"] == "r"
    assert groups.bodies == {}


async def test_a_node_group_that_fails_is_told(tmp_path: Path, program: Path) -> None:
    async with eks(Groups("CREATE_FAILED")) as environment:
        driver = TerraformDriver(HOME / "rehearsal" / "nodes", tmp_path / "work", environment, program=program)
        await driver.init()
        plan = await driver.plan(VARIABLES)
        with pytest.raises(ConsoleError, match=r"CREATE_FAILED|local-exec provisioner error"):
            await driver.apply(plan.plan_hash)


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_works_in_the_runs_account_and_in_no_other(name: str) -> None:
    text = (HOME / "terraform" / name / "versions.tf").read_text()
    assert 'allowed_account_ids = var.account_id == "" ? null : [var.account_id]' in text
    assert "account_id" in empty_variables(HOME.parent, f"{SHARED}/terraform/{name}")


def test_a_root_is_read_anew_when_its_files_change(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    text = 'variable "a" {\n  type = string\n}\noutput "x" {\n  value = 1\n}\n'
    for name in ("a", "b", "a"):
        (root / "main.tf").write_text(text.replace('"a"', f'"{name}"'), encoding="utf-8")
        assert declarations_of(tmp_path, "root") == Declarations({name: True}, frozenset({"x"}))
