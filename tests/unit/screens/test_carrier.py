"""From a command to its effect: refused, confirmed, carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from textual.screen import Screen

from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.command.arguments import (
    Arguments,
    TakeoverArguments,
    TeardownArguments,
    WaiveArguments,
)
from actions.command.parse import parse_line
from actions.command.verbs import (
    COMMANDS,
    Call,
)
from actions.run.state.records import RunAccount
from actions.run.state.view import Goal, RunState, RunView, StageState
from actions.run.store.remote import RemoteRun
from tests.support.builders import a_plan, a_run, a_stage, console_services
from tui.base_app import TypeAheadApp
from tui.commands.confirmations import confirmation_for, confirmed_arguments
from tui.commands.dispatcher import CommandDispatcher, with_selected_run, with_whole_run
from tui.feeds.runs import RunFeed
from tui.feeds.services import ConsoleServices
from tui.present.subject import Subject
from tui.screens.confirm import Confirmation, ConfirmModal, TypeNameModal
from tui.screens.workspace import PaneWorkspace
from tui.settings.settings import ConsoleSettings


class Answering(TypeAheadApp[None]):
    """An app whose operator answers every dialog, and that notes dialogs and errors."""

    def __init__(self, *, says_yes: bool = True) -> None:
        super().__init__()
        self.asked: list[Confirmation] = []
        self.errors: list[str] = []
        self._says_yes = says_yes

    async def put_in_front(self, screen: Screen[object]) -> object:  # type: ignore[override]  # dialogs alone
        assert isinstance(screen, ConfirmModal | TypeNameModal)
        self.asked.append(screen._question)
        return self._says_yes

    def notify_error(self, error: ConsoleError) -> None:
        self.errors.append(error.sentence())


class Others:
    """The runs that the connected cluster knows."""

    def __init__(self, *ids: str) -> None:
        self.runs = tuple(RemoteRun(one) for one in ids)

    def elsewhere(self, local: object) -> tuple[RemoteRun, ...]:
        return self.runs

    def find(self, run_id: str) -> RemoteRun | None:
        return next((run for run in self.runs if run.id == run_id), None)


class Recorder:
    """A dispatcher whose handlers note what they are called with."""

    def __init__(
        self, stage: StageState = StageState.RUNNING, *, says_yes: bool = True, is_readonly: bool = False
    ) -> None:
        self.done: list[Arguments] = []
        self.app = Answering(says_yes=says_yes)
        self.services = services = services_with(stage, is_readonly=is_readonly)
        handlers = {command.id: self.handler for command in COMMANDS}
        self.dispatcher = CommandDispatcher(self.app, services, PaneWorkspace(services), lambda: handlers)

    async def handler(self, arguments: Arguments) -> None:
        self.done.append(arguments)

    async def submit(self, line: str) -> None:
        """Submit a line, and wait until it has been carried out."""
        async with self.app.run_test():
            self.dispatcher.submit(line)
            await self.app.workers.wait_for_complete()


def services_with(stage: StageState = StageState.RUNNING, *, is_readonly: bool = False) -> ConsoleServices:
    """Services with a run on screen."""
    services = console_services()
    services.runs = feed_with(stage)
    services.settings = ConsoleSettings(target=services.settings.target, readonly=is_readonly)
    return services


def feed_with(view_stage: StageState = StageState.RUNNING) -> RunFeed:
    """A feed with a run on screen whose only stage is in that state."""
    plan = a_plan() if view_stage is StageState.AWAITING_APPROVAL else None
    services = console_services(view=a_run(a_stage("network", view_stage, plan=plan)))

    class Known(RunFeed):
        def find(self, run_id: str) -> object:  # type: ignore[override]  # the run on screen has all that is asked of it
            return self.view

    known = Known(services.clock, services.ticker.request_paint)
    known.view = services.runs.view
    return known


async def test_a_read_only_session_refuses_a_mutation_before_it_asks() -> None:
    recorder = Recorder(is_readonly=True)

    await recorder.submit("cancel")

    assert (recorder.done, recorder.app.asked) == ([], [])
    assert "read-only" in recorder.app.errors[0]


async def test_the_remedy_in_a_browser_is_that_of_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(is_readonly=True)
    with pytest.raises(RefusedError) as refused:
        await recorder.dispatcher.execute(parse_line("cancel"))
    assert refused.value.hint == "Start without --readonly."
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    with pytest.raises(RefusedError) as refused:
        await recorder.dispatcher.execute(parse_line("cancel"))
    assert refused.value.hint == "Serve it with --allow-changes."


async def test_a_read_only_session_refuses_a_script() -> None:
    recorder = Recorder(is_readonly=True)

    with pytest.raises(RefusedError, match="read-only"):
        await recorder.dispatcher.execute(parse_line("cancel"))


async def test_a_read_only_session_still_looks() -> None:
    recorder = Recorder(is_readonly=True)

    await recorder.submit("open nodes")

    assert len(recorder.done) == 1


async def test_a_no_leaves_everything_as_it_is() -> None:
    recorder = Recorder(says_yes=False)

    await recorder.submit("cancel")

    assert (len(recorder.app.asked), recorder.done) == (1, [])


async def test_a_yes_to_a_teardown_is_carried_out_with_the_name() -> None:
    recorder = Recorder()

    await recorder.submit("teardown")

    (arguments,) = recorder.done
    assert isinstance(arguments, TeardownArguments)
    assert arguments.confirm == "bionemo-on-eks"


async def test_a_script_is_not_asked() -> None:
    recorder = Recorder(says_yes=False)

    await recorder.dispatcher.execute(parse_line("cancel"))

    assert (len(recorder.done), recorder.app.asked) == (1, [])


async def test_a_line_that_is_no_command_is_an_error_and_nothing_is_asked() -> None:
    recorder = Recorder()

    await recorder.submit("teardwon")

    assert (recorder.done, recorder.app.asked) == ([], [])
    assert "teardown" in recorder.app.errors[0]


def test_a_teardown_asks_for_the_name_of_the_cluster() -> None:
    question = confirmation_for(parse_line("teardown"), feed_with())

    assert question is not None
    assert question.word == "bionemo-on-eks"


def test_a_teardown_that_brings_the_name_is_not_asked_about() -> None:
    assert confirmation_for(parse_line("teardown confirm=bionemo-on-eks"), feed_with()) is None


def test_an_approval_shows_the_plan_it_is_about() -> None:
    question = confirmation_for(parse_line("approve"), feed_with(StageState.AWAITING_APPROVAL))

    assert question is not None
    assert "2 to add" in "".join(span.text for line in question.lines for span in line)


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (lambda view: view, ""),
        (lambda view: replace(view, stages=(a_stage("network", StageState.RUNNING),)), "does not wait any more"),
        (
            lambda view: replace(
                view, stages=(replace(view.stages[0], plan=replace(view.stages[0].plan, plan_hash="0" * 64)),)
            ),
            "The plan of Network that was shown does not wait any more.",
        ),
        (lambda view: replace(view, id="other"), "is not on screen any more"),
    ],
    ids=["as shown", "another console has approved it", "another plan waits", "another run"],
)
async def test_a_yes_is_for_the_run_and_the_plan_that_the_dialog_has_shown(
    then: Callable[[Any], RunView], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(StageState.AWAITING_APPROVAL)

    async def answered(_screen: object) -> bool:
        recorder.services.runs.view = then(recorder.services.runs.view)
        return True

    monkeypatch.setattr(recorder.app, "put_in_front", answered)
    await recorder.submit("approve")
    assert (len(recorder.done), len(recorder.app.errors)) == ((0, 1) if said else (1, 0))
    assert said in "".join(recorder.app.errors)


def test_an_approval_where_nothing_waits_is_refused_at_once() -> None:
    with pytest.raises(RefusedError, match="No stage"):
        confirmation_for(parse_line("approve"), feed_with())


def test_a_resume_of_a_stage_that_the_run_does_not_have_is_refused_before_the_question() -> None:
    feed = feed_with(StageState.FAILED)
    assert feed.view is not None
    feed.view = replace(feed.view, state=RunState.FAILED)
    assert confirmation_for(parse_line(f"resume stage={feed.view.stages[0].id}"), feed) is not None
    with pytest.raises(MissingError, match="has no stage 'nothing'"):
        confirmation_for(parse_line("resume stage=nothing"), feed)


@pytest.mark.parametrize(
    ("line", "state"),
    [("cancel", RunState.SUCCEEDED), ("park", RunState.TORN_DOWN)],
)
def test_a_request_that_the_run_does_not_accept_is_refused_before_the_question(line: str, state: RunState) -> None:
    feed = feed_with()
    assert feed.view is not None
    goal = Goal.TEARDOWN if state is RunState.TORN_DOWN else Goal.FORWARD
    feed.view = replace(feed.view, state=state, goal=goal)
    with pytest.raises(RefusedError, match=f"does not accept the request {line}"):
        confirmation_for(parse_line(line), feed)


def test_every_command_has_a_verb_in_the_console() -> None:
    from tests.unit.screens.test_console import an_app

    assert {command.id for command in COMMANDS} == an_app().dispatcher.known


def test_a_call_keeps_its_arguments() -> None:
    call = parse_line("open pods of=node-1")

    assert isinstance(call, Call)
    assert dict(call.values()) == {"pane": "pods", "of": "node-1"}


def test_a_waiver_asks_for_the_address_and_a_yes_counts_as_typed() -> None:
    call = parse_line("waive aws_vpc.main")
    question = confirmation_for(call, feed_with())

    assert question is not None
    assert question.word == "aws_vpc.main"
    arguments = confirmed_arguments(call, feed_with().view)
    assert isinstance(arguments, WaiveArguments)
    assert arguments.confirm == "aws_vpc.main"


async def test_a_takeover_means_the_run_on_screen_or_one_by_its_beginning() -> None:
    for line in ("takeover", "takeover bionemo-1121", "takeover bionemo-1121-ab12 from=s3://b/p"):
        recorder = Recorder()
        recorder.services.runs.others = Others("bionemo-1121-ab12", "bionemo-1120-cd34")  # type: ignore[assignment]
        await recorder.submit(line)
        (arguments,) = recorder.done
        assert isinstance(arguments, TakeoverArguments)
        assert (arguments.run, arguments.confirm) == ("bionemo-1121-ab12", "bionemo-1121-ab12")
        assert recorder.app.asked[0].word == "bionemo-1121-ab12"  # the dialog takes the whole id
    recorder = Recorder()
    recorder.services.runs.others = Others("bionemo-1121-ab12", "bionemo-1120-cd34")  # type: ignore[assignment]
    await recorder.submit("takeover bionemo-11")
    assert "is a prefix of 2 run ids" in recorder.app.errors[0]
    await recorder.dispatcher.execute(parse_line("takeover small-7 confirm=small-7"))  # a home may know it
    assert getattr(recorder.done[-1], "run", "") == "small-7"


def test_a_takeover_means_the_run_under_the_cursor_first() -> None:
    call = with_selected_run(parse_line("takeover"), Subject("Run", "bionemo-1120-cd34"))
    assert getattr(call.arguments, "run", "") == "bionemo-1120-cd34"


def test_without_a_run_a_takeover_says_what_to_do() -> None:
    services = console_services()
    services.runs.view = None
    with pytest.raises(MissingError, match="No run is selected"):
        with_whole_run(parse_line("takeover"), services.runs)


@pytest.mark.parametrize("line", ["teardown", "park", "cancel", "approve"])
def test_a_question_names_where_the_run_works(line: str) -> None:
    feed = feed_with(StageState.AWAITING_APPROVAL)
    assert feed.view is not None
    account = RunAccount("111122223333", "us-west-2", "aws", "arn:aws:sts::111122223333:assumed-role/trainer/ada")
    feed.view = replace(feed.view, account=account)
    question = confirmation_for(parse_line(line), feed)
    assert question is not None
    told = " ".join("".join(span.text for span in cells) for cells in question.lines)
    assert "cluster bionemo-on-eks · region " in told
    assert "account 111122223333" in told
