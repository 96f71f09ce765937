"""The read-only mode of this process, set by `--readonly`.

It is checked at the place of each change, below all keys, verbs and stages: requests to a cluster, calls to AWS,
Terraform's apply and destroy, requests to runs. It does not reach processes that are started: a read-only console
starts none that change anything. In a container it has only reading commands carried out, which are named where they
are written.
"""

from __future__ import annotations

from actions.base.errors import RefusedError


class _Promise:
    is_given = False


_promise = _Promise()


_reading_commands = set[tuple[str, ...]]()


def reading_command(*argv: str) -> tuple[str, ...]:
    """Return a fixed command that changes nothing in a container, after noting that a read-only session may run it."""
    _reading_commands.add(argv)
    return argv


def is_reading_command(argv: tuple[str, ...]) -> bool:
    """Return whether a command is exactly one of those."""
    return argv in _reading_commands


def promise_readonly() -> None:
    """Change nothing from here on."""
    _promise.is_given = True


def is_readonly() -> bool:
    """Return whether this process has promised to change nothing."""
    return _promise.is_given


def refuse_if_readonly(deed: str) -> None:
    """Refuse a deed that changes something.

    Args:
        deed: What is refused, as the sentence's subject: `terraform apply`.

    Raises:
        RefusedError: The promise has been given.
    """
    if _promise.is_given:
        raise RefusedError(f"This program is read-only: {deed} was not carried out.", hint="Start without --readonly.")
