"""Launching: from a blueprint and its binding to a run that can be started."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from actions.base.clock import Clock
from actions.base.errors import BlueprintError
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, skipped_stages
from actions.blueprint.source_files import root_folder, shared_roots
from actions.cloud.eks import request_of
from actions.cluster.auth.exec_plugins import require_allowed
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.run.creation import create_folder
from actions.run.graph import KNOWN_KINDS, order_of
from actions.run.preconditions import require_preconditions
from actions.run.records import ClusterName, Created, StageOutline


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
        target: The cluster that the operator looks at. A run that makes its own cluster asks EKS for it instead, and
            never touches this one.
        environment: See `create_folder`.
        clock: Stamps the journal.
        auto_approve: Whether plans are carried out without being asked about.
        home: The folder of all runs, if not the usual one.

    Returns:
        The run's folder.

    Raises:
        BlueprintError: It has a stage that this program cannot carry out.
        ConfigError: The folder cannot be made; or a program, a secret or the kubeconfig that it needs is missing.
        JournalError: The folder lies on a network file system.
    """
    chosen = blueprint.under(binding.preset)
    require_preconditions(chosen, binding)
    makes_cluster = not binding.existing_cluster and any(stage.own_cluster_only for stage in chosen.stages)
    context, kubeconfig, found_by = ("", "", {}) if makes_cluster else _present_cluster(target)
    created = Created(
        run_id=new_run_id(blueprint.id, clock),
        blueprint_id=blueprint.id,
        title=blueprint.title,
        preset=binding.preset,
        parameters=binding.values,
        cluster=ClusterName(
            name=binding.text("cluster_name", blueprint.cluster.name),
            region=binding.text("region", blueprint.cluster.region),
            context=context,
            kubeconfig=kubeconfig,
            namespace=target.namespace or binding.text("namespace", blueprint.cluster.namespace),
        ),
        stages=tuple(_outlines(chosen, skipped=skipped_stages(chosen, binding))),
        auto_approve=auto_approve,
        existing_cluster=binding.existing_cluster,
    )
    return create_folder(
        created,
        source=blueprint.folder,
        roots={root: root_folder(blueprint.folder, root) for root in shared_roots(blueprint)},
        environment={**environment, **found_by},
        clock=clock,
        home=home,
    )


def _present_cluster(target: ClusterTarget) -> tuple[str, str, dict[str, str]]:
    """The context and the kubeconfig by their names, and what finds them: the current one may be another tomorrow."""
    chosen = load_context(target)
    require_allowed(chosen, replaces=request_of)
    context = chosen.context
    if target.kubeconfig is not None:
        return context, str(target.kubeconfig.expanduser().absolute()), {}
    listed = [str(Path(part).expanduser().absolute()) for part in os.environ.get("KUBECONFIG", "").split(":") if part]
    return context, "", {"KUBECONFIG": ":".join(listed)} if listed else {}


def _outlines(blueprint: Blueprint, *, skipped: frozenset[str]) -> Iterator[StageOutline]:
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
            is_skipped=stage.id in skipped,
            holds_accelerators=stage.holds_accelerators,
            keeps_data=stage.keeps_data,
            charts=stage.watch.charts if stage.watch else (),
        )


def new_run_id(blueprint_id: str, clock: Clock) -> str:
    """An id that is a valid label value and says what and when, with 64 random bits: `bionemo-esm1nv-1121-a3f2…`.

    Its beginning names it, as far as no other run begins so.
    """
    random = base64.b32encode(secrets.token_bytes(8)).decode().rstrip("=").lower()
    return f"{blueprint_id[:40]}-{clock.now():%m%d}-{random}"
