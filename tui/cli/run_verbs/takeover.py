"""`eksml-tui runs takeover`: a run of another machine becomes this machine's."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.untrusted import plain_text
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from tui.cli.target import ChosenTarget, chosen_target, require_target

if TYPE_CHECKING:
    from actions.run.takeover.takeover import Takeover


def take_over(options: Namespace) -> int:
    """Take a run over from its store.

    Raises:
        ConsoleError: It cannot be taken over, or was not confirmed; see `take_over_run`.
    """
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3
    done = asyncio.run(_taken_over(options, chosen))
    if done.left_out:
        _say("Left alone:")
    for line in done.left_out:
        _say(f"  {line}")
    for sentence in done.sentences:
        _say(sentence)
    before = f", which {done.previous} had" if done.previous else ""
    sys.stdout.write(f"This machine carries out {done.folder.name}{before} (epoch {done.epoch}).\n")
    return 0


async def _taken_over(options: Namespace, chosen: ChosenTarget) -> Takeover:
    from actions.run.takeover.origin import opened_source
    from actions.run.takeover.takeover import CLUSTER, store_known_here, take_over_run

    clock = SystemClock()
    source = options.source or options.store or store_known_here(options.run) or CLUSTER
    is_chosen = bool(options.context or options.demo or options.kubeconfig)
    pinned = _pinned(chosen.target) if is_chosen or source == CLUSTER else None
    if source == CLUSTER:
        require_target(chosen.target)
    opened = opened_source(source, options.run, pinned or chosen.target, clock, confirm=options.confirm)
    async with opened as store:
        return await take_over_run(
            options.run,
            store,
            clock,
            confirm=options.confirm,
            is_machine_gone=options.machine_is_gone,
            environment=chosen.environment,
            target=pinned,
            say=_say,
        )


def _pinned(target: ClusterTarget) -> ClusterTarget:
    """Return a target by the name of its context: the current one may change later."""
    return replace(target, context=load_context(target).context)


def _say(text: str) -> None:
    """Print to stderr: stdout has the result alone."""
    sys.stderr.write(f"{plain_text(text)}\n")
