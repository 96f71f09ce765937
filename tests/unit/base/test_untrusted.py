"""Foreign text loses every control but colours, carriage returns, tabs and line ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.base.untrusted import REDACTED, clean_text, one_line, plain_text, redact

ATTACKS = [
    "\x1b]0;PWNED\x07",
    "\x1b]0;PWNED\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]8;;http://x\x1b\\",
    "\x1b[2J",
    "\x1b[6n",
    "\x1b[?1049h",
    "\x1bP1$r0m\x1b\\",
    "\x1b_Ga=T\x1b\\",
    "\x1b^x\x1b\\",
    "\x1bX x\x1b\\",
    "\x1bc",
    "\x9b2J",
    "\x9d0;x\x9c",
    "\x07\x00\x08",
    "\u202e\u200b\ufeff",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_control_sequence_leaves_nothing(attack: str) -> None:
    assert clean_text(f"a{attack}b") == "ab"


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_sequence_that_is_cut_off_leaves_no_control(attack: str) -> None:
    for length in range(1, len(attack)):
        assert not set(clean_text(attack[:length])) & set("\x1b\x07\x9b\x9d\x90\x9c\x00\x08")


def test_colours_and_line_controls_stay() -> None:
    text = "\x1b[1;31mred\x1b[0m\t10%\r20%\n"
    assert clean_text(text) == text
    assert plain_text(text) == "red\t10% 20%\n"


@given(st.text(alphabet=st.sampled_from("\x1b[]P_;0m2Jc\x07\x9b\x9c\\ab\n\r")))
def test_whatever_comes_in_no_escape_but_a_colour_goes_out(text: str) -> None:
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned
    assert "\x1b" not in plain_text(text)


def test_credentials_are_replaced() -> None:
    for secret in (
        "k8s-aws-v1.aHR0cHM6Ly9zdHMudXMtd2VzdC0y",
        "AKIAIOSFODNN7EXAMPLE",
        "hf_abcdefghijklmnopqrstuvwx",
        "nvapi-abcdefghijklmnopqrstuvwx",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln",
    ):
        assert redact(f"token {secret}, done") == f"token {REDACTED}, done"
    assert redact("nothing secret: hf_short") == "nothing secret: hf_short"


def test_one_line_is_short_and_single() -> None:
    assert one_line("a\n b\r\nc") == "a b c"
    assert one_line("x" * 50, limit=10) == "x" * 9 + "…"
