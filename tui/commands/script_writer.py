"""The script of a session: each command that was carried out becomes a step, with waits before it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actions.base.errors import ConfigError, ConsoleError, JournalError
from actions.command import arguments as args
from actions.command.arguments import Arguments
from actions.command.verbs import Call
from actions.run.state.view import RunView
from actions.script.model import ScriptStep
from actions.script.noticed import Noticed, Scene, Wait
from actions.script.recording import RecordedLine, Recording
from actions.telemetry.points import Point
from tui.feeds.runs import waiting_stage
from tui.feeds.services import ConsoleServices
from tui.screens.status_lines import header_facts
from tui.screens.workspace import PaneWorkspace
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

if TYPE_CHECKING:
    from tui.base_app import TypeAheadApp
    from tui.present.subject import Subject

LOOK_SECONDS = 0.5
"""Between two looks at the run on screen."""
_TAIL_BYTES = 64 << 10
"""Of a stage's points: the newest of each curve."""
_PATIENCE = 5.0
"""A wait may take so many times as long as it took, and `_LEAST_SECONDS`."""
_LEAST_SECONDS = 60.0
_OF_A_RUN = (
    args.RunArguments, args.ResumeArguments, args.ApproveArguments, args.TeardownArguments,
    args.WaiveArguments, args.ExportArguments,
)  # fmt: skip
_BY_HAND = {
    "edit": "an editor needs a terminal",
    "plugin": "other programs are started by hand",
    "shell": "what is typed into a shell is not recorded",
    "copy": "a script has no clipboard",
    "alarms": "alarms are off while a script plays",
    "ack": "alarms are off while a script plays",
}
"""Commands that no script can carry out, each with its reason."""
_FILES = ("screenshot", "save", "export-chart")
_UID = re.compile(r"@[^,]*")


class ScriptWriter:
    """The script_writer of one console. Used on the loop only.

    A command's step is written when it begins, and taken back if it fails. Errors of the file are shown once; the next
    step that can be written brings back what was missed.

    Args:
        app: Its screens; shows what is wrong with the file.
        services: The runs and the cluster.
        workspace: The panes; the selection completes commands.
        recording: The script.
    """

    def __init__(
        self,
        app: TypeAheadApp[Any],
        services: ConsoleServices,
        workspace: PaneWorkspace,
        recording: Recording,
    ) -> None:
        self._app = app
        self._services = services
        self._workspace = workspace
        self._recording = recording
        self._noticed = Noticed()
        self._launched = ""
        """The run that was launched last: the one that a script means."""
        self._depth = 1
        self._last_at = services.clock.monotonic()
        self._is_told = False

    def begin(self) -> None:
        """Write the first step: the pane that the console begins with.

        Raises:
            ConfigError: The file exists, or cannot be written.
        """
        self._recording.begin("open", self._workspace.split.current)

    async def run(self) -> None:
        """Write a wait for each thing that the run on screen reaches, until cancelled."""
        try:
            while True:
                self.look()
                await self._services.clock.sleep(LOOK_SECONDS)
        finally:
            self.look()

    def look(self) -> None:
        """Write waits for what the run on screen has reached."""
        run = self._services.runs.view
        if run is not None and run.id == self._services.settings.open_run:
            self._noticed.follow(run, is_new=False)
        self._wait(self._noticed.reached(self._scene()))

    def begun(self, call: Call) -> RecordedLine | None:
        """Write waits, and the step of a complete and confirmed command that begins now; return its line."""
        if call.command.id == "quit":
            self.look()
            return None
        names = self._names(call)
        self._close_screens()
        self._wait(self._noticed.before_command(self._scene(), command=call.command.id, names=names))
        reason, arguments = self._as_step(call, names)
        self._last_at = self._services.clock.monotonic()
        if reason:
            return self._try(lambda: self._recording.remark(f"{call.command.id} {names}: {reason}"))
        values = dict(Call(call.command, arguments).values())
        add = self._recording.replace_last if call.command.id == "filter" else self._recording.add
        return self._try(lambda: add(call.command.id, values))

    def ended(self, call: Call, line: RecordedLine | None, *, is_done: bool) -> None:
        """Note the end of a command that was begun: take its line back if it failed."""
        run = self._services.runs.view
        if not is_done:
            if line is not None:
                self._try(lambda: self._recording.drop(line))
            return
        if call.command.id == "launch" and run is not None:
            self._launched = run.id
            self._noticed.follow(run, is_new=True)
        elif run is not None and run.id == self._named_run(call):
            self._noticed.follow(run, is_new=False)
        self._noticed.after_command(self._scene(), call.command.id)
        self._depth = self._scene().depth

    def step_passed(self, step: ScriptStep) -> None:
        """Record a step of a script that is not a command of the console: a picture of the screen."""
        if isinstance(step.action, Call) and isinstance(step.action.arguments, args.ScreenshotArguments):
            self.ended(step.action, self.begun(step.action), is_done=True)

    def _as_step(self, call: Call, names: str) -> tuple[str, Arguments]:
        """Return why a command can be no step, empty if it can; and its arguments as a script has them."""
        arguments = call.arguments
        reason = _BY_HAND.get(call.command.id, "")
        match arguments:
            case args.ResumeArguments(takeover=pid) if pid:
                reason = "the stalled runner's process is another one next time"
            case args.OpenArguments(pane="run", of=of) if of:
                arguments = replace(arguments, of=self._run_text(of))
            case args.FilterArguments(text=text) if text.startswith("@"):
                arguments = replace(arguments, text=self._services.settings.filters.get(text[1:], text))
            case args.CompareArguments(run=run, other=other) if self._launched and self._launched in f"{run},{other}":
                reason = "a launched run has another id next time"
            case args.ApproveArguments(stage=stage):
                arguments = replace(arguments, stage=self._waiting(stage))
        if isinstance(arguments, _OF_A_RUN):
            arguments = replace(arguments, run=self._run_text(self._named_run(call)))
        elif call.command.id in _FILES:
            arguments = _with(arguments, file=Path(getattr(arguments, "file", "")).name)
        elif names and not reason:
            field = "job" if isinstance(arguments, args.WatchArguments) else "object"
            arguments = _with(arguments, **{field: names, "context": self._context(call)})
        return reason, arguments

    def _waiting(self, stage: str) -> str:
        view = self._services.runs.view
        try:
            return waiting_stage(view, stage).id if view is not None else stage
        except ConsoleError:
            return stage  # the command fails for the same reason

    def _run_text(self, run_id: str) -> str:
        """Return a run's id as a script names it: empty for the one that it has launched."""
        return "" if run_id == self._launched else run_id

    def _named_run(self, call: Call) -> str:
        """Return the id of the run that a command is about; empty for none."""
        arguments = call.arguments
        if isinstance(arguments, args.OpenArguments):
            return arguments.of if arguments.pane == "run" else ""
        if not isinstance(arguments, _OF_A_RUN):
            return ""
        view = self._services.runs.view
        return arguments.run or (view.id if view is not None else "")

    def _names(self, call: Call) -> str:
        """Return the object that a command names, or has selected, as a script names it; empty for none."""
        match call.arguments:
            case args.WatchArguments(job=job):
                typed = job
            case args.ObjectArguments() | args.LogsArguments() | args.TargetArguments() | args.ScaleArguments():
                typed = call.arguments.object
            case _:
                return ""
        return _UID.sub("", typed) if typed else ",".join(filter(None, map(_text_of, self._chosen(call))))

    def _chosen(self, call: Call) -> tuple[Subject, ...]:
        """Return the marked objects, or the selected one, of a command that names none."""
        pane = self._workspace.current
        several = pane.marked() if isinstance(call.arguments, args.TARGETED) else ()
        selected = pane.subject()
        return several or ((selected,) if selected is not None else ())

    def _context(self, call: Call) -> str:
        """Return the context that a command names, or that of the selected row where several clusters are followed."""
        if getattr(call.arguments, "object", "") or getattr(call.arguments, "job", ""):
            return str(getattr(call.arguments, "context", ""))
        return next((one.cluster for one in self._chosen(call) if len(self._services.clusters) > 1), "")

    def _close_screens(self) -> None:
        """Write a step for each screen that was closed by a key of its own."""
        depth = self._scene().depth
        for _ in range(self._depth - depth):
            self._try(lambda: self._recording.add("back"))
        self._depth = depth

    def _wait(self, waits: Iterator[Wait]) -> None:
        now = self._services.clock.monotonic()
        within = _LEAST_SECONDS + _PATIENCE * (now - self._last_at)
        for wait in waits:
            self._last_at = now
            self._try(lambda given=wait: self._recording.add("wait", given, within_seconds=within))  # type: ignore[misc]

    def _try(self, write: Callable[[], RecordedLine | None]) -> RecordedLine | None:
        try:
            return write()
        except ConfigError as error:
            if not self._is_told:
                self._is_told = True
                self._app.notify_error(error)
            return None

    def _scene(self) -> Scene:
        snapshot = self._services.cluster.snapshot()
        run = self._services.runs.view
        pods: Mapping[str, Any] = snapshot.pods if snapshot is not None else {}
        return Scene(
            cluster=header_facts(self._services).cluster,
            run=run,
            pods=pods,
            ready_nodes=sum(node.is_ready for node in snapshot.nodes.values()) if snapshot is not None else 0,
            depth=len(self._app.screen_stack),
            text=lambda: screen_text(self._app),
            points=lambda stage: self._newest_points(run, stage),
        )

    def _newest_points(self, run: RunView | None, stage: str) -> list[Point]:
        from actions.run.output.reader import OutputReader

        folder = self._services.runs.folder
        if run is None or folder is None:
            return []
        try:
            reader = OutputReader(folder, stage)
            values, _ = reader.values(reader.values_tail(_TAIL_BYTES))
        except JournalError:
            return []
        return [item.value for item in values if isinstance(item.value, Point)]


def _with(arguments: Arguments, **values: object) -> Arguments:
    return replace(arguments, **values)


def _text_of(subject: Subject) -> str:
    """Return an object as commands name it; empty for what cannot be named."""
    if subject.kind == "Pod":
        return f"{subject.namespace}/{subject.name}"
    if subject.kind in ("Run", "Blueprint"):
        return ""
    word = subject.kind.lower()
    group = subject.api_version.rpartition("/")[0]
    if group and subject.row is None and "." not in word:
        word = f"{word}.{group}"
    return "/".join(filter(None, (word, subject.namespace, subject.name)))


def begin_to_record(app: TypeAheadApp[Any], services: ConsoleServices, workspace: PaneWorkspace) -> ScriptWriter | None:
    """Start to record the session, if its settings name a file.

    Returns:
        The script_writer; `None` if there is no such file, or it cannot be written, which the app shows.
    """
    settings = services.settings
    if settings.record is None:
        return None
    recording = Recording(
        settings.record,
        made_at=services.clock.now(),
        size=(app.size.width, app.size.height),
        remarks=[_command_line(settings, settings.record.name)],
    )
    script_writer = ScriptWriter(app, services, workspace, recording)
    try:
        script_writer.begin()
    except ConfigError as error:
        app.notify_error(error)
        return None
    services.supervisor.keep("recording", script_writer.run)
    return script_writer


def _command_line(settings: ConsoleSettings, script: str) -> str:
    """Return the command that plays a script where it was recorded: same cluster, account, and home of its runs.

    What the settings file of this machine has is written out, too: another machine has another one.
    """
    target, words = settings.target, ["eksml-tui"]
    if settings.demo is not None:
        words += ["--demo", "--speed", f"{settings.demo.speed:g}"]
    elif target.kubeconfig is not None:
        words += ["--kubeconfig", str(target.kubeconfig)]
    given = {
        "--contexts": ",".join(settings.contexts),
        "--context": target.context,
        "--namespace": target.namespace,
        "--profile": settings.profile,
        "--region": settings.region if settings.demo is None else "",
        "--store": settings.store,
        "--run": settings.open_run or "",
    }
    for option, value in given.items():
        words += [option, value] if value else []
    words += ["--readonly"] * settings.readonly + ["--ascii"] * settings.is_ascii
    return shlex.join([*words, "--script", script])
