"""A run with a home: Terraform's state lies in S3, and another machine goes on from there.

With the real program on built-in resources, and moto as S3 behind a proxy.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actions.run.client import load_run, send_request
from actions.run.context.store_address import parse_store, run_key
from actions.run.journal.store import append_record
from actions.run.output.reader import OutputReader
from actions.run.stages import terraform as stage_module
from actions.run.state.records import Operator, RequestKind, TakenOver
from actions.run.state.view import RunState, RunView, StageState
from actions.run.terraform_changes import terraform_report, terraform_table, waive
from actions.terraform import arguments
from actions.terraform.backend import StateBackend
from actions.terraform.driver import TerraformDriver
from actions.terraform.failure import StateLockedError
from actions.terraform.program import require_program
from actions.terraform.state import is_of_the_dead
from tests.faults import roots
from tests.faults.roots import Root
from tests.support.account import an_account, client
from tests.support.polling import until, wait
from tests.support.smallrun import carry_out, torn_down
from tests.support.statebackend import a_state_backend
from tests.support.stores import EXPIRED, Fault, Proxy, a_proxy

pytestmark = roots.needs_terraform

BUCKET = "team-runs"
HOME = f"s3://{BUCKET}/ml"
A, B = "terraform_data.a", "terraform_data.b"
SELF = Operator(getpass.getuser(), socket.gethostname())


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    with an_account() as endpoint:
        yield endpoint


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


@pytest.fixture
def s3(account: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with a_proxy(account) as proxy:
        named = {**roots.CREDENTIALS, "AWS_ENDPOINT_URL": proxy.address, "AWS_DEFAULT_REGION": "us-west-2"}
        for name, value in named.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(arguments, "LOCK_PATIENCE", "0s")
        monkeypatch.setattr(stage_module, "_LOCK_LOOK_SECONDS", 0.2)
        bucket().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield proxy
        proxy.mend()
        for key in keys():
            bucket().delete_object(Bucket=BUCKET, Key=key)
        bucket().delete_bucket(Bucket=BUCKET)


@pytest.fixture
def make(tmp_path: Path, s3: Proxy, root: Root) -> Iterator[Callable[..., Path]]:
    """Makes a run of the root with a home; its processes are ended with the test."""
    made: list[Path] = []

    def a_run(more: str = "", *, home: str = HOME) -> Path:
        made.append(roots.a_root_run(tmp_path, root.source(more), endpoint=s3.address, home=home))
        return made[0]

    yield a_run
    root.go_on.touch()
    wait(lambda: not any(roots.running(folder) for folder in made), "the end of Terraform")


def bucket() -> Any:
    return client("s3")


def keys() -> list[str]:
    return [item["Key"] for item in bucket().list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def held(folder: Path) -> list[str]:
    key = f"ml/runs/{folder.name}/terraform/net.tfstate"
    state = json.loads(bucket().get_object(Bucket=BUCKET, Key=key)["Body"].read())
    return [f"{item['type']}.{item['name']}" for item in state["resources"]]


def logged(folder: Path) -> str:
    lines, _ = OutputReader(folder, "net").lines(0)
    return "\n".join(line.text for line in lines)


def taken_over(folder: Path, tmp_path: Path, *, is_gone: bool = False) -> Path:
    """Return the run on another machine, with what a home has of it; the first machine's disk is lost."""
    copy = roots.elsewhere(folder, tmp_path / "elsewhere")
    body = TakenOver(Operator("ann", "laptop"), 2, previous=SELF, is_previous_gone=is_gone)
    append_record(copy, body, deed="the takeover")
    return copy


async def again(folder: Path) -> RunView:
    send_request(folder, RequestKind.RETRY, start=False)
    return await carry_out(folder)


def has_empty_audit(view: RunView) -> bool:
    return view.state is RunState.TORN_DOWN and view.audit is not None and view.audit.is_clean


async def killed_at_work(folder: Path, root: Root) -> None:
    """Begin, and kill the runner and Terraform while it makes `b`; the lock stays in S3."""
    runner = roots.begin(folder)
    wait(lambda: "b" in root.told(), "the second resource")
    terraform = roots.running(folder)
    roots.kill(runner)
    roots.kill_group(terraform)
    assert [key for key in keys() if key.endswith(".tflock")]


async def test_the_state_is_in_the_home_and_nowhere_else(make: Callable[..., Path], root: Root) -> None:
    folder = make()
    root.go_on.touch()
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    assert keys() == [f"ml/runs/{folder.name}/terraform/net.tfstate"]
    assert held(folder) == [A, B]
    assert not list(roots.work_folder(folder).glob("*.tfstate*"))
    assert not list((folder / "blueprint").rglob("*override*"))
    head = bucket().head_object(Bucket=BUCKET, Key=keys()[0])
    assert head["ServerSideEncryption"] == "AES256"
    (report,) = terraform_report(folder, load_run(folder))
    assert (report.resources, report.kept_in) == (2, f"{HOME}/runs/{folder.name}/terraform/net.tfstate")
    assert has_empty_audit(await torn_down(folder))
    assert root.told() == ["a", "b", "gone b", "gone a"]
    assert held(folder) == []
    (report,) = terraform_report(folder, load_run(folder))
    assert report.resources == 0


async def test_another_machine_destroys_what_the_state_in_the_home_holds(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    folder = make()
    root.go_on.touch()
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    copy = taken_over(folder, tmp_path)
    (report,) = terraform_report(copy, load_run(copy))
    assert report.resources == 2
    assert has_empty_audit(await torn_down(copy))
    assert root.told() == ["a", "b", "gone b", "gone a"]


async def test_another_machine_does_not_plan_what_is_there(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    third = 'resource "terraform_data" "c" {\n  depends_on = [terraform_data.b]\n}\n'
    folder = make(third)
    source = folder / "blueprint" / "terraform" / "net" / "main.tf"
    right = source.read_text()
    source.write_text(right.replace(f"while [ ! -e {root.go_on} ]", "exit 3; while true"))
    assert (await carry_out(folder)).state is RunState.FAILED
    source.write_text(right)
    copy = taken_over(folder, tmp_path)
    root.go_on.touch()
    view = await again(copy)
    assert view.state is RunState.SUCCEEDED
    assert [name for name in root.told() if name == "a"] == ["a"]
    assert held(copy) == [A, B, "terraform_data.c"]


async def test_a_lock_of_a_machine_that_is_gone_is_removed_on_record_and_what_it_may_have_made_is_asked_for(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    folder = make()
    await killed_at_work(folder, root)
    copy = taken_over(folder, tmp_path, is_gone=True)
    view = await carry_out(copy)
    assert view.state is RunState.FAILED
    message = view.stage("net").message
    assert "Another machine carried out a plan, and how that ended is not known" in message
    assert root.told() == ["a", "b"]  # neither made twice nor destroyed
    (report,) = terraform_report(copy, view)
    assert report.unobserved == (A, B)
    table = terraform_table([report], copy.name)
    assert f"eksml-tui runs waive {copy.name} unobserved --confirm unobserved" in table

    roots.import_by_hand(copy, A, "an-id")
    roots.import_by_hand(copy, B, "an-id")
    assert has_empty_audit(await torn_down(copy))
    assert root.told() == ["a", "b", "gone b", "gone a"]
    (lock,) = load_run(copy).stage("net").terraform.unlocked
    assert lock.who == str(SELF)
    assert lock.reason == f"{SELF} does not exist any more"
    assert f"Unlocked, as {SELF} does not exist any more." in logged(copy)
    assert not [key for key in keys() if key.endswith(".tflock")]


async def test_what_another_machine_may_have_made_is_waived_at_once(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    folder = make()
    await killed_at_work(folder, root)
    copy = taken_over(folder, tmp_path, is_gone=True)
    assert (await torn_down(copy)).state is RunState.FAILED
    waive(copy, "unobserved", confirm="unobserved")
    view = await again(copy)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert len([line for line in view.audit.retained if "was waived" in line]) == 2


async def test_a_lock_of_a_machine_of_which_nobody_says_that_it_is_gone_is_waited_for(
    make: Callable[..., Path], root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make()
    await killed_at_work(folder, root)
    copy = taken_over(folder, tmp_path)
    assert (await carry_out(copy)).state is RunState.FAILED
    waive(copy, "unobserved", confirm="unobserved")
    carrying = asyncio.create_task(again(copy))
    await until(lambda: f"locked by {SELF} since" in roots.note_of(copy, "net"), "the note")
    monkeypatch.setattr(stage_module, "LOCK_SECONDS", 0.0)
    send_request(copy, RequestKind.CANCEL, start=False)
    await carrying
    view = await again(copy)
    assert view.state is RunState.FAILED
    message = view.stage("net").message
    assert f"locked by {SELF} since" in message
    assert f"{require_program().name} -chdir={roots.work_folder(copy)} force-unlock" in message
    assert view.stage("net").terraform.unlocked == ()
    assert [key for key in keys() if key.endswith(".tflock")]


def loses_lock(s3: Proxy, operation: str) -> list[str]:
    """Lose the answer to the first request that takes a lock for an operation; the list gets its path."""
    lost: list[str] = []

    def loses(method: str, path: str) -> bool:
        if lost or method != "PUT" or ".tflock" not in path:
            return False
        key = next(key for key in keys() if key.endswith(".tflock"))
        taken = json.loads(bucket().get_object(Bucket=BUCKET, Key=key)["Body"].read())
        lost.extend([path] if taken["Operation"] == operation else [])
        return bool(lost)

    s3.loses_answers, s3.loses = True, loses
    return lost


@pytest.mark.parametrize("operation", ["OperationTypePlan", "OperationTypeApply"])
async def test_a_lock_whose_answer_was_lost_is_known_as_our_own_and_removed_at_once(
    make: Callable[..., Path], root: Root, s3: Proxy, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    monkeypatch.setattr(stage_module, "LOCK_SECONDS", 0.0)
    folder = make()
    root.go_on.touch()
    lost = loses_lock(s3, operation)
    view = await carry_out(folder)
    assert lost
    assert view.state is RunState.SUCCEEDED, view.stage("net").message
    (lock,) = view.stage("net").terraform.unlocked
    assert (lock.who, lock.operation, lock.reason) == (str(SELF), operation, "that process is dead")
    assert root.told() == ["a", "b"]
    assert not [key for key in keys() if key.endswith(".tflock")]


async def test_the_lock_of_a_short_command_whose_answer_was_lost_is_known_as_our_own(
    make: Callable[..., Path], root: Root, s3: Proxy
) -> None:
    folder = make()
    root.go_on.touch()
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    driver = TerraformDriver(
        folder / "blueprint" / "terraform" / "net",
        roots.work_folder(folder),
        {},
        program=require_program(),
        store=StateBackend(
            BUCKET, parse_store(HOME).key(run_key(folder.name, "terraform/net.tfstate")), "us-west-2", is_aws=False
        ),
    )
    assert driver.dead_holders() == []
    lost = loses_lock(s3, "OperationTypePlan")
    with pytest.raises(StateLockedError) as refusal:
        await driver.update_in_place({}, [A])
    assert lost
    assert is_of_the_dead(refusal.value.lock, driver.dead_holders())
    await driver.unlock(refusal.value.lock)
    await driver.update_in_place({}, [A])
    assert not list(roots.work_folder(folder).glob("query.log"))


async def test_a_destroy_that_another_machine_began_is_finished(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    folder = make()
    root.go_on.touch()
    await carry_out(folder)
    source = folder / "blueprint" / "terraform" / "net" / "main.tf"
    right = source.read_text()
    source.write_text(right.replace("echo gone a >>", "sleep 60; echo gone a >>"))
    send_request(folder, RequestKind.TEARDOWN, start=False)
    runner = roots.begin(folder)
    wait(lambda: "gone b" in root.told(), "the first deletion")
    process = roots.running(folder, "destroy")
    roots.kill(runner)
    roots.kill_group(process)
    source.write_text(right)
    copy = taken_over(folder, tmp_path, is_gone=True)
    assert has_empty_audit(await carry_out(copy))
    assert root.told()[:3] == ["a", "b", "gone b"]
    assert root.told()[-1] == "gone a"


@pytest.mark.parametrize("refusal", [EXPIRED, Fault(500, "InternalError")], ids=["expired", "broken"])
async def test_a_state_that_the_home_did_not_take_is_pushed_later(
    make: Callable[..., Path], root: Root, s3: Proxy, refusal: Fault
) -> None:
    folder = make()
    carrying = asyncio.create_task(carry_out(folder))
    await until(lambda: "b" in root.told(), "the second resource")
    s3.fault, s3.applies = refusal, lambda method, path: method == "PUT" and ".tfstate?" in path
    root.go_on.touch()
    view = await carrying
    assert view.state is RunState.FAILED
    message = view.stage("net").message
    assert "its state could not be saved" in message
    assert "What it has made is in errored.tfstate" in message
    assert (roots.work_folder(folder) / "errored.tfstate").exists()
    (report,) = terraform_report(folder, view)
    assert "The next attempt saves it" in terraform_table([report], folder.name)
    s3.mend()
    assert (await again(folder)).state is RunState.SUCCEEDED
    assert root.told() == ["a", "b"]
    assert held(folder) == [A, B]
    assert "Pushed errored.tfstate" in logged(folder)
    assert has_empty_audit(await torn_down(folder))


async def test_a_lock_that_a_home_did_not_take_back_with_the_state_is_removed_by_the_next_attempt(
    make: Callable[..., Path], root: Root, s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_module, "LOCK_SECONDS", 0.0)
    folder = make()
    carrying = asyncio.create_task(carry_out(folder))
    await until(lambda: "b" in root.told(), "the second resource")
    s3.fault, s3.applies = EXPIRED, lambda _method, path: ".tfstate" in path
    root.go_on.touch()
    assert (await carrying).state is RunState.FAILED
    s3.mend()
    assert [key for key in keys() if key.endswith(".tflock")]
    view = await again(folder)
    assert view.state is RunState.SUCCEEDED, view.stage("net").message
    assert root.told() == ["a", "b"]
    assert held(folder) == [A, B]
    assert [lock.operation for lock in view.stage("net").terraform.unlocked] == ["OperationTypeApply"]
    assert not [key for key in keys() if key.endswith(".tflock")]


async def test_a_home_that_is_away_is_waited_for_before_anything_is_planned(
    make: Callable[..., Path], root: Root, s3: Proxy
) -> None:
    folder = make()
    root.go_on.touch()
    s3.fault = EXPIRED
    carrying = asyncio.create_task(carry_out(folder))
    await until(lambda: "have expired" in roots.note_of(folder, "net"), "the note")
    assert root.told() == []
    s3.mend()
    assert (await carrying).state is RunState.SUCCEEDED


async def test_a_home_that_goes_away_before_a_lock_is_taken_is_waited_for(
    make: Callable[..., Path], root: Root, s3: Proxy
) -> None:
    folder = make()
    root.go_on.touch()
    s3.fault, s3.applies = EXPIRED, lambda method, path: method == "PUT" and ".tflock" in path
    carrying = asyncio.create_task(carry_out(folder))
    await until(lambda: "have expired" in roots.note_of(folder, "net") or carrying.done(), "the note")
    assert not carrying.done()
    assert root.told() == []
    s3.mend()
    assert (await carrying).state is RunState.SUCCEEDED
    assert root.told() == ["a", "b"]


async def test_a_state_that_was_deleted_in_the_home_is_not_an_empty_one(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    folder = make()
    root.go_on.touch()
    await carry_out(folder)
    bucket().delete_object(Bucket=BUCKET, Key=keys()[0])
    copy = taken_over(folder, tmp_path)
    view = await torn_down(copy)
    assert view.state is RunState.FAILED
    assert "The Terraform state of net is lost" in " ".join(step.message for step in view.teardown)
    waive(copy, "terraform.tfstate", confirm="terraform.tfstate")
    view = await again(copy)
    assert view.state is RunState.TORN_DOWN
    assert view.audit is not None
    assert any("terraform.tfstate was waived" in line for line in view.audit.retained)


async def test_a_stage_without_home_whose_folder_is_lost_has_not_made_nothing(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    folder = make(home="")
    root.go_on.touch()
    await carry_out(folder)
    copy = taken_over(folder, tmp_path)
    view = await torn_down(copy)
    assert view.state is RunState.FAILED
    assert view.stage("net").state is not StageState.UNDONE
    assert "is lost" in " ".join(step.message for step in view.teardown)


async def test_an_operators_own_backend_is_left_as_it_is_and_found_on_another_machine(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    with a_state_backend() as backend:
        folder = make(backend.block())
        root.go_on.touch()
        assert (await carry_out(folder)).state is RunState.SUCCEEDED
        assert sorted(backend.addresses()) == [A, B]
        assert keys() == []
        copy = taken_over(folder, tmp_path)
        assert has_empty_audit(await torn_down(copy))
        assert backend.addresses() == []
    assert root.told() == ["a", "b", "gone b", "gone a"]


async def test_a_local_backend_at_another_path_is_found_and_destroyed(
    make: Callable[..., Path], root: Root, tmp_path: Path
) -> None:
    path = tmp_path / "states" / "net.tfstate"
    folder = make(f'terraform {{\n  backend "local" {{ path = "{path}" }}\n}}\n', home="")
    root.go_on.touch()
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    (report,) = terraform_report(folder, load_run(folder))
    assert (report.resources, report.kept_in) == (2, "local")
    copy = taken_over(folder, tmp_path)
    assert has_empty_audit(await torn_down(copy))
    assert root.told() == ["a", "b", "gone b", "gone a"]
    assert json.loads(path.read_text())["resources"] == []
