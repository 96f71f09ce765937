"""Lists in pages: what is kept of a page is decided before the next one is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from actions.base.errors import FormatError
from actions.cluster.auth.session import KubeSession
from actions.cluster.diagnose.collect import _of_interest
from actions.cluster.objects.client import list_pages, read_item


class Pages:
    """A session that answers with one page after the other."""

    server = "http://here"

    def __init__(self, *pages: object) -> None:
        self._pages = [json.dumps(page).encode() for page in pages]
        self.asked: list[Mapping[str, str]] = []

    async def request(self, method: str, path: str, *, query: Mapping[str, str], accept: str) -> bytes:
        assert (method, path, accept) == ("GET", "/api/v1/pods", "application/json")
        self.asked.append(dict(query))
        return self._pages.pop(0)


def a_pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "managedFields": [{"manager": "kubelet"}] * 500}}


async def listed(session: Pages, **arguments: Any) -> list[dict[str, Any]]:
    return await list_pages(cast(KubeSession, session), "/api/v1/pods", **arguments)


async def test_pages_are_read_through_and_a_list_of_nothing_may_be_null() -> None:
    many = [a_pod(str(number)) for number in range(500)]
    session = Pages({"items": many, "metadata": {"continue": "t"}}, {"items": None, "metadata": {}})
    assert await listed(session) == many
    assert session.asked == [{"limit": "500"}, {"limit": "500", "continue": "t"}]


async def test_of_each_page_only_wanted_objects_are_kept() -> None:
    held: list[int] = []

    async def take(few: list[msgspec.Raw]) -> list[dict[str, Any]]:
        held.append(len(few))
        return [_of_interest(read_item(raw)) for raw in few]

    many = [a_pod(str(number)) for number in range(500)]
    session = Pages({"items": many, "metadata": {"continue": "t"}}, {"items": [a_pod("last")]})
    found = await listed(session, take=take)
    assert held == [500, 1]
    assert found[-1] == {"metadata": {"name": "last", "uid": "last"}}
    assert all("managedFields" not in item["metadata"] for item in found)


@pytest.mark.parametrize("page", [{}, [], {"items": {}}, {"items": [1]}, {"items": "x"}, "text", None])
async def test_what_is_no_list_is_told_with_its_address(page: object) -> None:
    with pytest.raises(FormatError, match="http://here/api/v1/pods did not answer with a list of objects"):
        await listed(Pages(page))
