"""A launch without the console."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.errors import RefusedError
from actions.blueprint.launch_plan import loss_without_store
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run import client
from actions.run import launch as creation
from actions.run.client import list_runs, load_run
from actions.run.doctor import names
from actions.run.doctor.cluster import is_alone
from actions.run.doctor.report import DoctorLine, require_passed
from actions.run.state.records import CheckResult
from actions.run.state.view import RunState
from tui.cli import launch
from tui.cli.main import main
from tui.cli.target import ChosenTarget, asked

WORDS = ["launch", "efa-nccl-tests", "--preset", "rehearsal"]


@pytest.mark.parametrize(
    ("typed", "name", "is_confirmed"),
    [("y", "", True), ("no", "", False), ("y", "bench", False), ("bench", "bench", True), ("", "bench", False)],
)
def test_a_launch_that_is_paid_for_takes_the_name_of_its_cluster(
    typed: str, name: str, is_confirmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{typed}\n"))
    assert asked("Launch?", name=name) is is_confirmed


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(client, "start_runner", lambda *_, **__: None)


def test_the_id_of_the_run_is_all_that_stdout_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--yes", "nodes=2", "--auto-approve"]) == 0
    printed = capsys.readouterr()
    (run,) = list_runs()
    assert printed.out == f"{run.id}\n"
    assert "peak" in printed.err
    view = load_run(run.folder)
    assert (view.preset, view.auto_approve, view.parameters["nodes"]) == ("rehearsal", True, 2)


def test_a_demo_takes_the_preset_that_its_cluster_has_been_given_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the form does; without it operators would be fetched, and Terraform be asked for a real account."""
    monkeypatch.setattr(launch, "chosen_target", lambda _: ChosenTarget(ClusterTarget()))  # starts no cluster
    assert main(["--demo", "launch", WORDS[1], "--yes"]) == 0
    (run,) = list_runs()
    assert load_run(run.folder).preset == "rehearsal"
    assert "The preset is rehearsal, as the cluster is the embedded one." in capsys.readouterr().err
    assert main(["--demo", "plan", WORDS[1], "-o", "json"]) == 0
    planned = capsys.readouterr().out
    assert main(["plan", *WORDS[1:], "-o", "json"]) == 0
    assert capsys.readouterr().out == planned


def test_for_programs_it_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--yes", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == {"id", "folder", "blueprint", "pid"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "this machine alone has the run until its cluster is there"),
        (("--existing-cluster",), "the run is kept in its cluster"),
        (("--store", "s3://team/ml"), ""),
        (("--preset", "rehearsal"), ""),
        (("--demo",), ""),
    ],
    ids=["own cluster", "existing cluster", "store", "rehearsal", "demo"],
)
def test_a_launch_without_a_store_says_what_would_be_lost(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "chosen_target", lambda _: ChosenTarget(ClusterTarget()))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: "no", raising=False)
    assert main(["launch", WORDS[1], *words, "--no-checks"]) != 0
    printed = capsys.readouterr().err
    assert ("Without a store" in printed) is bool(said)
    assert said in printed


def test_without_a_terminal_nothing_is_launched_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WORDS) == 2
    assert "--yes" in capsys.readouterr().err
    assert list_runs() == []


def test_read_only_launches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--readonly", *WORDS, "--yes"]) == 1
    assert "read-only" in capsys.readouterr().err
    assert list_runs() == []


@pytest.mark.parametrize("words", [[], ["--no-checks"], ["--demo"]])
def test_a_second_launch_beside_a_run_at_work_is_refused_with_the_sentence_of_the_form(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if words == ["--demo"]:
        monkeypatch.setattr(launch, "chosen_target", lambda _: ChosenTarget(ClusterTarget()))  # starts no cluster
    assert main([*WORDS, *words, "--yes"]) == 0
    (run,) = list_runs()
    capsys.readouterr()
    assert main([*WORDS, *words, "--yes"]) == 1
    told = capsys.readouterr().err
    assert f"The run {run.id} of this blueprint, waiting, is in default of {run.cluster}." in told
    assert f"Tear it down: eksml-tui runs teardown {run.id} --confirm {run.cluster}; or" in told
    assert list_runs() == [run]
    assert main([*WORDS, *words, "--yes", "--waive", "other runs"]) == 0
    assert len(list_runs()) == 2


def test_of_two_launches_at_one_instant_the_later_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked for other runs before either has made its own."""
    create = creation.create_run

    def late(order: creation.LaunchOrder, *, require: Callable[[], None]) -> Path:
        monkeypatch.setattr(creation, "create_run", create)
        assert main([*WORDS, "--yes"]) == 0
        return create(order, require=require)

    monkeypatch.setattr(creation, "create_run", late)
    assert main([*WORDS, "--yes"]) == 1
    (run,) = list_runs()
    told = capsys.readouterr().err
    assert f"The run {run.id} of this blueprint, waiting, is in default of {run.cluster}." in told
    assert "--waive 'other runs'" in told


def test_a_launch_of_another_cluster_or_after_a_teardown_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([*WORDS, "--yes"]) == 0
    assert main([*WORDS, "--yes", "-n", "other"]) == 1  # it would make the same cluster
    assert main([*WORDS, "--yes", "-n", "other", "cluster_name=another"]) == 0
    monkeypatch.setattr(names, "list_runs", lambda _: [replace(run, state=RunState.TORN_DOWN) for run in list_runs()])
    assert main([*WORDS, "--yes"]) == 0
    assert len(list_runs()) == 3


def test_a_check_that_failed_refuses_unless_it_is_waived() -> None:
    line = DoctorLine("terraform", CheckResult.FAILED, "It is not on PATH.", "Install it.", is_blocking=True)
    with pytest.raises(RefusedError) as refusal:
        require_passed([line], waived=[], waiver=launch._waiver)
    assert refusal.value.sentence() == (
        "The launch would fail: terraform: It is not on PATH. Install it. To launch anyway: --waive 'terraform'."
    )
    require_passed([line], waived=["terraform"], waiver=launch._waiver)


def test_a_run_that_its_cluster_does_not_keep_is_said_to_be_on_this_machine_alone() -> None:
    detail = "The run is on this machine alone: this user may not get leases.coordination.k8s.io in training."
    lines = [DoctorLine("store in the cluster", CheckResult.PASSED, detail)]
    assert is_alone(lines)
    assert "this machine alone has the run: if it is lost" in loss_without_store(existing_cluster=True, is_alone=True)
    assert not is_alone([replace(lines[0], detail="The run is kept in eksml-tui as well.")])
