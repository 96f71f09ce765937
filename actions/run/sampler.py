"""Asking pods that a stage watches for their accelerators, and counting its files, now and then."""

from __future__ import annotations

import asyncio
from typing import Any

from actions.base.errors import AccessError, ConsoleError
from actions.base.untrusted import clean_text
from actions.blueprint.render import RUN_LABEL
from actions.blueprint.stages import Accelerator, FileProgress, Watch
from actions.cluster.remote.exec import run_in_pod
from actions.run.access import Connection
from actions.run.patience import ONCE
from actions.run.spool import SpoolWriter
from actions.run.spoolformat import AcceleratorSample
from actions.run.troubles import Troubles
from actions.run.work import StageWork
from actions.telemetry.points import Progress

SAMPLE_SECONDS = 5.0
"""How often a pod is asked."""
MAX_SAMPLED_PODS = 64

_EXEC_SECONDS = 20.0
_LONGEST_REFUSED_SECONDS = 60.0
_DEVICES = "accelerators"
_FILES = "count of files"
_AT_ONCE = 8
_NEURON = "timeout 15 neuron-monitor | head -n 2 | tail -n 1"
"""One record of a program that prints one each five seconds; the first has nothing of the runtimes yet."""
_COMMANDS = {
    Accelerator.NVIDIA_SMI: ("nvidia-smi",),
    Accelerator.NEURON_TOP: ("sh", "-c", _NEURON),
    Accelerator.NEURON_MONITOR: ("sh", "-c", _NEURON),
}
"""neuron-top is a screen without a batch mode; what it shows is in neuron-monitor's records."""


class Sampler:
    """One stage's samples. A sample's age tells how it goes; who may not ask at all is told.

    Args:
        work: The stage.
        watch: What it watches.
        writer: Its spool.
        troubles: Told what goes on for long.
    """

    def __init__(self, work: StageWork, watch: Watch, writer: SpoolWriter, troubles: Troubles) -> None:
        self._work = work
        self._watch = watch
        self._writer = writer
        self._troubles = troubles
        self._due: dict[str, float] = {}
        self._refusals: dict[str, int] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    @property
    def is_wanted(self) -> bool:
        """True if there is anything to ask for."""
        return self._watch.accelerator in _COMMANDS or self._watch.progress is not None

    async def sample(self) -> None:
        """Ask whom it is time to ask.

        Raises:
            ConsoleError: The cluster does not answer.
            OSError: There is no room for the answer.
        """
        connection = await self._work.connect(ONCE)
        command = _COMMANDS.get(self._watch.accelerator)
        if command:
            await self._ask_devices(connection, command)
        if self._watch.progress is not None:
            await self._count_files(connection, self._watch.progress)

    async def _ask_devices(self, connection: Connection, command: tuple[str, ...]) -> None:
        logs = self._watch.logs
        selector = self._watch.devices or (logs.pods or logs.pod if logs else "")
        if not selector:
            return
        pods = await self._due_pods(connection, selector, _DEVICES)
        container = logs.container if logs and not self._watch.devices else ""
        asked = await asyncio.gather(*(self._ask(connection, pod, container, command) for pod in pods))
        if pods:
            self._note_refusal(_DEVICES, next((error for error in asked if isinstance(error, AccessError)), None))

    async def _ask(
        self, connection: Connection, pod: dict[str, Any], container: str, command: tuple[str, ...]
    ) -> ConsoleError | None:
        """Ask one pod. Returns why there is no answer, if there is none."""
        async with self._turns:
            try:
                text = await self._exec(connection, pod, container, command)
            except ConsoleError as error:
                return error
        now = self._work.clock.now().timestamp()
        self._writer.write_sample(pod["metadata"]["name"], AcceleratorSample(now, clean_text(text)))
        return None

    def _note_refusal(self, purpose: str, error: AccessError | None) -> None:
        """Ask less often, the longer a right is missing."""
        if error is None:
            self._refusals.pop(purpose, None)
            self._troubles.clear(purpose)
            return
        self._refusals[purpose] = self._refusals.get(purpose, 0) + 1
        wait = min(SAMPLE_SECONDS * 2.0 ** min(self._refusals[purpose], 8), _LONGEST_REFUSED_SECONDS)
        self._due[purpose] = self._work.clock.monotonic() + wait
        self._troubles.set(purpose, f"The {purpose} cannot be asked for: {error.message}")

    async def _count_files(self, connection: Connection, progress: FileProgress) -> None:
        command = ("find", *progress.folders, "-name", f"*{progress.suffix}")
        for pod in (await self._due_pods(connection, progress.pod, _FILES))[:1]:
            metadata, name = pod["metadata"], pod["spec"]["containers"][0]["name"]
            try:
                found = await self._exec(connection, pod, name, command)
            except AccessError as error:
                self._note_refusal(_FILES, error)
                return
            self._note_refusal(_FILES, None)
            total = self._work.text(progress.total)
            count = sum(1 for line in found.splitlines() if line.endswith(progress.suffix))
            source = self._writer.source(metadata["namespace"], metadata["name"], name, metadata["uid"])
            self._writer.write_progress(source, Progress("files", count, int(total) if total.isdigit() else None))

    async def _due_pods(self, connection: Connection, selector: str, purpose: str) -> list[dict[str, Any]]:
        """Running pods of the run that have not been asked for a while."""
        now = self._work.clock.monotonic()
        if self._due.get(purpose, 0.0) > now:
            return []
        pods = await connection.pods(
            namespace=self._work.namespace, label_selector=f"{selector},{RUN_LABEL}={self._work.view.id}"
        )
        running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
        if running:
            self._due[purpose] = now + SAMPLE_SECONDS
        return running[:MAX_SAMPLED_PODS]

    async def _exec(self, connection: Connection, pod: dict[str, Any], container: str, command: tuple[str, ...]) -> str:
        metadata = pod["metadata"]
        name = container or pod["spec"]["containers"][0]["name"]
        result = await run_in_pod(
            connection.session, metadata["namespace"], metadata["name"], name, command, deadline_seconds=_EXEC_SECONDS
        )
        return (result.stdout or result.stderr).decode("utf-8", "replace")
