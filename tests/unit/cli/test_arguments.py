"""The command line, where argparse alone would be too strict."""

from __future__ import annotations

import pytest

from tui.cli.arguments import parse_arguments
from tui.cli.streams import speaks_unicode


@pytest.mark.parametrize(
    "words", [["workers=4", "--preset", "short"], ["--preset", "short", "workers=4"], ["--preset=short", "workers=4"]]
)
def test_parameters_of_a_plan_stand_before_or_after_its_options(words: list[str]) -> None:
    options = parse_arguments(["plan", "bionemo-esm1nv", *words])
    assert (options.blueprint, options.preset, options.set) == ("bionemo-esm1nv", "short", ["workers=4"])


@pytest.mark.parametrize("words", [["plan", "x", "--presett", "short"], ["nodes", "extra"]])
def test_what_is_not_known_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words)
    assert ended.value.code == 2
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "speaks"),
    [
        ({}, True),
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "C.utf8", "LANG": "C"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "", "LC_CTYPE": "POSIX"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
    ],
)
def test_a_locale_that_names_no_unicode_has_none(environment: dict[str, str], speaks: bool) -> None:
    assert speaks_unicode(environment) is speaks
