"""Recorded logs, which pods of a job print in the place of their programs.

No object has anything of it. The labels of the job lead to its run, whose folder is on this machine, and its file
`rehearsals.json` names for each stage files of the run's copy of its blueprint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.executors import in_thread
from actions.base.files import read_file, state_folder
from actions.base.names import is_segment
from actions.cluster.kinds import JOBS, find_kind
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import PODS, Document, Kind, labels_of, owner_of
from actions.sandbox.kubelet.container import ContainerRun
from actions.sandbox.kubelet.images import program_of
from actions.sandbox.kubelet.pod_config import PodConfig
from actions.sandbox.programs.neuron.cores import CORES_OF_A_DEVICE, DEVICE_BYTES
from actions.sandbox.programs.nvidia import model_of
from actions.sandbox.programs.program import (
    ContainerView,
    GpuLoad,
    Load,
    NeuronLoad,
    ProcessContext,
    Program,
    ProgramStep,
)

_RUN, _STAGE = "eksml.dev/run", "eksml.dev/stage"
_MOST_OWNERS = 4
_RANKS = ("JOB_COMPLETION_INDEX", "LWS_WORKER_INDEX", "RANK")
"""Variables of containers that hold a pod's place among those of its job."""


class PlayedRehearsal(msgspec.Struct, frozen=True):
    """The rehearsal of a stage, as a launch writes it into the run's folder."""

    logs: tuple[str, ...]
    """Paths in the copy of the blueprint there, by rank; the last is that of all further ranks."""
    line_seconds: float
    load_percent: int
    exit_code: int
    pods: str
    """Selects those that print; empty for all of the stage."""
    container: str
    """The one that prints; empty for the first."""

    def load_of(self, container: ContainerView) -> Load:
        """Return the load of the accelerators that a container has."""
        percent = self.load_percent
        if container.neurons:
            memory_mib = (DEVICE_BYTES >> 20) // CORES_OF_A_DEVICE * percent // 100
            return NeuronLoad(float(percent), memory_mib, command=container.command_line or container.name)
        return GpuLoad(percent, model_of(container.instance_type).total_mib * percent // 100)


class RecordedLog(msgspec.Struct, frozen=True):
    """The part of a rehearsal that a pod shows."""

    rehearsal: PlayedRehearsal
    container: str
    """The one that prints the log; empty if none of the pod does."""
    text: str

    def replay(self) -> Program:
        """Print the log line by line, as it was recorded, and end."""
        for line in self.text.splitlines(keepends=True):
            yield ProgramStep(self.rehearsal.line_seconds, line)
        return self.rehearsal.exit_code


def played_program(recorded: RecordedLog | None, container: ContainerRun, context: ProcessContext) -> Program:
    """Return what a container runs: the recorded log, with its load; before it nothing; else what its image has."""
    if recorded is None:
        return program_of(context)
    if container.is_init:
        return _prepared(container.spec.name)
    container.set_load(recorded.rehearsal.load_of(context.container))
    return recorded.replay() if recorded.container == container.spec.name else program_of(context)


def _prepared(name: str) -> Program:
    """End as what fetches models and waits for others would have, with nothing fetched."""
    yield ProgramStep(0.0, f"{name}: nothing is done here in a rehearsal\n")
    return 0


async def recorded_log_of(
    pod: Document, config: PodConfig, client: ApiClient, states: Iterable[Path] = ()
) -> RecordedLog | None:
    """Return what a pod shows of a rehearsal; `None` if its stage has none, or it is not a pod of a run's stage.

    Args:
        pod: Which.
        config: The same, decoded.
        client: Of its cluster.
        states: State folders in which the run may be; without any, this process's own.

    Raises:
        ConsoleError: The API does not answer.
    """
    labels = await _labels_of_run(pod, client)
    run, stage = labels.get(_RUN, ""), labels.get(_STAGE, "")
    if not is_segment(run):
        return None
    runs = [state / "runs" / run for state in states or (state_folder(),)]
    folder = next((one for one in runs if one.exists()), runs[0])
    try:
        rehearsals = decode_json(read_file(folder / "rehearsals.json"), dict[str, PlayedRehearsal])
        found = rehearsals.get(stage)
        if found is None:
            return None
        if found.pods and not await _is_selected(config, found.pods, client):
            return RecordedLog(found, "", "")
        path = folder / "blueprint" / found.logs[min(_rank_of(config), len(found.logs) - 1)]
        data = await in_thread("recorded log", read_file, path)
    except (OSError, msgspec.DecodeError):
        return None
    return RecordedLog(found, found.container or config.containers[0].name, data.decode(errors="replace"))


async def _labels_of_run(pod: Document, client: ApiClient) -> Mapping[str, str]:
    """Return the labels of the highest of the jobs above a pod that a run has made, or its own.

    A template that the job names, such as a TrainJob's runtime, may be of another stage.
    """
    labels, found = labels_of(pod), pod
    for _ in range(_MOST_OWNERS):
        owner = owner_of(found) or {}
        row = find_kind(owner.get("kind", ""), owner.get("apiVersion", "").rpartition("/")[0])
        if row is None or row not in JOBS:
            break
        kind = Kind(owner["apiVersion"], row.kind, row.plural)
        above = await client.read(kind, f"{pod['metadata']['namespace']}/{owner['name']}")
        if above is None:
            break
        found = above
        labels = labels_of(found) if _RUN in labels_of(found) else labels
    return labels


async def _is_selected(config: PodConfig, selector: str, client: ApiClient) -> bool:
    query = {"labelSelector": selector, "fieldSelector": f"metadata.name={config.name}"}
    found = await client.session.get(PODS.path(namespace=config.namespace), query)
    return bool(found.get("items"))


def _rank_of(config: PodConfig) -> int:
    """Return the pod's place among those of its job: by a variable, or by the number that its name ends in."""
    given = [config.containers[0].environment.get(name, "") for name in _RANKS]
    numbers = (text for text in (*given, config.name.rpartition("-")[2]) if text.isdecimal())
    return int(next(numbers, "0"))
