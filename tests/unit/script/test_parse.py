"""Scripts are checked whole before anything runs."""

from __future__ import annotations

import pytest

from actions.base.errors import ScriptError
from actions.command.arguments import LaunchArguments
from actions.command.verbs import Call
from actions.script.model import Conditions, Script, is_key
from actions.script.parse import parse_script

GOOD = b"""\
eksml-script: 1
vars: {cluster: bionemo-on-eks, workers: 2}
deadline: 10m
size: 120x40
steps:
  - launch: {blueprint: bionemo-esm1nv, set: {workers: "${workers}"}}
  - wait: {stage: train, is: running, within: 2m}
  - wait: {metric: loss, step: ">= 200", value: "< 9"}
  - expect: {nodes: {priced: all}, accelerators: {busy: ">= 1"}}
  - screenshot: train.svg
  - press: ctrl+w v
always:
  - teardown: {confirm: "${cluster}"}
  - expect: {audit: empty}
"""


def parsed(text: bytes | str) -> Script:
    data = text.encode() if isinstance(text, str) else text
    return parse_script(data, file="life.yaml", environment={"TOKEN": "hf_secret"})


def steps(text: str) -> Script:
    return parsed(f"eksml-script: 1\nsteps:\n{text}\n")


def test_a_good_script_keeps_its_order_and_places() -> None:
    script = parsed(GOOD)
    assert [step.verb for step in script.steps] == ["launch", "wait", "wait", "expect", "screenshot", "press"]
    assert [step.verb for step in script.always] == ["teardown", "expect"]
    assert script.deadline_seconds == 600
    assert script.size == (120, 40)
    assert (script.steps[1].line, script.steps[1].within_seconds) == (7, 120)


def test_nodes_of_the_embedded_cluster_are_checked_before_it_starts() -> None:
    assert parsed(GOOD.replace(b"size:", b"nodes: p5.48xlarge=2\nsize:")).nodes == "p5.48xlarge=2"
    with pytest.raises(ScriptError, match=r"life\.yaml:4:1: There is no instance type 'p5\.48xlrge'"):
        parsed(GOOD.replace(b"size:", b"nodes: p5.48xlrge=2\nsize:"))


def test_variables_keep_their_type_when_they_stand_alone() -> None:
    call = parsed(GOOD).steps[0].action
    assert isinstance(call, Call)
    assert isinstance(call.arguments, LaunchArguments)
    assert call.arguments.set == {"workers": 2}


def test_what_comes_from_the_environment_is_used_but_not_reported() -> None:
    step = steps("  - launch: {blueprint: x, set: {token: '${env:TOKEN}'}}").steps[0]
    assert isinstance(step.action, Call)
    assert step.action.values()["set"] == {"token": "hf_secret"}
    assert "hf_secret" not in step.text


def test_is_is_a_condition_of_its_stage() -> None:
    action = steps("  - wait: {stage: train, is: succeeded}").steps[0].action
    assert isinstance(action, Conditions)
    assert action.is_ == "succeeded"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("  - lunch: {blueprint: x}", "life.yaml:3:5", "Did you mean launch?"),
        ("  - launch: {}", "life.yaml:3:5", "launch needs blueprint"),
        ("  - launch: {blueprint: x, workers: 2}", "life.yaml:3:5", "no argument 'workers'"),
        ("  - wait: {stag: train}", "life.yaml:3:12", "Did you mean stage?"),
        ("  - wait: {stage: train}", "life.yaml:3:12", "stage and is go together"),
        ("  - wait: {within: 2m}", "life.yaml:3:5", "has no condition"),
        ("  - wait: {text: '(', within: 2m}", "life.yaml:3:12", "not a usable regular expression"),
        ("  - wait: {metric: loss, step: many}", "life.yaml:3:26", "not a comparison"),
        ("  - wait: {text: x, within: soon}", "life.yaml:3:21", "not a duration"),
        ("  - open: {pane: window}", "life.yaml:3:5", "is not one of"),
        ("  - expect: {audit: full}", "life.yaml:3:5", "audit: 'full' is not empty"),
        ("  - teardown: {confirm: '${cluster}'}", "life.yaml:3:16", "${cluster} is not in vars"),
        ("  - wait: {stage: train, is: runing}", "life.yaml:3:26", "Write one of pending, running"),
        ("  - wait: {run: torn_down}", "life.yaml:3:12", "torn down"),
        ("  - teardown: {delete_data: true}", "life.yaml:3:5", "Write {confirm: NAME}."),
        ("  - press: ctrl+w entre", "life.yaml:3:5", "'entre' is not a key"),
        ("  - expect: {why: {of: train, code: OOM_KILED}}", "life.yaml:3:14", "Did you mean OOM_KILLED"),
        ("  - expect: {why: {of: train}}", "life.yaml:3:14", "Write {of: train, code: OOM_KILLED}"),
        ("  - expect: {why: {of: train, says: '('}}", "life.yaml:3:14", "not a usable regular expression"),
        ("  - [wait]", "life.yaml:3:5", "a step must be one verb"),
        ("  - wait: {text: *a }", "life.yaml:3:18", "the alias 'a' has no anchor before it"),
        ("  - wait: {text: x, text: y}", "life.yaml:3:21", "repeated"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_remedy(text: str, place: str, words: str) -> None:
    with pytest.raises(ScriptError) as caught:
        steps(text)
    assert caught.value.message.startswith(place)
    assert words in caught.value.sentence()


@pytest.mark.parametrize("text", ["steps: []", "eksml-script: 2\nsteps: [quit]", "- quit", "eksml-script: 1", "{", ""])
def test_what_is_no_script_is_refused(text: str) -> None:
    with pytest.raises(ScriptError):
        parsed(text)


@pytest.mark.parametrize("word", ["j", "enter", "ctrl+w", "ctrl+shift+left", "question_mark", "f12", "?", "pagedown"])
def test_a_key_is_known_by_its_name(word: str) -> None:
    assert is_key(word)


@pytest.mark.parametrize("word", ["entre", "ctrl", "ctrl+", "f25", "jj", "", "left arrow key"])
def test_another_word_is_no_key(word: str) -> None:
    assert not is_key(word)


def test_all_mistakes_are_named_at_once_and_in_order() -> None:
    with pytest.raises(ScriptError) as caught:
        parsed("eksml-script: 1\nfoo: 1\nsteps:\n- lunch: x\n- quit\n- wait: {stage: a}\nalways:\n- press: zzz\n")
    error = caught.value
    messages = [error.message, *(other.message for other in error.others)]
    assert [message.partition(": ")[0].rpartition(":")[0].rpartition(":")[2] for message in messages] == list("2468")
    assert [word in message for word, message in zip(("foo", "lunch", "stage", "zzz"), messages, strict=True)] == [
        True
    ] * 4


def test_mistakes_are_in_the_order_of_the_file() -> None:
    with pytest.raises(ScriptError) as caught:
        parsed("eksml-script: 1\ndeadline: soon\nfoo: 1\nsteps:\n- lunch: x\n")
    lines = [message.split(":")[1] for message in (caught.value.message, *(one.message for one in caught.value.others))]
    assert lines == ["2", "3", "5"]
