"""Every captured trouble gets its code first, its evidence quoted, and nothing that would mislead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.diagnose.samples import expected_of, is_quoted, load, samples, why


@pytest.mark.parametrize("path", samples(), ids=lambda path: path.stem)
def test_a_sample_is_read_as_a_person_would_read_it(path: Path) -> None:
    document, expected = load(path), expected_of(path)
    found = why(document)
    said = [one.code.value for one in found]
    assert said, "nothing is said"
    assert (said[0], found[0].severity.value) == (expected["code"], expected["severity"])
    assert not set(said) & set(expected.get("must_not_say", ()))
    for piece in expected["evidence"]:
        assert any(piece in quote for quote in found[0].evidence), piece
    for one in found:
        assert one.headline
        assert one.next_step
        assert all(is_quoted(quote, document) for quote in one.evidence)


def test_there_are_samples() -> None:
    assert len(samples()) >= 20
