"""Every kind of job of today, by its real controller, watched, explained, suspended and resumed by the program."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.installing import install_all, running_volcano
from tests.realnode.lives import ProgramOnNodes, program_in
from tests.realnode.support import apply_file, get, kubectl, make_namespace, until

_MANIFESTS = Path(__file__).parent / "manifests"
_NAMESPACE = "kinds"
_FINE = "Nothing is wrong in the pods, events, nodes and logs that may be read."
_CURVE = """\
eksml-script: 1
steps:
  - watch: {job}
  - wait: {{text: "train_loss", within: 90s}}
"""
_CHANGE = """\
eksml-script: 1
steps:
  - {verb}: {job}
"""
_LINES = 2000


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    install_all()
    apply_file(_MANIFESTS / "ground-of-today.yaml")
    make_namespace(_NAMESPACE)
    yield
    kubectl("delete", "namespace", _NAMESPACE, "--wait=false")


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> ProgramOnNodes:
    return program_in(tmp_path / "home")


@pytest.fixture(scope="module")
def _jobs(_operators: None) -> None:
    apply_file(_MANIFESTS / "kinds-of-today.yaml")


@pytest.mark.usefixtures("_jobs")
@pytest.mark.parametrize(
    ("job", "pods", "count"),
    [
        ("trainjob/kinds/torch", r"torch-node-0-[01]-\w+", 2),
        ("jobset/kinds/pair", r"pair-workers-[01]-0-\w+", 2),
        ("lws/kinds/group", r"group-0(-1)?", 2),
        ("deployment/kinds/trainer", r"trainer-\w+-\w+", 1),
    ],
)
def test_a_job_of_each_kind_is_watched_with_all_its_pods(
    program: ProgramOnNodes, tmp_path: Path, job: str, pods: str, count: int
) -> None:
    until(lambda: len(_ready(pods)) == count, f"the pods of {job}", seconds=240)
    ready = set(_ready(pods))
    assert _sources(program, job, len(ready)) == ready
    assert program.run("why", job).stdout.strip() == _FINE
    _play(program, tmp_path, _CURVE.format(job=job))


@pytest.mark.usefixtures("_jobs")
@pytest.mark.parametrize(
    ("job", "pods", "word"),
    [
        ("trainjob/kinds/torch", r"torch-node-0-[01]-\w+", "Suspended"),
        ("jobset/kinds/pair", r"pair-workers-[01]-0-\w+", "Suspended"),
    ],
)
def test_a_job_is_suspended_by_its_own_field_and_goes_on(
    program: ProgramOnNodes, tmp_path: Path, job: str, pods: str, word: str
) -> None:
    until(lambda: _ready(pods), f"the pods of {job}", seconds=240)
    _play(program, tmp_path, _CHANGE.format(verb="suspend", job=job))
    until(lambda: not _present(pods), f"the end of the pods of {job}", seconds=120)
    kind, _, name = job.split("/")
    assert word in [one["type"] for one in get(kind, "-n", _NAMESPACE, name)["status"]["conditions"]]
    _play(program, tmp_path, _CHANGE.format(verb="unsuspend", job=job))
    until(lambda: _ready(pods), f"new pods of {job}", seconds=240)


def test_a_job_of_volcano_is_not_the_batch_job_of_its_name(program: ProgramOnNodes, tmp_path: Path) -> None:
    with running_volcano(tmp_path / "mirror"):
        apply_file(_MANIFESTS / "volcano-job.yaml")
        until(lambda: _ready(r"same-rank-[01]")[1:], "the gang", seconds=120)
        assert _sources(program, "vcjob/kinds/same", 2) == {"same-rank-0", "same-rank-1"}
        assert "the other one" not in program.run("why", "vcjob/kinds/same").stdout
        assert "Job same has failed: the other one" in program.run("why", "job/kinds/same").stdout
        assert "is admitted in queue default" in program.run("queues", "vcjob/kinds/same").stdout
        _play(program, tmp_path, _CHANGE.format(verb="suspend", job="vcjob/kinds/same"))
        until(lambda: not _present(r"same-rank-[01]"), "the end of the gang", seconds=120)
        _play(program, tmp_path, _CHANGE.format(verb="unsuspend", job="vcjob/kinds/same"))
        until(lambda: _ready(r"same-rank-[01]"), "the gang again", seconds=120)
        kubectl("delete", "vcjob", "-n", _NAMESPACE, "same")


def test_jobs_of_a_queue_have_their_places_in_it(program: ProgramOnNodes) -> None:
    apply_file(_MANIFESTS / "queue-of-kinds.yaml")
    until(lambda: _places(program)[1:] == [1, 2], "the order of the queue", seconds=60)
    (queue,) = [one for one in _queues(program) if one["name"] == "kinds"]
    assert queue["shares"] == [{"flavor": "kinds", "resource": "cpu", "quota": "1", "used": "1", "borrowed": "0"}]
    assert [one["job_name"] for one in queue["work"]] == ["runs", "urgent", "patient"]
    told = program.run("queues", "job/kinds/patient").stdout
    assert re.search(r"number 2 in queue kinds\.\n.*insufficient unused quota.*\n  1\. kinds/job-urgent-", told)


def _queues(program: ProgramOnNodes) -> list[dict[str, Any]]:
    return list(json.loads(program.run("queues", "-o", "json").stdout)["queues"])


def _places(program: ProgramOnNodes) -> list[int]:
    """Return the positions of all work of the queue."""
    return [work["position"] for queue in _queues(program) if queue["name"] == "kinds" for work in queue["work"]]


def _play(program: ProgramOnNodes, folder: Path, script: str) -> None:
    path = folder / "script.yaml"
    path.write_text(script, encoding="utf-8")
    done = program.run("--script", str(path), "--artifacts", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr


def _sources(program: ProgramOnNodes, job: str, wanted: int) -> set[str]:
    """Return the pods whose lines `watch` prints of a job that goes on, once they are as many as wanted."""
    argv = program.argv("watch", "--plain", job)
    found: set[str] = set()
    with subprocess.Popen(argv, env=dict(program.environment), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in islice(running.stdout, _LINES):
            found.add(line.split()[1])
            if len(found) == wanted:
                break
        running.kill()
    return found


def _present(pods: str) -> list[str]:
    found = get("pods", "-n", _NAMESPACE)["items"]
    return [one["metadata"]["name"] for one in found if re.fullmatch(pods, one["metadata"]["name"])]


def _ready(pods: str) -> list[str]:
    found = get("pods", "-n", _NAMESPACE)["items"]
    running = [one["metadata"]["name"] for one in found if one["status"]["phase"] == "Running"]
    return [name for name in running if re.fullmatch(pods, name)]
