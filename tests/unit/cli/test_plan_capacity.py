"""`eksml-tui plan` and the launch form look at zone, reservation and versions before there is a run."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime

import pytest

from actions.base.errors import ConfigError
from actions.blueprint.catalogue import Catalogue
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.checks.capacity import CapacityRequest
from actions.run.doctor.survey import LaunchSurvey
from actions.run.state.records import Limits
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.cli import main
from tui.cli.arguments import parse_arguments
from tui.cli.plan import chosen_binding, examine
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

pytestmark = pytest.mark.usefixtures("_nobody")


async def plan(*words: str) -> int:
    return await asyncio.to_thread(main, ["plan", *words])


async def test_without_credentials_the_plan_says_that_nothing_was_looked_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert await plan("llama2-trn1-mpi") == 0
    assert "Zone and reservation for trn1.32xlarge were not looked up" in capsys.readouterr().out
    assert await plan("llama2-trn1-mpi", "--preset", "rehearsal") == 0
    assert "were not looked up" not in capsys.readouterr().out


@pytest.mark.usefixtures("account")
async def test_the_plan_names_the_zone_and_the_times_of_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert await plan("llama2-trn1-mpi") == 0
    assert "trn1.32xlarge is offered in us-west-2a (usw2-az2)" in capsys.readouterr().out
    block = ("capacity_type=CAPACITY_BLOCK", "capacity_reservation_id=cr-211111111111111b1")
    assert await plan("llama2-trn1-mpi", *block) == 0
    said = capsys.readouterr().out
    assert "cr-211111111111111b1 has 16 × trn1.32xlarge in us-west-2a" in said
    assert "EC2 ends its instances from" in said


@pytest.mark.usefixtures("account")
async def test_the_plan_refuses_a_zone_without_the_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert await plan("llama2-trn1-ray", "zone=usw2-az4") == 1
    said = capsys.readouterr().err
    assert "us-west-2d (usw2-az4) does not offer trn1.32xlarge" in said
    assert "us-west-2a (usw2-az2)" in said


async def test_a_plan_that_is_refused_waits_for_the_end_of_what_it_asked_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A closing loop ends nothing in order: for a program that was just being started it waited without end."""
    asked, is_over = asyncio.Event(), False

    async def ask(_: LaunchSurvey, **_more: float) -> None:
        nonlocal is_over
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # as a program takes a moment to end
            is_over = True

    async def refuse(*_: object) -> str:
        await asked.wait()
        raise ConfigError("us-west-2d does not offer g5.12xlarge.")

    monkeypatch.setattr(LaunchSurvey, "run", ask)
    monkeypatch.setattr("tui.cli.plan._capacity", refuse)
    blueprint = Catalogue.usual().find("bionemo-esm1nv")
    options = parse_arguments(["plan", blueprint.id])
    options.store = ""
    with pytest.raises(ConfigError):
        await examine(options, blueprint, chosen_binding(options, blueprint), Limits())
    assert is_over


async def test_the_plan_tells_extended_support(capsys: pytest.CaptureFixture[str]) -> None:
    assert await plan("efa-nccl-tests", "eks_version=1.32") == 0
    assert "Kubernetes 1.32 is in extended support since 2026-03-23" in capsys.readouterr().out


@pytest.mark.usefixtures("account")
async def test_json_has_the_same_sentences_as_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert await plan("llama2-trn1-mpi", "eks_version=1.32", "-o", "json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(note.startswith("Kubernetes 1.32 is in extended support since 2026-03-23") for note in notes)
    assert any("trn1.32xlarge is offered in us-west-2a (usw2-az2)" in note for note in notes)
    assert await plan("llama2-trn1-ray", "zone=usw2-az4", "-o", "json") == 1
    assert capsys.readouterr().out == ""


async def test_the_question_before_a_launch_names_what_was_chosen() -> None:
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget(), checks_launches=False))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.dispatcher.submit("launch bionemo-esm1nv preset=short workers=3 cluster_name=mine")
        await wait_for(pilot, lambda: "peak ≥" in screen_text(app), "the plan is there")
        await pilot.press("enter")
        await wait_for(pilot, lambda: "Launch bionemo-esm1nv for real" in screen_text(app), "the question is there")
        assert "With preset short, cluster_name=mine, workers=3." in screen_text(app)
        await pilot.press("escape", "escape")
        app.dispatcher.submit("launch bionemo-esm1nv")
        await wait_for(pilot, lambda: "peak ≥" in screen_text(app), "the plan is there")
        await pilot.press("enter")
        await wait_for(pilot, lambda: "All parameters have their defaults." in screen_text(app), "so it says")


async def test_the_form_refuses_a_zone_without_the_type(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[CapacityRequest] = []

    async def refuse(request: CapacityRequest, *, now: datetime) -> str:
        asked.append(request)
        raise ConfigError("us-west-2d does not offer g5.12xlarge.", hint="Choose another.")

    monkeypatch.setenv("AWS_PROFILE", "somebody")
    monkeypatch.setattr("actions.run.capacity_survey.survey_capacity", refuse)
    app = ConsoleApp(ConsoleSettings(target=ClusterTarget()))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        app.dispatcher.submit("launch bionemo-esm1nv")
        await wait_for(pilot, lambda: "us-west-2d does not offer g5.12xlarge" in screen_text(app), "it is refused")
        await pilot.press("enter")
        await wait_for(pilot, lambda: "The parameters cannot be used" in screen_text(app), "nothing is launched")
    assert [(request.zone, request.capacity_type) for request in asked] == [("auto", "ON_DEMAND")]
