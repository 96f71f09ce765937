"""Acting as somebody else: what a kubeconfig's user says of it, as kubectl understands it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from actions.base.errors import ConfigError


class Impersonation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom the API server takes us for; with an empty `user` for ourselves. Encodes to a kubeconfig's fields."""

    user: str = msgspec.field(default="", name="as")
    uid: str = msgspec.field(default="", name="as-uid")
    groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="as-user-extra")

    def headers(self) -> tuple[tuple[str, str], ...]:
        """What every request says; a name may come several times."""
        several = [("Group", group) for group in self.groups]
        several += [
            (f"Extra-{quote(key.lower(), safe='')}", one) for key, values in self.extra.items() for one in values
        ]
        single = [(name, value) for name, value in (("User", self.user), ("Uid", self.uid)) if value]
        return tuple((f"Impersonate-{name}", value) for name, value in (*single, *several))


def read_impersonation(user: Mapping[str, Any], *, where: str) -> Impersonation:
    """Of a kubeconfig's user entry.

    Args:
        user: The entry.
        where: The file and the user's name, for messages.

    Raises:
        ConfigError: It is not right, or cannot be sent.
    """
    given = {key: value for key, value in user.items() if key.startswith("as") and value}
    try:
        read = msgspec.convert(given, Impersonation, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: what it says of impersonation is not right: {error}.") from error
    headers = read.headers()
    if headers and not read.user:
        raise ConfigError(f"{where}: as-uid, as-groups and as-user-extra need `as`.")
    if not all(value.isascii() and value.isprintable() for _, value in headers):
        raise ConfigError(f"{where}: whom to act as can only be said in printable ASCII.")
    return read
