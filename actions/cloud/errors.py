"""What went wrong at AWS, in the console's own errors."""

from __future__ import annotations

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
"""How SigV4 services say it whose code is that of any bad signature."""
_FORBIDDEN = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException"})
_MISSING = frozenset({"ResourceNotFoundException", "NoSuchEntity", "NoSuchEntityException", "FileSystemNotFound"})
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
_LOG_IN = "Log in, for example with: aws sso login, or choose another --profile."


def error_of(cause: Exception, *, action: str) -> ConsoleError:
    """The console's error for one of botocore.

    Args:
        cause: A `ClientError`, a `BotoCoreError` or a `ResponseParserError`.
        action: What was asked for, as IAM names it: `eks:DescribeCluster`.
    """
    response = getattr(cause, "response", None)
    if isinstance(response, dict):
        return _refusal(response, action)
    kind, text = type(cause).__name__, _clean(str(cause))
    if kind in _UNREACHABLE_KINDS:
        return UnreachableError(f"AWS did not answer {action}: {text}", hint="Check the network, region and proxy.")
    if kind in _ACCESS_KINDS:
        return AccessError(f"There are no AWS credentials for {action}: {text}", hint=_LOG_IN)
    if kind == "ResponseParserError":
        return FormatError(f"What answered {action} is not AWS.", hint="Check AWS_ENDPOINT_URL and the proxy.")
    if kind == "ProfileNotFound":
        return ConfigError(f"AWS: {text}.", hint="Choose a profile of ~/.aws/config with --profile.")
    if kind == "NoRegionError":
        return ConfigError(f"No AWS region is known for {action}.", hint="Give one with --region or AWS_REGION.")
    return ConfigError(f"AWS cannot be asked for {action}: {text}")


def _refusal(response: dict[str, dict[str, str]], action: str) -> ConsoleError:
    details = response.get("Error", {})
    code, text = str(details.get("Code", "")), _clean(str(details.get("Message", "")))
    said = f"AWS refused {action} ({code}): {text}"
    if code in _FORBIDDEN:
        return AccessError(said, hint=f"Ask for the permission {action}.")
    if code in _SKEWED or any(words in text for words in _SKEWED_WORDS):
        return AccessError(
            f"The clock of this machine is not that of AWS ({code}): {text}",
            hint="Set it, for example by: timedatectl set-ntp true.",
        )
    if code in _LOGGED_OUT:
        return AccessError(f"The AWS credentials are not valid any more ({code}): {text}", hint=_LOG_IN)
    if code in _MISSING or code.endswith((".NotFound", "NotFoundException")):
        return MissingError(f"AWS knows no such thing, says {action}: {text}")
    if code in _CONFLICT:
        return ConflictError(said)
    status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
    if code in _BUSY or status.startswith("5") or status == "429":
        return UnreachableError(f"AWS is busy with {action} ({code or status}): {text}", hint="Wait and try again.")
    return RefusedError(said)


def _clean(text: str) -> str:
    return redact(one_line(text))
