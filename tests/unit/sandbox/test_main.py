"""The sandbox process, before it serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.sandbox import __main__


def test_an_installation_without_the_extra_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(__main__, "find_spec", lambda _name: None)
    monkeypatch.setattr("sys.argv", ["sandbox", "--state", str(tmp_path / "state")])
    assert __main__.main() == 1
    assert capsys.readouterr().err == (
        'The embedded cluster needs the package cryptography. Install it: uv tool install "eksml-tui[demo]".\n'
    )
    assert not (tmp_path / "state").exists()
