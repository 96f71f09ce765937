"""Checkpoints on a volume: parts and whole ones, and the Job that compares the values beside them with a run's.

A file of a checkpoint that is being written holds `PART`. The start script of the trainers (`pretrain.py`) leaves none
of them to resume from. The Job's script stands in a ConfigMap (`manifests/experiment.yaml` of the systems that train);
a test gives the same files and variables to it and to this module.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from actions.sandbox.programs.files import FileView
from actions.sandbox.programs.program import ContainerView, Program, ProgramStep

PART = b"part"
VALUES = "values.txt"
_PREFIX = "VALUE_"
_STEP = re.compile(r"step=(\d{1,12})")


def newest_step(files: FileView, folder: str) -> int:
    """The step of the newest whole checkpoint in a folder, as `resume_if_exists` finds it; 0 without one."""
    steps = [
        (found.changed_at, int(step[1]))
        for name in files.names(folder)
        if (step := _STEP.search(name)) and (found := files.file(f"{folder}/{name}")) and found.content != PART
    ]
    return max(steps, default=(0.0, 0))[1]


def is_wanted_by(container: ContainerView) -> bool:
    """Return whether a container compares the values of a training."""
    return "/config/experiment.sh" in container.argv


def compare(container: ContainerView) -> Program:
    """Refuse checkpoints of another training unless `RESUME` is `any`, else keep the run's values beside them."""
    known, files = container.environment, container.files
    folder, path = known["CHECKPOINTS"], known["VALUES"]
    values = {name.removeprefix(_PREFIX): value for name, value in known.items() if name.startswith(_PREFIX)}
    if "DATA" in known:
        values["data"] = "made-up" if known["DATA"] == "sample" else "real"
    is_there = any(posixpath.basename(name) != VALUES for name in files.walk(folder))
    changes = _changes(files, path, values) if is_there else ""
    yield ProgramStep(0.5)
    if "_parallel was" in changes:
        text = f"ExperimentError: the checkpoints in {folder} are split over other devices: {changes}. Nothing resumes "
        text += "them so: tear this run down and launch again with these values as they were, or with another "
        text += f"{known['FOLDER_PARAMETER']}, where it begins at step 0."
        yield ProgramStep(0.1, f"{text}\n", is_error=True)
        return 1
    if changes and known["RESUME"] != "any":
        text = f"ExperimentError: the checkpoints in {folder} are of another training: {changes}. "
        text += "Tear this run down and launch again: with resume=any it goes on from them, with another "
        text += f"{known['FOLDER_PARAMETER']} it begins at step 0."
        yield ProgramStep(0.1, f"{text}\n", is_error=True)
        return 1
    text = f"No checkpoint is in {folder}: the training begins at step 0"
    if is_there:
        text = f"The checkpoints in {folder} are of a training with the same values"
    if changes:
        text = f"resume=any: going on from another training in {folder}: {changes}"
    files.write(path, "".join(f"{name}={value}\n" for name, value in sorted(values.items())).encode())
    yield ProgramStep(0.1, f"{text}\n")
    return 0


def _changes(files: FileView, path: str, values: Mapping[str, str]) -> str:
    found = files.file(path)
    if found is None:
        return "its values are not known"
    before = dict(line.split("=", 1) for line in found.content.decode().splitlines())
    return ", ".join(
        f"{name} was {before.get(name) or 'not set'} and is {value}"
        for name, value in sorted(values.items())
        if before.get(name, "") != value
    )
