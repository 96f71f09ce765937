"""A runner as a service of the user's systemd: it outlives the login session, and is restarted if it is killed.

Sources: systemd-run(1), systemd.service(5), systemd.exec(5), systemd.kill(5) of systemd 252.

A scope, the other kind of transient unit, cannot be restarted. The environment of a service is readable by every
process of the user (`systemctl show`), so credentials are passed in a private file below `XDG_RUNTIME_DIR`, which is in
memory and ends with the user's last session; the runner removes the file at its end.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConsoleError
from actions.base.files import APPLICATION, private_directory, read_file, write_private
from actions.base.process import ProcessIdentity, identity_of, own_module, run_briefly
from actions.run.journal.folder import runner_log_path
from actions.run.journal.lease import MOST_STARTS, WINDOW_SECONDS

ENVIRONMENT_OPTION = "--environment"
_SECONDS = 15.0
_LINGER = Path("/var/lib/systemd/linger")
CANNOT = 3
"""Exit code of a runner that would end the same way if it were started again: another one is alive, or the journal is
damaged."""


def start_service(folder: Path, module: str, variables: Mapping[str, str]) -> ProcessIdentity | None:
    """Start a runner as a transient service of the user.

    Args:
        folder: The run's.
        module: The module to run, with the folder as its first argument.
        variables: The whole environment of the process.

    Returns:
        The process; `None` if there is no user manager, or it does not start the service: start the process otherwise.
    """
    if not has_user_manager():
        return None
    unit = f"{APPLICATION}-{folder.name}-{secrets.token_hex(4)}.service"
    try:
        file = _handed_over(folder.name, variables)
    except (ConsoleError, OSError):
        return None
    argv = own_module(module, str(folder), ENVIRONMENT_OPTION, str(file))
    if any(sign in part for part in argv for sign in "$%"):  # systemd would take them for variables and specifiers
        return None
    if run_briefly([*_command(folder, unit), *argv], seconds=_SECONDS) is None:
        return None
    pid = run_briefly(["systemctl", "--user", "show", "--property=MainPID", "--value", unit], seconds=_SECONDS) or ""
    return identity_of(int(pid)) if pid.strip().isdecimal() and int(pid) else None


def read_environment(file: Path) -> dict[str, str]:
    """Read the variables that were passed to a service.

    Raises:
        OSError, msgspec.MsgspecError: It cannot be read.
    """
    return decode_json(read_file(file), dict[str, str])


def has_user_manager() -> bool:
    """Return whether the user has a systemd manager."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    is_there = bool(runtime) and (Path(runtime) / "systemd" / "private").exists()
    return is_there and all(map(shutil.which, ("systemd-run", "systemctl")))


def logout_warning() -> str:
    """Return a sentence if the end of the last login session also ends runs; empty otherwise."""
    name = os.environ.get("USER", "") or os.environ.get("LOGNAME", "")
    if not has_user_manager() or (name and (_LINGER / name).exists()):
        return ""
    return "Runs end with your last login session on this machine: `loginctl enable-linger` keeps them alive."


def _command(folder: Path, unit: str) -> Sequence[str]:
    log = runner_log_path(folder)
    properties = {
        "Type": "exec",
        "Restart": "on-failure",
        "RestartSec": "1",
        "RestartPreventExitStatus": str(CANNOT),
        "StartLimitIntervalSec": f"{WINDOW_SECONDS:.0f}",
        "StartLimitBurst": str(MOST_STARTS),
        "KillMode": "process",  # Terraform outlives a runner that is killed, and is adopted by the next one
        "OOMPolicy": "continue",
        "UMask": "0077",
        "WorkingDirectory": str(folder),
        "StandardInput": "null",
        "StandardOutput": f"append:{log}",
        "StandardError": f"append:{log}",
    }
    return [
        "systemd-run",
        "--user",
        "--quiet",
        "--collect",
        "--no-ask-password",
        f"--unit={unit}",
        f"--description={APPLICATION} run {folder.name}",
        *(f"--property={name}={value}" for name, value in properties.items()),
        "--",
    ]


def _handed_over(name: str, variables: Mapping[str, str]) -> Path:
    place = private_directory(Path(os.environ["XDG_RUNTIME_DIR"]) / APPLICATION)
    file = place / f"{name}.environment.json"
    write_private(file, msgspec.json.encode(dict(variables)))
    return file
