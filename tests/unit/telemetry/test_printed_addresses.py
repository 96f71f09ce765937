"""The addresses of web interfaces in what wandb, MLflow and TensorBoard print."""

from __future__ import annotations

import re

import pytest

from actions.telemetry.printed_addresses import LINES, address_in

PRINTED = (
    ("wandb: ⭐️ View project at https://wandb.ai/team/gpt", "wandb project", "https://wandb.ai/team/gpt"),
    (
        "wandb: 🚀 View run at https://wandb.ai/team/gpt/runs/uc4ip9h7",
        "wandb run",
        "https://wandb.ai/team/gpt/runs/uc4ip9h7",
    ),
    (
        "wandb: 🚀 View run lively-sun-3 at: https://wandb.example.com/t/p/runs/9?nw=x",
        "wandb run",
        "https://wandb.example.com/t/p/runs/9?nw=x",
    ),
    (
        "2024/11/07 INFO mlflow.tracking: 🏃 View run crawling-tern-354 at: http://mlflow:5000/#/experiments/7/runs/cd96.",
        "MLflow run",
        "http://mlflow:5000/#/experiments/7/runs/cd96",
    ),
    (
        "🧪 View experiment at: http://localhost:3001/#/experiments/79.",
        "MLflow experiment",
        "http://localhost:3001/#/experiments/79",
    ),
    ("TensorBoard 2.11.2 at http://0.0.0.0:6006/ (Press CTRL+C to quit)", "TensorBoard", "http://0.0.0.0:6006/"),
    ("TensorBoard 2.20.0a1 at http://[::1]:6007/ (Press CTRL+C to quit)", "TensorBoard", "http://[::1]:6007/"),
)


@pytest.mark.parametrize(("line", "title", "url"), PRINTED)
def test_an_address_is_read_as_its_program_prints_it(line: str, title: str, url: str) -> None:
    found = address_in(line)
    assert found is not None
    assert (found.title, found.url) == (title, url)
    assert re.search(LINES, line)


@pytest.mark.parametrize(
    "line",
    [
        "loss 2.5 at step 3",
        "View run at file:///etc/passwd",
        "View run at javascript:alert(1)",
        "View run at https://wandb.ai@evil.example/team/runs/1",
        "View run at https:///runs/1",
        "View run at http://host:99999/",
        f"View run {'x' * 400} at https://wandb.ai/a/b/runs/1",
    ],
)
def test_other_addresses_are_left_alone(line: str) -> None:
    assert address_in(line) is None


def test_an_address_ends_at_the_first_character_that_no_browser_takes() -> None:
    found = address_in("View run at https://wandb.ai/a/runs/1\x1b]52;c;AAAA\x07\u202egpj.exe")
    assert found is not None
    assert found.url == "https://wandb.ai/a/runs/1"


def test_a_run_comes_before_its_project_and_an_address_of_the_pod_is_known_as_one() -> None:
    found = sorted(filter(None, (address_in(line) for line, _, _ in PRINTED)), key=lambda one: one.rank)
    assert [one.title for one in found][:4] == ["wandb run", "wandb run", "MLflow run", "TensorBoard"]
    assert [(one.port, one.is_local) for one in found if one.is_local] == [(6006, True), (6007, True), (3001, True)]
