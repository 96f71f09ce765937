"""Names of Kubernetes objects, and what they become in a path.

Source: k8s.io/apimachinery `pkg/util/validation/validation.go` and `pkg/api/validation/path/name.go`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from actions.base.errors import RefusedError

_LABEL_FORM = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_MOST_LABEL: Final = 63
_MOST_NAME: Final = 253
_UNESCAPED = "!$&'()*+,;=:@~"
_PATH_FORM = re.compile(rf"(?:/(?:[A-Za-z0-9._{re.escape(_UNESCAPED)}-]|%[0-9A-Fa-f]{{2}})+)+")


def is_label(name: str) -> bool:
    """Return whether it is an RFC 1123 label: what namespaces are called."""
    return len(name) <= _MOST_LABEL and _LABEL_FORM.fullmatch(name) is not None


def is_subdomain(name: str) -> bool:
    """Return whether it is an RFC 1123 subdomain: what most objects are called."""
    return len(name) <= _MOST_NAME and all(_LABEL_FORM.fullmatch(part) for part in name.split("."))


def is_segment(name: str) -> bool:
    """Return whether it can be one segment of a path: all that roles and their bindings need."""
    return 0 < len(name) <= _MOST_NAME and name not in (".", "..") and name.isprintable() and not set("/%") & {*name}


def segment(name: str) -> str:
    """Return a name, quoted, as one segment of a path.

    Raises:
        RefusedError: It would be something else there.
    """
    if not is_segment(name):
        raise RefusedError(f"{name[:60]!r} is not a name of an object.", hint="Correct the name.")
    return quote(name, safe=_UNESCAPED)


def require_path(path: str) -> str:
    """Return the path if it can be sent as it is: no `..`, no query, no fragment.

    Raises:
        RefusedError: It goes up, or holds what belongs to other parts of a request.
    """
    if _PATH_FORM.fullmatch(path) is None or any(unquote(part) in (".", "..") for part in path.split("/")):
        raise RefusedError(f"{path[:80]!r} is not a path of an API server.", hint="Correct the names in it.")
    return path
