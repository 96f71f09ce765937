"""The home of runs that tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stores import Proxy, a_home


@pytest.fixture(scope="module")
def served() -> Iterator[Proxy]:
    """A proxy before the account that has the home."""
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def home(served: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The home, in the environment of this test; the variables are those of its proxy."""
    served.use(monkeypatch)
    return served
