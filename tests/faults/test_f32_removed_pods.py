"""F32: what pods printed is kept when their controller removes them."""

from __future__ import annotations

from pathlib import Path

from actions.cluster.objects.client import ObjectRef
from actions.run.output.reader import OutputReader
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from actions.telemetry.points import Point
from tests.faults.small import LOGGED, WORK, a_run
from tests.faults.somebody import Somebody
from tests.support.polling import until
from tests.support.smallrun import carry_out, own_name, torn_down

SANDBOX_SPEED = 5.0
LINES = [f"step {step} loss {9 - step / 4}" for step in range(1, 31)]

JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: NAME}}
spec:
  backoffLimit: 0
  ttlSecondsAfterFinished: 25
  template:
    spec:
      restartPolicy: Never
      containers:
        - {{name: main, image: example.com/work, command: [sh, -c, "{"; sleep 1; ".join(f"echo {x}" for x in LINES)}"]}}
"""


async def test_f32_log_and_curve_outlive_the_pods_that_a_time_to_live_removes(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody
) -> None:
    folder = a_run(tmp_path, sandbox, WORK + "    gone_is_success: true\n" + LOGGED, job=JOB)
    assert (await carry_out(folder)).state is RunState.SUCCEEDED

    async def is_gone() -> bool:
        return await somebody.get(ObjectRef("batch/v1", "Job", "default", own_name(tmp_path))) is None

    await until(is_gone, "the end of the job's time to live")
    reader = OutputReader(folder, "work")
    assert [line.text for line in reader.lines()[0] if not line.is_marker] == LINES
    points = [item.value for item in reader.values()[0] if isinstance(item.value, Point)]
    assert [point.step for point in points] == list(range(1, 31))
    assert (await torn_down(folder)).state is RunState.TORN_DOWN
