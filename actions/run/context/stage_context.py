"""The context of a stage handler."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from actions.base.clock import Clock
from actions.base.errors import BlueprintError, ParameterError
from actions.blueprint.model import Blueprint
from actions.blueprint.operators import operators_path
from actions.blueprint.parameters import Binding, fill
from actions.blueprint.parts import OUTPUT_REFERENCE
from actions.blueprint.render import RUN_LABEL, STAGE_LABEL, secrets_of, stage_manifests
from actions.blueprint.stages import AnyStage, JobStage, Stage
from actions.cluster.kinds import find_kind
from actions.run.context.access import ClusterAccess, ClusterConnection
from actions.run.context.protocols import StageJournal
from actions.run.context.retry import STAGE, RetryPolicy
from actions.run.context.secrets import fetch_secrets
from actions.run.state.view import RunView, StageView

StageT = TypeVar("StageT", bound=Stage)

CLUSTER_UID = "cluster_uid"
"""The output of a kubeconfig stage that identifies the cluster."""


class StageContext(msgspec.Struct, frozen=True):
    """The context of one stage of one run: its data, journal, clock and cluster access."""

    folder: Path
    """The run's."""
    blueprint: Blueprint
    """With the run's preset applied."""
    binding: Binding
    view: RunView
    stage: StageView
    journal: StageJournal
    clock: Clock
    access: ClusterAccess

    @property
    def namespace(self) -> str:
        """The namespace of objects that name none."""
        return self.view.cluster.namespace

    def pod_selector(self, *, is_of_stage: bool = False) -> str:
        """Return the label selector of the run's pods, or the stage's; of a job without a pod template by its name."""
        stage = self.declaration
        if isinstance(stage, JobStage):
            row = find_kind(stage.target.kind, stage.target.api_version.rpartition("/")[0])
            if row is not None and row.pods_label:
                return f"{row.pods_label}={stage.target.name}"
        return f"{RUN_LABEL}={self.view.id}" + (f",{STAGE_LABEL}={self.stage.id}" if is_of_stage else "")

    @property
    def declaration(self) -> AnyStage:
        """The stage as the blueprint declares it.

        Raises:
            BlueprintError: The run's copy of its blueprint declares another kind of stage than its journal has.
        """
        stage = self.blueprint.stage(self.stage.id)
        if stage.kind != self.stage.kind:
            raise BlueprintError(
                f"Stage {stage.id} is of kind {stage.kind} in the run's copy of its blueprint, "
                f"and of kind {self.stage.kind} in its journal.",
                hint="Restore that copy from the blueprint that the run was launched with.",
            )
        return stage

    def declared(self, kind: type[StageT]) -> StageT:
        """Return the stage's declaration, which is of the class that the caller handles."""
        stage = self.declaration
        if not isinstance(stage, kind):
            raise TypeError(f"{stage.id} is not a {kind.__name__}")
        return stage

    async def connect(self, policy: RetryPolicy = STAGE) -> ClusterConnection:
        """Connect to the run's cluster, which has to be the one it began with.

        Raises:
            MissingError: The run has no kubeconfig.
            ConflictError: Another cluster answers.
            UnreachableError, AccessError: Still no answer at the end of `policy`, or one that it does not retry.
        """
        return await self.access.open(known_cluster_uid(self.view), policy=policy, note=self.journal.note)

    def manifests(self) -> list[dict[str, Any]]:
        """Return the stage's objects with the run's values and labels, without secrets.

        Raises:
            BlueprintError: They cannot be rendered.
            MissingError: No mirror has an operator that the blueprint pins.
        """
        return stage_manifests(
            self.blueprint,
            self.stage.id,
            self.binding,
            run_id=self.view.id,
            outputs=self.view.outputs,
            namespace=self.namespace,
            mirrors=(operators_path(self.folder),),
        )

    def text(self, text: str) -> str:
        """Return a text of the blueprint with its `${name}` and `${stage.output}` filled in.

        Raises:
            BlueprintError: It names an output that has not been reported.
        """

        def output(match: re.Match[str]) -> str:
            value = (self.view.outputs.get(match[1]) or {}).get(match[2])
            if value is None:
                raise BlueprintError(f"Stage {self.stage.id} needs {match[1]}.{match[2]}, which has not been reported.")
            return value

        return OUTPUT_REFERENCE.sub(output, fill(text, self.binding.everything))

    def number(self, amount: int | str) -> float:
        """Return an amount of the blueprint: a number, or a text that is one once its `${name}` are filled in.

        Raises:
            ParameterError: The text is not a number.
        """
        text = self.text(str(amount))
        try:
            return float(text)
        except ValueError as error:
            raise ParameterError(f"{text!r} is not a number.", hint="Correct the amount in the blueprint.") from error

    def whole(self, amount: int | str) -> int:
        """Return an amount as a whole number."""
        return round(self.number(amount))

    async def secrets(self) -> list[dict[str, Any]]:
        """Return the stage's Secret objects, which hold the secrets: apply them, and store them nowhere.

        Raises:
            ConfigError: The secret of a reference does not exist.
            AccessError, MissingError, UnreachableError: Secrets Manager does not return one.
        """
        named = [self.blueprint.secrets[name].parameter for name in self.blueprint.stage(self.stage.id).secrets]
        references = [str(self.binding.values[parameter]) for parameter in named if self.binding.values[parameter]]
        found = await fetch_secrets(references, region=self.view.cluster.region)
        return secrets_of(
            self.blueprint,
            self.stage.id,
            self.binding,
            run_id=self.view.id,
            resolve=found.__getitem__,
            namespace=self.namespace,
        )


def known_cluster_uid(view: RunView) -> str:
    """Return the uid of the run's cluster, as its kubeconfig stage reported it; empty before that."""
    return next((values[CLUSTER_UID] for values in view.outputs.values() if CLUSTER_UID in values), "")
