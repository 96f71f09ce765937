"""`eksml-tui runs export`, broken off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actions.cluster.objects.client import ObjectRef
from actions.run.results import Copy
from tui.cli import runs
from tui.cli.arguments import parse_arguments

COPY = Copy(ObjectRef("batch/v1", "Job", "default", "eksml-export-1"), "uid-1", was_there=False)


@pytest.mark.parametrize("is_begun", [True, False])
def test_ctrl_c_says_that_a_copy_that_was_begun_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, is_begun: bool
) -> None:
    async def interrupted(*_given: object, **named: Any) -> str:
        if is_begun:
            named["on_begin"](COPY, COPY.sentence("/data", "s3://bucket"))
        raise KeyboardInterrupt

    monkeypatch.setattr("actions.run.results.export_results", interrupted)
    monkeypatch.setattr(runs, "_entered", lambda _options: tmp_path)

    with pytest.raises(KeyboardInterrupt):
        runs.run(parse_arguments(["runs", "export", "latest", "--to", "s3://bucket"]))

    said = capsys.readouterr().out
    assert ("copies /data to s3://bucket, also if this program ends; kubectl delete -n default" in said) == is_begun
    assert ("Job default/eksml-export-1 continues; run the same command again to see its progress." in said) == is_begun
