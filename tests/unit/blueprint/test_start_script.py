"""The start script of the systems with NeMo: what it leaves in a folder of checkpoints, and how it starts the rest."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from actions.blueprint.parameters import bind
from actions.blueprint.render import stage_manifests
from tests.unit.blueprint.shipped import shipped

_STAGES = {"nemo-gpt3-5b": "train", "bionemo-esm1nv": "train", "llama2-trn1-mpi": "sources"}
_OUTPUTS = {"image": {"image": "registry.example/x@sha256:0"}}
_RANKS = 8


def _script(name: str = "llama2-trn1-mpi") -> str:
    blueprint = shipped(name)
    found = stage_manifests(blueprint, _STAGES[name], bind(blueprint, {}), run_id="r", outputs=_OUTPUTS)
    (config,) = [item for item in found if item["kind"] == "ConfigMap"]
    return str(config["data"]["pretrain.py"])


@pytest.fixture(scope="module")
def start() -> dict[str, Any]:
    """The names of the script."""
    names: dict[str, Any] = {"__name__": "start"}
    exec(compile(_script(), "pretrain.py", "exec"), names)
    return names


class TensorReference:
    """Stands for a tensor in a file of its own, as neuronx-nemo-megatron's `serialization.py` at f4743ce writes it."""

    def __init__(self, tid: int) -> None:
        self.tid, self.shape, self.dtype = tid, (2, 3), dict


def _archive(path: Path, content: object = None) -> None:
    """Write a file as PyTorch does: a zip archive with a pickle in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content, 2))


def _shard(path: Path, tensors: int = 4, *, missing: int | None = None) -> None:
    """Write a rank's file of a checkpoint with its tensors, as xser does."""
    weights = OrderedDict((f"w{number}", TensorReference(number)) for number in range(tensors))
    _archive(path, {"state_dict": weights, "lr_schedulers": [{"last_epoch": 3}], "seen": {1, 2}})
    for number in range(tensors):
        if number != missing:
            _archive(Path(f"{path}.tensors") / f"tensor_{number}.pt")


def _name(step: int, *, last: bool = True) -> str:
    return f"megatron_llama--step={step}-consumed_samples={step * 256.0}{'-last' if last else ''}.ckpt"


def _at(path: Path, moment: float) -> None:
    os.utime(path, (moment, moment))


def _left(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.ckpt")}


def test_the_three_systems_start_with_one_text() -> None:
    assert len({_script(name) for name in _STAGES}) == 1


@pytest.mark.parametrize("part", ["a tensor", "a rank", "the end of a file", "nothing"])
def test_of_neurons_checkpoints_the_newest_whole_one_is_left(part: str, start: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    for rank in range(_RANKS):
        where = folder / f"mp_rank_{rank:02d}"
        _shard(where / _name(100))
        _at(where / _name(100), 1e9)
        if not (part == "a rank" and rank == 5):
            _shard(where / _name(200), missing=2 if part == "a tensor" and rank == 3 else None)
    if part == "the end of a file":
        cut = folder / "mp_rank_07" / f"{_name(200)}.tensors" / "tensor_0.pt"
        cut.write_bytes(cut.read_bytes()[:-30])
    start["clear"](str(tmp_path), _RANKS)
    assert _left(folder) == {_name(200 if part == "nothing" else 100)}
    assert len(list(folder.rglob("*.tensors"))) == _RANKS, "tensors go with their checkpoint"
    assert len(_left(tmp_path / "set_aside")) == 1
    start["clear"](str(tmp_path), _RANKS)
    assert _left(folder) == {_name(200 if part == "nothing" else 100)}


def test_a_part_that_is_alone_is_not_resumed(start: dict[str, Any], tmp_path: Path) -> None:
    for rank in range(5):
        _shard(tmp_path / "checkpoints" / f"mp_rank_{rank:02d}" / _name(100))
    start["clear"](str(tmp_path), _RANKS)
    assert not _left(tmp_path / "checkpoints")


def test_a_form_that_it_does_not_know_is_left_to_the_trainer(start: dict[str, Any], tmp_path: Path) -> None:
    one = tmp_path / "checkpoints" / _name(100)
    _shard(one)
    with zipfile.ZipFile(one, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02garbage")
    start["clear"](str(tmp_path), 1)
    assert _left(tmp_path / "checkpoints") == {_name(100)}


def test_the_shards_of_an_optimiser_belong_to_it(start: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "mp_rank_00"
    state = _name(100).replace("-last", "-optimizer_states-last")
    _archive(folder / _name(100))
    for rank in range(3):
        (folder / "optim" / f"dp_rank_{rank:03d}").mkdir(parents=True)
        _shard(folder / "optim" / f"dp_rank_{rank:03d}" / state)
    assert not start["useless"](start["checkpoints_in"](tmp_path / "checkpoints"), 1)
    (folder / "optim" / "dp_rank_001" / state).unlink()
    start["clear"](str(tmp_path), 1)
    assert not _left(tmp_path / "checkpoints")


def test_of_two_that_are_called_last_nemo_gets_one_and_the_best_ones_stay(
    start: dict[str, Any], tmp_path: Path
) -> None:
    """NeMo 1.23.0 refuses to start with two: *Multiple checkpoints … that matches \\*last.ckpt*."""
    folder = tmp_path / "checkpoints"
    for step in (100, 200):
        for last in (True, False):
            _archive(folder / _name(step, last=last))
            _at(folder / _name(step, last=last), 1e9 + step)
    start["clear"](str(tmp_path), 1)
    assert _left(folder) == {_name(200), _name(100, last=False), _name(200, last=False)}


@pytest.mark.parametrize(
    ("before", "newest", "kept"),
    [
        pytest.param(9, None, 100, id="the newest has no metadata yet"),
        pytest.param(9, 9, 100, id="both are there: the one before is whole for certain"),
        pytest.param(4, 9, 200, id="the one before is being removed"),
    ],
)
def test_of_distributed_checkpoints_one_that_is_whole_for_certain_is_left(
    before: int, newest: int | None, kept: int, start: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    for step, files in ((100, before), (200, newest)):
        one = folder / _name(step).removesuffix(".ckpt")
        one.mkdir(parents=True)
        names = [f"chunk.{number}" for number in range(files or 3)]
        for name in ("common.pt", *names, *(["metadata.json"] if files else [])):
            (one / name).write_text("x")
            _at(one / name, 1e9 + step)
        _at(one, 1e9 + step)
    start["clear"](str(tmp_path), 1)
    assert [path.name for path in folder.iterdir()] == [_name(kept).removesuffix(".ckpt")]


def test_a_file_of_values_and_an_empty_folder_are_left_alone(start: dict[str, Any], tmp_path: Path) -> None:
    start["clear"](str(tmp_path), 8)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "values.txt").write_text("max_steps=1\n")
    start["clear"](str(tmp_path), 8)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["values.txt"]


def test_the_training_script_runs_as_if_it_had_been_started_itself(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "pytorch_lightning.py").write_text(
        "class LightningModule:\n    def log(self, name, value, prog_bar=False):\n        print(name, prog_bar)\n"
    )
    (tmp_path / "code" / "neighbour.py").write_text("")
    (tmp_path / "code" / "train.py").write_text(
        "import sys\nimport neighbour\nfrom pytorch_lightning import LightningModule\n"
        "if __name__ == '__main__':\n    print(sys.argv)\n    LightningModule().log('lr', 1)\n"
    )
    (tmp_path / "results" / "checkpoints").mkdir(parents=True)
    (tmp_path / "results" / "checkpoints" / _name(1)).write_text("a part")
    (tmp_path / "pretrain.py").write_text(_script())
    words = [str(tmp_path / "code" / "train.py"), f"exp_manager.exp_dir={tmp_path / 'results'}", "a.b=c=d"]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "pretrain.py"), *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    aside, *rest = done.stdout.splitlines()
    assert "is not the newest whole checkpoint; it is in" in aside
    assert rest == [str(words), "lr True"]


def test_it_reads_no_module_that_an_image_might_lack_and_no_syntax_newer_than_python_3_8() -> None:
    import ast

    tree = ast.parse(_script(), feature_version=(3, 8))
    names = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    assert names <= set(sys.stdlib_module_names)
    assert "removesuffix" not in _script()
