"""The verb that asks why something is stuck: of an object, of a stage, of the whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from actions.base.errors import MissingError, UnreachableError
from actions.command import verbs as registry
from tui.live.desk import Desk
from tui.live.stage_diagnosis import explain_stage
from tui.modals.viewer import Viewer
from tui.present.subject import Subject, parse_subject
from tui.screens.carrier import Verb
from tui.screens.workspace import Workspace

if TYPE_CHECKING:
    from actions.cluster.diagnose.codes import Finding
    from actions.cluster.diagnose.select import Question

_PAGE_WIDTH = 76
_STAGE = "Stage"
_UNASKED = ("Blueprint", "Run")


class WhyVerb:
    """Shows a diagnosis: what is the matter, the evidence for it, the next step.

    Args:
        workspace: The panes.
        desk: Where the session and the run on screen are.
        show: Puts a viewer in front.
    """

    def __init__(self, workspace: Workspace, desk: Desk, *, show: Callable[[Viewer], None]) -> None:
        self._workspace = workspace
        self._desk = desk
        self._show = show

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        return {"why": self._why}

    async def _why(self, arguments: registry.OnObject) -> None:
        from actions.cluster.diagnose.codes import findings_text

        subject = self._subject(arguments)
        if subject is not None and subject.kind == _STAGE:
            page = await self._stage_page(subject)
        else:
            page = findings_text(await self._explained(subject), width=_PAGE_WIDTH)
        self._show(Viewer(f"Why: {subject.title()}" if subject is not None else "Why: the whole cluster", page))

    async def _stage_page(self, subject: Subject) -> str:
        """What the journal says, then the diagnosis; without a cluster, from what the run has kept on disk."""
        from actions.cluster.diagnose.codes import findings_text

        parts = [self._stage_line(subject.name)]
        try:
            _ = self._desk.cluster.session
        except UnreachableError as error:
            parts.append(error.sentence())
        try:
            parts.append(findings_text(await explain_stage(self._desk, subject.name), width=_PAGE_WIDTH))
        except MissingError as error:
            parts.append(error.sentence())
        return "\n\n".join(parts)

    async def _explained(self, subject: Subject | None) -> list[Finding]:
        from actions.cluster.diagnose.collect import explain

        question = _question_of(subject) if subject is not None else None
        return await explain(self._desk.cluster.session, question, clock=self._desk.clock)

    def _subject(self, arguments: registry.OnObject) -> Subject | None:
        """The named object, or the one under the cursor; `None` for the whole cluster."""
        if arguments.object:
            return parse_subject(arguments.object, default_namespace=self._desk.cluster.namespace)
        subject = self._workspace.current.subject()
        return None if subject is None or subject.kind in _UNASKED else subject

    def _stage_line(self, name: str) -> str:
        """What the run's journal says of the stage."""
        view = self._desk.runs.view
        stage = next((one for one in view.stages if one.id == name), None) if view is not None else None
        if stage is None:
            return f"Stage {name}"
        says = f": {stage.message}" if stage.message else ""
        return f"Stage {stage.id}, {stage.state.value.replace('_', ' ')}{says}"


def _question_of(subject: Subject) -> Question:
    from actions.cluster.diagnose.select import Question

    return Question(subject.kind, subject.name, subject.namespace)
