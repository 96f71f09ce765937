"""The audit's judgement of what the cluster has begun to delete."""

from __future__ import annotations

import pytest

from actions.run.objects.ownership import ClassifiedObject, Entry, Ownership
from actions.run.teardown.audit import Left


def left(*entries: Entry) -> Left:
    judged = tuple(ClassifiedObject(entry, Ownership.MADE) for entry in entries)
    return Left(judged, (), {entry.uid: entry.kind.lower() for entry in entries})


def pod(*, is_going: bool = True, finalizers: tuple[str, ...] = ()) -> Entry:
    return Entry("", "Pod", "ml", "launcher-x", uid="1", is_going=is_going, finalizers=finalizers)


@pytest.mark.parametrize(
    ("found", "only_ends"),
    [
        (left(), False),
        (left(pod()), True),
        (left(pod(finalizers=("example.com/hold",))), False),
        (left(pod(is_going=False)), False),
        (left(pod(), Entry("", "Secret", "ml", "s", uid="2")), False),
    ],
    ids=["nothing", "ends", "is held", "is left", "one of two"],
)
def test_only_what_nothing_holds_is_given_longer(found: Left, only_ends: bool) -> None:
    assert found.only_ends(frozenset()) is only_ends


def test_what_is_kept_with_its_data_does_not_count() -> None:
    volume = Entry("", "PersistentVolumeClaim", "ml", "data", uid="2")
    assert left(pod(), volume).only_ends(frozenset({"persistentvolumeclaim"}))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (pod(), "Pod ml/launcher-x: is being deleted; remove: kubectl delete pod launcher-x -n ml"),
        (
            pod(finalizers=("example.com/hold",)),
            "Pod ml/launcher-x: is being deleted, held by example.com/hold; remove",
        ),
        (pod(is_going=False), "Pod ml/launcher-x; remove: "),
    ],
    ids=["ends", "is held", "is left"],
)
def test_a_leftover_says_that_it_is_being_deleted_and_what_holds_it(entry: Entry, words: str) -> None:
    (line,) = left(entry).report(frozenset()).leftovers
    assert line.startswith(words)
