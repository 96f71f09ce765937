"""`guard` with the real program on the sandbox: idle accelerators, two guards of one job, and no right to a Lease."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from actions.base.files import shipped_blueprints
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object
from tests.faults.rehearsal import a_sandbox
from tests.support.applying import apply_all
from tests.support.polling import until
from tests.support.program import Program

pytestmark = pytest.mark.asyncio(loop_scope="module")
POOL = shipped_blueprints() / "bionemo-esm1nv" / "manifests" / "pool.yaml"
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: default}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {accelerator: nvidia}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      containers:
        - name: main
          image: busybox:1.36
          command: [sh, -c, "sleep 900000"]
          resources: {limits: {nvidia.com/gpu: 2}}
"""
WAITS = "guards this job already: this guard sends when that ends."
HOOK = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"
IN_SECONDS = """
import sys
from tui.cli.inspect import guard
minutes_of, guard.minutes_of = guard.minutes_of, lambda text, rule: minutes_of(text, rule) / 100
guard._SAMPLE_SECONDS = 0.5
from tui.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The program, for which five minutes are three seconds."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[KubeSession, Path]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with a_sandbox("guard", speed=100.0) as running:
            session = await KubeSession.connect(ClusterTarget(running.kubeconfig))
            await apply_all(session, Discovery(session), yaml.safe_load_all(POOL.read_text()))
            yield session, running.kubeconfig
            await session.aclose()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    started = Program(tmp_path / "program")
    config = Path(started.environment["XDG_CONFIG_HOME"]) / "eksml-tui"
    config.mkdir(parents=True)
    hook = [sys.executable, "-c", HOOK, str(tmp_path / "out")]
    (config / "config.yaml").write_text(f"alarm_hook: {json.dumps(hook)}\n")
    yield started
    started.end_all()


class Guards:
    """Guards of one job, each a process, ended with the test."""

    def __init__(self, program: Program, kubeconfig: Path, *words: str) -> None:
        self._program = program
        self._words = ("guard", *words, "--kubeconfig", str(kubeconfig))
        self.started: list[subprocess.Popen[bytes]] = []
        self.out = program.home.parent / "out"

    def start(self) -> subprocess.Popen[bytes]:
        with self._printed(len(self.started)).open("wb") as out:
            guard = subprocess.Popen(
                [sys.executable, "-P", "-c", IN_SECONDS, *self._words],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=dict(self._program.environment),
            )
        self.started.append(guard)
        return guard

    def said(self, number: int) -> str:
        """Return what one of them has printed."""
        return self._printed(number).read_text()

    def _printed(self, number: int) -> Path:
        return self.out.with_name(f"guard-{number}")

    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.read_text().splitlines()] if self.out.exists() else []

    def end(self) -> str:
        """Kill those that are left, and return what all have printed."""
        for guard in self.started:
            guard.kill()
            guard.wait(30)
        return "\n".join(map(self.said, range(len(self.started))))


async def a_job(session: KubeSession, name: str) -> dict[str, Any]:
    """Make a job that holds two GPUs and uses none, and return it when its pod runs."""
    await apply_all(session, Discovery(session), [yaml.safe_load(JOB.replace("NAME", name))])
    await until(lambda: _runs(session, name), "its pod", deadline_seconds=90)
    return await fetch_object(session, Discovery(session), ObjectRef("batch/v1", "Job", "default", name))


async def _runs(session: KubeSession, name: str) -> bool:
    pods = await session.get("/api/v1/namespaces/default/pods", {"labelSelector": f"job-name={name}"})
    return [pod["status"].get("phase") for pod in pods["items"]] == ["Running"]


async def _job(session: KubeSession, name: str) -> dict[str, Any]:
    return await fetch_object(session, Discovery(session), ObjectRef("batch/v1", "Job", "default", name))


async def test_an_idle_job_is_warned_of_and_suspended(cluster: tuple[KubeSession, Path], program: Program) -> None:
    session, kubeconfig = cluster
    job = await a_job(session, "idle")
    guards = Guards(program, kubeconfig, "job/idle", "--idle", "20m", "--park")
    guard = guards.start()
    try:
        code = await asyncio.to_thread(guard.wait, 90)
    finally:
        said = guards.end()
    assert code == 1, said
    assert (await _job(session, "idle"))["spec"]["suspend"] is True
    keys = [one["key"].removeprefix("job/idle/") for one in guards.sent()]
    assert keys == ["idle/near", "idle/reached", "idle/parked"], said
    near, reached, parked = guards.sent()
    assert "no accelerator has reached 5 % since" in near["text"]
    assert "Its nodes have cost $" in reached["text"]
    assert parked["text"] == "Job job/idle is suspended: its accelerators were idle."
    lease = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/eksml-guard-{job['metadata']['uid']}"
    found = await session.get(lease)
    assert not found["spec"].get("holderIdentity"), "it was given back"


async def test_of_two_guards_one_sends_and_the_other_goes_on_after_a_kill(
    cluster: tuple[KubeSession, Path], program: Program
) -> None:
    session, kubeconfig = cluster
    uid = (await a_job(session, "twice"))["metadata"]["uid"]
    lease = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/eksml-guard-{uid}"

    async def holder() -> str:
        return str((await session.get(lease))["spec"]["holderIdentity"])

    guards = Guards(program, kubeconfig, "job/twice", "--idle", "20m")
    both = guards.start(), guards.start()
    try:
        await until(lambda: len(guards.sent()) == 2, "the warnings of one")
        await until(lambda: any(WAITS in guards.said(number) for number in range(2)), "the other")
        sends = int(WAITS in guards.said(0))
        assert WAITS not in guards.said(sends)
        killed = await holder()
        both[sends].kill()

        async def is_replaced() -> bool:
            return await holder() != killed

        await until(is_replaced, "the other one with the Lease")
        resource = "/apis/batch/v1/namespaces/default/jobs/twice"
        await session.request("DELETE", resource, body=b'{"propagationPolicy": "Background"}')
        code = await asyncio.to_thread(both[1 - sends].wait, 90)
    finally:
        said = guards.end()
    assert code == 1, said
    keys = [one["key"].removeprefix("job/twice/") for one in guards.sent()]
    assert keys == ["idle/near", "idle/reached", "failed/gone"], said
