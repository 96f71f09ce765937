"""One set of AWS credentials, and calls made with it on its own threads, with AWS' errors as the console's own.

botocore reads profile, region, proxy and `AWS_ENDPOINT_URL` from the environment as the AWS CLI does. AWS is
eventually consistent: *not found* is an answer for something just made only when it is repeated after a while.

Source: EC2 API Reference, "Eventual consistency in the Amazon EC2 API".
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

from actions.base.backoff import Backoff
from actions.base.clock import Clock
from actions.base.errors import (
    AccessError,
    ConfigError,
    ConflictError,
    ConsoleError,
    FormatError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from actions.base.executors import NamedExecutor
from actions.base.guard import require_guard
from actions.base.process import user_agent
from actions.base.readonly import refuse_if_readonly
from actions.base.untrusted import one_line, redact

_LOGGED_OUT = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_SKEWED = frozenset({"RequestTimeTooSkewed", "RequestInTheFuture"})
_SKEWED_WORDS = ("Signature not yet current", "Signature expired")
"""The text for an expired token of services whose code for it is that of any bad signature."""
_FORBIDDEN = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException"})
_MISSING = frozenset(
    {
        "404",  # S3's answer to a HEAD has no code
        "AWS.SimpleQueueService.NonExistentQueue",
        "InvalidPlacementGroup.Unknown",
        "NoSuchBucket",
        "NoSuchEntity",
        "NoSuchEntityException",
        "NoSuchKey",
        "NoSuchResourceException",
        "NonExistentQueue",
        "QueueDoesNotExist",
    }
)
_MISSING_ENDS = ("NotFound", "NotFoundException", "NotFoundFault")
"""Ends of codes by which a service states that something does not exist: `NatGatewayNotFound`,
`InvalidVolume.NotFound`, `RepositoryNotFoundException`. The others are in `_MISSING`.

Source: the error shapes of botocore 1.40's service models, and EC2's list of client error codes.
"""
_CONFLICT = frozenset(
    {"InvalidPermission.Duplicate", "ResourceInUseException", "ConflictException", "EntityAlreadyExists"}
)
_BUSY = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "IDPCommunicationError",
        "InternalError",
        "InternalFailure",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServerException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
"""botocore's lists of what is throttled or passes (`botocore/retries/standard.py`, 1.40), and what services add."""
_UNREACHABLE_KINDS = frozenset(
    {
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "EndpointConnectionError",
        "HTTPClientError",
        "ProxyConnectionError",
        "ReadTimeoutError",
        "SSLError",
    }
)
_ACCESS_KINDS = frozenset(
    {
        "CredentialRetrievalError",
        "LoginAuthorizationCodeError",
        "LoginError",
        "LoginTokenLoadError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "SSOError",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
_LOGIN_KINDS = frozenset({"SSOError", "SSOTokenLoadError", "TokenRetrievalError", "UnauthorizedSSOTokenError"})


_ENDPOINT = re.compile(r'(?:the )?endpoint URL: "https?://([^/"?]{1,300})[^"]{0,5000}"')
"""An address in botocore's words: the host alone says where, in a line that has room for it."""


class MissingPermissionError(AccessError):
    """Valid credentials without the right for one action: others may still be allowed.

    Args:
        message: As `ConsoleError`.
        action: As IAM names it: `iam:ListRoles`.
    """

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message, hint=f"Ask for the permission {action}.")
        self.action = action


def aws_error_of(cause: Exception, *, action: str, profile: str = "") -> ConsoleError:
    """Return the console's error for one of botocore.

    Args:
        cause: A `ClientError`, a `BotoCoreError` or a `ResponseParserError`.
        action: The call, as IAM names it: `eks:DescribeCluster`.
        profile: For the remedy; empty if the environment names none.
    """
    response = getattr(cause, "response", None)
    if isinstance(response, dict):
        return _refusal(response, action, profile)
    kind, text = type(cause).__name__, _clean(_ENDPOINT.sub(r"\1", str(cause)))
    if kind in _UNREACHABLE_KINDS:
        return UnreachableError(f"AWS did not answer {action}: {text}", hint="Check the network, region and proxy.")
    if kind in _LOGIN_KINDS:
        name = f" of the profile {profile}" if profile else ""
        return AccessError(f"The login{name} is missing or has ended: {text}", hint=_log_in(profile))
    if kind in _ACCESS_KINDS:
        return AccessError(f"There are no AWS credentials for {action}: {text}", hint=_log_in(profile))
    if kind == "ResponseParserError":
        return FormatError(f"The answer to {action} is not from AWS.", hint="Check AWS_ENDPOINT_URL and the proxy.")
    if kind == "ProfileNotFound":
        return ConfigError(f"AWS: {text}.", hint="Choose a profile of ~/.aws/config with --profile.")
    if kind == "NoRegionError":
        return ConfigError(f"No AWS region is known for {action}.", hint="Give one with --region or AWS_REGION.")
    return ConfigError(f"{action} could not be called: {text}")


def _log_in(profile: str) -> str:
    command = f"aws sso login --profile {profile}" if profile else "aws sso login"
    return f"Log in, for example with: {command}, or choose another --profile."


def _refusal(response: dict[str, dict[str, str]], action: str, profile: str) -> ConsoleError:
    details = response.get("Error", {})
    code, text = str(details.get("Code", "")), _clean(str(details.get("Message", "")))
    message = f"AWS refused {action} ({code}): {text}"
    if code in _FORBIDDEN:
        return MissingPermissionError(message, action)
    if code in _SKEWED or any(words in text for words in _SKEWED_WORDS):
        return AccessError(
            f"The clock of this machine is not that of AWS ({code}): {text}",
            hint="Set it, for example by: timedatectl set-ntp true.",
        )
    if code in _LOGGED_OUT:
        return AccessError(f"The AWS credentials are not valid any more ({code}): {text}", hint=_log_in(profile))
    if code in _MISSING or code.endswith(_MISSING_ENDS):
        return MissingError(f"AWS found nothing for {action}: {text}")
    if code in _CONFLICT:
        return ConflictError(message)
    status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
    if code in _BUSY or status.startswith("5") or status == "429":
        return UnreachableError(f"AWS is busy with {action} ({code or status}): {text}", hint="Wait and try again.")
    return RefusedError(message)


def _clean(text: str) -> str:
    return redact(one_line(text))


_EXPORTED_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CREDENTIAL_EXPIRATION",
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
)  # fmt: skip


def profile_environment(profile: str) -> dict[str, str]:
    """Return the variables by which a process and all its children use one profile.

    Exported keys count before `AWS_PROFILE`, with botocore as with Terraform's provider, so they are made empty.

    Args:
        profile: As given with `--profile`; empty for none, which leaves everything to the environment.
    """
    return {"AWS_PROFILE": profile, **dict.fromkeys(_EXPORTED_CREDENTIALS, "")} if profile else {}


T = TypeVar("T")

_CONNECT_SECONDS = 5
_READ_SECONDS = 20
_ATTEMPTS = 3
_DEADLINE_SECONDS = 60.0
_models: dict[str | None, Any] = {}
_models_lock = threading.Lock()
_LOOKING = ("describe_", "list_", "get_", "batch_get_", "simulate_")
"""The first words of operations that change nothing."""


class AwsSession:
    """Credentials of one profile in one region. Nothing is read or imported before the first call.

    Args:
        profile: Of `~/.aws/config`; empty for the environment's.
        region: Empty for that of the profile or environment.
        threads: Calls at once.
    """

    def __init__(self, *, profile: str = "", region: str = "", threads: int = 2) -> None:
        self.profile = profile
        self._region = region
        self._pool = NamedExecutor("aws", threads=threads)
        self._lock = threading.Lock()
        self._core: Any = None
        self._session: Any = None
        self._clients: dict[tuple[str, str], Any] = {}

    async def call(self, service: str, operation: str, *, region: str = "", **parameters: object) -> dict[str, Any]:
        """Make one call.

        Args:
            service: As boto3 names it: `eks`.
            operation: As boto3 names the method: `describe_cluster`.
            region: Instead of the session's.
            parameters: Of the operation.

        Raises:
            AccessError: No credentials, expired ones, or no permission.
            UnreachableError: No answer, or a busy one.
            MissingError, ConflictError, RefusedError: AWS' answer; the last also if this process is read-only.
            ConfigError: Profile, region or parameters are wrong.
        """
        if not operation.startswith(_LOOKING):
            refuse_if_readonly(f"{service}:{_iam_name(operation)}")
            await require_guard(f"{service}:{_iam_name(operation)}")

        def ask() -> dict[str, Any]:
            answer: dict[str, Any] = getattr(self._client(service, region), operation)(**parameters)
            return answer

        return await self.offload(ask, action=f"{service}:{_iam_name(operation)}")

    async def offload(self, work: Callable[[], T], *, action: str) -> T:
        """Run blocking `work` with botocore on the session's threads.

        Args:
            work: May raise botocore's errors.
            action: For messages.

        Raises:
            ConsoleError: As `call`.
        """
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                profile = self.profile or os.environ.get("AWS_PROFILE", "")
                return await self._pool.call(_converted, work, action, profile)
        except TimeoutError as error:
            raise UnreachableError(f"AWS did not answer {action} in {_DEADLINE_SECONDS:.0f} s.") from error

    async def region(self) -> str:
        """The region in effect; empty if none is configured.

        Raises:
            ConfigError: The profile does not exist.
        """
        return await self.offload(lambda: str(self.raw().region_name or ""), action="region")

    def raw(self) -> Any:
        """boto3's own session. Only on this session's threads: making it reads files."""
        with self._lock:
            if self._session is None:
                import boto3
                import botocore.session

                self._core = botocore.session.Session(profile=self.profile or None)
                self._core.register_component("data_loader", _service_models(self._core))
                resolver = self._core.get_component("credential_provider")
                resolver.insert_before("assume-role", _PromptRefusal(self._core))
                region = self._region or os.environ.get("AWS_REGION")  # which botocore passes over, unlike the AWS CLI
                self._session = boto3.Session(region_name=region or None, botocore_session=self._core)
            return self._session

    def core(self) -> Any:
        """botocore's session below boto3's. Only on this session's threads."""
        self.raw()
        return self._core

    def close(self) -> None:
        """Take no more calls."""
        self._pool.close()

    def _client(self, service: str, region: str) -> Any:
        session = self.raw()
        with self._lock:
            client = self._clients.get((service, region))
            if client is None:
                client = session.client(service, region_name=region or None, config=_config())
                self._clients[service, region] = client
            return client


def _service_models(core: Any) -> Any:
    """Return botocore's loader of service models, one for all sessions: to read that of EC2 takes long.

    Args:
        core: botocore's session; `data_path` of its configuration names further folders of models.
    """
    from botocore.loaders import create_loader

    folders = core.get_config_variable("data_path")
    with _models_lock:
        if folders not in _models:
            _models[folders] = create_loader(folders)
        loader = _models[folders]
        loader.search_paths[:] = dict.fromkeys(loader.search_paths)  # boto3 adds its own with every session
    return loader


def _config() -> Any:
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra=user_agent("eksml-tui"),
    )


def _converted(work: Callable[[], T], action: str, profile: str) -> T:
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        return work()
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        raise aws_error_of(error, action=action, profile=profile) from error


def profile_chain(core: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the profile in effect and those that it takes its credentials from, each with its settings.

    Args:
        core: botocore's session.

    Raises:
        ConfigError: A configuration file cannot be read.
    """
    profiles: dict[str, dict[str, Any]] = core.full_config.get("profiles", {})
    name = str(core.get_config_variable("profile") or "default")
    chain: list[tuple[str, dict[str, Any]]] = []
    while name in profiles and name not in {known for known, _ in chain}:
        chain.append((name, profiles[name]))
        name = str(profiles[name].get("source_profile", ""))
    return chain


class _PromptRefusal:
    """A provider of no credentials: it refuses profiles for which botocore would ask for an MFA code on the terminal.

    It stands before botocore's own provider of roles, so that exported keys count before it, as they do there.

    Args:
        core: botocore's session.
    """

    METHOD = CANONICAL_NAME = "mfa-refusal"

    def __init__(self, core: Any) -> None:
        self._core = core

    def load(self) -> None:
        """Return no credentials.

        Raises:
            AccessError: A profile in effect asks for an MFA code.
        """
        for name, settings in profile_chain(self._core):
            serial = settings.get("mfa_serial")
            if serial and settings.get("role_arn"):
                raise AccessError(
                    f"The AWS profile {name} asks for an MFA code, which can be typed neither here nor in Terraform.",
                    hint=f"Get a session first: aws sts get-session-token --serial-number {one_line(str(serial))} "
                    "--token-code CODE; export its keys, or put them into a profile that the role's source_profile "
                    "names, without mfa_serial. Or log in with: aws sso login.",
                )


_CONTINUED: Final = {
    "NextToken": "NextToken",
    "nextToken": "nextToken",
    "PaginationToken": "PaginationToken",
    "NextKeyMarker": "KeyMarker",
    "NextVersionIdMarker": "VersionIdMarker",
}
"""Field of an answer that names the next page → the parameter that asks for it."""


async def pages(
    session: AwsSession, service: str, operation: str, *, region: str = "", **parameters: object
) -> AsyncIterator[dict[str, Any]]:
    """Yield the answers to a call that AWS divides into pages.

    Args:
        session: Makes the calls.
        service: See `AwsSession.call`, as for all others.
        operation: The same for each page.
        region: Instead of the session's.
        parameters: Of the operation.

    Raises:
        ConsoleError: As `AwsSession.call`.
    """
    page: dict[str, Any] = {"region": region} if region else {}
    while True:
        answer = await session.call(service, operation, **{**parameters, **page})
        yield answer
        following = {wanted: str(answer[name]) for name, wanted in _CONTINUED.items() if answer.get(name)}
        if answer.get("IsTruncated") and answer.get("Marker"):
            following["Marker"] = str(answer["Marker"])
        if not following:
            return
        page |= following


def _iam_name(operation: str) -> str:
    return "".join(word.capitalize() for word in operation.split("_"))


Answer = TypeVar("Answer")

GRACE_SECONDS: Final = 20.0
_FIRST_PAUSE_SECONDS: Final = 0.5


async def retry_not_found(
    call: Callable[[], Awaitable[Answer]], *, clock: Clock, grace_seconds: float = GRACE_SECONDS
) -> Answer:
    """Return the result of `call`, repeated with growing pauses while AWS answers *not found*.

    Args:
        call: Must be safe to repeat.
        clock: For the pauses.
        grace_seconds: For all of them.

    Raises:
        MissingError: It is still unknown after the grace.
        ConsoleError: Any other failure of `call`, at once.
    """
    until = clock.monotonic() + grace_seconds
    backoff = Backoff(clock, first_seconds=_FIRST_PAUSE_SECONDS, longest_seconds=grace_seconds)
    while True:
        try:
            return await call()
        except MissingError:
            left = until - clock.monotonic()
            if left <= 0:
                raise
        await clock.sleep(min(backoff.next_seconds(), left))
