"""A launch that has not happened: a blueprint with values, as the doctor's checks read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from actions.base.errors import BlueprintError, ParameterError
from actions.blueprint.checks import AnyCheck
from actions.blueprint.durations import expectation_of
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, fill, holds, makes_cluster, skipped_stages
from actions.blueprint.parts import OUTPUT_REFERENCE, Scalar
from actions.blueprint.render import namespace_of, own_objects, placeholders_of, secrets_of, stage_manifests, tfvars_of
from actions.blueprint.stages import AnyStage, CapacityStage, CheckStage, TerraformStage
from actions.cluster.auth.kubeconfig import ContextParts
from actions.fleet.instance_types import InstanceTable
from actions.run.context.run_account import works_in_account


class PlannedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A blueprint and the values of its parameters."""

    blueprint: Blueprint
    """With the preset applied."""
    binding: Binding
    wanted_namespace: str = ""
    """That of option, parameter or context; empty for the blueprint's."""
    present: ContextParts = ContextParts("")
    """The cluster that is there already and is used; nameless if the run makes its own, or without a kubeconfig."""
    original: Blueprint | None = None
    """As it was loaded, for durations by parameters; `None` if no preset changes it."""
    store: str = ""
    """The store to which the run would be replicated, with Terraform's states; empty for this machine alone."""

    @property
    def region(self) -> str:
        """The region of its cluster."""
        return self.present.region or self.binding.text("region", self.blueprint.cluster.region)

    @property
    def cluster(self) -> str:
        """The name of its cluster."""
        return self.present.cluster or self.binding.text("cluster_name", self.blueprint.cluster.name)

    @property
    def namespace(self) -> str:
        """The namespace of its objects."""
        return self.wanted_namespace or namespace_of(self.blueprint, self.binding)

    @property
    def stages(self) -> tuple[AnyStage, ...]:
        """The stages that are carried out."""
        skipped = skipped_stages(self.blueprint, self.binding)
        return tuple(stage for stage in self.blueprint.stages if stage.id not in skipped)

    @property
    def high_seconds(self) -> float:
        """The longest time that its stages are expected to take, one after the other."""
        instances = InstanceTable.load()
        original = self.original or self.blueprint
        return sum(expectation_of(original, stage, self.binding, instances).high_seconds for stage in self.stages)

    @property
    def makes_cluster(self) -> bool:
        """True if the run makes its own cluster."""
        return makes_cluster(self.blueprint, self.binding)

    @property
    def is_cost_simulated(self) -> bool:
        """True if it is a rehearsal, for which no account is needed."""
        preset = self.blueprint.presets.get(self.binding.preset)
        return bool(preset and preset.is_cost_simulated)

    @property
    def works_in_account(self) -> bool:
        """True if a stage makes something in an AWS account.

        Raises:
            BlueprintError: A Terraform root cannot be read.
        """
        return not self.is_cost_simulated and any(works_in_account(self.blueprint, stage) for stage in self.stages)

    def checks(self) -> Iterator[AnyCheck]:
        """Yield the checks of its stages that apply to its values: quotas of capacity stages, then check stages."""
        for stage in self.stages:
            if isinstance(stage, CapacityStage):
                yield from (quota for quota in stage.quotas if holds(quota.when, self.binding))
            elif isinstance(stage, CheckStage):
                for check in stage.checks:
                    if holds(check.when, self.binding) and not (self.makes_cluster and check.existing_cluster_only):
                        yield check

    def text(self, text: str) -> str:
        """Return a text of the blueprint with its `${name}` filled in.

        Raises:
            BlueprintError: It names an output of a stage, which is known only when that has run.
        """
        filled = fill(text, self.binding.everything)
        match = OUTPUT_REFERENCE.search(filled)
        if match is not None:
            raise BlueprintError(
                f"It is known only after the stage {match[1]}.", hint="The run's own check stage looks at it."
            )
        return filled

    def number(self, amount: int | str) -> float:
        """Return an amount of the blueprint as a number.

        Raises:
            ParameterError: It is none.
        """
        text = self.text(str(amount))
        try:
            return float(text)
        except ValueError as error:
            raise ParameterError(f"{text!r} is not a number.", hint="Correct the amount in the blueprint.") from error

    def objects(self, stage: AnyStage) -> list[dict[str, Any]]:
        """Return the stage's own objects, with placeholders for outputs of earlier stages."""
        return list(own_objects(self.blueprint, stage, self.binding, placeholders_of(stage)))

    def rendered(self, stage: AnyStage) -> list[dict[str, Any]]:
        """Return all objects that the stage applies, its operator's too, as `objects` returns its own.

        Raises:
            MissingError: Its operator's manifests are not on this machine.
        """
        outputs = placeholders_of(stage)
        binding, home = self.binding, self.namespace
        return stage_manifests(self.blueprint, stage.id, binding, run_id="RUN", outputs=outputs, namespace=home)

    def secrets(self, stage: AnyStage) -> list[dict[str, Any]]:
        """Return the Secrets that the stage applies, with empty values."""
        home = self.namespace
        return secrets_of(
            self.blueprint, stage.id, self.binding, run_id="RUN", resolve=lambda _reference: "", namespace=home
        )

    def variables(self, stage: TerraformStage) -> Mapping[str, Scalar]:
        """Return the variables of a stage's root, with placeholders for outputs of earlier stages."""
        return tfvars_of(self.blueprint, stage.id, self.binding, run_id="RUN", outputs=placeholders_of(stage))
