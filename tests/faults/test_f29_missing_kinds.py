"""F29: where an operator is missing, or serves another version, nothing of a stage is applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.cluster.objects.client import ObjectRef
from actions.run.state.view import RunState, StageState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import CONFIG_MAP, a_run
from tests.faults.somebody import Somebody
from tests.faults.test_stages import DEFINITION
from tests.support.smallrun import carry_out, own_name, torn_down

SANDBOX_SPEED = 100.0

TOY = """---
apiVersion: tests.eksml.dev/VERSION
kind: KIND
metadata: {name: NAME}
"""


@pytest.mark.parametrize(
    "missing",
    [("Gadget", "v1", ""), ("Toy", "v2", f"---{DEFINITION}")],
    ids=["no operator", "another version"],
)
async def test_f29_a_kind_that_the_cluster_lacks_stops_the_stage_before_anything_is_applied(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, missing: tuple[str, str, str]
) -> None:
    kind, version, definition = missing
    toy = TOY.replace("VERSION", version).replace("KIND", kind)
    folder = a_run(tmp_path, sandbox, objects=CONFIG_MAP + definition + toy)
    view = await carry_out(folder)
    assert view.stage("objects").state is StageState.FAILED
    assert f"does not know the kind {kind} of tests.eksml.dev/{version}" in view.stage("objects").message
    assert "Install the operator" in view.stage("objects").message
    assert view.owned == ()
    assert await somebody.get(ObjectRef("v1", "ConfigMap", "default", own_name(tmp_path))) is None
    assert (await torn_down(folder)).state is RunState.TORN_DOWN


async def test_f29_what_a_stage_brings_itself_is_not_missed(tmp_path: Path, sandbox: RunningSandbox) -> None:
    toy = TOY.replace("VERSION", "v1").replace("KIND", "Toy")
    folder = a_run(tmp_path, sandbox, objects=f"{CONFIG_MAP}---{DEFINITION}{toy}")
    assert (await carry_out(folder)).state is RunState.SUCCEEDED
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
