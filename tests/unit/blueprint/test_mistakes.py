"""Each mistake that the shape of a blueprint allows is a sentence of ours, with what is allowed and what is nearest."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Union

import msgspec
import pytest

from actions.blueprint.catalogue import validate
from actions.blueprint.model import Derived, Holding, Parameter, ParameterRule, Preset, Results, SecretObject
from actions.blueprint.parts import Expectation, Where
from actions.blueprint.stages import AnyStage, Stage
from actions.blueprint.structure.mistakes import ModelMistake, decode_part, mistake_in
from actions.blueprint.structure.schema import allowed_at, members_of
from tests.unit.blueprint.builders import a_blueprint

OF_MSGSPEC = ("`", "xpected", "Object", "nvalid", "got ", "regex", " - at ", "None")
"""Parts of its messages, and of Python's."""
FORMS: dict[str, Any] = {"since": "1.5", "before": "1.5", "files": {"a": "0" * 64}, "rate": "5/s", "load": "92%"}
"""Values of keys with a form of their own."""


def sample(kind: Any) -> Any:
    """Return a value that fits a type: with every key, and every structure that may stand in a list."""
    kind = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return sample(next(each for each in arguments if each is not types.NoneType))
    if origin is tuple:
        return [
            sample(each) for each in members_of(arguments[0]) if each is not types.NoneType and is_struct(each)
        ] or [sample(arguments[0])]
    if origin is dict:
        return {"a": sample(arguments[1])}
    if origin is Literal:
        return arguments[0]
    if is_struct(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        config = kind.__struct_config__
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        found = {field.encode_name: sample(hints[field.name]) for field in msgspec.structs.fields(kind)}
        return tag | found | {key: text for key, text in FORMS.items() if key in found and found[key] != text}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind)).value
    return {bool: True, int: 1, float: 1.5, str: "a", Expectation: "1s..2s", Path: "a"}[kind]


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def places(node: Any, path: Where = ()) -> Iterator[tuple[Where, Any]]:
    """Yield every place with its value."""
    if path:
        yield path, node
    for key, item in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(item, (*path, key))


def changed(document: Any, path: Where, value: Any) -> Any:
    """Return a document with another value at a path; without the key for `...`."""
    head, *rest = path
    copy: Any = dict(document) if isinstance(document, dict) else [*document]
    if not rest and value is ...:
        del copy[head]
    else:
        copy[head] = changed(copy[head], tuple(rest), value) if rest else value
    return copy


PARTS: list[tuple[Any, Any]] = [
    (AnyStage if issubclass(kind, Stage) else kind, sample(kind))
    for kind in (Parameter, Derived, ParameterRule, Holding, SecretObject, Results, Preset, *typing.get_args(AnyStage))
]
"""A value of each part that is read by itself, with its kind."""
PLACES = [(kind, whole, path, value) for kind, whole in PARTS for path, value in places(whole)]


def mistake(kind: Any, value: Any) -> ModelMistake | None:
    """Return the first mistake of a part; `None` if it can be read into the model."""
    try:
        decode_part(value, kind)
    except msgspec.ValidationError as error:
        return mistake_in(value, kind, error)
    return None


@pytest.mark.parametrize(("kind", "value"), PARTS, ids=lambda part: str(part)[:40])
def test_what_has_every_key_and_every_structure_is_read(kind: Any, value: Any) -> None:
    assert mistake(kind, value) is None


@pytest.mark.parametrize("wrong", ["some words", 7, 1.5, True, None, [], {}, ["a"], [3], {"b": 1}, ...])
def test_no_mistake_shows_what_the_decoder_prints(wrong: Any) -> None:
    found = 0
    for kind, whole, path, _ in PLACES:
        told = mistake(kind, changed(whole, path, wrong))
        if told is not None:
            found += 1
            text = f"{told.message} {told.hint}"
            assert not any(word in text for word in OF_MSGSPEC), (path, wrong, text)
            assert told.where in (path, path[:-1]) or isinstance(wrong, list | dict), (path, wrong, told)
            assert told.unknown or told.message[:1] in " :", (path, told)
            assert told.hint or " not one of " in told.message, (path, wrong, told)
    assert found > 200


def test_a_key_that_is_missing_is_named_with_what_it_takes() -> None:
    named = set()
    for kind, whole, path, _ in PLACES:
        told = mistake(kind, changed(whole, path, ...)) if isinstance(path[-1], str) else None
        if told is not None:
            named.add(path[-1])
            assert (told.missing, told.where) == (path[-1], path[:-1])
            assert told.message == f" needs the key {path[-1]!r}."
            assert told.hint.startswith(f"Add {path[-1]}: ")
    assert {"title", "kind", "check", "expect", "default", "from"} <= named


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    for kind, whole, path, value in PLACES:
        if isinstance(value, dict) and "title" in value:
            told = mistake(kind, changed(whole, path, {**value, "titel": "a"}))
            assert told is not None
            assert (told.where, told.unknown, told.hint) == (path, "titel", "Did you mean title?")


ENUMERATIONS = [
    (kind, whole, path, words)
    for kind, whole, path, value in PLACES
    if isinstance(value, str) and (words := allowed_at(kind, whole, path))
]


@pytest.mark.parametrize(("kind", "whole", "path", "words"), ENUMERATIONS, ids=lambda value: str(value)[:40])
def test_a_word_of_few_is_answered_with_all_of_them_and_the_nearest(
    kind: Any, whole: Any, path: Where, words: tuple[str, ...]
) -> None:
    told = mistake(kind, changed(whole, path, f"{words[-1]}x"))
    assert told is not None
    assert told.where == path
    assert told.message == f" is {words[-1] + 'x'!r}, not one of {', '.join(words)}."
    assert told.hint.startswith(f"Did you mean {words[-1]}")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "watch: {}",
            "watch: {logs: {pods: a=b}, accelerator: gpu}",
            "stages.1.watch.accelerator is 'gpu', not one of none, nvidia-smi, neuron-top, neuron-monitor.",
        ),
        (
            "base: {kind: flat, title: Base,",
            "base: {kind: flat,",
            "holdings.base needs the key 'title'. Add title: a text.",
        ),
        (
            "watch: {}",
            "watch: {logs: {pods: a=b}, charts: [trainloss]}",
            "work has a chart of 'trainloss', which no log has. Did you mean train_loss?",
        ),
        (
            "path: spec.parallelism}",
            "path: spec.paralelism}",
            "the target Job/work spec.paralelism in manifests/job.yaml matches nothing. Did you mean parallelism?",
        ),
        (
            "path: spec.parallelism}",
            "path: 'spec.template.spec.containers[0].args', arg: '--workers='}",
            "That is a list: write path: spec.template.spec.containers[0].args[1] and format: '--workers=%s'",
        ),
    ],
)
def test_sentences_of_validate(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    (error, *_) = validate(a_blueprint(tmp_path / "small", ("    secrets: [token]\n", "    watch: {}\n"), (old, new)))
    assert sentence in error.sentence()
