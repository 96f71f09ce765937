"""`eksml-tui runs takeover` and `runs adopt`: a run of another machine becomes this machine's."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.untrusted import plain_text
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from tui.cli.target import aws_environment, chosen_target

if TYPE_CHECKING:
    pass


def take_over(options: Namespace) -> int:
    """Take a run over from its store.

    Raises:
        ConsoleError: It cannot be taken over, or was not confirmed; see `take_over_run`.
    """
    from actions.run.takeover.take_over import open_takeover_store, store_known_here, take_over_run

    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3
    clock = SystemClock()
    store = open_takeover_store(options.store or store_known_here(options.run), clock)
    done = asyncio.run(
        take_over_run(
            options.run,
            store,
            clock,
            confirm=options.confirm,
            is_machine_gone=options.machine_is_gone,
            environment=chosen.environment,
            target=_pinned(chosen.target) if options.context or options.demo else None,
            say=_say,
        )
    )
    _left("Left alone", done.left_out)
    for sentence in done.sentences:
        _say(sentence)
    before = f", which {done.previous} had" if done.previous else ""
    sys.stdout.write(f"This machine carries out {done.folder.name}{before} (epoch {done.epoch}).\n")
    return 0


def take_up(options: Namespace, folder: Path) -> None:
    """Make a restored run this machine's, if no other one has it; the caller starts its runner.

    Raises:
        ConsoleError: Another machine has it, or that cannot be found out; see `take_up_restored`.
    """
    from actions.run.journal.folder import load_environment
    from actions.run.takeover.access import bring_environment
    from actions.run.takeover.restored import take_up_restored

    given = {} if options.demo else aws_environment(options)
    os.environ.update({**load_environment(folder), **given})  # for boto3
    asyncio.run(take_up_restored(folder, SystemClock(), confirm=options.confirm))
    if given:
        _say(bring_environment(folder, given))


def _pinned(target: ClusterTarget) -> ClusterTarget:
    """Return a target by the name of its context: the current one may change later."""
    return replace(target, context=load_context(target).context)


def _left(heading: str, lines: Sequence[str]) -> None:
    if lines:
        _say(f"{heading}:")
    for line in lines:
        _say(f"  {line}")


def _say(text: str) -> None:
    """Print to stderr: stdout has the result alone."""
    sys.stderr.write(f"{plain_text(text)}\n")
