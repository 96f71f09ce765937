"""F17, D21: a stream that is torn, glued, of another version, very long; exit code and state judge an apply.

With a program that writes what a full disk leaves of a stream.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from actions.base.errors import FormatError, ToolError
from actions.terraform.driver import TerraformDriver
from actions.terraform.events import EventKind, TerraformEvent
from actions.terraform.failure import UnknownEndError
from tests.faults import roots
from tests.support.polling import until


def a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> TerraformDriver:
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text('resource "aws_eks_node_group" "x" {}\n')
    mode_file = roots.stand_in(tmp_path, monkeypatch, mode)
    return TerraformDriver(root, tmp_path / "work", {}, program=mode_file.with_name("terraform"))


async def test_an_apply_whose_last_lines_a_full_disk_has_torn_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = a_driver(tmp_path, monkeypatch, "torn")
    await driver.init()
    await driver.plan({})
    (tmp_path / "work" / "finish").touch()
    events: list[TerraformEvent] = []
    assert await driver.apply(on_event=events.append) == {}
    assert events[-1].kind is EventKind.VERSION  # glued to the torn one, and read
    assert (await driver.state()).addresses == ("aws_eks_node_group.x",)
    ended = await driver.ended()
    assert ended is not None
    assert ended.pending == ()  # it is in the state


async def test_an_adopted_apply_whose_end_was_not_observed_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = a_driver(tmp_path, monkeypatch, "torn")
    await driver.init()
    await driver.plan({})
    first = asyncio.create_task(driver.apply())
    await until(lambda: driver.running() == "apply", "the apply")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    again = TerraformDriver(tmp_path / "root", tmp_path / "work", {}, program=tmp_path / "bin" / "terraform")
    adopting = asyncio.create_task(again.apply())
    await asyncio.sleep(0)
    (tmp_path / "work" / "finish").touch()
    with pytest.raises(UnknownEndError, match="The end of terraform apply was not observed"):
        await adopting
    assert (await again.plan({})).is_empty


async def test_a_stream_of_another_major_version_is_refused_when_the_process_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = a_driver(tmp_path, monkeypatch, "ui 2")
    await driver.init()
    with pytest.raises(FormatError, match=r"version 2\.0"):
        await driver.plan({})
    assert driver.running() == ""


NOISY = """
import json, os, sys
def say(text): os.write(1, text.encode() + b"\\n")
say("plain text between")
say(json.dumps({"type": "something_new", "@message": "m"}))
sys.stdout.buffer.write(b'{"@level":"info","@message":"' + b"x" * (10 << 20) + b'","type":"log"}\\n')
sys.stdout.flush()
say("[1, 2]")
say("{\\"type\\": 7, \\"hook\\": []}")
if sys.argv[1] == "apply":
    os.write(1, b'{"@level":"error","@mess')
    sys.exit(EXIT_CODE)
"""


@pytest.mark.parametrize("code", [0, 1])
async def test_lines_of_any_kind_and_length_are_tolerated(tmp_path: Path, code: int) -> None:
    program = tmp_path / "terraform"
    program.write_text(f"#!{sys.executable} -S\n{NOISY.replace('EXIT_CODE', str(code))}")
    program.chmod(0o755)
    driver = TerraformDriver(tmp_path, tmp_path / "work", {}, program=program)
    (tmp_path / "work").mkdir()
    events: list[TerraformEvent] = []
    run = driver._run("apply", [str(program), "apply"], events.append)
    if code:
        with pytest.raises(ToolError, match="apply ended with 1"):
            await run
    else:
        await run
    assert [event.kind for event in events] == [
        EventKind.TEXT, EventKind.OTHER, EventKind.LOG, EventKind.TEXT, EventKind.OTHER, EventKind.TEXT
    ]  # fmt: skip
    assert len(events[2].message) <= 2000
