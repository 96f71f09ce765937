"""Llama-2 on Trainium with Ray against upstream: flags, KubeRay's ways to submit, the launcher, resuming."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.errors import ParameterError
from actions.base.files import shipped_blueprints
from actions.blueprint.checks import DiskCheck
from actions.blueprint.parameters import bind
from actions.blueprint.stages import CheckStage, ManifestsStage
from actions.run.checks.cluster import operator_refusal
from actions.sandbox.programs.files import File, FileView, MemoryVolume
from actions.sandbox.programs.program import ContainerView
from actions.sandbox.programs.ray import launch as ray_launch
from actions.sandbox.programs.ray import node as ray_node
from actions.sandbox.programs.ray import submit as ray_submit
from actions.telemetry.log_reader import read_log
from tests.unit.blueprint.shipped import object_of, shipped
from tests.unit.sandbox.programs.ray_cluster import RayCluster
from tests.upstream.llama2_fixtures import Dockerfile, check_flags, facts, neuron_table

_NAME = "llama2-trn1-ray"
_LAUNCHER = "/llama2_launch/launch.py"


def _rendered(stage: str, kind: str, **given: Any) -> dict[str, Any]:
    return object_of(_NAME, stage, kind, given=given, outputs={"image": {"image": "registry.example/x@sha256:0"}})


def _entrypoint(stage: str, **given: Any) -> str:
    return str(_rendered(stage, "RayJob", **given)["spec"]["entrypoint"])


def _head_variables(**given: Any) -> dict[str, str]:
    (head,) = _rendered("cluster", "RayCluster", **given)["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    return {item["name"]: str(item["value"]) for item in head["env"]}


# -- the image and the flags -------------------------------------------------------------------------------------------


def test_the_image_is_of_the_release_in_the_table() -> None:
    image, table, base = Dockerfile(_NAME), neuron_table()["systems"][_NAME], facts("neuron_releases")["base_images"]
    assert image.base == table["base"]
    assert f"sdk{table['release']}-" in image.base
    assert base["release"] == table["release"]
    assert table["packages"] == base["packages"] | {"torch": "1.13.1"}
    assert image.arguments["COMMIT"] == table["code"]["commit"] == facts("ray_train_llama2")["commit"]


def test_what_get_dataset_imports_is_installed_and_the_image_ends_with_the_imports() -> None:
    image, upstream = Dockerfile(_NAME), facts("get_dataset")
    installed = {word.partition("==")[0] for word in image.installed()}
    assert set(upstream["imports"]) <= installed
    assert "import ray_train_llama2" in image.lines[-1]


def test_the_image_is_tried_for_the_programs_that_ray_and_kuberay_start() -> None:
    upstream = facts("kuberay_submission")
    tried = Dockerfile(_NAME).lines[-1].partition("for program in ")[2].partition(";")[0].split()
    assert {*upstream["programs"], *upstream["ray_train"]["programs"], "neuron-ls", "ray"} <= set(tried)


@pytest.mark.parametrize("stage", ["precompile", "train"])
def test_every_flag_is_an_argument_of_the_script(stage: str) -> None:
    flags = facts("ray_train_llama2")["flags"]
    words = shlex.split(_entrypoint(stage))
    script = words.index("ray_train_llama2.py")
    check_flags(words[script + 1 :], flags)
    check_flags(_head_variables()["LLAMA2_SWITCHES"].split(), flags)


def test_get_dataset_gets_no_arguments_and_its_folder_is_the_default() -> None:
    upstream = facts("get_dataset")
    assert _entrypoint("data") == "python3 get_dataset.py"
    assert upstream["flags"] == {}
    assert bind(shipped(_NAME), {}).values["data_dir"] == upstream["constants"]["save_path"]


def test_no_version_of_datasets_before_4_asks_on_a_terminal() -> None:
    trust = facts("get_dataset")["trust"]
    variables = yaml.safe_load(_rendered("data", "RayJob")["spec"]["runtimeEnvYAML"])["env_vars"]
    assert "ask" in trust["defaults"].values()
    assert variables[trust["variable"]] == "1"


def test_there_is_room_for_the_checkpoints_that_lie_side_by_side() -> None:
    """The oldest goes when the newest is whole."""
    one = facts("ray_train_llama2")["training"]["checkpoint"]
    kept = int(ray_launch.arguments_of(shlex.split(_entrypoint("train"))[4:])["num_kept_checkpoint"])
    checks = [check for stage in shipped(_NAME).stages if isinstance(stage, CheckStage) for check in stage.checks]
    (room,) = [check for check in checks if isinstance(check, DiskCheck)]
    assert int(room.free_gib) << 30 >= (kept + 1) * one["bytes_per_parameter"] * one["parameters"]


def test_a_worker_may_lock_memory_for_efa() -> None:
    (group,) = _rendered("cluster", "RayCluster")["spec"]["workerGroupSpecs"]
    (worker,) = group["template"]["spec"]["containers"]
    assert "vpc.amazonaws.com/efa" in worker["resources"]["limits"]
    assert worker["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]


def test_each_switch_that_can_be_chosen_is_one_and_none_names_what_the_code_lacks() -> None:
    upstream = facts("ray_train_llama2")
    switches = [name for name, flag in upstream["flags"].items() if flag.get("action") == "store_true"]
    missing = upstream["training"]["undefined_name_with"]
    for switch in switches:
        if switch in missing or switch in ("--resume_ckpt", "--neuron_parallel_compile"):
            with pytest.raises(ParameterError, match="switches"):
                bind(shipped(_NAME), {"switches": switch})
        else:
            assert bind(shipped(_NAME), {"switches": switch}).values["switches"] == switch


def test_the_stand_in_knows_the_scripts_flags_and_no_other() -> None:
    known = {
        action.option_strings[0]: (action.default, "store_true" if action.nargs == 0 else None)
        for action in ray_launch.parser()._actions
        if action.dest != "help"
    }
    assert known == {
        name: (flag.get("default", False if flag.get("action") else None), flag.get("action"))
        for name, flag in facts("ray_train_llama2")["flags"].items()
    }


# -- KubeRay -----------------------------------------------------------------------------------------------------------


def _programs(folder: Path) -> dict[str, str]:
    """Put `ray` and `python3` into a folder: one keeps the words behind `--`, the other runs or keeps its own."""
    folder.mkdir(exist_ok=True)
    (folder / "ray").write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        "words = sys.argv[1:]\n"
        "if words[:2] == ['job', 'status']: sys.exit(1)\n"
        "if words[:2] == ['job', 'submit']:\n"
        f"    json.dump(words[words.index('--') + 1:], open({str(folder / 'submitted')!r}, 'w'))\n"
    )
    (folder / "python3").write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "words = sys.argv[1:]\n"
        f"if words[0] == {_LAUNCHER!r}:\n"
        f"    os.execv(sys.executable, [sys.executable, {str(folder / 'launch.py')!r}, *words[1:]])\n"
        f"json.dump([os.environ.get('NEURON_NUM_DEVICES'), *words], open({str(folder / 'started')!r}, 'w'))\n"
    )
    for name in ("ray", "python3"):
        (folder / name).chmod(0o755)
    (folder / "launch.py").write_text(_rendered("cluster", "ConfigMap")["data"]["launch.py"])
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def _submit(folder: Path, entrypoint: str, way: str) -> list[str]:
    """Submit as KubeRay's Job does. Return the words that `ray job submit` gets behind `--`."""
    environment = _programs(folder)
    begin = ["ray", "job", "submit", "--address", "http://head:8265"]
    if way == "words":
        argv = [*begin, "--submission-id", "x", "--", *shlex.split(entrypoint)]
    else:
        submit = " ".join([*begin, "--no-wait", "--submission-id", "x", "--", entrypoint.strip()])
        line = f"if ! ray job status x >/dev/null 2>&1 ; then {submit} ; fi ; ray job logs x"
        argv = ["/bin/bash", "-ce", "--", line]
    subprocess.run(argv, env=environment, check=True, timeout=20)
    found: list[str] = json.loads((folder / "submitted").read_text())
    return found


def _on_the_head(folder: Path, words: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the entrypoint as the head does: joined as Ray's tool joins it, in a shell with the head's variables."""
    environment = _programs(folder) | variables
    line = subprocess.list2cmdline(words)
    return subprocess.run(
        ["/bin/sh", "-c", line], env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=20
    )


@pytest.mark.parametrize("version", facts("kuberay_submission")["versions"], ids=lambda found: str(found["version"]))
@pytest.mark.parametrize("stage", ["precompile", "train"])
def test_the_switches_reach_the_trainer_on_every_kuberay(version: dict[str, str], stage: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"switches": "--use_mix_precision --print_grad_norm", "output_dir": "/shared/none"}
    entrypoint = _entrypoint(stage, **given)
    submitted = _submit(tmp_path / "bin", entrypoint, version["submitter"])
    done = _on_the_head(tmp_path / "bin", submitted, **_head_variables(**given))
    assert done.returncode == 0, done.stderr
    devices, script, *words = json.loads((tmp_path / "bin" / "started").read_text())
    assert (devices, script) == ("32", "ray_train_llama2.py")
    check_flags(words, facts("ray_train_llama2")["flags"])
    assert {"--use_mix_precision", "--print_grad_norm"} <= set(words)
    assert set(shlex.split(entrypoint)[4:]) <= set(words)


@pytest.mark.parametrize("version", facts("kuberay_submission")["versions"], ids=lambda found: str(found["version"]))
@pytest.mark.parametrize("argument", ["--enable-batch-scheduler", "--batch-scheduler=volcano", ""])
def test_a_kuberay_that_would_never_submit_the_jobs_is_refused(version: dict[str, str], argument: str) -> None:
    (stage,) = [each for each in shipped(_NAME).stages if each.id == "kuberay"]
    assert isinstance(stage, ManifestsStage)
    container = {
        "image": f"quay.io/kuberay/operator:v{version['version']}",
        "args": [argument, "--enable-metrics=true"],
    }
    found = {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}}
    refusal = operator_refusal(found, stage.refuses)
    assert (refusal is not None) == (version["gang"] == "refuses" and bool(argument))
    assert refusal is None or (refusal.reason and refusal.hint)


def test_a_variable_in_an_entrypoint_would_vanish_where_the_submitter_has_a_shell(tmp_path: Path) -> None:
    old = f"NEURON_NUM_DEVICES=32 python3 {_LAUNCHER} ray_train_llama2.py $LLAMA2_SWITCHES"
    assert "$LLAMA2_SWITCHES" in _submit(tmp_path / "a", old, "words")
    assert "$LLAMA2_SWITCHES" not in _submit(tmp_path / "b", old, "bash")
    for stage in ("data", "precompile", "train"):
        assert not set("$`\\\"'|&;<>(){}*?~#") & set(_entrypoint(stage))


# -- resuming ----------------------------------------------------------------------------------------------------------


def _kept(folder: Path, *steps: int, broken: Sequence[int] = ()) -> MemoryVolume:
    """Make checkpoints on a disk and the same ones in the sandbox, the first of them the oldest."""
    volume = MemoryVolume()
    for index, step in enumerate((*steps, *broken)):
        (folder / f"step_{step}" / "model").mkdir(parents=True)
        volume.put(f"{folder}/step_{step}/model/x.pt", b"")
        if step in steps:
            done = folder / f"step_{step}" / "done"
            done.write_text("1")
            os.utime(done, (1.7e9 + index, 1.7e9 + index))
            volume.files[str(done)] = File(b"1", 1, changed_at=1.7e9 + index)
    return volume


_CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, str], str]] = {
    "nothing there": ((), (), {}, "Starting at step 0"),
    "the newest": ((250, 500), (), {}, "--resume_ckpt --loading_step=500"),
    "the newest by time, not by number": ((9000, 250), (), {}, "--resume_ckpt --loading_step=250"),
    "one that was not written to its end": ((250,), (500,), {}, "--resume_ckpt --loading_step=250"),
    "none wanted": ((250,), (), {"LLAMA2_RESUME": "never"}, "Starting at step 0"),
    "a step that is named": ((250, 500), (), {"loading_step": "250"}, "--resume_ckpt --loading_step=250"),
    "a step that is named, whatever resume is": (
        (250, 500), (), {"loading_step": "250", "LLAMA2_RESUME": "never"}, "--resume_ckpt --loading_step=250"),
    "a step that is not there": ((250,), (), {"loading_step": "300"}, "has no whole checkpoint of step 300; those"),
    "the end": ((10_000,), (), {}, "Nothing is left to train"),
    "no early end": ((), (), {"steps_this_run": "-1"}, "--steps_this_run=10000"),
    "an end behind the end": ((), (), {"max_steps": "500"}, "--steps_this_run=500"),
    "too short for a log line": (
        (), (), {"max_steps": "9", "steps_this_run": "9", "warmup_steps": "1"}, "--logging_interval=1"),
    "too little left for a log line": ((9995,), (), {"steps_this_run": "9999"}, "--logging_interval=1"),
}  # fmt: skip


@pytest.mark.parametrize("case", _CASES)
def test_the_launcher_and_its_stand_in_do_the_same_with_the_real_flags(case: str, tmp_path: Path) -> None:
    steps, broken, change, said = _CASES[case]
    folder = tmp_path / "checkpoints"
    volume = _kept(folder, *steps, broken=broken)
    given: dict[str, Any] = {name: int(value) for name, value in change.items() if not name.startswith("LLAMA2")}
    words = shlex.split(_entrypoint("train", **given).replace("/shared/llama2_output/checkpoints", str(folder)))
    variables = _head_variables() | {name: value for name, value in change.items() if name.startswith("LLAMA2")}
    done = _on_the_head(tmp_path / "bin", words, **variables)
    stand_in = ray_launch.launch(words[3:], variables, FileView({"/": volume}))
    assert said in done.stdout + done.stderr
    assert (done.returncode, done.stdout + done.stderr) == (stand_in.code, stand_in.text)
    started = tmp_path / "bin" / "started"
    assert started.exists() == bool(stand_in.argv)
    if stand_in.argv:
        _, script, *found = json.loads(started.read_text())
        assert ["python3", script, *found] == list(stand_in.argv)
        check_flags(found, facts("ray_train_llama2")["flags"])


def test_by_default_checkpoints_are_made_on_the_file_system_and_the_last_step_is_one() -> None:
    known = ray_launch.arguments_of(shlex.split(_entrypoint("train"))[4:])
    assert known["checkpoint_freq"] == 250
    assert known["checkpoint_dir"].startswith("/shared/")
    assert known["steps_this_run"] % known["checkpoint_freq"] == 0
    assert 0 < known["num_kept_checkpoint"] < 4
    assert _head_variables()["LLAMA2_RESUME"] == "same"
    for preset in ("short", "rehearsal"):
        chosen = yaml.safe_load((shipped_blueprints() / _NAME / "blueprint.yaml").read_text())["presets"][preset]["set"]
        assert chosen["steps_this_run"] % chosen["checkpoint_freq"] == 0


_SHORT: dict[str, Any] = {
    "max_steps": 60, "steps_this_run": 60, "warmup_steps": 10, "logging_interval": 1, "checkpoint_freq": 10,
}  # fmt: skip


def _cluster(**given: Any) -> RayCluster:
    """The Ray cluster of the blueprint, with the head's variables, and blocks to train on."""
    cluster = RayCluster(workers=0).with_blocks()
    cluster.lose("head")
    variables = {"RAY_CLUSTER_NAME": "kuberay-trn1", **_head_variables(**given)}
    files = FileView({"/shared": cluster.volume})
    head = ContainerView(
        "default", "head", "ray", "i", ("ray start --head",), variables, files, network=cluster.network
    )
    cluster.start("head", ray_node.lead(head))
    for name in ("worker-0", "worker-1"):
        cluster.add_worker(name)
    return cluster


def _steps(text: str) -> list[int | None]:
    return [point.step for point in read_log(text.encode()) if point.metric == "train_loss"]


def test_a_training_that_was_killed_goes_on_behind_its_newest_checkpoint() -> None:
    cluster = _cluster(**_SHORT)
    environment = yaml.safe_load(_rendered("train", "RayJob")["spec"]["runtimeEnvYAML"])
    entrypoint = _entrypoint("train", **_SHORT)
    cluster.start("train", ray_submit.submit(cluster.submitter("train", entrypoint, environment)))
    while "(0, 27)" not in cluster.members["train"].text:
        cluster.step()
    cluster.lose("worker-1")
    killed = cluster.until_end("train")
    assert (killed.exit_code, _steps(killed.text)[0]) == (1, 1)
    cluster.add_worker("worker-2")
    again = cluster.submit("again", entrypoint, environment)
    assert again.exit_code == 0
    assert "Resuming from the checkpoint of step 20 in /shared/llama2_output/checkpoints" in again.text
    assert _steps(again.text) == list(range(21, 61))
    over = cluster.submit("over", entrypoint, environment)
    assert (over.exit_code, "Nothing is left to train" in over.text, _steps(over.text)) == (0, True, [])
