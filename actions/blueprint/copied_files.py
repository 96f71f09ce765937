"""The files that a run's copy of a blueprint has: those of its folder, and what it uses from outside of it.

A blueprint that cannot be copied is refused wherever it is read, and not only by a launch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from actions.base.errors import BlueprintError
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, holds
from actions.blueprint.stages import JobStage, LogWatch

_MOST_BYTES = 16 << 20
_LEFT_OUT = "__pycache__"
_PROVIDERS = ".terraform"
"""A folder in which Terraform links to folders of its cache."""


def copied_files(folder: Path, shared: Mapping[str, Path] = MappingProxyType({})) -> dict[Path, Path]:
    """Return the files of a copy, by their path in it.

    Args:
        folder: The blueprint's.
        shared: What it uses from outside of its folder, files and folders, by their path in the copy.

    Raises:
        BlueprintError: A link leads to a folder, or out of the folder that is copied; one cannot be looked at; or they
            are too large together.
    """
    files: dict[Path, Path] = {}
    size = 0
    try:
        for place, path in _placed(folder, shared):
            if place not in files:
                files[place] = path
                size += path.stat().st_size
            if size > _MOST_BYTES:
                raise BlueprintError(
                    f"its files have more than {_MOST_BYTES >> 20} MiB, which is the limit for a blueprint.",
                    file=str(folder),
                    hint="Move data and .terraform folders out of it.",
                )
    except OSError as error:
        raise BlueprintError(f"cannot be read: {error.strerror}.", file=str(error.filename or folder)) from error
    return files


def _placed(folder: Path, shared: Mapping[str, Path]) -> Iterator[tuple[Path, Path]]:
    """Yield each file with its path in the copy before it."""
    for place, source in {"": folder, **shared}.items():
        for path in (source,) if source.is_file() else _files_in(source):
            yield place / path.relative_to(source), path


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder, at any depth."""
    left = [folder]
    while left:
        with os.scandir(left.pop()) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                left += [Path(entry.path)] if entry.name != _LEFT_OUT else []
            elif entry.is_symlink():
                yield from _linked(Path(entry.path), folder)
            elif entry.is_file():
                yield Path(entry.path)


def _linked(path: Path, folder: Path) -> Iterator[Path]:
    """Yield a link to a file that is in `folder` too; one that leads nowhere is left out."""
    if path.is_dir():
        if _PROVIDERS not in path.parts:
            hint = "Copy the folder to where the link is."
            raise BlueprintError("it links to a folder.", file=str(path), hint=hint)
    elif path.is_file():
        if not path.resolve().is_relative_to(folder.resolve()):
            hint = "Copy the file to where the link is."
            raise BlueprintError(f"it links to a file outside of {folder.name}.", file=str(path), hint=hint)
        yield path


def rehearsals_of(blueprint: Blueprint, binding: Binding) -> dict[str, object]:
    """Return what pods of an embedded cluster print of each stage with a recorded log, by files of the copy."""
    found: dict[str, object] = {}
    for stage in blueprint.stages:
        rehearsal = stage.rehearsal if isinstance(stage, JobStage) else None
        if rehearsal is not None:
            played = next((case for case in rehearsal.cases if holds(case.when, binding)), rehearsal)
            watched = (stage.watch.logs if stage.watch is not None else None) or LogWatch()
            found[stage.id] = {
                "logs": played.logs,
                "line_seconds": played.line_seconds,
                "load_percent": played.load_percent,
                "exit_code": played.exit,
                "pods": watched.pods,
                "container": watched.container,
            }
    return found
