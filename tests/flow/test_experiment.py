"""A short run and then the full one on one file system, in a cluster that was there: refused, with the choice."""

from __future__ import annotations

import csv
from pathlib import Path

import yaml

from actions.base.files import shipped_blueprints
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from tests.flow.scripts import play
from tests.support.applying import apply_all
from tests.support.program import Program

_LAUNCH = """\
eksml-script: 1
deadline: 8m
vars: {console: bionemo-on-eks}
steps:
  - wait: {cluster: "${console}", within: 1m}
  - launch:
      blueprint: bionemo-esm1nv
      existing_cluster: true
      auto_approve: true
      set: {workers: 2, data: sample, val_check_interval: 50, experiment_dir: /fsx/FOLDER, VALUES}
  - wait: {stage: STAGE, is: STATE, within: 4m}
  - expect: {EXPECTED}
always:
  - teardown: {confirm: "${console}", within: 3m}
  - expect: {audit: empty}
"""
_REFUSED = (
    "max_steps was 100 and is 200. Tear this run down and launch again: with resume=any it goes on from them, with "
    "another experiment_dir it begins at step 0."
)


async def _claim_the_file_system(kubeconfig: Path) -> None:
    session = await KubeSession.connect(ClusterTarget(kubeconfig))
    try:
        volumes = shipped_blueprints() / "bionemo-esm1nv" / "manifests" / "volumes.yaml"
        await apply_all(session, Discovery(session), list(yaml.safe_load_all(volumes.read_text(encoding="utf-8"))))
    finally:
        await session.aclose()


def _play(program: Program, name: str, values: str, *, says: str, folder: str = "one") -> list[int]:
    """Launch with these values and see what the experiment says. Return the steps that were trained."""
    fails = name.endswith("-fails")
    text = _LAUNCH.replace("VALUES", values).replace("FOLDER", folder)
    text = text.replace("STAGE", "experiment" if fails else "train").replace(
        "STATE", "failed" if fails else "succeeded"
    )
    expected = f'why: {{of: experiment, says: "{says}"}}' if fails else f'log: {{of: experiment, match: "{says}"}}'
    script = program.home / "script.yaml"
    script.write_text(text.replace("EXPECTED", expected))
    play(name, program, file=script)
    curves = program.command("runs", "curves", "latest", "-o", "csv", "--metric", "train_loss").stdout
    return [int(row["step"]) for row in csv.DictReader(curves.splitlines()) if row["step"].isdigit()]


async def test_the_full_run_does_not_go_on_from_the_short_one_unasked(program: Program) -> None:
    assert program.run("--demo", "--speed", "20", "nodes").returncode == 0
    await _claim_the_file_system(program.kubeconfig())
    assert min(_play(program, "short", "max_steps: 100", says="begins at step 0")) <= 1
    assert _play(program, "full-fails", "max_steps: 200", says=_REFUSED) == []
    steps = _play(program, "asked", "max_steps: 200, resume: any", says="going on from another training")
    assert (min(steps) >= 100, max(steps) >= 199) == (True, True)
    assert min(_play(program, "other", "max_steps: 200", says="begins at step 0", folder="two")) <= 1
