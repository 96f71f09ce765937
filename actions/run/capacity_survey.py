"""The capacity of a launch before there is a run: for plan and form, where there are AWS credentials."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from functools import partial

from actions.base.errors import ConfigError, ConsoleError, MissingError
from actions.base.files import expanded
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, fill, reason_to_skip
from actions.blueprint.stages import CapacityStage
from actions.run.checks.capacity import CapacityRequest, find_capacity, stage_request
from actions.run.checks.external import aws_session

_SECONDS = 15.0
"""For all questions of one launch: a plan is not waited for longer."""
_SOURCES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)


def has_credentials() -> bool:
    """Return true if environment or files name AWS credentials. To look for an instance's role takes too long."""
    files = (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config"))
    named = (expanded(os.environ.get(variable) or f"~/.aws/{name}") for variable, name in files)
    return any(os.environ.get(name) for name in _SOURCES) or any(path.is_file() for path in named)


def capacity_request(blueprint: Blueprint, binding: Binding) -> CapacityRequest | None:
    """Return what a launch will ask for first; `None` if it asks for nothing, or simulates what it costs.

    Raises:
        ParameterError: The number of nodes is not one.
    """
    preset = blueprint.presets.get(binding.preset)
    if preset is not None and preset.is_cost_simulated:
        return None
    return _first_request(blueprint, binding)


def named_reservation(blueprint: Blueprint, binding: Binding) -> str:
    """Return the id of the capacity reservation that a run names, also in a rehearsal; empty for none.

    Raises:
        ParameterError: The number of nodes is not one.
    """
    request = _first_request(blueprint, binding)
    return request.reservation if request is not None else ""


def _first_request(blueprint: Blueprint, binding: Binding) -> CapacityRequest | None:
    text = partial(fill, values=binding.everything)
    region = binding.text("region", blueprint.cluster.region)
    for stage in blueprint.stages:
        if isinstance(stage, CapacityStage) and not reason_to_skip(stage, binding):
            return stage_request(stage, region, text)
    return None


async def survey_capacity(request: CapacityRequest, *, now: datetime) -> str:
    """Return zone and reservation of a launch, in sentences; or why they could not be looked up.

    Raises:
        ConfigError: The zone or the reservation cannot be used.
        MissingError: There is no such reservation.
    """
    try:
        async with asyncio.timeout(_SECONDS), aws_session(request.region) as session:
            found = await find_capacity(session, request, now=now)
    except (ConfigError, MissingError):
        raise
    except TimeoutError:
        return f"Capacity in {request.region} is unknown: AWS did not answer within {_SECONDS:g} s."
    except ConsoleError as error:
        return f"Capacity in {request.region} is unknown: {error.sentence()}"
    return f"{found.detail} {found.unknown}".rstrip()
