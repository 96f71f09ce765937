"""Which stages of a blueprint a run leaves out, by what the operator chose."""

from __future__ import annotations

from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding
from actions.blueprint.parts import Condition
from actions.blueprint.stages import AnyStage
from actions.blueprint.targets import text_of


def reason_to_skip(stage: AnyStage, binding: Binding) -> str:
    """Why a run with these values leaves the stage out, in a few words; empty if it does not."""
    if binding.existing_cluster and stage.own_cluster_only:
        return "the cluster is there"
    if stage.when is not None and not holds(stage.when, binding):
        return f"{stage.when.parameter} is {text_of(binding.values[stage.when.parameter])}"
    return ""


def holds(condition: Condition | None, binding: Binding) -> bool:
    """Whether a condition holds; none always does."""
    return condition is None or binding.values[condition.parameter] in condition.is_


def skipped_stages(blueprint: Blueprint, binding: Binding) -> frozenset[str]:
    """Ids of the stages that a run with these values leaves out."""
    return frozenset(stage.id for stage in blueprint.stages if reason_to_skip(stage, binding))
