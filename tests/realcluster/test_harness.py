"""Parts of the harness that can be tried without a cluster."""

from __future__ import annotations

import base64
from pathlib import Path

from actions.sandbox.kubelet.log_file import LogFile
from tests.realcluster.harness.authenticator import status_of
from tests.realcluster.harness.crilog import CriLog, RunMarker
from tests.realcluster.harness.parts import PARTS
from tests.realnode.harness import parts as realnode


def a_token(url: str, *, prefix: str = "k8s-aws-v1.") -> str:
    return prefix + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def test_a_signed_question_bound_to_a_cluster_is_the_operators() -> None:
    signed = "https://sts.example/?Action=GetCallerIdentity&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id"
    assert status_of(a_token(signed))["authenticated"] is True
    for other in (a_token(signed, prefix=""), a_token("https://sts.example/?Action=Other"), "k8s-aws-v1.é", "", "x"):
        assert status_of(other)["authenticated"] is False


def test_lines_are_written_as_a_runtime_writes_them(tmp_path: Path) -> None:
    written = CriLog(tmp_path / "pod" / "main-0.log")
    log = LogFile(iter(range(1_000_000_000, 1_000_000_100)).__next__, written.append)
    log.write(b"one\ntw")
    log.write(b"o\n" + b"x" * 20_000)
    log.close()
    written.close()
    lines = written.path.read_bytes().splitlines()
    assert lines[0] == b"1970-01-01T00:00:01Z stdout F one"
    assert lines[1] == b"1970-01-01T00:00:01.000000001Z stdout F two"
    assert [line.split(b" ", 3)[2] for line in lines[2:]] == [b"P", b"F"]


def test_a_marker_tells_instance_and_end(tmp_path: Path) -> None:
    marker = RunMarker(tmp_path / "pod" / "main.run")
    marker.running(2)
    assert (tmp_path / "pod" / "main.run").read_text() == "2"
    marker.ended(2)
    assert (tmp_path / "pod" / "main.run").read_text() == "2 ended"


def test_every_part_is_pinned_with_its_hashes() -> None:
    for part in (*PARTS, *realnode.PARTS, *realnode.PARTS_OF_TODAY):
        assert (part.folder / "go.mod").exists()
        assert (part.folder / "go.sum").exists() or part.module == "certificates"  # it needs nothing
