"""Ray in the sandbox: jobs go to the head, run there and on the workers, and are told of by dashboard and submitter."""

from __future__ import annotations

import json
import math

from actions.sandbox.programs.ray import dataset as ray_dataset
from actions.sandbox.programs.ray import submit as ray_submit
from actions.telemetry.log_reader import read_log
from actions.telemetry.points import Point
from tests.unit.sandbox.programs.ray_cluster import RayCluster

_TRAIN = "NEURON_NUM_DEVICES=32 python3 ray_train_llama2.py --num_nodes=2 --steps_this_run=20 --logging_interval=1"
_COMPILE = "NEURON_NUM_DEVICES=32 python3 ray_train_llama2.py --neuron_parallel_compile --num_nodes=2"
_EACH_LINE = {"env_vars": {"RAY_DEDUP_LOGS": "0"}}


def points_of(text: str, metric: str) -> list[Point]:
    return [point for point in read_log(text.encode()) if point.metric == metric]


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
