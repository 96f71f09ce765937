"""The output of the containers of the Llama-2 blueprint on Trainium, and what they leave behind."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from actions.sandbox.kubelet.images import program_of
from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.neuronx_nemo.node import ScriptParameters, write_scripts
from actions.sandbox.programs.program import ContainerView
from actions.telemetry.log_reader import read_log
from tests.unit.sandbox.programs.containers import Outcome, a_container, context, run

_TOKENIZER = "/shared/llama7b_tokenizer"
_DATASET = "/shared/data/redpajama_sample_text_document"


def _container(volume: MemoryVolume, *argv: str, **environment: str) -> ContainerView:
    bare = a_container(gpus=())
    return replace(
        bare,
        pod="test-mpi-train-worker-0",
        argv=argv,
        environment=environment,
        files=FileView({"/shared": volume}),
        neurons=tuple(range(16)),
        efa_interfaces=8,
    )


def _job(volume: MemoryVolume, *argv: str, **environment: str) -> Outcome:
    return run(program_of(context(_container(volume, *argv, **environment))))


def _prepared(choices: ScriptParameters | None = None) -> MemoryVolume:
    volume = MemoryVolume()
    write_scripts(
        FileView({"/shared": volume}),
        choices or ScriptParameters(tokenizer=_TOKENIZER, dataset=_DATASET, warmup_steps=10),
    )
    volume.put("/llama7b_tokenizer/tokenizer.model", b"", size_bytes=1)
    for ending in (".bin", ".idx"):
        volume.put(f"/data/redpajama_sample_text_document{ending}", b"", size_bytes=1)
    return volume


def _rank(volume: MemoryVolume, rank: int = 0, nodes: int = 4, **environment: str) -> ContainerView:
    group = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(nodes), "POD_UID": "u-1"}
    known = {"TRAIN_ITERS": "40", "GBS": "16", "UBS": "1"} | group | environment
    return _container(volume, "./llama_7b.sh", **known)


def _run(container: ContainerView, *, lose_a_peer_after: float | None = None) -> Outcome:
    return run(program_of(context(container)), lose_a_peer_after=lose_a_peer_after)


def _compiled(volume: MemoryVolume, nodes: int = 4) -> MemoryVolume:
    assert _run(_rank(volume, nodes=nodes, COMPILE="1")).exit_code == 0
    return volume


@pytest.mark.parametrize(
    ("repository", "token", "said"),
    [
        ("meta-llama/Llama-2-7b-hf", "", "401 Client Error"),
        ("meta-llama/Llama-2-7b-hf", "hf_nolicence", "403 Client Error"),
        ("meta-llama/Llama-2-7b-hf", "localhost", "Invalid credentials"),
    ],
)
def test_the_hub_refuses_a_missing_a_wrong_and_an_unlicensed_token(repository: str, token: str, said: str) -> None:
    known = {"HF_REPOSITORY": repository, "TOKENIZER_PATH": _TOKENIZER} | ({"HF_TOKEN": token} if token else {})
    outcome = _job(MemoryVolume(), "python3", "/config/tokenizer.py", **known)
    assert outcome.exit_code == 1
    assert said in outcome.err
    assert not token or token not in outcome.text


def test_graphs_of_another_number_of_processes_cannot_be_mixed() -> None:
    volume = _compiled(_prepared(), nodes=2)
    outcome = _run(_rank(volume))
    assert outcome.exit_code == 1
    assert "MPMD execution is not supported" in outcome.out
    assert "ChildFailedError" in outcome.out


@pytest.mark.parametrize(
    ("changes", "environment", "said"),
    [
        ({"neurons": tuple(range(8))}, {}, "NeuronCore(s) not available - Requested:nc16-nc16 Available:0"),
        ({"efa_interfaces": 0}, {}, "no EFA interface was found"),
        ({}, {"UBS": "8", "GBS": "128"}, "Failed to alloc DEVICE memory"),
    ],
)
def test_the_runtime_says_what_the_node_lacks(
    changes: dict[str, object], environment: dict[str, str], said: str
) -> None:
    container = replace(_rank(_prepared(), **environment), **changes)  # type: ignore[arg-type]
    outcome = _run(container)
    assert (outcome.exit_code, said in outcome.out) == (1, True)


def test_what_is_missing_on_the_file_system_is_named() -> None:
    volume = _prepared()
    del volume.files["/data/redpajama_sample_text_document.idx"]
    assert f"No such file or directory: '{_DATASET}.idx'" in _run(_rank(volume)).out
    assert _run(_rank(MemoryVolume())).exit_code == 127


def test_too_high_a_rate_ends_in_nan_and_the_run_goes_on() -> None:
    choices = ScriptParameters(tokenizer=_TOKENIZER, dataset=_DATASET, learning_rate=1.0)
    outcome = _run(_rank(_compiled(_prepared(choices))))
    losses = [point.value for point in read_log(outcome.text.encode()) if point.metric == "train_loss"]
    assert (outcome.exit_code, math.isnan(losses[-1]), math.isnan(losses[0])) == (0, True, False)


def test_a_lost_node_is_noticed_after_the_time_limit() -> None:
    outcome = _run(_rank(_compiled(_prepared()), TRAIN_ITERS="2000"), lose_a_peer_after=60.0)
    assert outcome.exit_code == 1
    assert "suspected hang in collectives operation" in outcome.out
