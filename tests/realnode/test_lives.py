"""Lives of the blueprints, from launch to audited teardown, with the real operators and pods that train."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.realnode.lives import SCRIPTS, TYPES, play
from tests.realnode.support import get

_KINDS = (
    "pods,services,secrets,jobs,deployments.apps,pytorchjobs.kubeflow.org,mpijobs.kubeflow.org,rayclusters.ray.io,"
    "rayjobs.ray.io,queues.scheduling.volcano.sh,podgroups.scheduling.volcano.sh"
)


def _blueprint_of(script: Path) -> str:
    return max((name for name in TYPES if script.stem.startswith(name)), key=len)


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.yaml")), ids=lambda script: script.stem)
def test_life(script: Path, tmp_path: Path) -> None:
    life = play(_blueprint_of(script), script, tmp_path / "home")
    assert life.exit_code == 0, life.output
    assert {step["result"] for step in life.report["steps"]} == {"passed"}
    assert _left(life.report["run"]["id"]) == []


def _left(run: str) -> list[str]:
    """All that kubectl finds of a run; a kind goes with the operator that has brought it."""
    served = {f"{one['spec']['names']['plural']}.{one['spec']['group']}" for one in get("crds")["items"]}
    kinds = [kind for kind in _KINDS.split(",") if kind in served or "." not in kind or kind.endswith(".apps")]
    found = get(",".join(kinds), "--all-namespaces", "--selector", f"eksml.dev/run={run}")["items"]
    return [f"{one['kind']}/{one['metadata']['name']}" for one in found]
