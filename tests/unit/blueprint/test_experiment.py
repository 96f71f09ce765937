"""No run goes on from another one's checkpoint unasked: the Job that looks, and the presets' own folders."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actions.blueprint.parameters import bind
from actions.blueprint.render import stage_manifests
from actions.sandbox.programs import checkpoints
from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.program import ContainerView
from tests.unit.blueprint.shipped import shipped

SYSTEMS = {
    "bionemo-esm1nv": "experiment_dir",
    "nemo-gpt3-5b": "results_dir",
    "llama2-trn1-mpi": "experiment",
    "llama2-trn1-ray": "output_dir",
}
"""Each system that trains, and the parameter that names the place of its checkpoints."""


def _job(name: str, preset: str = "", **given: Any) -> tuple[str, dict[str, str], str]:
    """The script of the Job, its variables, and the mount of the file system."""
    blueprint = shipped(name)
    binding = bind(blueprint, given, preset=preset)
    config, job = stage_manifests(blueprint, "experiment", binding, run_id="r", outputs={})
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert job["spec"]["backoffLimit"] == 0, "what is refused once is refused again"
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    (mount,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "shared"]
    return config["data"]["experiment.sh"], {one["name"]: str(one["value"]) for one in container["env"]}, mount


class _Place:
    """The file system of a cluster, on the disk and in the sandbox."""

    def __init__(self, folder: Path, mount: str) -> None:
        self._disk, self._mount = folder / "disk", mount
        self._script = folder / "experiment.sh"
        self._volume = MemoryVolume()
        self._disk.mkdir()

    def save(self, path: str) -> None:
        """Leave a file of a checkpoint."""
        there = self._disk / Path(path).relative_to(self._mount)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("x")
        FileView({self._mount: self._volume}).write(path, b"x")

    def run(self, script: str, known: Mapping[str, str]) -> tuple[int, str]:
        """Run the script with a shell and by its stand-in, which have to do the same. Return code and output."""
        self._script.write_text(script)
        real = {name: value.replace(self._mount, str(self._disk)) for name, value in known.items()}
        done = subprocess.run(
            ["sh", str(self._script)], env={"PATH": os.environ["PATH"], **real},
            capture_output=True, text=True, check=False, timeout=20,
        )  # fmt: skip
        files = FileView({self._mount: self._volume})
        container = ContainerView(
            "default", "p", "experiment", "i", ("sh", "/config/experiment.sh"), dict(known), files
        )
        assert checkpoints.is_wanted_by(container)
        program, texts = checkpoints.compare(container), []
        while True:
            try:
                texts.append(next(program).text)
            except StopIteration as end:
                code = int(end.value)
                break
        said = (done.stdout + done.stderr).replace(str(self._disk), self._mount)
        assert (done.returncode, said) == (code, "".join(texts))
        kept, there = files.file(known["VALUES"]), Path(real["VALUES"])
        assert (kept.content.decode() if kept else "") == (
            there.read_text().replace(str(self._disk), self._mount) if there.exists() else ""
        )
        return code, said


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_run_of_other_values_is_refused_with_the_choice_and_goes_on_only_if_that_is_asked_for(
    name: str, tmp_path: Path
) -> None:
    folder = SYSTEMS[name]
    script, short, mount = _job(name, "short")
    place = _Place(tmp_path, mount)
    same_folder: dict[str, Any] = {folder: bind(shipped(name), {}, preset="short").values[folder]}
    _, full, _ = _job(name, **same_folder)
    assert place.run(script, short) == (
        0,
        f"No checkpoint is in {short['CHECKPOINTS']}: the training begins at step 0\n",
    )
    place.save(f"{short['CHECKPOINTS']}/step_100/x.ckpt")
    assert "with the same values" in place.run(script, short)[1]
    code, said = place.run(script, full)
    assert code == 1
    assert said.startswith(f"ExperimentError: the checkpoints in {short['CHECKPOINTS']} are of another training: ")
    for word in (
        "data was made-up and is real",
        "max_steps was 1",
        "resume=any",
        f"with another {folder} it begins at step 0.",
    ):
        assert word in said
    assert "with the same values" in place.run(script, short)[1], "a refusal leaves the values as they were"
    code, said = place.run(script, full | {"RESUME": "any"})
    assert (code, said.startswith("resume=any: going on from another training")) == (0, True)
    assert "with the same values" in place.run(script, full)[1]
    assert place.run(script, short)[0] == 1


@pytest.mark.parametrize("name", SYSTEMS)
def test_another_folder_and_one_without_checkpoints_begin_at_step_0(name: str, tmp_path: Path) -> None:
    script, short, mount = _job(name, "short")
    place = _Place(tmp_path, mount)
    place.run(script, short)
    place.save(f"{short['CHECKPOINTS']}/step_100/x.ckpt")
    _, full, _ = _job(name)
    assert full["CHECKPOINTS"] != short["CHECKPOINTS"]
    assert "begins at step 0" in place.run(script, full)[1]
    # it has ended before its first checkpoint: nothing stands against other values
    _, other, _ = _job(name, max_steps=50_000)
    assert "begins at step 0" in place.run(script, other)[1]


@pytest.mark.parametrize("name", SYSTEMS)
def test_checkpoints_whose_values_nobody_has_written_down_are_not_gone_on_from_unasked(
    name: str, tmp_path: Path
) -> None:
    script, known, mount = _job(name)
    place = _Place(tmp_path, mount)
    place.save(f"{known['CHECKPOINTS']}/x.ckpt")
    code, said = place.run(script, known)
    assert (code, "its values are not known" in said) == (1, True)
    assert place.run(script, known | {"RESUME": "any"})[0] == 0
    assert "with the same values" in place.run(script, known)[1]


@pytest.mark.parametrize("name", SYSTEMS)
def test_data_steps_rates_and_workers_are_among_the_values(name: str) -> None:
    blueprint = shipped(name)
    _, known, _ = _job(name)
    changes: dict[str, Any] = {"data": "sample", "max_steps": 50_000, "tensor_parallel": 4, "global_batch_size": 1280}
    changes |= {"learning_rate": 0.001, "min_learning_rate": 0.00001, "warmup_steps": 99, "num_layers": 4}
    workers = {"nodes": 1} if "nodes" in blueprint.parameters else {"workers": 4}
    changes |= workers
    for parameter, value in changes.items():
        if parameter not in blueprint.parameters:
            continue
        given = {parameter: value}
        if name == "llama2-trn1-mpi" and parameter == "tensor_parallel":
            given = {parameter: 16}
        if name == "llama2-trn1-ray" and parameter in ("tensor_parallel", "global_batch_size", "nodes"):
            given |= {"grad_accum_usteps": {"nodes": 64, "global_batch_size": 160, "tensor_parallel": 16}[parameter]}
        changed = _job(name, **given)[1]
        assert [key for key in known if known[key] != changed[key]], parameter


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_only_goes_on_has_the_same_values(name: str) -> None:
    """Data that are there by now are the same data."""
    _, known, _ = _job(name)
    _, again, _ = _job(name, data="existing", exporters=True)
    assert {key: known[key] for key in known if key != "DATA"} == {key: again[key] for key in again if key != "DATA"}


@pytest.mark.parametrize("name", SYSTEMS)
def test_its_image_comes_from_the_registry_of_the_site(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKSML_IMAGE_REGISTRY", "registry.example/public")
    blueprint = shipped(name)
    _, job = stage_manifests(blueprint, "experiment", bind(blueprint, {}), run_id="r", outputs={})
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/public/docker/library/busybox:1.36"


@pytest.mark.parametrize("name", SYSTEMS)
def test_it_is_looked_at_before_anything_that_is_costly(name: str) -> None:
    stages = {stage.id: stage for stage in shipped(name).stages}
    assert stages["experiment"].needs == ("preflight",)
    waiting, before = ["experiment"], set()
    while waiting:
        stage = waiting.pop()
        before.add(stage)
        waiting += stages[stage].needs
    assert not before & {
        "data",
        "sample",
        "sources",
        "tokenise",
        "dataset",
        "nodes",
        "cluster",
        "precompile",
        "vocabulary",
    }
    reached = {stage for stage in stages if _needs(stages, stage, "experiment")}
    assert {"data", "sample", "tokenise", "nodes", "precompile", "train"} & set(stages) <= reached


def _needs(stages: Mapping[str, Any], stage: str, wanted: str) -> bool:
    return any(need == wanted or _needs(stages, need, wanted) for need in stages[stage].needs)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_short_run_shares_neither_checkpoints_nor_data_with_the_full_one(name: str) -> None:
    full, short = bind(shipped(name), {}).values, bind(shipped(name), {}, preset="short").values
    assert full[SYSTEMS[name]] != short[SYSTEMS[name]]
    if name != "nemo-gpt3-5b":  # its made-up tokens are in no file
        assert full["data_dir"] != short["data_dir"]
