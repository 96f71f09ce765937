"""The acts of a script are recorded, and the recording is played as a script: it passes, with waits of its own."""

from __future__ import annotations

import pytest

from actions.script.model import Conditions
from actions.script.parse import load_script
from tests.flow.scripts import SCRIPTS, play
from tests.support.program import Program


@pytest.mark.parametrize("name", ["efa-nccl-tests", "llama2-trn1-ray-resumes"])
def test_a_recording_of_a_rehearsal_passes(name: str, shared_program: Program) -> None:
    recorded = shared_program.home / f"{name}-recorded.yaml"
    play(name, shared_program, "--record", str(recorded))
    script, original = load_script(recorded, environment={}), load_script(SCRIPTS / f"{name}.yaml", environment={})
    done = [step.verb for step in script.steps if step.verb not in ("open", "wait")]
    meant = [
        step.verb for step in (*original.steps, *original.always) if step.verb not in ("wait", "expect", "forward")
    ]
    assert done == meant
    waits = [step.action for step in script.steps if isinstance(step.action, Conditions)]
    assert [wait.run for wait in waits if wait.run] == ["succeeded"]
    assert any(wait.metric for wait in waits)
    play(name, shared_program, file=recorded)
