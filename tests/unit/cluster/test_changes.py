"""The keys that differ between two snapshots, and when they are not known."""

from __future__ import annotations

from actions.cluster.state.snapshot import ChangeLog, ClusterSnapshot, SnapshotChanges


def _log(*steps: tuple[int, int, str]) -> ChangeLog:
    log = ChangeLog()
    for before, after, pod in steps:
        log.pod(pod)
        log.node(f"node of {pod}")
        log.close(before, after)
    return log


def test_steps_between_two_pictures_add_up() -> None:
    log = _log((0, 3, "a"), (3, 4, "b"), (4, 9, "c"))
    assert log.between(3, 9) == SnapshotChanges(frozenset({"node of b", "node of c"}), frozenset("bc"))
    assert log.between(3, 4) == SnapshotChanges(frozenset({"node of b"}), frozenset("b"))
    assert log.between(9, 9) == SnapshotChanges(frozenset(), frozenset())


def test_a_picture_older_than_what_is_remembered_is_not_known() -> None:
    log = _log(*((step, step + 1, str(step)) for step in range(200)))
    assert log.between(0, 200) is None
    assert log.between(190, 200) is not None


def test_a_step_that_changed_most_of_the_cluster_is_not_remembered() -> None:
    log = ChangeLog()
    for index in range(20_000):
        log.pod(str(index))
    log.close(0, 20_000)
    log.pod("one")
    log.close(20_000, 20_001)
    assert log.between(0, 20_001) is None
    assert log.between(20_000, 20_001) == SnapshotChanges(frozenset(), frozenset({"one"}))


def test_pictures_of_two_sources_are_not_compared() -> None:
    log = _log((0, 1, "a"))
    older, newer = ClusterSnapshot(revision=0, history=log), ClusterSnapshot(revision=1, history=log)
    assert newer.changes_since(older) is not None
    assert newer.changes_since(None) is None
    assert newer.changes_since(ClusterSnapshot()) is None


def test_what_is_not_shown_yet_belongs_to_the_next_step_too() -> None:
    log = ChangeLog()
    log.pod("half")
    log.close(0, 1, is_held=True)
    log.pod("rest")
    log.close(1, 2)
    log.close(2, 3)
    assert log.between(1, 2) == SnapshotChanges(frozenset(), frozenset({"half", "rest"}))
    assert log.between(2, 3) == SnapshotChanges(frozenset(), frozenset())
