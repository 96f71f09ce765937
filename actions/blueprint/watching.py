"""What must agree in the `watch` of a stage: where its log comes from, and whose UID a path speaks of."""

from __future__ import annotations

from collections.abc import Iterator

from actions.blueprint.finding import Finding, Where
from actions.blueprint.model import Blueprint
from actions.blueprint.stages import Accelerator, LogWatch

UID = "{uid}"
"""Stands in the path of a log for the UID of a pod."""


def watch_findings(blueprint: Blueprint) -> Iterator[Finding]:
    """Everything that is wrong with what stages follow."""
    for index, stage in enumerate(blueprint.stages):
        if stage.watch is None:
            continue
        where = ("stages", index, "watch")
        logs = stage.watch.logs
        if logs is not None:
            yield from _logs((*where, "logs"), stage.id, logs)
        elif stage.watch.accelerator is not Accelerator.NONE and not stage.watch.devices:
            message = f"{stage.id} watches accelerators, but neither logs nor devices says in which pods."
            yield Finding((*where, "accelerator"), message, "Add devices, a label selector.")


def _logs(where: Where, stage: str, logs: LogWatch) -> Iterator[Finding]:
    sources = [name for name, value in (("pods", logs.pods), ("file", logs.file), ("exec", logs.exec)) if value]
    if len(sources) != 1:
        named = " and ".join(sources) or "none"
        yield Finding(where, f"the log of {stage} needs exactly one of pods, file and exec; it has {named}.")
        return
    source = sources[0]
    if source != "pods" and not logs.pod:
        message = f"the log of {stage} is read in a pod, and nothing says in which."
        yield Finding((*where, source), message, "Add pod, a label selector that finds one.")
    if any(UID in word for word in logs.exec):
        message = f"the log of {stage} has {UID} in exec, where no UID is put in."
        yield Finding((*where, "exec"), message, "Name the file under file, and its pod's selector under uid_of.")
    elif UID in logs.file and not logs.uid_of:
        message = f"the path of {stage}'s log holds {UID}, and nothing says whose UID that is."
        yield Finding((*where, "file"), message, "Add uid_of, the label selector of that pod.")
    elif logs.uid_of and UID not in logs.file:
        message = f"the log of {stage} has uid_of, and no path with {UID} to put it into."
        yield Finding((*where, "uid_of"), message, f"Write {UID} into file, or leave uid_of out.")
