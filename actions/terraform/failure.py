"""The failures of Terraform operations, as errors with the next step."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from actions.base.errors import (
    AccessError,
    ConflictError,
    ConsoleError,
    MissingError,
    RefusedError,
    ToolError,
    UnreachableError,
)
from actions.base.wording import listed
from actions.terraform.events import EventKind, OperationProgress, TerraformEvent
from actions.terraform.state import StateLock, read_lock

_HEADLINE = re.compile(r"^[│ ]*Error: (.+)$", re.M)
_PANIC = re.compile(r"^(?:panic|fatal error|SIGQUIT): .+$", re.M)
_HALTED = "execution halted"
_ABOUT_WARNINGS = "There are some problems with the CLI configuration:"
_NO_PROVIDERS = (
    "Failed to query available provider packages",
    "Failed to install provider",
    "Failed to resolve provider packages",
    "Failed to download module",
    "Error accessing remote module registry",
    "Could not download module",
    "registry service is unreachable",
)
_OTHER_PROVIDERS = (
    "Provider dependency changes detected",
    "doesn't match any of the checksums previously recorded in the dependency lock file",
    "does not match any of the checksums recorded in the dependency lock file",
    "Inconsistent dependency lock file",
)
_NO_STATE = "No state file was found"
_UNINITIALISED = ("Backend initialization required", "Module not installed")
_NO_LOCK = "Error acquiring the state lock"
_SHOWN_CHANGES = 5
_UNSAVED = frozenset({"Failed to save state", "Failed to persist state to backend"})
"""The diagnostics after which `errored.tfstate` is in the folder. That of the lock, which often follows, says less."""
_SAVED_BY_RETRY = (
    "What it has made is in errored.tfstate in the stage's folder. Retry when the backend answers: "
    "that saves it first, and makes nothing twice."
)


class StalePlanError(ConflictError):
    """The approved plan is out of date: plan and approve again."""


class NoPlanError(RefusedError):
    """There is no saved plan, or not the approved one: plan and approve again."""


class StoppedError(RefusedError):
    """Terraform stopped because it was interrupted."""


class UnsavedStateError(RefusedError):
    """An earlier operation could not save its state."""


class UninitialisedError(RefusedError):
    """The root's backend, modules or providers are not in this folder: `terraform init` has to run first."""


class NoStateError(MissingError):
    """The root's backend has no state: nothing was ever applied."""


class UnknownEndError(ConflictError):
    """An adopted operation ended, and neither an exit code nor its events show how: plan again."""


class StateLockedError(ConflictError):
    """Another process has locked the state.

    Args:
        lock: The lock, as described by the backend.
        program: The program, for the command that removes the lock.
        folder: The working directory, for that, too.
    """

    def __init__(self, lock: StateLock, *, program: str = "terraform", folder: Path | None = None) -> None:
        who = f" by {lock.who} since {lock.created or 'an unknown time'}" if lock.who else ""
        number = f" (lock {lock.id})" if lock.id else ""
        unlock = f" {lock.id}" if lock.id else ""
        command = f"{program} -chdir={folder}" if folder is not None else program
        super().__init__(
            f"The Terraform state is locked{who}{number}.",
            hint=f"Wait for its release; if that process is certainly gone: {command} force-unlock{unlock}.",
        )
        self.lock = lock


def failure_of(
    argv: Sequence[str],
    events: Sequence[TerraformEvent],
    *,
    exit_code: int | None,
    interrupted: bool,
    progress: OperationProgress | None = None,
) -> ConsoleError:
    """Return the error for an operation that failed or ended early.

    The cause is the last error with a resource's address, else the last error; warnings do not count.

    Args:
        argv: The command.
        events: The last events, oldest first.
        exit_code: `None` if it is unknown, as of an adopted process.
        interrupted: It was sent an interrupt.
        progress: Of all events; of the last ones by default.
    """
    problems = [event for event in events if event.kind is EventKind.DIAGNOSTIC and event.severity == "error"]
    text = "\n".join(f"{event.message}\n{event.detail}" for event in problems or _texts(events))
    known = _known(text, Path(argv[0]).name)
    if known is not None:
        return known
    progress = progress or OperationProgress.of("", events)
    if interrupted and not progress.has_heard_twice and (exit_code is None or exit_code >= 0):
        return StoppedError(
            "Terraform was interrupted, and stopped.",
            hint="Resources that it was making may be tainted: the next plan shows them.",
        )
    shown = [Path(argv[0]).name, *argv[1:2]]
    code = 1 if exit_code is None else exit_code
    if any(event.message in _UNSAVED for event in problems):
        return ToolError(shown, exit_code=code, tail=_unsaved(text), hint=_SAVED_BY_RETRY)
    if problems:
        cause = _cause(problems)
        where = f" ({cause.address})" if cause.address else ""
        detail, remedy = _line(cause.detail), _remedy(f"{cause.message}\n{cause.detail}")
        hint = f"{_ended(detail)} {remedy}" if detail and remedy else detail or remedy
        return ToolError(shown, exit_code=code, tail=f"{cause.message}{where}", hint=hint)
    return ToolError(shown, exit_code=code, tail=_silent(text, exit_code, progress))


_REMEDIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"explicit deny in a service control policy|with an explicit deny in a (?:permissions boundary|resource)"
        ),
        "A policy above your role forbids it: ask the administrators of the organization; a retry does not help.",
    ),
    (
        re.compile(
            r"ExpiredToken|RequestExpired|token (?:included in the request )?is expired|No valid credential sources"
        ),
        "Log in again, then retry.",
    ),
    (
        re.compile(r"UnauthorizedOperation|AccessDenied|AuthFailure|is not authorized to perform"),
        "Give your role the rights of `eksml-tui print iam launch`; the doctor names those that are missing.",
    ),
    (
        re.compile(r"RequestLimitExceeded|Throttling|Rate exceeded|TooManyRequests"),
        "Retry in a minute: AWS was asked too often.",
    ),
    (
        re.compile(
            r"VcpuLimitExceeded|[a-z]LimitExceeded|LimitExceededException|QuotaExceeded|MaxSpotInstanceCountExceeded"
            r"|your (?:current vCPU limit|quota)|maximum number of (?:VPCs|addresses|\w+) has been reached"
        ),
        "Request a higher quota (Service Quotas), or remove what is not used; a retry alone does not help.",
    ),
    (
        re.compile(
            r"Insufficient(?:Instance|Host|Reserved\w*)Capacity|UnfulfillableCapacity|ReservationCapacityExceeded"
            r"|not have sufficient [\w.-]+ capacity"
        ),
        "Retry later, allow other zones or types, or use a capacity reservation.",
    ),
    (
        re.compile(r"UnsupportedAvailabilityZone|not supported in (?:your|the|this) requested [Aa]vailability [Zz]one"),
        "Choose other zones: this one does not offer it.",
    ),
    (
        re.compile(r"InvalidKMSKey|KMSKeyNotAccessible|KMS\w*DisabledException"),
        "Let EC2 Auto Scaling's role use the KMS key (its key policy), or encrypt with AWS' own key.",
    ),
    (
        re.compile(r"NodeCreationFailure|failed to join the kubernetes cluster"),
        "Check the node role's access entry, routes to the API server, security groups, and the instance's console.",
    ),
    (
        re.compile(
            r"DependencyViolation|has dependencies and cannot be deleted|has \w+ attached|has a dependent object"
        ),
        "Remove what still uses it (node groups, network interfaces, load balancers of others), then retry.",
    ),
    (
        re.compile(r"AlreadyExists|ResourceInUseException|AlreadyOwnedByYou|Invalid\w+\.Duplicate|already exists"),
        "Choose another name, or remove what has it, if nobody uses that.",
    ),
    (
        re.compile(
            r"[Kk]ubernetes cluster unreachable|: Unauthorized$|the server has asked for the client to provide cred"
        ),
        "Give your role an access entry of the cluster, and see that this machine reaches its endpoint.",
    ),
    (
        re.compile(r"context deadline exceeded|timed out waiting for the condition|timeout while waiting for state"),
        "See what it waits for (kubectl get pods -A, the console of AWS), then retry: what was made is in the state.",
    ),
)
"""Families of answers of AWS, Helm and Kubernetes, with the next step.

Source: error codes of the EC2, EKS, IAM and STS API references; hashicorp/aws v5 and v6, helm v2 and v3.
"""


def _remedy(text: str) -> str:
    """Return the next step for what a provider reports; empty for an error of no known family."""
    return next((step for expression, step in _REMEDIES if expression.search(text)), "")


def _unsaved(text: str) -> str:
    reason = backend_failure(text)
    why = "" if reason is None else f". {reason.message.rstrip('.')}"
    return f"its state could not be saved{why}"


def _ended(sentence: str) -> str:
    return sentence if not sentence or sentence.endswith((".", "!", "?", ":")) else f"{sentence}."


_OF_S3 = re.compile(r"operation error S3: (\w+),.*?StatusCode: (\d+),(.*)", re.S)
_LOGGED_OUT = re.compile(
    r"ExpiredToken|RequestExpired|InvalidAccessKeyId|InvalidToken|SignatureDoesNotMatch|No valid credential sources"
)
_BUSY, _SERVER_ERRORS = 429, 500


def backend_failure(text: str) -> ConsoleError | None:
    """Return the error of a short command whose backend in S3 does not answer or has no login; `None` for others.

    Args:
        text: What the command has printed.
    """
    flat = " ".join(text.replace("│", " ").split())
    found = _OF_S3.search(flat)
    if _LOGGED_OUT.search(flat):
        return AccessError(
            "The credentials for the Terraform state in S3 are missing or have expired.", hint="Log in again."
        )
    if found is None or not (found[2] == "0" or int(found[2]) >= _SERVER_ERRORS or int(found[2]) == _BUSY):
        return None
    why = "no answer" if found[2] == "0" else found[2]
    return UnreachableError(f"The Terraform state in S3 cannot be reached ({found[1]}: {why}).", hint="Try again.")


def _known(text: str, program: str) -> ConsoleError | None:
    """Return the error for causes that need a step of their own; `None` for all others."""
    flat = " ".join(text.replace("│", " ").split())  # plain output is wrapped and framed
    if _NO_LOCK in text:
        return backend_failure(text) or StateLockedError(read_lock(text), program=program)
    if "Saved plan is stale" in flat:
        return StalePlanError("The state has changed since the plan was made.", hint="Plan and approve again.")
    if _NO_STATE in flat:
        return NoStateError("The root has no state.")
    if any(words in flat for words in _UNINITIALISED):
        return UninitialisedError("The root is not initialised in its folder here.", hint=f"Run: {program} init.")
    if any(words in flat for words in _OTHER_PROVIDERS):
        return RefusedError(
            "The providers are not those that the root's lock file records.",
            hint=f"Correct .terraform.lock.hcl with `{program} providers lock`, or the mirror that they come from.",
        )
    if any(words in flat for words in _NO_PROVIDERS):
        return UnreachableError(
            "Terraform cannot download its providers or modules.",
            hint="Allow access to the registry, or set TF_CLI_CONFIG_FILE to a mirror.",
        )
    return None


def _cause(problems: Sequence[TerraformEvent]) -> TerraformEvent:
    own = [event for event in problems if event.message != _HALTED] or problems
    return ([event for event in own if event.address] or own)[-1]


def _silent(text: str, exit_code: int | None, progress: OperationProgress) -> str:
    """Return the cause if no event is an error: how it ended, and which changes were under way."""
    headlines = _HEADLINE.findall(text)
    if headlines:
        return str(headlines[-1])
    panics = _PANIC.findall(text)
    cause = f"it crashed: {panics[0]}" if panics else _signalled(exit_code) or _last_line(text)
    if not cause:
        cause = "it ended without a message" if exit_code is not None else "it ended, and its exit code is unknown"
    names = [change.address for change in progress.under_way]
    return f"{cause}; under way: {listed(names, _SHOWN_CHANGES)}" if names else cause


def _signalled(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return ""
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    guess = ", perhaps out of memory" if -exit_code == signal.SIGKILL else ""
    return f"it was killed ({name}){guess}"


def _last_line(text: str) -> str:
    """Return the last line of plain text that is not part of a framed warning."""
    lines = (line for line in reversed(text.splitlines()) if line.strip() and line != _ABOUT_WARNINGS)
    return next((line for line in lines if not line.startswith(("╷", "│", "╵"))), "")


def _texts(events: Sequence[TerraformEvent]) -> list[TerraformEvent]:
    return [event for event in events if event.kind is EventKind.TEXT][-200:]


def _line(detail: str) -> str:
    return " ".join(detail.split())[:300]
