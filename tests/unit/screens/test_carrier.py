"""From a call to its effect."""

from __future__ import annotations

import pytest

from actions.base.errors import RefusedError
from actions.command.parse import parse_line
from actions.command.verbs import COMMANDS, Arguments, Call, TeardownArguments, WaiveArguments
from actions.run.state.view import StageState
from tests.support.builders import a_plan, a_run, a_stage, console_services
from tui.commands.dispatcher import CommandDispatcher, Confirmations
from tui.feeds.runs import RunFeed
from tui.screens.confirm import Confirmation


class Recorder:
    """Notes what was carried out and what was asked."""

    def __init__(self, *, says_yes: bool = True) -> None:
        self.done: list[Arguments] = []
        self.asked: list[Confirmation] = []
        self._says_yes = says_yes

    async def verb(self, arguments: Arguments) -> None:
        self.done.append(arguments)

    async def ask(self, question: Confirmation) -> bool:
        self.asked.append(question)
        return self._says_yes

    def dispatcher(self, question: Confirmation | None, *, is_readonly: bool = False) -> CommandDispatcher:
        return CommandDispatcher(
            lambda: {command.id: self.verb for command in COMMANDS},
            is_readonly=is_readonly,
            ask=self.ask,
            confirmation_for=lambda _call: question,
            confirmed_arguments=lambda call: call.arguments,
        )


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
    recorder = Recorder()

    with pytest.raises(RefusedError, match="read-only"):
        await recorder.dispatcher(Confirmation("sure?"), is_readonly=True).dispatch(parse_line("cancel"), is_asked=True)

    assert (recorder.done, recorder.asked) == ([], [])


async def test_a_read_only_session_still_looks() -> None:
    recorder = Recorder()

    assert await recorder.dispatcher(None, is_readonly=True).dispatch(parse_line("open nodes"), is_asked=True)


async def test_a_no_leaves_everything_as_it_is() -> None:
    recorder = Recorder(says_yes=False)

    assert not await recorder.dispatcher(Confirmation("sure?")).dispatch(parse_line("cancel"), is_asked=True)
    assert recorder.done == []


async def test_a_script_is_not_asked() -> None:
    recorder = Recorder(says_yes=False)

    assert await recorder.dispatcher(Confirmation("sure?")).dispatch(parse_line("cancel"), is_asked=False)
    assert recorder.asked == []


def test_a_teardown_asks_for_the_name_of_the_cluster() -> None:
    question = Confirmations(feed_with()).confirmation_for(parse_line("teardown"))

    assert question is not None
    assert question.word == "bionemo-on-eks"


def test_a_teardown_that_brings_the_name_is_not_asked_about() -> None:
    assert Confirmations(feed_with()).confirmation_for(parse_line("teardown confirm=bionemo-on-eks")) is None


def test_a_yes_to_a_teardown_counts_as_the_typed_name() -> None:
    arguments = Confirmations(feed_with()).confirmed_arguments(parse_line("teardown"))

    assert isinstance(arguments, TeardownArguments)
    assert arguments.confirm == "bionemo-on-eks"


def test_an_approval_shows_the_plan_it_is_about() -> None:
    question = Confirmations(feed_with(StageState.AWAITING_APPROVAL)).confirmation_for(parse_line("approve"))

    assert question is not None
    assert "2 to add" in "".join(span.text for line in question.lines for span in line)


def test_an_approval_where_nothing_waits_is_refused_at_once() -> None:
    with pytest.raises(RefusedError, match="No stage"):
        Confirmations(feed_with()).confirmation_for(parse_line("approve"))


def test_every_command_has_a_verb_in_the_console() -> None:
    from tests.unit.screens.test_console import an_app

    assert {command.id for command in COMMANDS} == an_app().dispatcher.known


def test_a_call_keeps_its_arguments() -> None:
    call = parse_line("open pods of=node-1")

    assert isinstance(call, Call)
    assert dict(call.values()) == {"pane": "pods", "of": "node-1"}


def test_a_waiver_asks_for_the_address_and_a_yes_counts_as_typed() -> None:
    questioner = Confirmations(feed_with())
    question = questioner.confirmation_for(parse_line("waive aws_vpc.main"))

    assert question is not None
    assert question.word == "aws_vpc.main"
    arguments = questioner.confirmed_arguments(parse_line("waive aws_vpc.main"))
    assert isinstance(arguments, WaiveArguments)
    assert arguments.confirm == "aws_vpc.main"
