"""A new run's folder: complete, or not there."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import BlueprintError, ConfigError
from actions.base.files import PRIVATE_DIRECTORY, private_directory, write_private
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding
from actions.cluster.kubeconfig import ClusterTarget
from actions.run.folder import blueprint_path, environment_path, journal_path, runs_home
from actions.run.graph import KNOWN_KINDS, order_of
from actions.run.journal import create_journal, refuse_network_filesystem
from actions.run.records import ClusterName, Created, StageOutline

_NEVER_STORED = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})
_MAX_BLUEPRINT_BYTES = 16 << 20


def create_run(
    blueprint: Blueprint,
    binding: Binding,
    *,
    target: ClusterTarget,
    environment: Mapping[str, str],
    clock: Clock,
    auto_approve: bool = False,
    home: Path | None = None,
) -> Path:
    """Make a run of a blueprint. Nothing is started.

    Args:
        blueprint: As it was loaded; its folder is copied into the run.
        binding: The values of its parameters.
        target: A kubeconfig that the operator chose, or an empty target: then EKS is asked for the cluster.
        environment: See `create_folder`.
        clock: Stamps the journal.
        auto_approve: Whether plans are carried out without being asked about.
        home: The folder of all runs, if not the usual one.

    Returns:
        The run's folder.

    Raises:
        BlueprintError: It has a stage that this program cannot carry out.
        ConfigError: The folder cannot be made.
        JournalError: The folder lies on a network file system.
    """
    chosen = blueprint.under(binding.preset)
    created = Created(
        run_id=new_run_id(blueprint.id, clock),
        blueprint_id=blueprint.id,
        title=blueprint.title,
        preset=binding.preset,
        parameters=binding.values,
        cluster=ClusterName(
            name=binding.text("cluster_name", blueprint.cluster.name),
            region=binding.text("region", blueprint.cluster.region),
            context=target.context,
            kubeconfig=str(target.kubeconfig.absolute()) if target.kubeconfig else "",
            namespace=target.namespace or binding.text("namespace", blueprint.cluster.namespace),
        ),
        stages=tuple(_outlines(chosen, existing_cluster=binding.existing_cluster)),
        auto_approve=auto_approve,
        existing_cluster=binding.existing_cluster,
    )
    return create_folder(created, source=blueprint.folder, environment=environment, clock=clock, home=home)


def _outlines(blueprint: Blueprint, *, existing_cluster: bool) -> Iterator[StageOutline]:
    order = order_of({stage.id: stage.needs for stage in blueprint.stages})
    for stage in (blueprint.stage(stage_id) for stage_id in order):
        if stage.kind.value not in KNOWN_KINDS:
            raise BlueprintError(
                f"{blueprint.id}: this program cannot carry out a stage of kind {stage.kind.value} ({stage.id})."
            )
        yield StageOutline(
            id=stage.id,
            kind=stage.kind.value,
            title=stage.title,
            needs=stage.needs,
            expect_low_seconds=stage.expect.low_seconds,
            expect_high_seconds=stage.expect.high_seconds,
            is_skipped=existing_cluster and stage.own_cluster_only,
            keeps_data=stage.keeps_data,
        )


def new_run_id(blueprint_id: str, clock: Clock) -> str:
    """An id that is a valid label value and says what and when: `bionemo-esm1nv-1121-a3f9`."""
    return f"{blueprint_id[:40]}-{clock.now():%m%d}-{secrets.token_hex(2)}"


def create_folder(
    created: Created, *, source: Path, environment: Mapping[str, str], clock: Clock, home: Path | None = None
) -> Path:
    """Make the folder of a run: a copy of its blueprint, its environment, its journal.

    Args:
        created: The journal's first record.
        source: The blueprint's folder.
        environment: What the run's processes get besides the console's own environment. Credentials are not stored.
        clock: Stamps the journal.
        home: The folder of all runs, if not the usual one.

    Raises:
        ConfigError: The blueprint cannot be copied, or the folder cannot be made.
        JournalError: The folder lies on a network file system.
    """
    runs = private_directory(home or runs_home())
    refuse_network_filesystem(runs)
    scratch = runs / f".{created.run_id}.{os.getpid()}"
    final = runs / created.run_id
    if final.exists():
        raise ConfigError(f"There is already a run {created.run_id}.")
    scratch.mkdir(mode=PRIVATE_DIRECTORY)
    try:
        _copy_blueprint(source, blueprint_path(scratch))
        kept = {name: value for name, value in environment.items() if name not in _NEVER_STORED}
        write_private(environment_path(scratch), msgspec.json.encode(kept))
        create_journal(journal_path(scratch), created, clock)
        scratch.rename(final)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return final


def load_environment(folder: Path) -> dict[str, str]:
    """What was given to `create_folder`.

    Raises:
        ConfigError: It cannot be read.
    """
    path = environment_path(folder)
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def _copy_blueprint(source: Path, target: Path) -> None:
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    size = sum(path.stat().st_size for path in files)
    if size > _MAX_BLUEPRINT_BYTES:
        raise ConfigError(f"{source} has {size} bytes; {_MAX_BLUEPRINT_BYTES} is the limit for a blueprint.")
    target.mkdir(mode=PRIVATE_DIRECTORY)
    for path in files:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        try:
            write_private(copy, path.read_bytes())
        except OSError as error:
            raise ConfigError(f"{path} cannot be copied: {error.strerror}.") from error
