"""A new run's folder: complete, or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConfigError
from actions.base.files import PRIVATE_DIRECTORY, private_directory, write_private
from actions.base.readonly import refuse_if_readonly
from actions.cluster.auth.exec_plugins import allowances
from actions.run.block import make_block
from actions.run.folder import (
    ENDPOINT_VARIABLE,
    blueprint_path,
    environment_path,
    heartbeat_path,
    journal_path,
    runner_log_path,
    runs_home,
    starts_path,
)
from actions.run.journal import create_journal, refuse_network_filesystem
from actions.run.order import take_number
from actions.run.reader import list_runs
from actions.run.records import Created
from actions.run.room import keep_reserve

_NEVER_STORED = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})
_MAX_BLUEPRINT_BYTES = 16 << 20


def create_folder(
    created: Created,
    *,
    source: Path,
    environment: Mapping[str, str],
    clock: Clock,
    roots: Mapping[str, Path] = MappingProxyType({}),
    home: Path | None = None,
) -> Path:
    """Make the folder of a run: a copy of its blueprint, its environment, its journal.

    Args:
        created: The journal's first record.
        source: The blueprint's folder.
        environment: What the run's processes get besides the console's own environment. Credentials are not stored;
            that a variable is to be empty is.
        clock: Stamps the journal.
        roots: Terraform roots from outside the blueprint's folder, by their path in the copy.
        home: The folder of all runs, if not the usual one.

    Raises:
        ConfigError: The blueprint cannot be copied, or the folder cannot be made.
        JournalError: The folder lies on a network file system.
    """
    refuse_if_readonly(f"the launch of {created.blueprint_id}")
    runs = private_directory(home or runs_home())
    refuse_network_filesystem(runs)
    scratch = runs / f".{created.run_id}.{os.getpid()}"
    final = runs / created.run_id
    if final.exists():
        raise ConfigError(f"There is already a run {created.run_id}.")
    numbered = replace(created, number=take_number(runs, created.run_id, lambda: _numbers_in(runs)))
    scratch.mkdir(mode=PRIVATE_DIRECTORY)
    try:
        copy = blueprint_path(scratch)
        _copy_folder(source, copy)
        for place, root in roots.items():
            if not (copy / place).exists():
                _copy_folder(root, copy / place)
        write_private(environment_path(scratch), msgspec.json.encode(_stored(environment)))
        create_journal(journal_path(scratch), numbered, clock)
        for block in (heartbeat_path(scratch), starts_path(scratch)):
            make_block(block)
        write_private(runner_log_path(scratch), b"")
        keep_reserve(scratch)
        scratch.rename(final)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise ConfigError(f"{final} cannot be made: {error.strerror}.", hint="Free some space there.") from error
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return final


def _numbers_in(runs: Path) -> dict[str, int]:
    """The numbers of runs as their journals have them."""
    return {run.id: run.number for run in list_runs(runs) if run.number}


def _stored(environment: Mapping[str, str]) -> dict[str, str]:
    stated = {**allowances(os.environ), **environment}
    kept = {name: value for name, value in stated.items() if not value or name not in _NEVER_STORED}
    endpoint = os.environ.get(ENDPOINT_VARIABLE, "")
    return {ENDPOINT_VARIABLE: endpoint} | kept if endpoint else kept


def _copy_folder(source: Path, target: Path) -> None:
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    base = source.resolve()
    for path in files:
        if not path.resolve().is_relative_to(base):
            raise ConfigError(f"{path} leads out of its blueprint's folder.", hint="Put the file itself there.")
    size = sum(path.stat().st_size for path in files)
    if size > _MAX_BLUEPRINT_BYTES:
        raise ConfigError(f"{source} has {size} bytes; {_MAX_BLUEPRINT_BYTES} is the limit for a blueprint.")
    target.mkdir(mode=PRIVATE_DIRECTORY, parents=True)
    for path in files:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        try:
            write_private(copy, path.read_bytes())
        except OSError as error:
            raise ConfigError(
                f"{copy} cannot be written: {error.strerror}.", hint="Free some space there, or check its rights."
            ) from error
