"""Lines that are JSON objects are laid out with everything that is in them, and nothing that their escapes hide."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.telemetry.json_lines import JsonLine, read_json_line


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            '{"level":"info","ts":1700000000.5,"caller":"a.go:1","msg":"started","job":"train"}',
            ("", "INFO", "started", "caller=a.go:1 job=train ts=1700000000.5"),
        ),
        (
            '{"severity": "ERROR", "message": "lost\\nTraceback", "rank": 3}',
            ("", "ERROR", "lost Traceback", "rank=3"),
        ),
        (
            '[rank0]: {"event": "step", "loss": NaN, "lr": 1e-4, "level": "warning"}',
            ("[rank0]: ", "WARNING", "step", "loss=NaN lr=1e-4"),
        ),
        ('{"log.level":"debug","http":{"a":{"b":1}},"l":[1,"x y"]}', ("", "DEBUG", "", 'http.a.b=1 l=[1,"x y"]')),
        ('{"level":30,"msg":"of pino"}', ("", "", "of pino", "level=30")),
        ('{"a":"","a":"x y","n":null,"t":true}', ("", "", "", 'a="" a="x y" n=null t=true')),
    ],
)
def test_a_line_is_laid_out(line: str, wanted: tuple[str, str, str, str]) -> None:
    read = read_json_line(line)

    assert read is not None
    assert (read.prefix, read.level, read.message, " ".join(f"{name}={value}" for name, value in read.fields)) == wanted


@pytest.mark.parametrize(
    "line",
    ["", "{}", "[1]", "{'loss': 2.5}", '{"a": 1} and more', "{" * 4000 + "}"]
    + ['{"a":' * depth + "1" + "}" * depth for depth in (900, 3000)],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert read_json_line(line) is None


def test_escapes_bring_no_control_and_no_credential_back() -> None:
    key = "AKIA" + "Q" * 16
    hidden = "".join(f"\\u{ord(character):04x}" for character in key)
    read = read_json_line(f'{{"msg":"\\u001b[2Jcleared \\u0007","k\\u001b[1m":"{hidden}","o":["\\u001b]0;x\\u0007"]}}')

    assert read is not None
    assert read.message == "cleared"
    assert read.fields[0] == ("k", "«redacted»")
    assert "\x1b" not in repr(read)
    assert "\\x1b" not in repr(read)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), _VALUES, min_size=1, max_size=6))
def test_every_object_is_laid_out_on_one_line(document: dict[str, object]) -> None:
    read = read_json_line(json.dumps(document))

    assert isinstance(read, JsonLine)
    assert all(part.isprintable() for _, part in read.fields if part.isascii())
