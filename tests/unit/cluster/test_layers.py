"""Pictures of a large mapping: each stays what it was, whatever comes after it."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from actions.cluster.state.snapshot import SnapshotBuilder


def test_every_picture_stays_equal_to_the_mapping_of_its_moment() -> None:
    dice = random.Random(11)
    live: dict[str, int] = {}
    pictures = SnapshotBuilder(live)
    kept: list[tuple[Mapping[str, int], dict[str, int]]] = []
    for step in range(30_000):
        key = f"k{dice.randrange(8_000)}"
        if dice.random() < 0.2:
            if live.pop(key, None) is not None:
                pictures.changed(key, None)
        else:
            live[key] = step
            pictures.changed(key, step)
        if step % 1_500 == 0:
            kept.append((pictures.take(), dict(live)))
    for picture, expected in kept:
        assert dict(picture) == expected
        assert len(picture) == len(expected)
        assert dict(picture.items()) == expected
        assert sorted(picture.values()) == sorted(expected.values())


def test_a_key_that_is_gone_is_not_there() -> None:
    live = {str(number): number for number in range(5_000)}
    pictures = SnapshotBuilder(live)
    for key, value in live.items():
        pictures.changed(key, value)
    whole = pictures.take()
    del live["7"]
    pictures.changed("7", None)
    picture = pictures.take()
    assert "7" in whole
    assert "7" not in picture
    assert picture.get("7") is None
    with pytest.raises(KeyError):
        picture["7"]


def test_a_picture_of_few_changes_shares_the_rest() -> None:
    live = {str(number): number for number in range(50_000)}
    pictures = SnapshotBuilder(live)
    for key, value in live.items():
        pictures.changed(key, value)
    pictures.take()
    live["1"] = -1
    pictures.changed("1", -1)
    first, second = pictures.take(), pictures.take()
    assert not isinstance(first, dict)
    assert first["1"] == second["1"] == -1
