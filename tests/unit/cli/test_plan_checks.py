"""`eksml-tui plan` asks machine and account for what the launch needs, and waits for no answer for long."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from actions.run.doctor import survey
from tests.support.answering import write_kubeconfig
from tui.cli import main


@pytest.fixture(autouse=True)
def _empty_machine(_nobody: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(survey.LaunchSurvey.run, "__kwdefaults__", {"seconds": 60.0})  # a busy machine may be slow


async def plan(*words: str) -> int:
    return await asyncio.to_thread(main, ["plan", *words])


async def test_what_is_missing_stands_below_the_plan_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert await plan("nemo-gpt3-5b") == 0
    printed = capsys.readouterr().out
    section = printed.partition("\nchecks  ")[2].splitlines()
    assert section[0].endswith("; each of them: eksml-tui doctor nemo-gpt3-5b")
    assert any(row.startswith("fail     terraform") for row in section)
    assert any(row.strip().startswith("→ Install Terraform 1.5 or later") for row in section)
    assert any(row.startswith("unknown  credentials") for row in section)
    assert not any(row.startswith("pass") for row in section)


@pytest.mark.usefixtures("account")
async def test_the_checks_are_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert await plan("nemo-gpt3-5b", "-o", "json", "cluster_name=missing") == 0
    document = json.loads(capsys.readouterr().out)
    checks = {one["check"]: one for one in document["checks"]}
    assert checks["terraform"]["result"] == "fail"
    assert checks["terraform"]["blocks_launch"] is True
    assert checks["rights of launch.json"]["result"] == "pass"
    assert any("is offered in" in note for note in document["notes"])
    assert checks["FSx storage"]["detail"] == "0 of the quota of 100800 are in use, 1200 more are required."
    assert checks["name of EKS cluster"] == {
        "check": "name of EKS cluster",
        "result": "pass",
        "detail": "missing is free.",
        "remedy": None,
        "blocks_launch": False,
    }


@pytest.mark.parametrize("words", [["--no-checks"], ["--preset", "rehearsal"]])
async def test_a_plan_alone_asks_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert await plan("nemo-gpt3-5b", *words) == 0
    assert "\nchecks" not in capsys.readouterr().out
    assert await plan("nemo-gpt3-5b", "-o", "json", *words) == 0
    assert json.loads(capsys.readouterr().out)["checks"] is None


async def test_prices_are_those_of_the_region_of_the_cluster_that_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:9")
    words = ["--kubeconfig", str(file), "plan", "efa-nccl-tests", "--existing-cluster", "--no-checks"]
    assert await asyncio.to_thread(main, words) == 0
    assert "no price is known" not in capsys.readouterr().out, "without a region in its name, that of the parameters"
    file.write_text(file.read_text().replace("here", "arn:aws:eks:eu-west-1:111122223333:cluster/mine"))
    assert await asyncio.to_thread(main, words) == 0
    assert "no price is known: 2 × g5.8xlarge" in capsys.readouterr().out


async def test_a_demo_asks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert await asyncio.to_thread(main, ["--demo", "plan", "nemo-gpt3-5b"]) == 0
    assert "\nchecks" not in capsys.readouterr().out
