"""The driver with the real program: plans, applies, refusals, and a runner that dies."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from actions.base.errors import ConflictError, ConsoleError, RefusedError, ToolError
from actions.base.process import identity_of
from actions.terraform import arguments
from actions.terraform.events import EventKind, TerraformEvent
from actions.terraform.working_directory import STATE_FILE
from tests.support.polling import until
from tests.unit.terraform.support import a_driver, a_root, needs_terraform

pytestmark = needs_terraform

EVERYTHING = ("terraform_data.first", "terraform_data.second")


async def test_plan_apply_destroy(tmp_path: Path) -> None:
    driver = a_driver(a_root(tmp_path / "root"), tmp_path / "work")
    events: list[TerraformEvent] = []
    await driver.init()
    plan = await driver.plan({"size": 3}, on_event=events.append)

    assert (plan.add, plan.change, plan.destroy) == (2, 0, 0)
    assert (await driver.plan({"size": 3})).plan_hash == plan.plan_hash
    assert await driver.apply(plan.plan_hash, on_event=events.append) == {"size": "3"}
    assert (await driver.state()).everything == EVERYTHING
    assert (await driver.plan({"size": 3})).is_empty
    assert (await driver.plan({"size": 4})).change == 1
    assert {EventKind.PLANNED_CHANGE, EventKind.APPLY_COMPLETE} <= {event.kind for event in events}

    await driver.destroy({"size": 3})
    assert (await driver.state()).everything == ()
    await driver.destroy({"size": 3})


async def test_everything_it_leaves_is_private_and_no_variable_is_on_a_command_line(tmp_path: Path) -> None:
    driver = a_driver(a_root(tmp_path / "root", seconds=0.5), tmp_path / "work")
    await driver.init()
    await driver.plan({"size": 31337})
    seen: list[bytes] = []

    def look(_event: TerraformEvent) -> None:
        identity = driver._operations["apply"].identity()
        if identity is not None:
            seen.append(Path(f"/proc/{identity.pid}/cmdline").read_bytes())

    await driver.apply(on_event=look)
    assert seen
    assert not any(b"31337" in argv for argv in seen)
    open_to_others = [
        path
        for path in (tmp_path / "work").rglob("*")
        if stat.S_IMODE(path.stat().st_mode) & 0o077 and not path.is_symlink()
    ]
    assert open_to_others == []


async def test_an_unapproved_or_changed_plan_is_refused(tmp_path: Path) -> None:
    driver = a_driver(a_root(tmp_path / "root"), tmp_path / "work")
    await driver.init()
    with pytest.raises(RefusedError, match="no saved plan"):
        await driver.apply()
    plan = await driver.plan({"size": 1})
    with pytest.raises(RefusedError, match="not the one that was approved"):
        await driver.apply("0" * 64)
    await driver.plan({"size": 2})
    with pytest.raises(RefusedError, match="not the one that was approved"):
        await driver.apply(plan.plan_hash)
    with (tmp_path / "work" / "run.tfplan").open("ab") as file:
        file.write(b"x")
    with pytest.raises(RefusedError, match="not the one that was approved"):
        await driver.apply()


async def test_a_state_that_moved_on_makes_the_plan_stale(tmp_path: Path) -> None:
    root = a_root(tmp_path / "root")
    driver, other = a_driver(root, tmp_path / "work"), a_driver(root, tmp_path / "other")
    for item in (driver, other):
        await item.init()
        await item.plan({"size": 1})
    await other.apply()
    (tmp_path / "work" / STATE_FILE).write_bytes((tmp_path / "other" / STATE_FILE).read_bytes())

    with pytest.raises(ConflictError, match="changed since the plan"):
        await driver.apply()


async def test_a_locked_state_says_who_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "LOCK_PATIENCE", "0s")
    driver = a_driver(a_root(tmp_path / "root"), tmp_path / "work")
    await driver.init()
    lock = {"ID": "5b5e3a6d", "Who": "ann@bastion", "Created": "2026-11-21T10:00:00Z", "Operation": "apply"}
    (tmp_path / "work" / ".terraform.tfstate.lock.info").write_text(json.dumps(lock))
    with (tmp_path / "work" / STATE_FILE).open("a") as state:
        fcntl.lockf(state, fcntl.LOCK_EX)
        with pytest.raises(ConflictError, match="state is locked by ann@bastion since 2026-11-21"):
            await driver.plan({"size": 1})
    assert (await driver.plan({"size": 1})).add == 2


async def test_a_cancelled_wait_leaves_the_apply_going(tmp_path: Path) -> None:
    root = a_root(tmp_path / "root", seconds=1)
    driver = a_driver(root, tmp_path / "work")
    await driver.init()
    await driver.plan({"size": 1})
    applying = asyncio.create_task(driver.apply())
    await until(lambda: driver.running() == "apply", "the apply")
    applying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await applying

    assert await a_driver(root, tmp_path / "work").apply() == {"size": "1"}


async def test_a_failing_command_is_an_error_and_what_was_made_is_known(tmp_path: Path) -> None:
    driver = a_driver(a_root(tmp_path / "root", command="exit 3"), tmp_path / "work")
    await driver.init()
    await driver.plan({"size": 1})
    with pytest.raises(ToolError, match="local-exec provisioner error"):
        await driver.apply()
    assert (await driver.state()).everything == EVERYTHING
    assert [item.action for item in (await driver.plan({"size": 1})).resources] == ["replace"]


async def test_a_wrong_root_is_an_error_with_its_words(tmp_path: Path) -> None:
    driver = a_driver(a_root(tmp_path / "root"), tmp_path / "work")
    await driver.init()
    with pytest.raises(ToolError, match="No value for required variable"):
        await driver.plan({})


async def test_a_state_that_could_not_be_saved_blocks_everything(tmp_path: Path) -> None:
    driver = a_driver(a_root(tmp_path / "root"), tmp_path / "work")
    await driver.init()
    await driver.plan({"size": 1})
    (tmp_path / "work" / "errored.tfstate").write_text("{}")
    for attempt in (driver.apply(), driver.plan({"size": 1}), driver.destroy({"size": 1})):
        with pytest.raises(RefusedError, match="could not save its state"):
            await attempt


async def test_an_interrupt_stops_after_the_current_resource_with_one_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = a_driver(a_root(tmp_path / "root", seconds=20), tmp_path / "work")
    await driver.init()
    await driver.plan({"size": 1})
    assert not driver.interrupt()
    events: list[TerraformEvent] = []
    applying = asyncio.create_task(driver.apply(on_event=events.append))
    await until(lambda: any(event.kind is EventKind.PROVISION_START for event in events), "the provisioner")

    sent: list[tuple[int, int]] = []
    with monkeypatch.context() as held:  # the signal is held back: after it, Terraform may end between two lines here
        held.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
        assert driver.interrupt()
        assert driver.interrupt()
    assert [number for _, number in sent] == [signal.SIGINT]
    os.kill(*sent[0])
    with pytest.raises(RefusedError, match="was interrupted"):
        await applying
    assert "terraform_data.first" in (await driver.state()).everything
    await driver.destroy({"size": 1})


RUNNER = """
import asyncio, sys
from pathlib import Path
from tests.unit.terraform.support import a_driver

async def main():
    driver = a_driver(Path(sys.argv[1]), Path(sys.argv[2]))
    await driver.init()
    await driver.plan({"size": 7})
    await driver.apply(on_event=lambda event: print(event.kind, flush=True))

asyncio.run(main())
"""


@pytest.mark.kill
async def test_an_apply_survives_its_runner_and_is_adopted_not_doubled(tmp_path: Path) -> None:
    made = tmp_path / "made"
    root = a_root(tmp_path / "root", command=f"echo made >> {made}; sleep 3")
    work = tmp_path / "work"
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(root), str(work)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        start_new_session=True,
    )
    try:
        await until(made.exists, "the file")
    finally:
        os.killpg(runner.pid, signal.SIGKILL)
        runner.communicate()

    driver = a_driver(root, work)
    assert driver.running() == "apply"
    identity = driver._operations["apply"].identity()
    with pytest.raises(RefusedError, match="still running"):
        await driver.plan({"size": 7})
    events: list[TerraformEvent] = []
    assert await driver.apply(on_event=events.append) == {"size": "7"}

    assert identity is not None
    assert identity_of(identity.pid) is None
    assert made.read_text() == "made\n"
    assert events[-1].kind is EventKind.OUTPUTS
    assert (await driver.plan({"size": 7})).is_empty


@pytest.mark.kill
async def test_a_killed_terraform_is_a_failure_not_a_success(tmp_path: Path) -> None:
    driver = a_driver(a_root(tmp_path / "root", seconds=20), tmp_path / "work")
    await driver.init()
    await driver.plan({"size": 1})
    applying = asyncio.create_task(driver.apply())
    await until(lambda: driver.running() == "apply", "the apply")
    identity = driver._operations["apply"].identity()
    assert identity is not None
    os.killpg(identity.pid, signal.SIGKILL)
    with pytest.raises(ToolError, match="ended with -9"):
        await applying


async def test_a_symbolic_link_in_a_root_is_refused(tmp_path: Path) -> None:
    root = a_root(tmp_path / "root")
    (root / "extra.tf").symlink_to("/etc/hostname")
    with pytest.raises(ConsoleError, match="symbolic link"):
        await a_driver(root, tmp_path / "work").init()


async def test_a_closed_registry_is_said_to_be_closed(tmp_path: Path) -> None:
    root = a_root(tmp_path / "root")
    (root / "providers.tf").write_text(
        'terraform {\n  required_providers {\n    x = { source = "127.0.0.1:1/none/x", version = "1.0.0" }\n  }\n}\n'
    )
    with pytest.raises(ConsoleError, match="cannot download"):
        await a_driver(root, tmp_path / "work").init()


def test_variables_are_written_as_json(tmp_path: Path) -> None:
    driver = a_driver(a_root(tmp_path / "root"), tmp_path / "work")
    driver._directory.prepare()
    driver._directory.write_variables({"name": 'a"; touch x', "flag": True})
    assert json.loads((tmp_path / "work" / "run.tfvars.json").read_text()) == {"name": 'a"; touch x', "flag": True}
