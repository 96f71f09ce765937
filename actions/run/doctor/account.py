"""The AWS account of a launch: credentials and their end, quotas, reservations, images, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import msgspec

from actions.base.clock import Clock
from actions.base.errors import AccessError, ConfigError, ConsoleError, MissingError, UnreachableError
from actions.base.wording import brief_duration
from actions.blueprint.checks import QuotaCheck, RegistryCheck, SecretCheck
from actions.blueprint.model import ParameterType
from actions.blueprint.parts import OUTPUT_REFERENCE
from actions.blueprint.stages import CapacityStage
from actions.cloud.account import CallerIdentity, fetch_identity
from actions.cloud.ecr import repository_of
from actions.cloud.quotas import CODE_PREFIX
from actions.run.checks.capacity import find_capacity, stage_request
from actions.run.checks.external import (
    aws_session,
    check_ecr_image,
    check_huggingface,
    check_image,
    check_quota,
    image_of,
)
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.context.secrets import fetch_secrets
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.report import DoctorLine, Question, line_of
from actions.run.state.records import CheckResult

LOG_IN = "Log in, for example with: aws sso login, or choose another --profile."

_README = "See the blueprint's README."


class Caller(msgspec.Struct, frozen=True):
    """The answer to the question for credentials: an identity, or the refusal."""

    identity: CallerIdentity | None = None
    is_temporary: bool = False
    """True if they have a session token, so that they end some time."""
    refusal: ConsoleError | None = None
    assumed_region: str = ""
    """The region that was asked, if none is configured."""

    @property
    def account(self) -> str:
        """Twelve digits; empty without an answer."""
        return self.identity.account if self.identity else ""

    def require(self) -> None:
        """Require that the account can be asked.

        Raises:
            AccessError: There are no credentials, or they are not valid any more.
            UnreachableError: STS did not answer.
        """
        if isinstance(self.refusal, UnreachableError):
            raise UnreachableError("The account was not asked, as STS did not answer.", hint=self.refusal.hint)
        if self.identity is None:
            hint = self.refusal.hint if self.refusal else ""
            raise AccessError("The account cannot be asked without credentials.", hint=hint or LOG_IN)


async def fetch_caller(region: str, *, otherwise: str = "") -> Caller:
    """Fetch the identity of the credentials that a run would use; a refusal is part of the result.

    Args:
        region: Empty for that of profile and environment.
        otherwise: The region if there is none either.
    """
    assumed = otherwise if otherwise and not region and not await _configured_region() else ""
    async with aws_session(assumed or region) as session:
        try:
            identity = await fetch_identity(session)
            found = await session.offload(lambda: session.raw().get_credentials(), action="credentials")
        except ConsoleError as error:
            return Caller(refusal=error)
    return Caller(identity, bool(getattr(found, "token", "")), assumed_region=assumed)


async def _configured_region() -> str:
    async with aws_session("") as session:
        try:
            return await session.region()
        except ConsoleError as error:
            return error.message  # the same error comes to the caller of STS


def credential_lines(
    caller: Caller, *, now: datetime, needed_seconds: float = 0.0, is_needed: bool = False
) -> list[DoctorLine]:
    """Return the lines of the credentials: identity, then their end.

    Args:
        caller: The answer of STS.
        now: Aware.
        needed_seconds: The longest time that the run may take; 0 without a run.
        is_needed: A launch works in the account.
    """
    if caller.identity is None:
        error = caller.refusal
        detail = error.message if error else "STS did not answer."
        remedy = (error.hint if error else "") or LOG_IN
        found = unknown(detail) if error is None or isinstance(error, UnreachableError) else failed(detail)
        return [line_of("credentials", found, remedy, is_blocking=is_needed)]
    who = caller.identity
    where = f"region {who.region}" if who.region else "no region configured"
    if caller.assumed_region:
        where = f"no region configured: asked in {caller.assumed_region}"
    name = f", profile {who.profile}" if who.profile else ""
    return [
        line_of("credentials", passed(f"{who.arn} in account {who.account}{name}, {where}."), ""),
        line_of(
            "end of credentials",
            end_observation(caller, now=now, needed_seconds=needed_seconds),
            "Log in again before the launch, or use credentials that renew themselves: an instance role, or a profile"
            " with role_arn.",
        ),
    ]


def end_observation(caller: Caller, *, now: datetime, needed_seconds: float) -> Observation:
    """Compare the time by which a login is needed with the length of a run."""
    who = caller.identity
    end = who.ends_at if who else None
    if end is None and not caller.is_temporary:
        return passed("They do not expire.")
    if end is None and who is not None and who.expires_at is not None:
        return passed("They are renewed by themselves.")
    if end is None:
        return unknown("They are temporary and name no end: AWS_CREDENTIAL_EXPIRATION is not set.")
    moment = f"{end.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    left = (end - now).total_seconds()
    if left <= 0:
        return failed(f"They expired at {moment}.")
    detail = f"They end at {moment}, in {brief_duration(left)}"
    if left < needed_seconds:
        return failed(f"{detail}; the run may take {brief_duration(needed_seconds)}.")
    return passed(f"{detail}.")


AccountCheck = QuotaCheck | RegistryCheck | SecretCheck
"""The checks of a blueprint that need neither cluster nor volume."""


def own_checks(launch: PlannedLaunch) -> Iterator[AccountCheck]:
    """Yield the checks that can be made before a launch, each title once; not those of an image yet to be built."""
    seen: set[str] = set()
    for check in launch.checks():
        is_built = isinstance(check, RegistryCheck) and OUTPUT_REFERENCE.search(check.image) is not None
        if isinstance(check, AccountCheck) and check.title not in seen and not is_built:
            seen.add(check.title)
            yield check


def capacity_questions(launch: PlannedLaunch, caller: Caller, clock: Clock) -> list[Question]:
    """Return the questions for zone, offering and reservation, for each instance type that a launch asks for."""
    remedy = "Choose another region, zone or instance type, or correct the reservation."
    return [
        Question(
            f"capacity of {stage.id}",
            partial(check_offering, launch, stage, caller, now=clock.now()),
            remedy,
            is_blocking=True,
        )
        for stage in launch.stages
        if isinstance(stage, CapacityStage) and not stage.is_awaited
    ]


async def check_offering(launch: PlannedLaunch, stage: CapacityStage, caller: Caller, *, now: datetime) -> Observation:
    """Check that a zone offers the instance type, and that a named reservation can be used.

    Raises:
        AccessError: No credentials, or a right is missing.
        UnreachableError: No answer.
    """
    caller.require()
    try:
        request = stage_request(stage, launch.region, launch.text)
        async with aws_session(launch.region) as session:
            found = await find_capacity(session, request, now=now)
    except (ConfigError, MissingError) as error:
        return failed(f"{error.message} {error.hint}".rstrip())
    return unknown(f"{found.detail} {found.unknown}") if found.unknown else passed(found.detail)


def account_questions(launch: PlannedLaunch, caller: Caller) -> list[Question]:
    """Return the questions of the blueprint's checks of account and registries, and of the secrets that were given."""
    questions = []
    checked = set()
    for check in own_checks(launch):
        if isinstance(check, SecretCheck):
            checked.add(check.parameter)
        look = partial(_observed, launch, caller, check)
        questions.append(
            Question(check.title, look, check.hint or _README, way=_way(check), is_blocking=check.is_required)
        )
    for name, parameter in launch.blueprint.parameters.items():
        reference = str(launch.binding.values.get(name, ""))
        if parameter.type is ParameterType.SECRET and reference and name not in checked:
            remedy = f"Set {reference}, or give {name} another reference."
            look = partial(check_reference, reference, launch.region)
            questions.append(Question(name, look, remedy, is_blocking=True))
    return questions


def _way(check: AccountCheck) -> str:
    """Return the way to an answer where a check stayed unknown."""
    match check:
        case QuotaCheck():
            right = "GetServiceQuota" if check.code.startswith(CODE_PREFIX) else "ListServiceQuotas"
            return f"Look it up in Service Quotas; it takes servicequotas:{right} (`eksml-tui print iam launch`)."
        case _:
            return "Check the network and HTTPS_PROXY; the run may still reach it from the cluster."


async def _observed(launch: PlannedLaunch, caller: Caller, check: AccountCheck) -> Observation:
    match check:
        case QuotaCheck():
            caller.require()
            return await check_quota(
                check,
                region=launch.region,
                wanted=launch.number(check.amount),
                capacity_type=launch.text(check.capacity_type),
                reservation=launch.text(check.reservation),
            )
        case RegistryCheck():
            return await _check_registry(launch, caller, check)
        case SecretCheck():
            return await _check_secret(launch, check)


async def _check_registry(launch: PlannedLaunch, caller: Caller, check: RegistryCheck) -> Observation:
    text = launch.text(check.image)
    if not text:
        return failed("No image is given.")
    image = image_of(text)
    repository = repository_of(f"{image.host}/{image.name}")
    if repository is not None:
        caller.require()
        return await check_ecr_image(repository, image.reference)
    return await check_image(text, has_login=bool(check.login and launch.binding.values.get(check.login)))


async def _check_secret(launch: PlannedLaunch, check: SecretCheck) -> Observation:
    reference = str(launch.binding.values.get(check.parameter, ""))
    if not reference:
        return failed(f"{check.parameter} is not given.")
    found = await check_reference(reference, launch.region)
    if not check.huggingface or found.result is not CheckResult.PASSED:
        return found
    token = (await fetch_secrets([reference], region=launch.region))[reference]
    return await check_huggingface(check.huggingface, token)


async def check_reference(reference: str, region: str) -> Observation:
    """Check that a secret can be read where its reference leads.

    Raises:
        AccessError, UnreachableError: Secrets Manager cannot be asked.
    """
    try:
        await fetch_secrets([reference], region=region)
    except (AccessError, UnreachableError):
        raise
    except ConsoleError as error:
        return failed(error.message)
    return passed(f"{reference} can be read.")
