"""A file's ending chooses its format, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import ConfigError
from tui.settings.settings import form_of

CURVES = {".svg": "svg", ".png": "png", ".txt": "plot", ".tar.gz": "tar"}


@pytest.mark.parametrize(
    ("name", "chosen", "form"),
    [("c.png", "", "png"), ("c.svg", "svg", "svg"), ("c", "", "svg"), ("c", "png", "png"), ("a.b.tar.gz", "", "tar")],
)
def test_the_ending_chooses(name: str, chosen: str, form: str) -> None:
    assert form_of(Path(name), CURVES, chosen) == form


@pytest.mark.parametrize(
    ("name", "chosen", "wanted"),
    [("c.tar", "", "one of .svg, .png, .txt, .tar.gz"), ("c.png", "svg", ".svg"), ("c.jpeg", "png", ".png")],
)
def test_another_ending_is_refused_with_those_that_do(name: str, chosen: str, wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        form_of(Path(name), CURVES, chosen)
