"""The parts that must agree in the `watch` of a stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import BlueprintError
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.stages import JobStage
from tests.unit.blueprint.builders import a_blueprint

BEFORE = "    target: {api_version: batch/v1, kind: Job, name: work}\n"


def watching(folder: Path, watch: str) -> Path:
    """A blueprint whose stage `work` has this `watch`."""
    return a_blueprint(folder, (BEFORE, f"{BEFORE}    watch:\n      {watch}\n"))


@pytest.mark.parametrize(
    ("watch", "said"),
    [
        ('logs: {file: "/out/{uid}/log", pod: a=b}', "holds {uid}, but no pod is named whose UID it is. Add uid_of"),
        ('logs: {exec: [cat, "/out/{uid}/log"], pod: a=b}', "has {uid} in exec, where no UID is put in. Name the file"),
        ("logs: {file: /out/log, uid_of: a=b, pod: a=b}", "has uid_of, and no path with {uid} to put it into"),
        ("logs: {file: /out/log}", "is read in a pod, but no pod is named. Add pod"),
        ("logs: {exec: [tail, -f, /log]}", "is read in a pod, but no pod is named. Add pod"),
        ("logs: {pods: a=b, file: /out/log, pod: a=b}", "exactly one of pods, file and exec; it has pods and file"),
        ("logs: {pod: a=b}", "exactly one of pods, file and exec; it has none"),
        ("accelerator: nvidia-smi", "neither logs nor devices names the pods"),
    ],
)
def test_a_log_that_could_never_be_read_is_one_sentence_with_its_line(tmp_path: Path, watch: str, said: str) -> None:
    folder = watching(tmp_path / "b", watch)

    with pytest.raises(BlueprintError) as caught:
        load_blueprint(folder)

    assert said in caught.value.sentence()
    assert "\n" not in caught.value.sentence()
    line = (folder / "blueprint.yaml").read_text().splitlines()[caught.value.line - 1]
    assert watch in line


@pytest.mark.parametrize(
    "watch",
    [
        'logs: {file: "/out/{uid}/log", uid_of: c=d, pod: a=b}',
        "logs: {exec: [tail, -f, /log], pod: a=b}",
        "{accelerator: nvidia-smi, devices: a=b}",
    ],
)
def test_what_agrees_loads(tmp_path: Path, watch: str) -> None:
    stage = load_blueprint(watching(tmp_path / "b", watch)).stage("work")

    assert stage.watch is not None


@pytest.mark.parametrize(
    ("watch", "rehearsal", "said"),
    [
        ("logs: {pods: a=b}", "{log: gone.log}", "there is no"),
        ("logs: {pods: a=b}", "{log: ../x.log}", "is not a path inside"),
        ("logs: {pods: a=b}", "{log: []}", "rehearsal"),
        ("logs: {pods: a=b}", "{log: blueprint.yaml, rate: 0/s}", "rate"),
        ("logs: {pods: a=b}", "{log: blueprint.yaml, load: 101%}", "load"),
        ("logs: {pods: a=b}", "{log: blueprint.yaml, exit: 256}", "exit"),
        ("logs: {file: /l, pod: a=b}", "{log: blueprint.yaml}", "but watches another one. Name the pods"),
    ],
)
def test_a_rehearsal_that_could_not_be_played_is_one_sentence(
    tmp_path: Path, watch: str, rehearsal: str, said: str
) -> None:
    folder = watching(tmp_path / "b", f"{watch}\n    rehearsal: {rehearsal}")

    with pytest.raises(BlueprintError) as caught:
        load_blueprint(folder)

    assert said in caught.value.sentence()


def test_a_rehearsal_has_its_logs_by_rank_and_numbers(tmp_path: Path) -> None:
    rehearsal = "rehearsal: {log: [blueprint.yaml, blueprint.yaml], rate: 30/m, load: 92%}"
    stage = load_blueprint(watching(tmp_path / "b", f"logs: {{pods: a=b}}\n    {rehearsal}")).stage("work")

    assert isinstance(stage, JobStage)
    assert stage.rehearsal is not None
    assert (len(stage.rehearsal.logs), stage.rehearsal.line_seconds, stage.rehearsal.load_percent) == (2, 2.0, 92)
