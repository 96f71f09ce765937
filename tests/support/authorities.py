"""The authorities of the system: kept from the tests, and given to a program that downloads for them."""

from __future__ import annotations

import os
from collections.abc import Mapping

_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_KEPT = "TESTS_SYSTEM_"


def forget_authorities() -> None:
    """Name no authorities in this process' environment; workers that it starts find what was there before."""
    for name in _NAMES:
        os.environ.setdefault(f"{_KEPT}{name}", os.environ.get(name, ""))
        os.environ[name] = os.devnull


def downloading_environment() -> Mapping[str, str]:
    """Return this process' environment, with the authorities of the system."""
    known = {name: os.environ.get(f"{_KEPT}{name}", "") for name in _NAMES}
    rest = {name: value for name, value in os.environ.items() if name not in _NAMES}
    return rest | {name: value for name, value in known.items() if value}
