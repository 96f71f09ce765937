"""`eksml-tui queues JOB`: the sentence about its place, with what is before it."""

from __future__ import annotations

import pytest

from actions.cluster.queues import QueueList, queues_of
from tests.unit.cluster.test_queues import CLUSTER_QUEUE, OTHERS, WORK
from tui.cli.tables.queues import _places_text, _queues_text

ALL = "ml/job-late is number 3 in queue team.\n  1. ml/job-urgent\n  2. ml/job-early\n"
PART = ALL.replace("team.", "team, of what may be seen.")
TOLD = "ml/job-late is number 5 in queue team.\n  - ml/job-urgent\n  - ml/job-early\n  - 2 more that may not be seen\n"


@pytest.mark.parametrize(
    ("told", "is_part", "text"),
    [
        ({}, False, ALL),
        ({}, True, PART),
        ({"ml/job-urgent": 2, "ml/job-early": 4, "ml/job-late": 5}, True, TOLD),
    ],
    ids=["of all", "of what is seen", "by Kueue"],
)
def test_a_place_is_that_in_the_whole_queue_or_says_of_what(told: dict[str, int], is_part: bool, text: str) -> None:
    found = QueueList(queues_of([CLUSTER_QUEUE, *OTHERS, *WORK], told, is_part=is_part))
    assert _places_text(found, found.places_of("Job", "ml", "late")) == text


def test_work_of_a_queue_that_is_not_known_waits_without_a_place() -> None:
    found = QueueList(queues_of(WORK[-1:], {}))
    assert _places_text(found, found.places_of("Job", "ml", "lost")) == "ml/job-lost is pending in queue nowhere.\n"
    (_, row, *_) = _queues_text(found).splitlines()
    assert row.split() == ["?", "Kueue", "-", "-", "-", "-", "-", "-", "0", "1", "not", "seen"]
