"""A run as a runbook: the commands that each stage stands for, to read or to follow by hand."""

from __future__ import annotations

from pathlib import Path

from actions.base.clock import SystemClock
from actions.run.folder import kubeconfig_path
from actions.run.reader import load_run
from actions.run.site import Site
from actions.run.view import RunView, StageView


def commands_of(folder: Path, view: RunView, stage: StageView) -> list[str]:
    """The `kubectl`, `aws` and `terraform` commands that a stage stands for. Asks nobody.

    Args:
        folder: The run's.
        view: The run.
        stage: One of its stages.

    Raises:
        BlueprintError: The run's copy of its blueprint cannot be used.
    """
    return Site(folder, SystemClock()).describe(view, stage)


def runbook(folder: Path) -> str:
    """All stages of a run as Markdown.

    Raises:
        JournalError: The run cannot be read.
        BlueprintError: Its copy of the blueprint cannot be used.
    """
    view = load_run(folder)
    parts = [
        f"# {view.title}",
        f"Run {view.id}, cluster {view.cluster.name} in {view.cluster.region}.",
        f"```sh\nexport KUBECONFIG={kubeconfig_path(folder)}\ncd {folder / 'blueprint'}\n```",
    ]
    for stage in view.stages:
        lines = "\n".join(commands_of(folder, view, stage))
        parts.append(f"## {stage.title} ({stage.state.value.replace('_', ' ')})\n\n```sh\n{lines}\n```")
    return "\n\n".join(parts) + "\n"
