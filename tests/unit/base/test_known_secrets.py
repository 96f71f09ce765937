"""A known secret is found however it is written."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.base.untrusted import KnownSecrets, redact

VALUE = 'pa ss/"wörd"<&>%'


def _known(value: str = VALUE) -> KnownSecrets:
    known = KnownSecrets()
    known.add(value, "${env:NAME}")
    return known


@pytest.mark.parametrize(
    "written",
    [
        VALUE, repr(VALUE)[1:-1], json.dumps(VALUE)[1:-1], json.dumps(VALUE, ensure_ascii=False)[1:-1], quote(VALUE),
        quote(VALUE, safe=""), quote_plus(VALUE), quote(VALUE).lower(), html.escape(VALUE),
        html.escape(VALUE, quote=False), base64.b64encode(VALUE.encode()).decode(),
    ],
)  # fmt: skip
def test_every_form_is_replaced_by_what_was_written(written: str) -> None:
    assert _known().hide(f"before {written} behind") == "before ${env:NAME} behind"


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_base64_of_something_longer_shows_no_part_of_it(before: bytes, behind: bytes) -> None:
    value = "a-secret-of-some-length"
    encoded = base64.b64encode(before + value.encode() + behind).decode()
    hidden = _known(value).hide(encoded)
    assert "${env:NAME}" in hidden
    rest = hidden.replace("${env:NAME}", "")
    assert len(rest) <= len(encoded) - len(value.encode()) * 8 // 6 + 2


def test_lines_of_a_secret_are_secrets_and_so_is_it_on_one_line() -> None:
    known = _known("first-of-the-lines\nsecond-of-the-lines\nend")
    assert known.hide("second-of-the-lines") == "${env:NAME}"
    assert known.hide("first-of-the-lines second-of-the-lines end") == "${env:NAME}"
    assert known.hide("end") == "end"


def test_the_longer_of_two_is_meant_where_both_begin() -> None:
    known = _known("secret")
    known.add("secret-and-more", "file:/more")
    assert known.hide("secret secret-and-more") == "${env:NAME} file:/more"


@pytest.mark.parametrize("value", ["", "abc"])
def test_what_is_too_short_stays(value: str) -> None:
    assert _known(value).hide("abc abcd") == "abc abcd"


def test_spans_are_where_they_stand() -> None:
    assert list(_known("secret").spans("a secret, a secret")) == [(2, 8), (12, 18)]


def test_redaction_of_all_messages_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    known = _known("not-like-any-credential")
    monkeypatch.setattr("actions.base.untrusted.KNOWN", known)
    assert redact("it was not-like-any-credential") == "it was ${env:NAME}"
