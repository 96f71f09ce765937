"""A path in a container, as a shell there is to see it."""

from __future__ import annotations

from actions.cluster.logs.pod_file import quoted_glob


def test_a_path_keeps_its_wildcards_and_nothing_else_for_the_shell() -> None:
    assert quoted_glob("/shared/*/0/log") == "/shared/*/0/log"
    assert quoted_glob("/a b/$(x)*") == "'/a b/$(x)'*"
