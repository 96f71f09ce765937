"""Ray in the sandbox: jobs go to the head, run there and on the workers, and are told of by dashboard and submitter."""

from __future__ import annotations

import json
import math

from actions.sandbox.programs.files import FileView
from actions.sandbox.programs.program import ContainerView
from actions.sandbox.programs.ray import dataset as ray_dataset
from actions.sandbox.programs.ray import node as ray_node
from actions.sandbox.programs.ray import submit as ray_submit
from actions.telemetry.log_reader import read_log
from actions.telemetry.points import Point
from tests.unit.sandbox.programs.containers import run
from tests.unit.sandbox.programs.ray_cluster import HOST, RayCluster

_TRAIN = "NEURON_NUM_DEVICES=32 python3 ray_train_llama2.py --num_nodes=2 --steps_this_run=20 --logging_interval=1"
_COMPILE = "NEURON_NUM_DEVICES=32 python3 ray_train_llama2.py --neuron_parallel_compile --num_nodes=2"
_EACH_LINE = {"env_vars": {"RAY_DEDUP_LOGS": "0"}}


def points_of(text: str, metric: str) -> list[Point]:
    return [point for point in read_log(text.encode()) if point.metric == metric]


def test_the_data_job_leaves_blocks_and_says_so() -> None:
    cluster = RayCluster()
    done = cluster.submit("data", "python3 get_dataset.py", {"pip": ["datasets==2.19.2"]})
    assert done.exit_code == 0
    assert "Grouping texts in chunks of 4096: 100%" in done.text
    assert "Job 'data' succeeded" in done.text
    files = FileView({"/shared": cluster.volume}).names(ray_dataset.FOLDER)
    assert {"dataset_info.json", "state.json", "data-00000-of-00005.arrow"} <= set(files)


def test_datasets_4_refuses_the_script_of_the_corpus() -> None:
    failed = RayCluster().submit("data", "python3 get_dataset.py", {"pip": ["datasets==4.0.0"]})
    assert failed.exit_code == 1
    assert "RuntimeError: Dataset scripts are no longer supported, but found wikicorpus.py" in failed.text


def test_a_second_submitter_is_told_that_the_job_is_known_already() -> None:
    cluster = RayCluster()
    cluster.submit("first", "python3 get_dataset.py", {"pip": ["datasets==4.0.0"]}, job="data")
    second = cluster.submit("second", "python3 get_dataset.py", job="data")
    assert second.exit_code == 1
    assert "Job with submission_id data already exists" in second.text


def test_without_a_head_nothing_can_be_submitted() -> None:
    cluster = RayCluster()
    cluster.lose("head")
    failed = cluster.submit("data", "python3 get_dataset.py")
    assert failed.exit_code == 1
    assert f"ConnectionError: Failed to connect to Ray at address: http://{HOST}:8265" in failed.text


def test_what_was_compiled_ahead_is_found_by_a_training_of_the_same_shape_only() -> None:
    cluster = RayCluster().with_blocks()
    compiled = cluster.submit("compile", _COMPILE)
    assert "Total failed compilations: 0" in compiled.text
    same = cluster.submit("same", _TRAIN)
    assert "Using a cached neff" in same.text
    assert "Call compiler" not in same.text
    other = cluster.submit("other", f"{_TRAIN} --use_mix_precision")
    assert "Using a cached neff" not in other.text
    assert other.text.count("Compiler status PASS") == same.text.count("Using a cached neff")


def test_a_training_is_read_as_a_person_would() -> None:
    cluster = RayCluster().with_blocks()
    done = cluster.submit("train", f"{_TRAIN} --print_grad_norm --metrics_file=/shared/out/results.json", _EACH_LINE)
    losses = points_of(done.text, "train_loss")
    assert [point.step for point in losses] == list(range(1, 21))
    assert losses[0].value > losses[-1].value
    assert {point.metric for point in read_log(done.text.encode())} >= {"train_loss", "lr", "throughput", "grad_norm"}
    assert json.loads(cluster.volume.files["/out/results.json"].content)["steps"] == 20


def test_variables_of_the_head_stand_in_an_entry_point() -> None:
    cluster = RayCluster().with_blocks()
    head = ray_node.lead(
        ContainerView(
            "default", "other-head", "ray", "i", ("ray start --head",),
            {"RAY_CLUSTER_NAME": "kuberay-trn1", "LLAMA2_SWITCHES": "--print_grad_norm"},
            FileView({"/shared": cluster.volume}), network=cluster.network, started_at=1.8e9,
        )
    )  # fmt: skip
    cluster.lose("head")
    cluster.start("head", head)
    for name in ("worker-0", "worker-1"):
        cluster.lose(name)
        cluster.add_worker(name)
    done = cluster.submit("train", f"{_TRAIN} $LLAMA2_SWITCHES", _EACH_LINE)
    assert "grad-norm : " in done.text


def test_ray_counts_equal_lines_of_all_workers_together_unless_told_not_to() -> None:
    cluster = RayCluster().with_blocks()
    counted = cluster.submit("counted", _COMPILE)
    each = cluster.submit("each", _COMPILE, _EACH_LINE)
    assert "[repeated 63x across cluster]" in counted.text
    assert "repeated" not in each.text
    assert each.text.count("Setting up process group") == 64


def test_arguments_that_the_real_program_refuses_are_refused() -> None:
    for wrong, said in (("--reload=1", "unrecognized arguments: --reload=1"), ("--max_steps=x", "invalid int value")):
        failed = RayCluster().with_blocks().submit("train", f"{_TRAIN} {wrong}")
        assert failed.exit_code == 1
        assert said in failed.text


def test_a_step_to_load_from_is_not_read_without_the_switch() -> None:
    cluster = RayCluster().with_blocks()
    kept = f"{_TRAIN} --checkpoint_freq=10 --num_kept_checkpoint=2 --checkpoint_dir=/shared/out/checkpoints"
    assert cluster.submit("first", kept).exit_code == 0
    names = FileView({"/shared": cluster.volume}).names("/shared/out/checkpoints")
    assert names == ["step_10", "step_20"]
    anew = cluster.submit("anew", f"{kept} --loading_step=20 --steps_this_run=30", _EACH_LINE)
    assert [point.step for point in points_of(anew.text, "train_loss")] == list(range(1, 31))
    resumed = cluster.submit("resumed", f"{kept} --resume_ckpt --loading_step=20 --steps_this_run=30", _EACH_LINE)
    assert [point.step for point in points_of(resumed.text, "train_loss")] == list(range(21, 31))
    missing = cluster.submit("missing", f"{kept} --resume_ckpt --loading_step=7")
    assert (missing.exit_code, "No such file or directory: '/shared/out/checkpoints/step_7'" in missing.text) == (
        1,
        True,
    )


def test_a_rate_that_is_too_high_ends_in_nan() -> None:
    done = RayCluster().with_blocks().submit("train", f"{_TRAIN} --lr=0.01", _EACH_LINE)
    assert math.isnan(points_of(done.text, "train_loss")[-1].value)


def test_a_training_without_blocks_says_what_is_missing() -> None:
    failed = RayCluster().submit("train", _TRAIN)
    assert failed.exit_code == 1
    assert f"FileNotFoundError: Directory {ray_dataset.FOLDER} not found" in failed.text


def test_a_training_waits_for_cores_and_tells_of_it() -> None:
    cluster = RayCluster(workers=1).with_blocks()
    cluster.start("train", ray_submit.submit(cluster.submitter("train", _TRAIN)))
    cluster.run(60)
    waiting = cluster.members["train"]
    assert waiting.exit_code is None
    assert "You asked for 64.0 neuron_cores, but the cluster only has 32.0 neuron_cores available" in waiting.text
    cluster.add_worker("worker-1")
    assert cluster.until_end("train").exit_code == 0


def test_the_loss_of_a_worker_ends_the_training() -> None:
    cluster = RayCluster().with_blocks()
    cluster.start("train", ray_submit.submit(cluster.submitter("train", _TRAIN.replace("=20", "=2000"))))
    cluster.run(200)
    assert cluster.members["worker-0"].load.utilisation_percent > 90
    cluster.lose("worker-1")
    failed = cluster.until_end("train")
    assert failed.exit_code == 1
    assert "RayActorError: The actor died unexpectedly" in failed.text
    cluster.run(5)
    assert cluster.members["worker-0"].load.utilisation_percent == 0


def test_the_dashboard_tells_of_jobs_and_stops_them() -> None:
    cluster = RayCluster().with_blocks()
    cluster.start("train", ray_submit.submit(cluster.submitter("train", _TRAIN.replace("=20", "=2000"))))
    cluster.run(80)
    dashboard = cluster.dashboard()
    assert dashboard.answer("GET", "/api/jobs/nobody", b"").status == 404
    told = json.loads(dashboard.answer("GET", "/api/jobs/train", b"").body)
    assert (told["status"], told["message"]) == ("RUNNING", "Job is currently running.")
    assert json.loads(dashboard.answer("POST", "/api/jobs/train/stop", b"").body) == {"stopped": True}
    stopped = cluster.until_end("train")
    assert stopped.exit_code == 1
    assert "Job 'train' was stopped" in stopped.text
    assert json.loads(dashboard.answer("GET", "/api/jobs/train", b"").body)["status"] == "STOPPED"
    assert b"train" in dashboard.answer("GET", "/", b"").body
    assert dashboard.answer("POST", "/api/jobs/", b"nonsense").status == 400


def test_a_worker_waits_until_the_head_answers() -> None:
    cluster = RayCluster(workers=0)
    words = ("/bin/bash", "-lc", "--", f"ray health-check --address {HOST}:6379")
    waiting = ContainerView("default", "w", "wait", "i", words, {}, FileView({}), network=cluster.network)
    cluster.lose("head")
    assert "5 seconds elapsed: Waiting for GCS to be ready." in run(ray_node.wait(waiting), for_seconds=12).text
