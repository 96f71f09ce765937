"""The learning rate of every preset, by the arithmetic of upstream's schedulers, over what the blueprint renders.

The arithmetic is that of the sandbox's trainers. It is held to recorded values of upstream's own classes.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
import yaml

from actions.base.errors import ParameterError
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, bind
from actions.blueprint.render import stage_manifests
from actions.blueprint.stages import JobStage
from actions.sandbox.programs.pytorch import CosineAnnealing
from actions.sandbox.programs.ray.llama2 import RayLlama2Curve, ray_llama2_settings
from actions.telemetry.log_reader import read_log
from tests.unit.blueprint.shipped import shipped
from tests.upstream.sources import flattened, overrides_of, source

_OUTPUTS = {"image": {"image": "registry.example/x@sha256:0"}}
_SHARES = (0, 0.01, 0.1, 0.5, 1)
_SYSTEMS = ("nemo-gpt3-5b", "bionemo-esm1nv", "llama2-trn1-mpi", "llama2-trn1-ray")
PRESETS = [(name, preset) for name in _SYSTEMS for preset in ("", *shipped(name).presets)]


def _rendered(blueprint: Blueprint, binding: Binding, stage: str, kind: str) -> dict[str, Any]:
    found = stage_manifests(blueprint, stage, binding, run_id="r", outputs=_OUTPUTS)
    (manifest,) = [item for item in found if item["kind"] == kind]
    return manifest


def _variables(container: Mapping[str, Any]) -> dict[str, str]:
    return {item["name"]: str(item.get("value", "")) for item in container["env"]}


def _hydra(words: list[Any], published: Mapping[str, Any]) -> CosineAnnealing:
    known = dict(published) | overrides_of([str(word) for word in words])
    return CosineAnnealing(
        float(known["model.optim.lr"]),
        float(known["model.optim.sched.min_lr"]),
        int(known["model.optim.sched.warmup_steps"]),
        int(known["model.optim.sched.constant_steps"]),
        int(known["trainer.max_steps"]),
    )


def _schedule(name: str, preset: str, **given: Any) -> CosineAnnealing | RayLlama2Curve:
    """The scheduler of a system, with the values that reach its program."""
    blueprint = shipped(name)
    binding = bind(blueprint, given, preset=preset)
    match name:
        case "nemo-gpt3-5b" | "bionemo-esm1nv":
            job = _rendered(blueprint, binding, "train", "PyTorchJob")
            (container,) = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
            published: Mapping[str, Any] = source("bionemo_esm1nv")["optimiser"]["values"]
            if name == "nemo-gpt3-5b":
                config = _rendered(blueprint, binding, "train", "ConfigMap")["data"]["config.yaml"]
                published = flattened(yaml.safe_load(config))
            return _hydra([*container["command"], *container.get("args", [])], published)
        case "llama2-trn1-mpi":
            (container,) = _rendered(blueprint, binding, "sources", "Job")["spec"]["template"]["spec"]["containers"]
            job = _rendered(blueprint, binding, "train", "MPIJob")
            (launcher,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
            known, overrides = _variables(container), source("neuronx_nemo_scripts")["test_llama.sh"]["overrides"]
            return CosineAnnealing(
                float(known["LEARNING_RATE"]),
                float(known["MIN_LEARNING_RATE"]),
                int(known["WARMUP_STEPS"]),
                int(overrides["model.optim.sched.constant_steps"]),
                int(_variables(launcher)["TRAIN_ITERS"]),
            )
    entrypoint = _rendered(blueprint, binding, "train", "RayJob")["spec"]["entrypoint"]
    return RayLlama2Curve(ray_llama2_settings(shlex.split(entrypoint)[4:]), 1)


def _recorded() -> list[dict[str, Any]]:
    known, names = source("learning_rates"), ("nemo", "neuronx_nemo", "linear")
    return [row | {"scheduler": name} for name in names for row in known[name]["rows"]]


@pytest.mark.parametrize("row", _recorded(), ids=lambda row: f"{row['scheduler']}-{row['steps']}-{row['constant']}")
def test_the_arithmetic_is_that_of_upstreams_own_classes(row: dict[str, Any]) -> None:
    if row["scheduler"] == "linear":
        words = [f"--lr={row['peak']}", f"--warmup_steps={row['warmup']}", f"--max_steps={row['steps']}"]
        schedule: CosineAnnealing | RayLlama2Curve = RayLlama2Curve(ray_llama2_settings(words), 1)
    else:
        schedule = CosineAnnealing(row["peak"], row["least"], row["warmup"], row["constant"], row["steps"])
    assert [schedule.rate(int(row["steps"] * share)) for share in _SHARES] == pytest.approx(row["rates"], rel=1e-5)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_every_presets_rates_are_those_of_upstreams_own_classes(name: str, preset: str) -> None:
    """A preset whose values nobody has put to the real classes fails here: the fixture says how that is done."""
    steps = int(bind(shipped(name), {}, preset=preset).values["max_steps"])
    schedule = _schedule(name, preset)
    rates = [schedule.rate(int(steps * share)) for share in _SHARES]
    scheduler = {"llama2-trn1-mpi": "neuronx_nemo", "llama2-trn1-ray": "linear"}.get(name, "nemo")
    known = [row["rates"] for row in _recorded() if row["scheduler"] == scheduler and row["steps"] == steps]
    assert any(rates == pytest.approx(row, rel=1e-5) for row in known), rates


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_a_run_learns_at_more_than_its_lowest_rate(name: str, preset: str) -> None:
    steps = int(bind(shipped(name), {}, preset=preset).values["max_steps"])
    schedule = _schedule(name, preset)
    rates = [schedule.rate(step) for step in range(0, steps + 1, max(1, steps // 1000))]
    peak, least = max(rates), rates[-1]
    assert peak > 5 * least
    assert peak == pytest.approx(float({"bionemo-esm1nv": 2e-4}.get(name) or _given_peak(name, preset)), rel=0.01)
    assert sum(rate <= least * 1.01 for rate in rates[len(rates) // 10 :]) <= len(rates) / 5


def _given_peak(name: str, preset: str) -> float:
    return float(bind(shipped(name), {}, preset=preset).values["learning_rate"])


@pytest.mark.parametrize("steps", [1, 5, 60, 1000, 12_615, 50_499, 1_000_000])
def test_bionemos_rates_fit_any_number_of_steps(steps: int) -> None:
    schedule = _schedule("bionemo-esm1nv", "", max_steps=steps, val_check_interval=1)
    assert isinstance(schedule, CosineAnnealing)
    assert schedule.warmup + schedule.constant <= steps * 0.15
    assert (schedule.warmup, schedule.constant) <= (500, 50_000)


@pytest.mark.parametrize("steps", [1, 5, 60, 1000, 12_615, 75_000, 1_000_000])
def test_nemos_last_steps_are_a_sixth_of_all_and_at_most_those_that_are_published(steps: int) -> None:
    schedule = _schedule("nemo-gpt3-5b", "", max_steps=steps, val_check_interval=1, warmup_steps=steps // 10)
    assert isinstance(schedule, CosineAnnealing)
    assert schedule.constant == min(steps // 6, 12_500)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("nemo-gpt3-5b", {"max_steps": 100, "val_check_interval": 50}),
        ("nemo-gpt3-5b", {"max_steps": 1000, "warmup_steps": 835}),
        ("llama2-trn1-mpi", {"max_steps": 500}),
        ("llama2-trn1-ray", {"max_steps": 50}),
    ],
)
def test_a_schedule_that_does_not_fit_into_the_steps_is_refused_with_what_to_do(
    name: str, given: dict[str, Any]
) -> None:
    with pytest.raises(ParameterError, match=r"warmup_steps \d+ .*more than the \d+ steps") as refusal:
        bind(shipped(name), given)
    assert "Lower warmup_steps" in refusal.value.hint


def test_a_lowest_rate_that_nemo_asserts_against_is_refused() -> None:
    assert source("learning_rates")["nemo"]["refuses_least_at_peak"]
    with pytest.raises(ParameterError, match="NeMo ends in its first step"):
        bind(shipped("nemo-gpt3-5b"), {"min_learning_rate": 0.00016})
    bind(shipped("nemo-gpt3-5b"), {"min_learning_rate": 0})


@pytest.mark.parametrize("name", _SYSTEMS)
def test_the_learning_rate_is_charted(name: str) -> None:
    (train,) = [stage for stage in shipped(name).stages if stage.id == "train"]
    assert isinstance(train, JobStage)
    assert train.watch is not None
    assert "lr" in train.watch.charts


def test_the_start_script_puts_the_rate_on_the_bar_and_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program of NeMo does it by itself; `log` takes `prog_bar` by name in every release that they run with."""
    facts = source("learning_rates")
    assert not any(item["on_the_bar"] for item in facts["logged"].values())
    assert "prog_bar" in facts["lightning"]["log"]
    logged: list[tuple[str, bool]] = []

    class LightningModule:
        def log(self, name: str, value: float, prog_bar: bool = False, **_others: Any) -> None:
            logged.append((name, prog_bar))

    lightning = ModuleType("pytorch_lightning")
    lightning.LightningModule = LightningModule  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pytorch_lightning", lightning)
    blueprint = shipped("nemo-gpt3-5b")
    script = _rendered(blueprint, bind(blueprint, {}), "train", "ConfigMap")["data"]["pretrain.py"]
    names: dict[str, Any] = {"__name__": "start"}
    exec(compile(script, "pretrain.py", "exec"), names)
    names["show_learning_rate"]()
    module = LightningModule()
    module.log("lr", 1.6e-5, rank_zero_only=True, batch_size=1)
    module.log("global_step", 1.0, prog_bar=True)
    module.log("grad_norm", 1.0)
    assert logged == [("lr", True), ("global_step", True), ("grad_norm", False)]


def test_the_rate_on_a_bar_is_read_as_a_curve() -> None:
    bar = (
        "Epoch 0: :   1%|          | 10/1000 [00:59<1:37:03, reduced_train_loss=9.870, lr=1.39e-5, global_step=9.000, "
        "consumed_samples=6400.0, train_step_timing in s=5.930]\n"
    )
    assert [(point.step, point.value) for point in read_log(bar.encode()) if point.metric == "lr"] == [(9, 1.39e-5)]
