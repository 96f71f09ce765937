"""The live backend of a run: blueprint, cluster, Terraform and AWS; and the equivalent commands of its stages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import assert_never

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConsoleError
from actions.base.executors import in_thread
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, bind
from actions.blueprint.stages import (
    AnyStage,
    CapacityStage,
    CheckStage,
    HelmStage,
    ImageStage,
    JobStage,
    KubeconfigStage,
    ManifestsStage,
    NetworkStage,
    PodStage,
    StorageStage,
    TerraformStage,
)
from actions.cloud.eks import token_factory
from actions.run.capacity_survey import named_reservation
from actions.run.context.access import ClusterAccess, ClusterConnection
from actions.run.context.protocols import AuditReport, Performed, StageHandler, StageJournal
from actions.run.context.retry import AWAY, ONCE, TEARDOWN
from actions.run.context.stage_context import StageContext, known_cluster_uid
from actions.run.journal.folder import blueprint_path, kubeconfig_path
from actions.run.journal.reader import load_run
from actions.run.output.collector import watching
from actions.run.output.streams import stored_losses
from actions.run.stages.capacity import CapacityHandler
from actions.run.stages.check import CheckHandler
from actions.run.stages.helm import HelmHandler
from actions.run.stages.image import ImageHandler
from actions.run.stages.job import JobHandler
from actions.run.stages.kubeconfig import KubeconfigHandler
from actions.run.stages.log_check import with_gaps, with_warning
from actions.run.stages.manifests import ManifestsHandler
from actions.run.stages.network import NetworkHandler
from actions.run.stages.terraform import TerraformHandler
from actions.run.state.planner import kept_stages
from actions.run.state.records import NodesUsed, Resolution, RunAccount, TerraformBody
from actions.run.state.view import Goal, OwnedObject, RunView, StageState, StageView, TerraformMemory
from actions.run.teardown.audit import audit_account, audit_cluster, kept_on_purpose, remove_published
from actions.run.teardown.drain import drain_nodes
from actions.run.teardown.sharing import others_in_cluster
from actions.run.volume.helper_job import delete_helper_jobs
from actions.run.watchdog.keeper import delete_watchdog


def handler_class(stage: AnyStage) -> Callable[[StageContext], StageHandler]:
    """Return the class that carries out a stage: mypy refuses a kind of stage that has none."""
    match stage:
        case TerraformStage():
            return TerraformHandler
        case KubeconfigStage():
            return KubeconfigHandler
        case ManifestsStage() | StorageStage() | PodStage():
            return ManifestsHandler
        case HelmStage():
            return HelmHandler
        case CheckStage():
            return CheckHandler
        case NetworkStage():
            return NetworkHandler
        case ImageStage():
            return ImageHandler
        case JobStage():
            return JobHandler
        case CapacityStage():
            return CapacityHandler
        case _:
            assert_never(stage)


class LiveBackend:
    """The `RunBackend` of the run in `folder`.

    Args:
        folder: The run's.
        clock: The machine's.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._access: ClusterAccess | None = None
        self._losses: tuple[str, ...] = ()

    def handler(self, view: RunView, stage: StageView, journal: StageJournal) -> StageHandler:
        context = self.context(view, stage, journal)
        return handler_class(context.declaration)(context)

    def describe(self, view: RunView, stage: StageView) -> list[str]:
        """Return the equivalent commands of a stage.

        Raises:
            BlueprintError: The run's copy of its blueprint cannot be used.
        """
        return self.handler(view, stage, _DiscardingRecorder(stage)).describe()

    @asynccontextmanager
    async def watching(self, view: RunView, stage: StageView, journal: StageJournal) -> AsyncIterator[None]:
        self._losses = ()
        context = self.context(view, stage, journal)
        watch = context.blueprint.stage(stage.id).watch
        if watch is None:
            yield
            self._losses = stored_losses(self._folder, stage.id)
            return
        async with watching(context, watch) as watcher:
            yield
        self._losses = watcher.losses

    async def with_warnings(self, stage: StageView, done: Performed) -> Performed:
        if done.plan is not None:
            return done
        done = with_gaps(done, self._losses)
        if stage.kind != "job":
            return done
        return await in_thread("curves", with_warning, done, self._folder, stage.id)

    async def others_using(self, view: RunView, journal: StageJournal) -> list[str]:
        return await others_in_cluster(self.context(view, view.stages[0], journal))

    async def drain(self, view: RunView, journal: StageJournal) -> str:
        context = self.context(view, view.stages[0], journal)
        await delete_watchdog(context, TEARDOWN)  # of jobs that are gone by now
        return await drain_nodes(context, is_own_cluster=self._is_own_cluster(view))

    async def audit(self, view: RunView, journal: StageJournal) -> AuditReport:
        context = self.context(view, view.stages[0], journal)
        policy = AWAY if self._is_own_cluster(view) else TEARDOWN
        await delete_helper_jobs(context, policy)
        await delete_watchdog(context, policy)
        published = await remove_published(context, ONCE if self._is_own_cluster(view) else TEARDOWN)
        kept = frozenset() if view.deletes_data else kept_stages(view.stages)
        states = await self._terraform_states(view, kept)
        is_gone = self._is_own_cluster(view) and not states.leftovers and not states.unknown
        reports = [states, AuditReport(leftovers=(published,) if published else ())]
        for stage in view.stages:
            if stage.kind == "helm" and stage.attempt:
                helm = HelmHandler(self.context(view, stage, journal))
                reports.append(await helm.leftovers(policy, may_be_gone=is_gone))
        is_gone = is_gone and not any(report.leftovers for report in reports)
        reports.append(await audit_cluster(context, may_be_gone=is_gone, policy=policy, kept=kept))
        if published is None:  # the audit has waited longer: a cluster that was away for a moment is there now
            published = await remove_published(context, ONCE)
            reports.append(AuditReport(leftovers=(published,) if published else ()))
        if any(stage.attempt and self._blueprint.stage(stage.id).WORKS_IN_ACCOUNT for stage in view.stages):
            owns = self._is_own_cluster(view)
            reports.append(await audit_account(context, kept=kept, owns_cluster=owns))
        leftovers = tuple(line for report in reports for line in report.leftovers)
        retained = (line for report in reports for line in report.retained)
        unknown = tuple(dict.fromkeys(line for report in reports for line in report.unknown))
        return AuditReport(leftovers, (*kept_on_purpose(view, but=leftovers), *retained), unknown)

    async def cluster_of(self, view: RunView) -> ClusterConnection | None:
        access = self._access_of(view)
        return await access.open(known_cluster_uid(view)) if access.is_possible else None

    def removes_cluster(self, view: RunView) -> bool:
        left = (StageState.PENDING, StageState.SKIPPED)
        is_left = all(step.state in left for step in view.teardown if step.kind == "kubeconfig")
        return view.goal is Goal.TEARDOWN and not is_left and self._is_own_cluster(view)

    def reservation(self, view: RunView) -> str:
        return named_reservation(self._blueprint, self._binding(view))

    async def aclose(self) -> None:
        if self._access is not None:
            await self._access.aclose()

    def read_only_context(self, view: RunView, stage: StageView | None = None) -> StageContext:
        """Return a context for reading: of a stage, or the first one, with a journal that records nothing.

        Raises:
            BlueprintError: The run's copy of its blueprint cannot be used.
        """
        stage = stage or view.stages[0]
        return self.context(view, stage, _DiscardingRecorder(stage))

    def context(self, view: RunView, stage: StageView, journal: StageJournal) -> StageContext:
        """Return the context of a stage's handler.

        Raises:
            BlueprintError: The run's copy of its blueprint cannot be used.
        """
        return StageContext(
            folder=self._folder,
            blueprint=self._blueprint.under(view.preset),
            binding=self._binding(view),
            view=view,
            stage=stage,
            journal=journal,
            clock=self._clock,
            access=self._access_of(view),
        )

    @cached_property
    def _blueprint(self) -> Blueprint:
        return load_blueprint(blueprint_path(self._folder))

    def _binding(self, view: RunView) -> Binding:
        return bind(self._blueprint, view.parameters, preset=view.preset, existing_cluster=view.existing_cluster)

    def _access_of(self, view: RunView) -> ClusterAccess:
        if self._access is None:
            path = kubeconfig_path(self._folder)
            self._access = ClusterAccess(path, view.cluster.namespace, self._clock, token_factory)
        return self._access

    def _is_own_cluster(self, view: RunView) -> bool:
        """Return whether a stage of this run has made the cluster."""
        return not view.existing_cluster and any(
            stage.attempt and stage.kind == "terraform" and self._blueprint.stage(stage.id).own_cluster_only
            for stage in view.stages
        )

    async def _terraform_states(self, view: RunView, kept: Set[str]) -> AuditReport:
        """Report the resources that the states of the run's Terraform stages still hold."""
        leftovers: list[str] = []
        retained: list[str] = []
        unknown: list[str] = []
        for stage in view.stages:
            if stage.kind == "terraform" and stage.attempt:
                try:
                    lines = await self._terraform_lines(view, stage)
                except ConsoleError as error:
                    unknown.append(f"The Terraform state of {stage.id} could not be read: {error.message}")
                else:
                    command = f"; remove: {_teardown_command(view, deletes_data=stage.id in kept)}"
                    (retained if stage.id in kept else leftovers).extend(f"{line}{command}" for line in lines)
                retained.extend(_waived(stage))
        return AuditReport(tuple(leftovers), tuple(retained), tuple(unknown))

    async def _terraform_lines(self, view: RunView, stage: StageView) -> list[str]:
        lines = await TerraformHandler(self.context(view, stage, _DiscardingRecorder(stage))).leftovers()
        return [f"Terraform {stage.id}: {line}" for line in lines]


def _teardown_command(view: RunView, *, deletes_data: bool) -> str:
    """Return the command that destroys what a Terraform state still holds."""
    command = f"eksml-tui runs teardown {view.id} --confirm {view.cluster.name}"
    return f"{command} --delete-data" if deletes_data else command


def _waived(stage: StageView) -> list[str]:
    """Return lines on the resources that an operator has waived."""
    items = [item for item in stage.terraform.pending if item.how is Resolution.WAIVED]
    return [f"Terraform {stage.id}: {item.address} was waived; it is unknown whether it exists" for item in items]


class _DiscardingRecorder:
    """A stage journal that records nothing."""

    def __init__(self, stage: StageView) -> None:
        self._stage = stage

    def note(self, text: str) -> None:
        return

    def warn(self, text: str) -> None:
        return

    def trouble(self, text: str) -> None:
        return

    def owned(self) -> tuple[OwnedObject, ...]:
        return ()

    async def own(self, item: OwnedObject) -> None:
        raise AssertionError("a read-only context makes nothing")

    async def deleted(self, item: OwnedObject) -> None:
        raise AssertionError("a read-only context deletes nothing")

    async def terraform(self) -> TerraformMemory:
        return self._stage.terraform

    async def remember(self, body: TerraformBody | NodesUsed) -> None:
        raise AssertionError("a read-only context runs nothing")

    async def identify(self, account: RunAccount) -> None:
        return


def commands_of(folder: Path, view: RunView, stage: StageView) -> list[str]:
    """Return the equivalent `kubectl`, `aws` and `terraform` commands of a stage, without any request.

    Args:
        folder: The run's.
        view: The run.
        stage: One of its stages.

    Raises:
        BlueprintError: The run's copy of its blueprint cannot be used.
    """
    return LiveBackend(folder, SystemClock()).describe(view, stage)


def runbook(folder: Path) -> str:
    """Return all stages of a run, with their commands, as Markdown.

    Raises:
        JournalError: The run cannot be read.
        BlueprintError: Its copy of the blueprint cannot be used.
    """
    view = load_run(folder)
    parts = [
        f"# {view.title}",
        f"Run {view.id}, cluster {view.cluster.name} in {view.cluster.region}.",
        f"```sh\nexport KUBECONFIG={kubeconfig_path(folder)}\ncd {folder / 'blueprint'}\n```",
    ]
    for stage in view.stages:
        lines = "\n".join(commands_of(folder, view, stage))
        parts.append(f"## {stage.title} ({stage.state.value.replace('_', ' ')})\n\n```sh\n{lines}\n```")
    return "\n\n".join(parts) + "\n"
