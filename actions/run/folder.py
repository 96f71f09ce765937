"""What lies where in a run's folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from actions.base.errors import ConfigError
from actions.base.files import state_home

ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"
"""Names the AWS endpoint; a run stays with the one that it was launched into."""


def runs_home() -> Path:
    """The folder of all runs. Not created here."""
    return state_home() / "runs"


def journal_path(folder: Path) -> Path:
    """The run's journal."""
    return folder / "journal.db"


def kubeconfig_path(folder: Path) -> Path:
    """The run's own kubeconfig; there is none before a kubeconfig stage has succeeded."""
    return folder / "kubeconfig"


def blueprint_path(folder: Path) -> Path:
    """The blueprint's folder as it was when the run was created."""
    return folder / "blueprint"


def environment_path(folder: Path) -> Path:
    """Names and values that the run's processes get on top of the console's environment, as JSON."""
    return folder / "environment.json"


def runner_log_path(folder: Path) -> Path:
    """What the runner said of its work."""
    return folder / "runner.log"


def terraform_path(folder: Path, stage: str) -> Path:
    """Working folder, state and output of a Terraform stage."""
    return folder / "terraform" / stage


def logs_path(folder: Path, stage: str) -> Path:
    """Spooled log lines of the pods that a stage watches."""
    return folder / "logs" / stage


def series_path(folder: Path, stage: str) -> Path:
    """Spooled curve points and accelerator samples of a stage."""
    return folder / "series" / stage


def heartbeat_path(folder: Path) -> Path:
    """When the runner was last alive, and what it waits for."""
    return folder / "heartbeat"


def starts_path(folder: Path) -> Path:
    """When the run's runners were started since the last one that came to an end by itself."""
    return folder / "starts"


def reserve_path(folder: Path) -> Path:
    """Room on disk for a cancel or a teardown on a full one."""
    return folder / "reserve"


def load_environment(folder: Path) -> dict[str, str]:
    """Return the environment that the run was launched with.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = environment_path(folder)
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
