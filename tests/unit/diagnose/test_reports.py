"""Troubles in the words of public reports: code, what headline and next step say, and what they must not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actions.cluster.diagnose.engine import answer
from actions.cluster.diagnose.parse_input import parse_evidence
from tests.unit.diagnose.samples import Document, is_quoted

_FILE = Path(__file__).parents[2] / "fixtures" / "diagnose" / "reports.jsonl"
REPORTS: list[Document] = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("report", REPORTS, ids=[report["name"] for report in REPORTS])
def test_headline_and_remedy_follow_from_the_evidence(report: Document) -> None:
    document = report["document"]
    case, is_one = parse_evidence(json.dumps(document).encode())
    found = answer(case, is_one=is_one)
    assert found
    said = f"{found[0].headline} {found[0].next_step}"
    assert found[0].code.value == report["code"], said
    assert [words for words in report["says"] if words not in said] == []
    assert [words for words in report["never"] for one in found if words in one.headline + one.next_step] == []
    assert all(is_quoted(quote, document) for one in found for quote in one.evidence)
