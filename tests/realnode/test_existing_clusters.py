"""The five blueprints on real nodes of a cluster that others have made, by a user with one namespace.

Labels, names, role and claims are those of `tests/flow/test_existing_clusters.py`, which plays them on the sandbox; the
values are those of the lives in `scripts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.blueprint.parameters import bind, fill
from actions.blueprint.stages import JobStage
from actions.run.client import load_run
from actions.run.doctor.launch import PlannedLaunch
from actions.run.state.view import OVER, RunState, RunView
from actions.sandbox.clientkit.kinds import GPU, QUEUES, Document
from tests.flow.test_existing_clusters import (
    EFA_PLUGIN,
    NVIDIA,
    OURS,
    SYSTEMS,
    TEAM,
    USER,
    System,
    all_of_others,
    uids,
)
from tests.flow.test_one_namespace import as_of, kubeconfig_as
from tests.realnode.equipment import TYPE, labels_of, set_labels
from tests.realnode.lives import SCRIPTS, ProgramOnNodes, accelerated, make_nodes, make_pools_ready, program_in
from tests.realnode.playing import applied, connected
from tests.realnode.running import real_nodes
from tests.realnode.support import apply, get, kubectl, left_of, until
from tests.unit.blueprint.shipped import shipped

_DEVICES = Path(__file__).parent / "manifests" / "devices.yaml"
_SECONDS = 900.0
_SHORTEST = "efa-nccl-tests"
"""The one that CI has time for."""


def values_of(blueprint: str) -> dict[str, str]:
    """Return the values with which a life of the blueprint is launched."""
    script = yaml.safe_load((SCRIPTS / f"{blueprint}.yaml").read_text(encoding="utf-8"))
    (launch,) = (step["launch"] for step in script["steps"] if "launch" in step)
    return {name: fill(str(value), script["vars"]) for name, value in launch["set"].items()}


def renamed(document: Document, name: str, namespace: str, labels: dict[str, str]) -> Document:
    template = document["spec"]["template"] | {"metadata": {"labels": labels}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return document | {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


@contextmanager
def made_by_others(system: System) -> Iterator[None]:
    """Nodes, labels and device plugins as the guide's commands make them; in the end, all as it was."""
    make_nodes(system.blueprint)
    nodes = real_nodes()
    if system.instance_type:
        bare = dict.fromkeys(labels_of(system.instance_type), "") | {TYPE: system.instance_type}
        for name in accelerated():
            set_labels(nodes.kubeconfig, name, bare | system.labels)
    known = {
        (one["metadata"].get("namespace"), one["metadata"]["name"]): one
        for one in yaml.safe_load_all(_DEVICES.read_text(encoding="utf-8"))
    }
    ours = [known[key] for key in OURS] if GPU in system.offers else []
    theirs = [renamed(one, *other) for one, other in zip(ours, (NVIDIA, EFA_PLUGIN), strict=False)]
    _replace(ours, theirs)
    try:
        until(lambda: all(_offers(name, system.offers) for name in accelerated()), "devices", seconds=240)
        yield
    finally:
        _replace(theirs, ours)
        for name in accelerated():
            set_labels(nodes.kubeconfig, name, dict.fromkeys(system.labels, ""))
        make_nodes("bionemo-esm1nv")


def _replace(there: Sequence[Document], wanted: Sequence[Document]) -> None:
    if there:
        kubectl("delete", "-f", "-", given=yaml.safe_dump_all(there))
        apply(*wanted)


def _offers(node: str, devices: dict[str, str]) -> bool:
    allocatable: dict[str, str] = get("node", node)["status"]["allocatable"]
    return devices.items() <= allocatable.items()


def launched(program: ProgramOnNodes, user: Sequence[str], blueprint: str, values: Sequence[str]) -> RunView:
    """Let the doctor look, and launch; the run at its end."""
    what = (blueprint, "--existing-cluster", *values)
    asked = program.run(*user, "doctor", *what, "-o", "json")
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert [line for line in json.loads(asked.stdout)["checks"] if line["result"] == "fail"] == []
    begun = program.run(*user, "launch", *what, "--yes", "--auto-approve")
    assert begun.returncode == 0, begun.stderr
    folder = program.state / "runs" / begun.stdout.strip()
    until(lambda: load_run(folder).state in OVER, f"the end of {blueprint}", seconds=_SECONDS)
    return load_run(folder)


def shown(program: ProgramOnNodes, user: Sequence[str], job: str) -> None:
    """Look at its log and its curves."""
    watched = program.run(*user, "watch", job, "--plain")
    assert watched.returncode == 0, watched.stdout + watched.stderr
    assert watched.stdout.count("\n") > 10, watched.stdout
    drawn = program.run("runs", "curves", "latest", "-o", "json")
    assert drawn.returncode == 0, drawn.stderr
    assert json.loads(drawn.stdout)


def torn_down(program: ProgramOnNodes, view: RunView) -> RunView:
    """Remove what the run made; the run at its end."""
    asked = program.run("runs", "teardown", view.id, "--confirm", view.cluster.name)
    assert asked.returncode == 0, asked.stderr
    folder = program.state / "runs" / view.id
    until(lambda: load_run(folder).state is RunState.TORN_DOWN, "the teardown", seconds=_SECONDS)
    return load_run(folder)


def _id(system: System) -> str:
    return system.blueprint if system.blueprint == _SHORTEST else f"{system.blueprint}-long"


@pytest.mark.parametrize("system", SYSTEMS, ids=_id)
async def test_a_user_with_one_namespace_trains_on_a_cluster_of_others(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_in(tmp_path / "home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(program.home / "config"))
    admin = Path(real_nodes().kubeconfig)
    user = ("--kubeconfig", str(kubeconfig_as(tmp_path, admin, USER, TEAM)), "-n", TEAM)
    blueprint, values = shipped(system.blueprint), values_of(system.blueprint)
    launch = PlannedLaunch(blueprint=blueprint, binding=bind(blueprint, values, existing_cluster=True))
    made = all_of_others(launch)
    with made_by_others(system):
        async with (
            connected(admin) as client,
            applied(client, [one for one in made if one["kind"] != QUEUES.kind]),
            applied(client, [one for one in made if one["kind"] == QUEUES.kind]),  # by then Volcano answers for it
            as_of(admin) as connection,
        ):
            make_pools_ready()
            before = await uids(connection, made)
            try:
                view = launched(program, user, system.blueprint, [f"{name}={value}" for name, value in values.items()])
                assert view.state is RunState.SUCCEEDED, [(stage.id, stage.message) for stage in view.stages]
                target = [stage for stage in launch.stages if isinstance(stage, JobStage)][-1].target
                shown(program, user, f"{target.kind.lower()}/{target.name}")
                view = torn_down(program, view)
            finally:
                program.end_all()
            assert view.audit is not None
            assert view.audit.leftovers == ()
            assert left_of(view.id) == []
            assert await uids(connection, made) == before
            claims: list[dict[str, Any]] = get("persistentvolumeclaims", "-n", TEAM)["items"]
            assert {one["status"]["phase"] for one in claims} <= {"Bound"}
