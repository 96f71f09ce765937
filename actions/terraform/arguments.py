"""Argument lists for the `terraform` program.

They are built by python-terraform's `generate_cmd_string`; docs/decisions/python-terraform.md says why no more of it is
used. Variables are never on the command line, where every user of the machine can read them, but in a private file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import python_terraform

from actions.terraform.working_directory import PLAN_FILE, UPDATE_PLAN_FILE, VARIABLES_FILE

LOCK_PATIENCE = "20s"


def init_arguments(program: Path, *, has_lock_file: bool, is_configured: bool = False) -> list[str]:
    """`terraform init`; an existing lock file is obeyed, not rewritten.

    Args:
        program: The `terraform` program.
        has_lock_file: The root, or its working directory, has one.
        is_configured: A backend of ours was configured before; its settings are taken as they are now.
    """
    lockfile = "readonly" if has_lock_file else None
    return _built(program, "init", lockfile=lockfile, reconfigure=_FLAG if is_configured else None)


def plan_arguments(program: Path) -> list[str]:
    """`terraform plan`, saved to the plan file."""
    return _built(program, "plan", json=_FLAG, lock_timeout=LOCK_PATIENCE, var_file=VARIABLES_FILE, out=PLAN_FILE)


def apply_arguments(program: Path) -> list[str]:
    """`terraform apply` of the saved plan: without questions; refuses if the state has changed since."""
    return _built(program, "apply", PLAN_FILE, json=_FLAG, lock_timeout=LOCK_PATIENCE)


def destroy_arguments(program: Path) -> list[str]:
    """`terraform destroy` of everything in the state."""
    return _built(
        program, "destroy", json=_FLAG, auto_approve=_FLAG, lock_timeout=LOCK_PATIENCE, var_file=VARIABLES_FILE
    )


def plan_update_arguments(program: Path, addresses: Sequence[str]) -> list[str]:
    """`terraform plan` of some resources alone, saved to a file of its own; with `-json` its errors were on stdout."""
    return _built(
        program,
        "plan",
        lock_timeout=LOCK_PATIENCE,
        var_file=VARIABLES_FILE,
        out=UPDATE_PLAN_FILE,
        target=list(addresses),
    )


def apply_update_arguments(program: Path) -> list[str]:
    """`terraform apply` of the plan of some resources."""
    return _built(program, "apply", UPDATE_PLAN_FILE, lock_timeout=LOCK_PATIENCE)


def show_plan_arguments(program: Path, file: str = PLAN_FILE) -> list[str]:
    """`terraform show` of a saved plan. Its output holds secrets in plain text: never store it."""
    return [*_bare(program, "show"), "-json", file]


def output_arguments(program: Path) -> list[str]:
    """`terraform output` as JSON."""
    return [*_bare(program, "output"), "-json"]


def state_pull_arguments(program: Path) -> list[str]:
    """`terraform state pull`. Its output holds secrets in plain text: never store it."""
    return _bare(program, "state pull")


def state_push_arguments(program: Path, file: str) -> list[str]:
    """`terraform state push`: refuses a state that is older, or of another lineage."""
    return [*_bare(program, "state push"), "-no-color", f"-lock-timeout={LOCK_PATIENCE}", file]


def lock_arguments(program: Path) -> list[str]:
    """`terraform untaint` of what no root has: it takes the lock of the state, gives it back, and changes nothing."""
    return [*_bare(program, "untaint"), "-no-color", "-allow-missing", "-lock-timeout=0s", "terraform_data.none"]


def unlock_arguments(program: Path, lock_id: str) -> list[str]:
    """`terraform force-unlock`."""
    return [*_bare(program, "force-unlock"), "-force", lock_id]


_FLAG = python_terraform.IsFlagged


def _built(program: Path, command: str, *arguments: str, **options: object) -> list[str]:
    builder = python_terraform.Terraform(working_dir="/nonexistent", terraform_bin_path=str(program))
    built = builder.generate_cmd_string(command, *arguments, input=False, no_color=_FLAG, **options)
    return [str(word) for word in built]


def _bare(program: Path, command: str) -> list[str]:
    return [str(program), *command.split()]
