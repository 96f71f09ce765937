"""The output of the containers of the Llama-2 blueprint on Trainium, and what they leave behind."""

from __future__ import annotations

import math
import re

import pytest
from msgspec.structs import replace

from actions.sandbox.kubelet.images import program_of
from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.neuronx_nemo.node import CACHE, ScriptParameters, read_scripts, write_scripts
from actions.sandbox.programs.neuronx_nemo.train import GRAPHS, step_seconds
from actions.sandbox.programs.program import ContainerView, NeuronLoad
from actions.telemetry.log_reader import read_log
from tests.unit.sandbox.programs.containers import Outcome, a_container, context, run

_TOKENIZER = "/shared/llama7b_tokenizer"
_DATASET = "/shared/data/redpajama_sample_text_document"
_LOG = "/nemo_experiments/u-1/0/log"


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


def test_configuring_writes_the_runs_values_and_shows_them() -> None:
    volume = MemoryVolume()
    outcome = _job(
        volume,
        "bash",
        "/config/configure.sh",
        SOURCE_COMMIT="f4743ce",
        TOKENIZER_PATH=_TOKENIZER,
        DATASET_PATH=_DATASET,
        LEARNING_RATE="0.001",
        WARMUP_STEPS="7",
        RESUME="never",
    )
    assert outcome.exit_code == 0
    assert f"${{TOKENIZER_PATH={_TOKENIZER}}}" in outcome.out
    found = read_scripts(FileView({"/shared": volume}))
    assert found == ScriptParameters(
        tokenizer=_TOKENIZER,
        dataset=_DATASET,
        learning_rate=0.001,
        warmup_steps=7,
        saves_last=True,
        has_experiment=True,
    )


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


def test_a_good_token_or_a_free_model_gives_the_four_files() -> None:
    for repository, token in (("meta-llama/Llama-2-7b-hf", "hf_abc"), ("openlm-research/open_llama_7b", "")):
        volume = MemoryVolume()
        known = {"HF_REPOSITORY": repository, "TOKENIZER_PATH": _TOKENIZER, "HF_TOKEN": token}
        assert _job(volume, "python3", "/config/tokenizer.py", **known).exit_code == 0
        assert "/llama7b_tokenizer/tokenizer.model" in volume.files


def test_text_is_downloaded_part_by_part_joined_and_counted_into_tokens() -> None:
    volume = _prepared()
    downloaded = _job(volume, "bash", "/config/dataset.sh", DATASET_URL="https://example.org/d")
    assert re.findall(r"Downloaded (\d+) of 11", downloaded.out) == [str(number) for number in range(1, 12)]
    argv = (
        "python3",
        "/shared/x/preprocess_data_for_megatron.py",
        "--input=/shared/redpajama_sample.jsonl",
        "--tokenizer-library=huggingface",
        f"--tokenizer-type={_TOKENIZER}",
        "--output-prefix=/shared/data/other",
    )
    outcome = _job(volume, *argv)
    assert outcome.exit_code == 0
    counts = [
        int(count) for count in re.findall(r"Processed (\d+) documents \([\d.]+ docs/s, [\d.]+ MB/s\)", outcome.err)
    ]
    assert counts == sorted(counts)
    assert len(counts) > 20
    assert {"/data/other_text_document.bin", "/data/other_text_document.idx"} <= set(volume.files)


def test_tokens_want_a_text_and_a_tokenizer() -> None:
    argv = (
        "python3",
        "/x/preprocess_data_for_megatron.py",
        "--input=/shared/a",
        "--tokenizer-library=huggingface",
        "--tokenizer-type=/b",
        "--output-prefix=/c",
    )
    outcome = _job(_prepared(), *argv)
    assert (outcome.exit_code, "No such file or directory: '/shared/a'" in outcome.err) == (1, True)
    refused = _job(_prepared(), *argv, "--append-eos")
    assert (refused.exit_code, "unrecognized arguments: --append-eos" in refused.err) == (2, True)
    without = _job(_prepared(), *argv[:3], *argv[4:])
    assert (without.exit_code, "required: --tokenizer-library" in without.err) == (2, True)


def test_a_compilation_ends_with_its_totals_and_fills_the_cache() -> None:
    volume = _prepared()
    outcome = _run(_rank(volume, COMPILE="1"))
    assert outcome.exit_code == 0
    assert f"||PARALLEL_COMPILE||: Total graphs: {GRAPHS}" in outcome.out
    assert "Total failed compilations: 0" in outcome.out
    assert len([path for path in volume.files if path.endswith("model.neff")]) == GRAPHS
    again = _run(_rank(volume, COMPILE="1"))
    assert "Using a cached neff" in again.out
    assert again.seconds < outcome.seconds


def test_the_training_draws_bars_that_our_reader_reads_whole() -> None:
    volume = _compiled(_prepared())
    outcome = _run(_rank(volume))
    assert outcome.exit_code == 0
    points = read_log(outcome.text.encode())
    losses = [point.value for point in points if point.metric == "train_loss"]
    assert [point.step for point in points if point.metric == "train_loss"] == list(range(40))
    assert losses[0] > 10 > losses[-1] + 2
    assert {point.metric for point in points} >= {"train_loss", "grad_norm", "throughput"}
    assert "loss=nan, v_num=, reduced_train_loss=" in outcome.text
    assert "throughput_peak=" in outcome.text


def test_the_log_file_below_the_launchers_uid_says_the_same() -> None:
    volume = _compiled(_prepared())
    volume.files.pop(_LOG)
    outcome = _run(_rank(volume))
    assert volume.files[_LOG].content.decode() == outcome.text
    assert not any("/checkpoints/" in path for path in volume.files)


def test_other_nodes_draw_no_bar_and_keep_their_own_log() -> None:
    volume = _compiled(_prepared())
    outcome = _run(_rank(volume, rank=3))
    assert "Epoch" not in outcome.text
    assert "/nemo_experiments/u-1/3/log" in volume.files
    loads = [load for load in outcome.loads if isinstance(load, NeuronLoad)]
    assert max(load.utilisation_percent for load in loads) > 60


def test_without_resuming_a_launcher_that_starts_again_begins_anew() -> None:
    volume = _compiled(_prepared())
    assert _run(_rank(volume, TRAIN_ITERS="20")).exit_code == 0
    steps = [point.step for point in read_log(_run(_rank(volume)).text.encode()) if point.metric == "train_loss"]
    assert steps == list(range(40))


def test_a_launcher_that_starts_again_in_its_pod_goes_on_and_appends() -> None:
    choices = ScriptParameters(tokenizer=_TOKENIZER, dataset=_DATASET, resumes=True, saves_last=True)
    volume = _compiled(_prepared(choices))
    assert _run(_rank(volume, TRAIN_ITERS="20")).exit_code == 0
    assert any(path.startswith("/nemo_experiments/u-1/checkpoints/") for path in volume.files)
    before = len(volume.files[_LOG].content)
    outcome = _run(_rank(volume, TRAIN_ITERS="40"))
    assert "Resuming from /shared/nemo_experiments/u-1/checkpoints/megatron_llama--step=20-" in outcome.out
    steps = [point.step for point in read_log(outcome.text.encode()) if point.metric == "train_loss"]
    assert steps == list(range(20, 40))
    assert len(volume.files[_LOG].content) > before


def test_graphs_of_another_number_of_processes_cannot_be_mixed() -> None:
    volume = _compiled(_prepared(), nodes=2)
    outcome = _run(_rank(volume))
    assert outcome.exit_code == 1
    assert "MPMD execution is not supported" in outcome.out
    assert "ChildFailedError" in outcome.out


def test_an_empty_cache_is_filled_before_the_first_step() -> None:
    volume = _prepared()
    outcome = _run(_rank(volume))
    assert outcome.exit_code == 0
    assert outcome.out.index("Call compiler with cmd: neuronx-cc compile") < outcome.out.index("reduced_train_loss")
    assert any(path.startswith(CACHE.removeprefix("/shared")) for path in volume.files)


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


def test_outside_of_mpirun_the_script_refuses() -> None:
    outcome = _run(_container(_prepared(), "./llama_7b.sh"))
    assert (outcome.exit_code, "should be run via mpirun" in outcome.err) == (1, True)


def test_too_high_a_rate_ends_in_nan_and_the_run_goes_on() -> None:
    choices = ScriptParameters(tokenizer=_TOKENIZER, dataset=_DATASET, learning_rate=1.0)
    outcome = _run(_rank(_compiled(_prepared(choices))))
    losses = [point.value for point in read_log(outcome.text.encode()) if point.metric == "train_loss"]
    assert (outcome.exit_code, math.isnan(losses[-1]), math.isnan(losses[0])) == (0, True, False)


def test_a_lost_node_is_noticed_after_the_time_limit() -> None:
    outcome = _run(_rank(_compiled(_prepared()), TRAIN_ITERS="2000"), lose_a_peer_after=60.0)
    assert outcome.exit_code == 1
    assert "suspected hang in collectives operation" in outcome.out


def test_a_step_takes_as_long_as_it_was_seen_to_take() -> None:
    assert step_seconds(256, 4) == pytest.approx(14.05)
    assert step_seconds(256, 2) == pytest.approx(28.1)


def test_tensorboard_names_the_runs_and_stops_listening_when_it_ends() -> None:
    volume = MemoryVolume()
    volume.put("/nemo_experiments/u-1/events.out.tfevents.0.x", b"")
    container = _container(
        volume, "python3", "-m", "tensorboard.main", "--logdir=/shared/nemo_experiments", "--port=6006"
    )
    program = program_of(context(container))
    assert "TensorBoard 2.11.2 at http://0.0.0.0:6006/" in next(program).text
    service = container.network.find(f"default/{container.pod}", 6006)
    assert service is not None
    assert service.answer("GET", "/data/runs", b"").body == b'["u-1"]'
    assert b"<li>u-1</li>" in service.answer("GET", "/?x=1", b"").body
    assert service.answer("GET", "/other", b"").status == 404
    program.close()
    assert container.network.find(f"default/{container.pod}", 6006) is None
