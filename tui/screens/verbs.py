"""Every verb of the console, by its command's id."""

from __future__ import annotations

from tui.live.desk import Desk
from tui.live.run_actions import RunActions
from tui.screens.carrier import Verb
from tui.screens.context_verb import ContextVerb
from tui.screens.forward_verb import ForwardVerb
from tui.screens.hands import ScreenHands
from tui.screens.object_verbs import ObjectVerbs
from tui.screens.results_verbs import ResultsVerbs
from tui.screens.run_verbs import RunVerbs
from tui.screens.terraform_verbs import TerraformVerbs
from tui.screens.view_verbs import ViewVerbs
from tui.screens.watch_verb import WatchVerb
from tui.screens.workspace import Workspace


def verbs_of(workspace: Workspace, desk: Desk, actions: RunActions, hands: ScreenHands) -> dict[str, Verb]:
    """One for every command."""
    return {
        **ViewVerbs(workspace, desk, hands).verbs(),
        **ObjectVerbs(workspace, desk, show=hands.show, open_shell=hands.open_shell).verbs(),
        **ContextVerb(desk, hands).verbs(),
        **ForwardVerb(desk, hands).verbs(),
        **ResultsVerbs(desk, hands).verbs(),
        **TerraformVerbs(desk, actions, hands).verbs(),
        **WatchVerb(workspace, desk).verbs(),
        **RunVerbs(workspace, desk, actions, say=hands.say).verbs(),
    }
