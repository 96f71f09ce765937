"""`blueprints new`: what it prints and writes, and that nothing is half-done after a mistake."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest
from yaml import safe_load

from actions.base.errors import ConsoleError
from actions.blueprint.begin.new_blueprint import begin_blueprint
from actions.cluster.objects.client import ObjectRef
from actions.sandbox.clientkit.conditions import is_true
from actions.sandbox.clientkit.kinds import JOBS
from actions.script.parse import load_script
from tests.unit.sandbox.controllers.server import until, whole_cluster
from tui.cli.new_blueprint import begin_from_live, run

IMAGENET = Path(__file__).parents[2] / "fixtures" / "jobs" / "imagenet.yaml"
LOG = "{'loss': 2.4, 'epoch': 0.1}\n{'loss': 1.4, 'epoch': 0.2}\n"


def begun(folder: Path, source: str = str(IMAGENET), *, blueprint: str = "own", log: Path | None = None) -> int:
    return run(Namespace(id=blueprint, source=source, to=str(folder), log=log))


def test_the_last_line_is_the_command_that_plays_the_rehearsal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.log").write_text(LOG)
    folder = tmp_path / "own"
    assert begun(folder, log=tmp_path / "train.log") == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"Rehearse it: eksml-tui --demo --blueprints {tmp_path} --script {folder}/rehearse.yaml"
    assert (folder / "train.log").read_text() == LOG
    script = (folder / "rehearse.yaml").read_text()
    assert "nodes: ml.g5.8xlarge=4\n" in script
    assert "expect: {metric: train_loss, of: train}" in script
    load_script(folder / "rehearse.yaml")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("is not an id", (str(IMAGENET), "Own", "")),
        ("is a blueprint of the program", (str(IMAGENET), "efa-nccl-tests", "")),
        ("There is no file pod/a, and no kind of job", ("pod/a", "own", "")),
        ("there is no job in it, only ConfigMap", ("config.yaml", "own", "")),
        ("No metric is in", (str(IMAGENET), "own", "empty.log")),
    ],
)
def test_after_a_mistake_there_is_no_folder(
    words: str, given: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, blueprint, log = given
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
    (tmp_path / "empty.log").write_text("nothing\n")
    with pytest.raises(ConsoleError) as caught:
        begun(tmp_path / "new", source, blueprint=blueprint, log=Path(log) if log else None)
    assert words in caught.value.sentence()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "empty.log"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with pytest.raises(ConsoleError, match="is there already; nothing is overwritten"):
        begun(tmp_path / "kept")


async def test_a_job_of_a_cluster_is_begun_from_as_it_was_written_with_charts_of_its_log(tmp_path: Path) -> None:
    lines = "echo step 1 loss 2.5 && echo step 2 loss 2.1"
    container = {"name": "a", "image": "public.ecr.aws/docker/library/busybox:1.36", "command": ["sh", "-c", lines]}
    spec = {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    async with whole_cluster(tmp_path) as client:
        await client.create(JOBS, {"metadata": {"name": "mine", "namespace": "default"}, "spec": spec})
        await until(client, JOBS, "default/mine", lambda job: job is not None and is_true(job, "Complete"))
        ref = ObjectRef("batch/v1", "Job", "default", "mine")
        new = await begin_from_live(client.session, ref, partial(begin_blueprint, "own"))
    assert new.metrics == ("train_loss",)
    manifest = safe_load(new.files["manifests/mine.yaml"])
    assert [*manifest] == ["apiVersion", "kind", "metadata", "spec"]
    assert manifest["metadata"] == {"name": "mine", "namespace": "default"}
    assert manifest["spec"]["template"]["spec"]["containers"] == [container | {"imagePullPolicy": "IfNotPresent"}]
