"""The read-only mode of this process, set by `--readonly`.

It is checked at the place of each change, below all keys, verbs and stages: requests to a cluster, calls to AWS,
Terraform's apply and destroy, requests to runs. It does not reach processes that are started: a read-only console
starts none that change anything.
"""

from __future__ import annotations

from actions.base.errors import RefusedError


class _Promise:
    is_given = False


_promise = _Promise()


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
