"""Logs of trainings that really ended so, over two H100: each has its true cause first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.diagnose.samples import codes, is_quoted, why
from tests.unit.diagnose.troubles import ended

LOGS = Path(__file__).parents[2] / "fixtures" / "h100x2"


def log_of(name: str) -> str:
    return (LOGS / f"log_{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("oom", "GPU_OOM", "asked 8.00 GiB, free 5.00 GiB, total 79.18 GiB"),
        ("hang", "NCCL_TIMEOUT", "(number 55) did not end for 15 seconds"),
        ("kill", "KILLED_SIGKILL", "rank 1 was killed (SIGKILL)"),
        ("segv", "JOB_FAILED", "rank 1 crashed in native code (SIGSEGV)"),
        ("full", "NODE_DISK_FULL", "A checkpoint could not be written whole"),
        ("ifname", "NCCL_NO_INTERFACE", "NCCL_SOCKET_IFNAME names none that the pod has"),
        ("toomany", "GPU_RUNTIME", "More ranks are started"),
        ("assert", "GPU_APP_FAULT", "A GPU kernel of the program made an illegal access"),
        ("mismatch", "JOB_FAILED", "Detected mismatch between collectives on ranks"),
        ("unused", "JOB_FAILED", "parameters that were not used in producing loss"),
    ],
)
def test_the_true_cause_comes_first(name: str, code: str, words: str) -> None:
    document = ended(log_of(name))
    first, *others = why(document)
    assert first.code.value == code
    assert words in first.headline
    assert first.evidence
    assert all(is_quoted(quote, document) for quote in first.evidence)
    assert not [one for one in others if one.severity is first.severity]


def test_ranks_of_one_machine_need_no_network() -> None:
    """NCCL sets up sockets there too; its ranks exchange everything over NVLink."""
    log = log_of("one_node_nccl_info")
    assert codes({"logs": log}) == []
    assert codes({"logs": log.replace("nNodes 1", "nNodes 2")}) == ["EFA_NOT_USED"]
