"""Clusters as kubectl prints them, in trouble and out of it: what is said first, and what must not be said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actions.cluster.diagnose.engine import diagnose, diagnose_each
from actions.cluster.diagnose.parse_input import parse_evidence
from tests.unit.diagnose.samples import Document, is_quoted

_FILE = Path(__file__).parents[2] / "fixtures" / "diagnose" / "clusters.jsonl"
CLUSTERS: list[Document] = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=[cluster["name"] for cluster in CLUSTERS])
def test_the_cause_comes_first_and_nothing_misleads(cluster: Document) -> None:
    document = cluster["document"]
    case, is_one = parse_evidence(json.dumps(document).encode())
    found = diagnose(case) if is_one else diagnose_each(case)
    codes = [one.code.value for one in found]
    first = codes[0] if codes else "none"
    only_info = "info" in cluster["codes"] and all(one.severity.value == "info" for one in found)
    assert first in cluster["codes"] or only_info, codes
    assert not set(codes) & set(cluster["forbidden"])
    assert all(is_quoted(quote, document) for one in found for quote in one.evidence)
