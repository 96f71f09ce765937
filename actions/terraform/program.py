"""Finding the `terraform` program, and choosing who answers for a root."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from actions.base.clock import Clock
from actions.base.errors import ConfigError
from actions.terraform.driver import TerraformDriver
from actions.terraform.protocol import Terraform
from actions.terraform.simulated import STATE_FILE, SimulatedTerraform


def find_terraform() -> Path | None:
    """The `terraform` program on PATH, `None` if there is none."""
    found = shutil.which("terraform")
    return Path(found) if found else None


def open_terraform(
    root: Path,
    work: Path,
    environment: Mapping[str, str],
    *,
    may_simulate: bool = False,
    program: Path | None = None,
    clock: Clock | None = None,
) -> Terraform:
    """Who answers for a root: the program; without one, and only if `may_simulate`, the simulation.

    What was begun by one is never gone on with by the other.

    Args:
        root: The root as the blueprint holds it.
        work: Private folder for its copy and its state.
        environment: For the program, beside the usual names.
        may_simulate: Whether the run's preset allows it.
        program: The program; looked up on PATH by default.
        clock: The machine's by default.

    Raises:
        ConfigError: There is no program, and simulating is not allowed.
    """
    program = program or find_terraform()
    was_simulated = (work / STATE_FILE).exists()
    if may_simulate and (program is None or was_simulated):
        return SimulatedTerraform(root, work, environment, clock=clock)
    if program is None:
        raise ConfigError("The terraform program is not on PATH.", hint="Install Terraform 1.5 or later.")
    return TerraformDriver(root, work, environment, program=program, clock=clock)
