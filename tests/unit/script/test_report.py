"""The report of a script."""

from __future__ import annotations

from actions.base.untrusted import KNOWN
from actions.script.report import Report, RunReport, StageReport, report_json, without_secrets

SECRET = "s3cr3t-value"


def test_no_text_of_a_report_holds_a_secret() -> None:
    KNOWN.add(SECRET, "${env:TOKEN}")
    said = (f"could not ask: {SECRET}",)
    stage = StageReport("train", "job", "failed", False, 1, None, said[0])
    run = RunReport("r", "small", "torn down", (stage,), (stage,), said, said, said)
    report = Report("eksml-report/1", "life.yaml", "failed", 3, "2026-01-01T00:00:00Z", 1.0, (), run, said)
    written = report_json(without_secrets(report))
    assert SECRET.encode() not in written
    assert written.count(b"${env:TOKEN}") == 6
