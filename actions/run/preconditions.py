"""What has to be on this machine before a run is made, so that none begins that cannot get far."""

from __future__ import annotations

from actions.base.errors import ConfigError
from actions.blueprint.model import Blueprint, ParameterType
from actions.blueprint.parameters import Binding, skipped_stages
from actions.blueprint.stages import TerraformStage
from actions.run.secrets import is_remote, resolve_secret
from actions.terraform.program import find_terraform


def require_preconditions(blueprint: Blueprint, binding: Binding) -> None:
    """Look for the programs and the secrets that the run will use.

    Args:
        blueprint: As its preset changes it.
        binding: The values of its parameters.

    Raises:
        ConfigError: One is missing.
    """
    preset = blueprint.presets.get(binding.preset)
    if not (preset and preset.simulate_terraform) and find_terraform() is None:
        _refuse_terraform(blueprint, binding)
    for name, parameter in blueprint.parameters.items():
        reference = binding.values.get(name)
        if parameter.type is ParameterType.SECRET and reference and not is_remote(str(reference)):
            _require_secret(name, str(reference))


def _refuse_terraform(blueprint: Blueprint, binding: Binding) -> None:
    skipped = skipped_stages(blueprint, binding)
    for stage in blueprint.stages:
        if isinstance(stage, TerraformStage) and stage.id not in skipped:
            raise ConfigError(
                f"{blueprint.id} needs the terraform program for {stage.id}, and it is not on PATH.",
                hint="Install Terraform 1.5 or later, or launch with existing_cluster=true.",
            )


def _require_secret(name: str, reference: str) -> None:
    try:
        resolve_secret(reference)
    except ConfigError as error:
        sentence = f"The parameter {name} refers to a secret: {error.message}"
        raise ConfigError(sentence, hint="Set it, then launch.") from error
