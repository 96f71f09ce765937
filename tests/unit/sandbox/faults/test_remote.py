"""Faults in the words of a command line."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from actions.base.errors import InputError, UnreachableError
from actions.sandbox.faults.client import control_faults, read_fault
from actions.sandbox.faults.fault import FaultKind
from actions.sandbox.kubelet.agent import Kubelet
from actions.sandbox.model.options import SandboxOptions
from actions.sandbox.server import SandboxParts, serving


def test_settings_are_read_by_their_names() -> None:
    fault = read_fault(["kind=cut", "resources=pods,jobs", "after-bytes=7", "seconds=1.5", "in-stream=true"])
    assert fault.kind is FaultKind.CUT
    assert fault.resources == ("pods", "jobs")
    assert (fault.after_bytes, fault.seconds, fault.in_stream) == (7, 1.5, True)


@pytest.mark.parametrize("word", ["earthquake", "kind=earthquake", "colour=red", "count=many"])
def test_what_is_no_setting_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(InputError) as refusal:
        read_fault([word])
    assert "kind=throttled" in refusal.value.hint


async def test_words_change_the_panel_of_another_process(tmp_path: Path) -> None:
    options = SandboxOptions()
    async with serving(tmp_path, options, SandboxParts(Kubelet(options))) as server:

        async def told(*words: str) -> list[str]:
            return [fault.line() for fault in await asyncio.to_thread(control_faults, server.kubeconfig, words)]

        assert await told("kind=throttled", "resources=pods", "count=3") == [
            "throttled            throttled      any verb on pods: 0 of 3 hits"
        ]
        assert len(await told("overloaded")) == 2
        assert len(await told()) == 3
        with pytest.raises(InputError, match="no fault nothing"):
            await told("clear", "nothing")
        assert len(await told("clear", "throttled")) == 2
        assert await told("clear") == []


async def test_a_sandbox_that_is_not_there_is_named(tmp_path: Path) -> None:
    options = SandboxOptions()
    async with serving(tmp_path, options, SandboxParts(Kubelet(options))) as server:
        pass
    with pytest.raises(UnreachableError, match=re.escape(server.url)):
        control_faults(server.kubeconfig, [])
