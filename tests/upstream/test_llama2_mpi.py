"""Llama-2 on Trainium with MPI against upstream: packages of the image, Neuron release, flags, overrides, resuming."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.errors import ParameterError
from actions.blueprint.parameters import bind
from actions.sandbox.kubelet.images import program_of
from actions.sandbox.programs.checkpoints import PART
from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.program import ContainerView
from actions.telemetry.log_reader import read_log
from tests.unit.blueprint.shipped import object_of, shipped
from tests.unit.sandbox.programs.containers import a_container, context, run
from tests.upstream.llama2_fixtures import Dockerfile, check_flags, distribution, facts, neuron_table

_NAME = "llama2-trn1-mpi"
_TABLE = neuron_table()["systems"][_NAME]


def _rendered(stage: str, kind: str, **given: Any) -> dict[str, Any]:
    return object_of(_NAME, stage, kind, given=given, outputs={"image": {"image": "registry.example/x@sha256:0"}})


def _environment(container: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: str(item.get("value", "")) for item in container["env"]}


# -- the image ---------------------------------------------------------------------------------------------------------


def test_the_images_packages_are_those_of_the_release_that_the_code_came_with() -> None:
    image, sdk = Dockerfile(_NAME), facts("neuron_releases")
    release, code = _TABLE["release"], _TABLE["code"]
    known = sdk["releases"][release]
    assert {name: known[name] for name in known if name != "neuronx_distributed"} | {"torch": "1.13.1"} == (
        _TABLE["packages"]
    )
    assert image.base == _TABLE["base"]
    assert image.arguments["SOURCE_COMMIT"] == code["commit"]
    (came_with,) = [item["release"] for item in sdk["code"]["commits"] if item["commit"] == code["commit"]]
    assert release.startswith(f"{came_with}.")
    assert (
        _TABLE["packages"].items()
        >= {
            "neuronx-cc": image.arguments["NEURON_CC"],
            "torch-neuronx": image.arguments["TORCH_NEURONX"],
            "torch": image.arguments["TORCH"],
            "aws-neuronx-collectives": image.arguments["NEURON_COLLECTIVES"],
            "aws-neuronx-runtime-lib": image.arguments["NEURON_RUNTIME"],
            "aws-neuronx-tools": image.arguments["NEURON_TOOLS"],
        }.items()
    )


def test_the_release_has_the_kernels_that_the_code_imports_and_still_pytorch_1_13() -> None:
    sdk = facts("neuron_releases")

    def number(release: str) -> tuple[int, ...]:
        return tuple(int(part) for part in release.split(".")[:2])

    release = number(_TABLE["release"])
    assert release >= number(sdk["nki_kernels"]["flash_fwd_returns_its_result_since"])
    assert release <= number(sdk["last_with_pytorch_1_13"]["release"])
    assert "torch-neuronx" in sdk["releases"][_TABLE["release"]]


def test_the_table_names_a_commit_for_every_release() -> None:
    known = {item["release"]: item["commit"] for item in facts("neuron_releases")["code"]["commits"]}
    assert neuron_table()["code_by_release"] == known


def test_the_image_installs_the_wheel_the_requirements_and_the_pins_in_one_call() -> None:
    packages = facts("neuronx_nemo_packages")
    (call,) = [
        part for part in re.findall(r"pip3 install ([^&]*)", " & ".join(Dockerfile(_NAME).runs())) if ".whl" in part
    ]
    assert "-r requirements.txt" in call
    assert packages["requirements"]["file"] == "requirements.txt"
    words = [word.strip('"') for word in call.split()]
    assert set(packages["pins"]["names"]) <= set(words)
    assert {
        "torch-neuronx==" + _TABLE["packages"]["torch-neuronx"],
        "neuronx-cc==" + _TABLE["packages"]["neuronx-cc"],
    } <= (set(words))


@pytest.mark.parametrize("script", ["megatron_gpt_pretraining.py", "preprocess_data_for_megatron.py"])
def test_every_module_that_a_script_imports_is_installed(script: str) -> None:
    packages, image = facts("neuronx_nemo_packages"), Dockerfile(_NAME)
    installed = {distribution(word) for word in image.installed()}
    assert "requirements.txt" in image.installed()
    installed |= {distribution(name) for part in ("requirements", "wheel") for name in packages[part]["names"]}
    installed |= {
        distribution(name)
        for name, by in packages["brought_by"].items()
        if distribution(by.split(",")[0]) in (installed | {"aiohttp"})
    }
    wanted = {distribution(packages["needs"].get(module, module)) for module in packages["imports"][script]}
    assert wanted - installed == set()


def test_our_own_scripts_import_only_what_is_there() -> None:
    packages = facts("neuronx_nemo_packages")
    names = {distribution(name) for name in packages["requirements"]["names"]}
    script = _rendered("tokenizer", "ConfigMap")["data"]["tokenizer.py"]
    imported = set(re.findall(r"^(?:from|import) (\w+)", script, re.MULTILINE)) - {"os"}
    assert imported <= names


def test_the_helpers_makefile_finds_what_it_asks_for() -> None:
    assert facts("neuronx_nemo_packages")["system"]["package"] in Dockerfile(_NAME).apt()


def test_what_the_compiler_loads_is_named_and_tried() -> None:
    """Open MPI's packages bring the library today, and an image without it would show first at the compilation."""
    image, needed = Dockerfile(_NAME), facts("neuronx_nemo_packages")["compiler"]
    assert needed["library"] in image.apt()
    for part in ("neuronx-cc --version", f"-name {needed['program']}", f"{needed['library']}.*not found"):
        assert part in image.lines[-1]


def test_the_lists_of_packages_are_there_when_the_efa_installer_installs() -> None:
    (efa,) = [run for run in Dockerfile(_NAME).runs() if "efa_installer.sh" in run]
    assert efa.index("apt-get update") < efa.index("efa_installer.sh")


def test_the_image_ends_with_the_imports_of_the_scripts() -> None:
    last = Dockerfile(_NAME).lines[-1]
    assert last.startswith("RUN ")
    for part in (
        "import megatron_gpt_pretraining",
        "neuron_kernels",
        "preprocess_data_for_megatron.py --help",
        "helpers",
    ):
        assert part in last


# -- the scripts -------------------------------------------------------------------------------------------------------


def test_the_tokenisers_arguments_are_arguments_of_its_script() -> None:
    upstream = facts("preprocess_data_for_megatron")
    (container,) = _rendered("tokenise", "Job")["spec"]["template"]["spec"]["containers"]
    assert container["command"][1].endswith(upstream["file"])
    check_flags(container["args"], upstream["flags"])


def test_what_is_configured_stands_in_the_scripts() -> None:
    upstream = facts("neuronx_nemo_scripts")
    (container,) = _rendered("sources", "Job")["spec"]["template"]["spec"]["containers"]
    assert _environment(container)["SOURCE_COMMIT"] == upstream["commit"] == _TABLE["code"]["commit"]
    configure = _rendered("sources", "ConfigMap")["data"]["configure.sh"]
    changes = re.findall(r"change (\S+) '([^']*)'", configure)
    assert len(changes) == len(re.findall(r"^change ", configure, re.MULTILINE)) > 10
    for script, pattern in changes:
        lines = _lines(upstream, script)
        assert [line for line in lines if re.search(pattern, line)], f"{script} has no line for {pattern}"


def _lines(upstream: dict[str, Any], script: str) -> list[str]:
    """The lines of a script that a run may change, made of its names and defaults."""
    part = upstream[script]
    if script == "test_llama.sh":
        known = [f": ${{{name}={value}}}" for name, value in part["defaults"].items()]
        known.append(f"{part['starts']}  \\")
        return known + [f"    {name}={value} \\" for name, value in part["overrides"].items()]
    if script == "llama_7b.sh":
        return [f"export {name}={value}" for name, value in part["exports"].items()]
    return [
        'training_precision="bf16SR"',
        f"    export EXPLICIT_LOGDIR={part['log_folder']}",
        f"    LOG_PATH={part['node_log']}",
    ]


@pytest.mark.parametrize("folder", ["/shared/data", "/shared/corpora/red/1"])
def test_the_scripts_are_configured_and_the_tokens_have_a_folder(folder: str, tmp_path: Path) -> None:
    """Made-up text (`data=sample`) is written beside it, so nothing else makes the folder."""
    shared, upstream = tmp_path / "shared", facts("neuronx_nemo_scripts")
    tokenisation = facts("preprocess_data_for_megatron")
    (tokeniser,) = _rendered("tokenise", "Job", data_dir=folder)["spec"]["template"]["spec"]["containers"]
    (prefix,) = [word.partition("=")[2] for word in tokeniser["args"] if word.startswith("--output-prefix=")]
    assert tokenisation["writes"]["makes_folders"] is False
    tokens = tokenisation["writes"]["names"][0].format(output_prefix=prefix, json_key="text")
    scripts = shared / "neuronx-nemo-megatron" / Path(upstream["test_llama.sh"]["file"]).parent
    scripts.mkdir(parents=True)
    (shared / "neuronx-nemo-megatron" / ".git").mkdir()
    for name in ("test_llama.sh", "llama_7b.sh", "train_setup.sh"):
        (scripts / name).write_text("\n".join([*_lines(upstream, name), ""]).replace("/shared", str(shared)))
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "git").chmod(0o755)
    (container,) = _rendered("sources", "Job", data_dir=folder)["spec"]["template"]["spec"]["containers"]
    environment = {name: value.replace("/shared", str(shared)) for name, value in _environment(container).items()}
    given = _rendered("sources", "ConfigMap")["data"]
    (tmp_path / "pretrain.py").write_text(given["pretrain.py"])
    configure = given["configure.sh"].replace("/shared", str(shared)).replace("/config", str(tmp_path))
    done = subprocess.run(
        ["bash", "-c", configure], env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Path(tokens.replace("/shared", str(shared))).parent.is_dir()
    assert environment["DATASET_PATH"] == str(Path(tokens.replace("/shared", str(shared))).with_suffix(""))
    changed = (scripts / "test_llama.sh").read_text()
    assert f": ${{DATASET_PATH={environment['DATASET_PATH']}}}" in changed
    assert "exp_manager.resume_if_exists=True" in changed
    assert "torchrun $DISTRIBUTED_ARGS pretrain.py megatron_gpt_pretraining.py" in changed
    assert (scripts / "pretrain.py").read_text() == given["pretrain.py"]
    assert f"{_CALLBACK}.save_last=True {_CALLBACK}.save_top_k=0" in changed


def test_every_override_that_is_added_is_known_to_configuration_and_manager() -> None:
    upstream = facts("neuronx_nemo_scripts")
    keys, manager = set(upstream["configuration"]["keys"]), upstream["experiment_manager"]
    script = _rendered("sources", "ConfigMap")["data"]["configure.sh"].replace("$callback", _CALLBACK)
    added = set(re.findall(rf"({_CALLBACK}\.\w+)=", script))
    assert added == {f"{_CALLBACK}.save_last", f"{_CALLBACK}.save_top_k"}
    assert added <= keys
    assert {name.rpartition(".")[2] for name in added} <= set(manager["CallbackParams"])
    for name, value in upstream["test_llama.sh"]["overrides"].items():
        bare = name.removeprefix("+")
        assert (bare in keys) != name.startswith("+"), f"{name}={value}"
        if bare.startswith("exp_manager."):
            kind = "CallbackParams" if _CALLBACK in bare else "ExpManagerConfig"
            assert bare.rpartition(".")[2] in manager[kind]


_CALLBACK = "exp_manager.checkpoint_callback_params"


def test_what_mpirun_passes_on_is_read_by_the_scripts() -> None:
    upstream = facts("neuronx_nemo_scripts")
    read = upstream["test_llama.sh"]["defaults"].keys() | {
        "POD_UID",
        "COMPILE",
        "PATH",
        "LD_LIBRARY_PATH",
        "EXPERIMENT",
        facts("efa_huge_pages")["variable"],
    }
    for stage in ("precompile", "train"):
        arguments = _launcher(stage)["args"]
        passed = {arguments[i + 1].partition("=")[0] for i, word in enumerate(arguments) if word == "-x"}
        assert passed <= read


def test_every_precision_is_one_of_the_scripts() -> None:
    for precision in facts("neuronx_nemo_scripts")["train_setup.sh"]["precisions"]:
        (container,) = _rendered("sources", "Job", precision=precision)["spec"]["template"]["spec"]["containers"]
        assert _environment(container)["PRECISION"] == precision


def test_the_tokenisation_fits_on_a_core_node() -> None:
    with pytest.raises(ParameterError, match=r"does not fit beside the system of m5\.2xlarge"):
        bind(shipped(_NAME), {"tokenise_memory_gib": 29})
    for memory, kind in ((28, "m5.2xlarge"), (120, "m5.8xlarge")):
        bind(shipped(_NAME), {"tokenise_memory_gib": memory, "core_instance_type": kind})


# -- checkpoints -------------------------------------------------------------------------------------------------------


def _launcher(stage: str, **given: Any) -> dict[str, Any]:
    job = _rendered(stage, "MPIJob", **given)
    (container,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    return dict(container)


def test_a_checkpoint_is_made_each_two_hours_by_default_and_at_the_end() -> None:
    (container,) = _rendered("sources", "Job")["spec"]["template"]["spec"]["containers"]
    known = _environment(container)
    assert (known["CHECKPOINT_SECONDS"], known["RESUME"]) == ("7200", "same")
    assert _environment(_launcher("train"))["EXPERIMENT"] == "llama2-7b"
    assert "EXPERIMENT" not in _environment(_launcher("precompile"))


def _configured(volume: MemoryVolume, **given: Any) -> None:
    """The `sources` Job has done its work, and those before it."""
    (container,) = _rendered("sources", "Job", **given)["spec"]["template"]["spec"]["containers"]
    _play(volume, "llama2-sources", *container["command"], known=_environment(container))
    volume.put("/llama7b_tokenizer/tokenizer.model", b"", size_bytes=1)
    for ending in (".bin", ".idx"):
        volume.put(f"/data/redpajama_sample_text_document{ending}", b"", size_bytes=1)


def _play(volume: MemoryVolume, pod: str, *argv: str, known: dict[str, str], lose_after: float | None = None) -> str:
    """Run a container of the image to its end. Return what it prints."""
    container = replace(
        a_container(gpus=()), pod=pod, argv=argv, environment=known, files=FileView({"/shared": volume}),
        neurons=tuple(range(16)), efa_interfaces=8,
    )  # fmt: skip
    return run(program_of(context(container)), lose_a_peer_after=lose_after).text


def _train(volume: MemoryVolume, uid: str, *, lose_a_peer_after: float | None = None, **given: Any) -> list[int | None]:
    """Start the first node as the launcher with this UID does. Return the steps that it made."""
    container = _launcher("train", **given)
    launcher = ContainerView(
        "default", "test-mpi-train-launcher-x", "mpitest", "i", (*container["command"], *container["args"]),
        {**_environment(container), "POD_UID": uid}, FileView({"/shared": volume}),
    )  # fmt: skip
    passed = _passed_on(launcher)
    group = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}
    text = _play(volume, "test-mpi-train-worker-0", "./llama_7b.sh", known=passed | group, lose_after=lose_a_peer_after)
    return [point.step for point in read_log(text.encode()) if point.metric == "train_loss"]


def _passed_on(launcher: ContainerView) -> dict[str, str]:
    """The variables that mpirun passes on: those of -x, and no other."""
    words = [launcher.argv[i + 1] for i, word in enumerate(launcher.argv) if word == "-x"]
    return {
        name: value if has_value else launcher.environment[name]
        for name, has_value, value in (word.partition("=") for word in words)
        if has_value or name in launcher.environment
    }


_SHORT: dict[str, Any] = {"max_steps": 300, "global_batch_size": 16, "warmup_steps": 10, "checkpoint_seconds": 60}


def test_a_training_that_was_killed_goes_on_behind_its_newest_checkpoint_in_another_pod() -> None:
    volume = MemoryVolume()
    _configured(volume, **_SHORT)
    killed = _train(volume, "uid-1", lose_a_peer_after=160.0, **_SHORT)
    folder = "/shared/nemo_experiments/llama2-7b/checkpoints/tp_rank_00_pp_rank_000"
    names = FileView({"/shared": volume}).names(folder)
    (saved,) = [int(found[1]) for name in names if (found := re.search(r"step=(\d+)", name))]
    assert 0 < saved < len(killed) < 300
    again = _train(volume, "uid-2", **_SHORT)
    assert again == list(range(saved, 300))
    assert volume.files["/nemo_experiments/uid-2/0/log"].content


def test_a_part_of_a_checkpoint_is_not_gone_on_from() -> None:
    """It is the newest file, and the launcher of before would have started from it eight times."""
    volume = MemoryVolume()
    _configured(volume, **_SHORT)
    _train(volume, "uid-1", **_SHORT | {"max_steps": 40})
    folder = "/nemo_experiments/llama2-7b/checkpoints/tp_rank_00_pp_rank_000"
    volume.put(f"{folder}/megatron_llama--step=50-consumed_samples=800.0-last.ckpt", PART)
    assert _train(volume, "uid-2", **_SHORT | {"max_steps": 60})[0] == 40


def test_with_resume_off_or_as_another_experiment_it_begins_anew() -> None:
    for change in ({"resume": "never"}, {"experiment": "second"}):
        volume = MemoryVolume()
        _configured(volume, **_SHORT)
        _train(volume, "uid-1", **_SHORT | {"max_steps": 20})
        _configured(volume, **_SHORT | change)
        assert _train(volume, "uid-2", **_SHORT | change | {"max_steps": 30}) == list(range(30))
