"""D8, F13, F15, F19: what Terraform may have done is remembered, and nothing goes on before it is known.

With the real program on built-in resources whose provisioners write down what was made and what was destroyed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actions.base.errors import ConfigError
from actions.run.client import load_run, send_request
from actions.run.output.reader import OutputReader
from actions.run.report import run_table
from actions.run.state.records import CheckResult, RequestKind, Resolution
from actions.run.state.view import RunState, RunView, StageState
from actions.run.terraform_changes import terraform_report, terraform_table, waive
from tests.faults import roots
from tests.faults.roots import Root
from tests.support.account import an_account
from tests.support.polling import until, wait
from tests.support.smallrun import carry_out, torn_down
from tests.support.statebackend import StateBackend, a_state_backend

pytestmark = roots.needs_terraform

A, B = "terraform_data.a", "terraform_data.b"


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    with an_account() as endpoint:
        yield endpoint


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: str, root: Root) -> Iterator[Callable[..., Path]]:
    """Makes a run of the root; its processes are ended with the test."""
    for name, value in {**roots.CREDENTIALS, "AWS_ENDPOINT_URL": account, "AWS_DEFAULT_REGION": "us-west-2"}.items():
        monkeypatch.setenv(name, value)
    made: list[Path] = []

    def a_run(more: str = "", *, keeps_data: bool = False, auto_approve: bool = True) -> Path:
        source = root.source(more)
        made.append(
            roots.a_root_run(tmp_path, source, endpoint=account, keeps_data=keeps_data, auto_approve=auto_approve)
        )
        return made[0]

    yield a_run
    root.go_on.touch()
    wait(lambda: not any(roots.running(folder) for folder in made), "the end of Terraform")


def logged(folder: Path) -> str:
    lines, _ = OutputReader(folder, "net").lines(0)
    return "\n".join(line.text for line in lines)


def teardown_message(view: RunView) -> str:
    return next(step.message for step in view.teardown if step.id == "net")


async def killed_at_work(folder: Path, root: Root) -> RunView:
    """Begin, and kill Terraform with all it has started while it makes `b`."""
    carrying = asyncio.create_task(carry_out(folder))
    await until(lambda: "b" in root.told(), "the second resource")
    roots.kill_group(roots.running(folder))
    return await carrying


async def again(folder: Path) -> RunView:
    send_request(folder, RequestKind.RETRY, start=False)
    return await carry_out(folder)


async def test_a_killed_terraform_is_named_with_what_it_may_have_made_and_is_not_begun_again(
    make: Callable[..., Path], root: Root
) -> None:
    folder = make()
    view = await killed_at_work(folder, root)
    stage = view.stage("net")
    assert stage.state is StageState.FAILED
    assert "it was killed (SIGKILL), perhaps out of memory; under way: terraform_data.b" in stage.message
    assert "Terraform was ended while it made terraform_data.b: it may exist outside the state." in stage.message
    assert "terraformrc" not in stage.message
    assert [(item.subject, item.result) for item in stage.findings] == [
        (A, CheckResult.PASSED),
        (B, CheckResult.UNKNOWN),
    ]

    root.go_on.touch()
    for blocked in (await again(folder), await torn_down(folder), await again(folder)):
        assert blocked.state is RunState.FAILED
        assert root.told() == ["a", "b"]  # neither made twice nor destroyed
    assert "terraform_data.b: it may exist outside the state" in teardown_message(load_run(folder))
    assert "May exist outside of Terraform's state:\n  net: terraform_data.b" in run_table(load_run(folder))


async def test_a_resource_that_was_imported_by_hand_is_destroyed_with_the_others(
    make: Callable[..., Path], root: Root
) -> None:
    folder = make()
    await killed_at_work(folder, root)
    roots.import_by_hand(folder, B, "an-id")
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
    assert root.told() == ["a", "b", "gone b", "gone a"]
    view = load_run(folder)
    assert [(item.address, item.how) for item in view.stage("net").terraform.pending] == [(B, Resolution.TRACKED)]
    assert view.audit is not None
    assert view.audit.leftovers == ()


async def test_a_retry_after_an_import_does_not_make_it_a_second_time(make: Callable[..., Path], root: Root) -> None:
    folder = make()
    await killed_at_work(folder, root)
    roots.import_by_hand(folder, B, "an-id")
    root.go_on.touch()
    assert (await again(folder)).state is RunState.SUCCEEDED
    assert root.told() == ["a", "b"]


async def test_what_was_waived_by_name_is_told_by_the_audit(make: Callable[..., Path], root: Root) -> None:
    folder = make()
    await killed_at_work(folder, root)
    for confirm in ("", A, B[:-1]):
        with pytest.raises(ConfigError, match=r"not looked for again"):
            waive(folder, B, confirm=confirm)
    waive(folder, B, confirm=B)
    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN
    assert root.told() == ["a", "b", "gone a"]
    assert view.audit is not None
    assert any(B in line and "waived" in line for line in view.audit.retained)


async def test_runner_and_terraform_killed_together_are_followed_up_by_the_next_runner(
    make: Callable[..., Path], root: Root
) -> None:
    folder = make()
    runner = roots.begin(folder)
    wait(lambda: "b" in root.told(), "the second resource")
    terraform = roots.running(folder)
    roots.kill(runner)
    roots.kill_group(terraform)
    assert "may exist outside" not in terraform_table(terraform_report(folder, load_run(folder)), folder.name)
    view = await carry_out(folder)
    assert view.state is RunState.FAILED
    assert "terraform_data.b: it may exist outside the state." in view.stage("net").message
    assert root.told() == ["a", "b"]
    table = terraform_table(terraform_report(folder, view), folder.name)
    assert "1 resources in its state" in table
    assert f"eksml-tui runs waive {folder.name} '{B}' --confirm '{B}'" in table


async def test_a_teardown_right_after_the_kill_waits_for_an_answer_too(make: Callable[..., Path], root: Root) -> None:
    folder = make()
    runner = roots.begin(folder)
    wait(lambda: "b" in root.told(), "the second resource")
    terraform = roots.running(folder)
    roots.kill(runner)
    roots.kill_group(terraform)
    view = await torn_down(folder)
    assert view.state is RunState.FAILED
    assert B in teardown_message(view)
    assert root.told() == ["a", "b"]


async def test_a_killed_destroy_needs_no_answer(make: Callable[..., Path], root: Root) -> None:
    folder = make()
    root.go_on.touch()
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    source = roots.work_folder(folder) / "main.tf"
    held = source.read_text().replace("echo gone b >>", "sleep 60; echo gone b >>")
    (folder / "blueprint" / "terraform" / "net" / "main.tf").write_text(held)
    send_request(folder, RequestKind.TEARDOWN, start=False)
    carrying = asyncio.create_task(carry_out(folder))
    await until(lambda: roots.running(folder, "destroy"), "the destroy")
    stream = roots.work_folder(folder) / "destroy.jsonl"
    await until(lambda: "provision_start" in stream.read_text(), "the provisioner")
    roots.kill_group(roots.running(folder, "destroy"))
    assert (await carrying).state is RunState.FAILED
    (folder / "blueprint" / "terraform" / "net" / "main.tf").write_text(held.replace("sleep 60; ", ""))
    assert (await again(folder)).state is RunState.TORN_DOWN
    assert root.told() == ["a", "b", "gone b", "gone a"]


def put_unsaved(folder: Path, *names: str, lineage: str = "l", serial: int = 9) -> Path:
    path = roots.work_folder(folder) / "errored.tfstate"
    path.write_text(roots.a_state(*names, lineage=lineage, serial=serial))
    return path


async def test_a_state_that_could_not_be_saved_is_pushed_before_a_teardown(
    make: Callable[..., Path], root: Root
) -> None:
    folder = make()
    root.go_on.touch()
    await carry_out(folder)
    state = roots.work_folder(folder) / "terraform.tfstate"
    unsaved = put_unsaved(folder, "a", "b")
    state.unlink()

    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN
    assert root.told() == ["a", "b", "gone b", "gone a"]
    assert not unsaved.exists()
    assert "Pushed errored.tfstate" in logged(folder)


async def test_a_state_that_is_anothers_or_older_is_named_and_waits_for_a_person(
    make: Callable[..., Path], root: Root
) -> None:
    folder = make()
    root.go_on.touch()
    await carry_out(folder)
    unsaved = put_unsaved(folder, "a", "lost", lineage="another")
    view = await torn_down(folder)
    assert view.state is RunState.FAILED
    assert "terraform_data.lost" in teardown_message(view)
    assert "The state is another one." in teardown_message(view)
    assert root.told() == ["a", "b"]
    (report,) = terraform_report(folder, view)
    assert report.blocks == ("errored.tfstate",)
    waive(folder, "errored.tfstate", confirm="errored.tfstate")
    view = await again(folder)
    assert view.state is RunState.TORN_DOWN
    assert root.told() == ["a", "b", "gone b", "gone a"]
    assert not unsaved.exists()
    assert view.audit is not None
    assert any("errored.tfstate" in line for line in view.audit.retained)


async def test_the_audit_of_a_stage_that_is_kept_tells_of_the_state_that_could_not_be_saved(
    make: Callable[..., Path], root: Root
) -> None:
    folder = make(keeps_data=True)
    root.go_on.touch()
    await carry_out(folder)
    put_unsaved(folder, "lost", lineage="another")
    view = await torn_down(folder)
    assert view.audit is not None
    command = f"remove: eksml-tui runs teardown {view.id} --confirm {view.cluster.name} --delete-data"
    assert f"Terraform net: {A}; {command}" in view.audit.retained
    lost = "Terraform net: terraform_data.lost (in errored.tfstate, which was not pushed)"
    assert f"{lost}; {command}" in view.audit.retained


@pytest.fixture
def backend() -> Iterator[StateBackend]:
    with a_state_backend() as found:
        yield found


async def test_a_backend_that_refuses_the_state_is_made_good_when_it_takes_it_again(
    make: Callable[..., Path], root: Root, backend: StateBackend
) -> None:
    folder = make(backend.block())
    carrying = asyncio.create_task(carry_out(folder))
    await until(lambda: "b" in root.told(), "the second resource")
    backend.fails_writes = True
    root.go_on.touch()
    view = await carrying
    assert view.state is RunState.FAILED
    assert (roots.work_folder(folder) / "errored.tfstate").exists()
    blocked = await again(folder)
    assert blocked.state is RunState.FAILED
    assert root.told() == ["a", "b"]

    backend.fails_writes = False
    assert (await again(folder)).state is RunState.SUCCEEDED
    assert root.told() == ["a", "b"]
    assert sorted(backend.addresses()) == [A, B]
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
    assert root.told() == ["a", "b", "gone b", "gone a"]


async def test_what_a_backend_holds_from_before_a_run_is_named(
    make: Callable[..., Path], root: Root, backend: StateBackend, tmp_path: Path, account: str
) -> None:
    root.go_on.touch()
    folder = make(backend.block())
    assert (await carry_out(folder)).stage("net").message == "Applied."
    other = roots.a_root_run(tmp_path / "other", root.source(backend.block()), endpoint=account)
    assert (await carry_out(other)).stage("net").message == (
        "Nothing to change. The root's own backend holds 2 resources from before this run, "
        f"and a teardown destroys what it holds: {A}, {B}."
    )
    assert (await torn_down(folder)).state is RunState.TORN_DOWN


async def test_what_was_made_and_not_yet_written_to_the_backend_is_imported_by_hand(
    make: Callable[..., Path], root: Root, backend: StateBackend
) -> None:
    folder = make(backend.block())
    view = await killed_at_work(folder, root)  # the http backend is written to every twenty seconds
    assert "b" in root.told()
    assert backend.addresses() == []
    assert "terraform_data.a, terraform_data.b: they may exist outside the state." in view.stage("net").message

    backend.lock = b""  # by hand: this backend does not tell whose it is
    assert (await again(folder)).state is RunState.FAILED
    assert "terraform_data.a, terraform_data.b: they may exist" in load_run(folder).stage("net").message
    roots.import_by_hand(folder, A, "an-id")
    assert backend.addresses() == [A]
    roots.import_by_hand(folder, B, "an-id")
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
    assert root.told() == ["a", "b", "gone b", "gone a"]


async def test_an_apply_that_fails_half_way_shows_each_resource(make: Callable[..., Path], root: Root) -> None:
    third = 'resource "terraform_data" "c" {\n  depends_on = [terraform_data.b]\n}\n'
    folder = make(third)
    source = folder / "blueprint" / "terraform" / "net" / "main.tf"
    source.write_text(source.read_text().replace(f"while [ ! -e {root.go_on} ]", "exit 3; while true"))
    view = await carry_out(folder)
    stage = view.stage("net")
    assert stage.message.startswith("terraform apply ended with 1: local-exec provisioner error (terraform_data.b)")
    assert {item.subject: (item.result, item.detail) for item in stage.findings} == {
        A: (CheckResult.PASSED, "made"),
        B: (CheckResult.FAILED, "local-exec provisioner error"),
        "terraform_data.c": (CheckResult.UNKNOWN, "create was not begun"),
    }
    assert "Resources of net:" in run_table(view)
    assert stage.terraform.pending == ()  # it is in the state, tainted: the next plan replaces it


async def test_a_plan_that_is_out_of_date_is_made_and_approved_again(make: Callable[..., Path], root: Root) -> None:
    folder = make(auto_approve=False)
    carrying = asyncio.create_task(carry_out(folder))

    def offered() -> str:
        plan = load_run(folder).stage("net").plan
        return plan.plan_hash if plan else ""

    await until(offered, "the plan")
    first = offered()
    state = roots.work_folder(folder) / "terraform.tfstate"
    state.write_text(roots.a_state("a", serial=7))
    send_request(folder, RequestKind.APPROVE, plan_hash=first, start=False)
    await until(lambda: offered() != first, "another plan")
    assert root.told() == []
    root.go_on.touch()
    send_request(folder, RequestKind.APPROVE, plan_hash=offered(), start=False)
    assert (await carrying).state is RunState.SUCCEEDED
    assert root.told() == ["b"]
