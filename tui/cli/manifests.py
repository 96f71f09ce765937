"""`eksml-tui plan --manifests DIR`: the objects that a launch would apply, as files."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from actions.base.errors import ConfigError, MissingError, UsageError
from actions.base.files import require_folder, write_private
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding
from tui.cli.target import chosen_target


def write_manifests(options: Namespace, blueprint: Blueprint, binding: Binding) -> None:
    """Write one file for each object, `STAGE-NUMBER-STAGE/OBJECT-NUMBER-KIND-NAME.yaml`; Secrets without their values.

    What an earlier stage reports is written as `‹stage.output›`, the run's id as `RUN`.

    Args:
        options: The folder, and the cluster with its namespace.
        blueprint: As it was loaded.
        binding: The values of its parameters.

    Raises:
        UsageError: The folder is not empty.
        ConfigError: It cannot be written.
        MissingError: An operator's manifests are not on this machine.
    """
    from actions.cluster.objects.editing import yaml_text
    from actions.run.doctor.examine import planned

    folder: Path = options.manifests
    require_folder(folder)
    if any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", hint="Name a folder that is empty, or that does not exist.")
    launch = planned(blueprint, binding, chosen_target(options).target)
    try:
        objects = {stage.id: [*launch.secrets(stage), *launch.rendered(stage)] for stage in launch.stages}
    except MissingError as error:
        raise MissingError(error.message, hint=error.hint or f"Run eksml-tui mirror {blueprint.id} first.") from error
    count = 0
    for number, (stage, manifests) in enumerate(objects.items(), start=1):
        for place, manifest in enumerate(map(_without_values, manifests), start=1):
            name = f"{place:02d}-{manifest['kind'].lower()}-{manifest['metadata']['name'].replace(':', '-')}.yaml"
            path = folder / f"{number:02d}-{stage}" / name
            require_folder(path.parent)
            try:
                write_private(path, yaml_text(manifest).encode(), is_synced=False)
            except OSError as error:
                raise ConfigError(f"{path} cannot be written: {error.strerror}.", hint="Free some space.") from error
            count += 1
    sys.stderr.write(f"{count} objects are in {folder}.\n")


def _without_values(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object; of a Secret all but its values."""
    if manifest["kind"] != "Secret":
        return manifest
    return {name: part for name, part in manifest.items() if name not in ("data", "stringData")}
