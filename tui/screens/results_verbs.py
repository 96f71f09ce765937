"""The verbs on what a run has made: list it, copy it to S3."""

from __future__ import annotations

from collections.abc import Mapping

from actions.command import verbs as registry
from tui.live.desk import Desk
from tui.modals.viewer import Viewer
from tui.screens.carrier import Verb
from tui.screens.hands import ScreenHands


class ResultsVerbs:
    """Asks the run's cluster; each ends when there is an answer. A copy goes on if the console is left.

    Args:
        desk: The run on screen.
        hands: The app's doing.
    """

    def __init__(self, desk: Desk, hands: ScreenHands) -> None:
        self._desk = desk
        self._hands = hands

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        return {"results": self._results, "export": self._export}

    async def _results(self, arguments: registry.OnRun) -> None:
        from actions.run.results import list_results, results_table

        run = self._desk.runs.find(arguments.run)
        listing = await list_results(run.folder, self._desk.clock)
        self._hands.show(Viewer(f"results of {run.id}", results_table(listing)))

    async def _export(self, arguments: registry.Export) -> None:
        from actions.run.results import export_results

        run = self._desk.runs.find(arguments.run)
        told = await export_results(
            run.folder,
            arguments.to,
            self._desk.clock,
            on_line=_unheard,
            on_begin=lambda _copy, sentence: self._hands.say(sentence),
            service_account=arguments.service_account,
        )
        self._hands.say(told)


def _unheard(_line: str) -> None:
    """What the Job prints is for a terminal; the console says how it ended."""
