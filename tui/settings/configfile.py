"""The parser of `config.yaml`, with its checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from actions.base.errors import ConsoleError, InputError, Mistakes, nearest_hint
from actions.base.files import expanded
from actions.base.yamldoc import Document, load_documents, read_input
from actions.command.parse import parse_line
from actions.command.verbs import (
    COMMANDS,
)
from actions.run.alarms.ways import hours_of
from tui.settings.config import SETTINGS, ConfigFile, Setting, SettingForm, config_path
from tui.settings.filters import parse_filter

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,31}")


def load_config(path: Path | None = None) -> ConfigFile:
    """Parse and check the file; without one, return an empty configuration.

    Raises:
        InputError: It has a mistake; with file, line and column, and a hint. Its `others` are all further mistakes.
    """
    file = path or config_path()
    if not file.exists():
        return ConfigFile()
    documents = load_documents(read_input(file, may_be_pipe=True), file=str(file), kind=InputError)
    if not documents:
        return ConfigFile()  # nothing but comments
    document = documents[0]
    document.require_plain(InputError)
    known = {setting.name: setting for setting in SETTINGS}
    if not isinstance(document.value, dict):
        raise document.error(InputError, "the file is a mapping of settings.", hint="Write theme: light.")
    mistakes = Mistakes()
    values = {}
    for name, value in document.value.items():
        with mistakes.collected():
            if name not in known:
                hint = nearest_hint(name, list(known))
                raise document.error(InputError, f"unknown setting {name!r}.", name, hint=hint)
            values[name] = _value(document, known[name], value)
    mistakes.require_none()
    return ConfigFile(values, {name: f"{file}:{document.position(name)[0]}" for name in values})


def with_environment(config: ConfigFile, environment: Mapping[str, str]) -> ConfigFile:
    """Return the settings of the file, with those that have a variable of their own in its place.

    Args:
        config: The file.
        environment: Variables such as `EKSML_TUI_THEME`; values are written as in the file.

    Raises:
        InputError: A value has a mistake; with the variable.
    """
    values, places, mistakes = dict(config.values), dict(config.places), Mistakes()
    for setting in SETTINGS:
        if text := environment.get(setting.variable):
            with mistakes.collected():
                (document,) = load_documents(f"{setting.name}: {text}".encode(), file=setting.variable)
                values[setting.name] = _value(document, setting, document.value[setting.name])
                places[setting.name] = f"environment {setting.variable}"
    mistakes.require_none()
    return ConfigFile(values, places)


def _value(document: Document, setting: Setting, value: Any) -> Any:
    """Return a value in the form that the options have."""
    read = _READERS[setting.form](document, setting, value)
    if read is not None:
        return read
    hint = nearest_hint(str(value), list(setting.choices)) if setting.choices else ""
    raise document.error(InputError, f"{setting.name} must be {setting.form.value}.", setting.name, hint=hint)


def _flag(_document: Document, _setting: Setting, value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(_document: Document, _setting: Setting, value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < float("inf") else None


def _text(_document: Document, _setting: Setting, value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _choice(_document: Document, setting: Setting, value: Any) -> str | None:
    return value if value in setting.choices else None


def _file(document: Document, _setting: Setting, value: Any) -> Path | None:
    """Return a path; a relative one is below the folder of the settings file."""
    return Path(document.file).parent / expanded(value) if isinstance(value, str) and value else None


def _folders(document: Document, setting: Setting, value: Any) -> list[Path] | None:
    paths = [_file(document, setting, item) for item in (value if isinstance(value, list) else [value])]
    found = [path for path in paths if path is not None]
    return found if len(found) == len(paths) else None


def _lines(document: Document, setting: Setting, value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    mistakes = Mistakes()
    for name, line in value.items():
        with mistakes.collected():
            _check_line(document, setting.name, name, line)
    mistakes.require_none()
    return dict(value)


def _check_line(document: Document, section: str, name: str, line: Any) -> None:
    if not _WORD.fullmatch(name):
        raise document.error(InputError, f"{name!r} is not a word.", section, name, hint="Use letters and digits.")
    if not isinstance(line, str) or not line.strip():
        raise document.error(InputError, f"{name} must be a text.", section, name)
    if section == "aliases":
        _check_alias(document, name, line)
    if section == "filters":
        _check_filter(document, name, line)


def _check_alias(document: Document, name: str, line: str) -> None:
    if any(command.id == name for command in COMMANDS):
        raise document.error(
            InputError, f"{name!r} is a command already.", "aliases", name, hint="Choose another word."
        )
    try:
        parse_line(line)
    except ConsoleError as error:
        raise document.error(InputError, error.message, "aliases", name, hint=error.hint) from error


def _check_filter(document: Document, name: str, line: str) -> None:
    try:
        parse_filter(line)
    except ConsoleError as error:
        raise document.error(InputError, error.message, "filters", name, hint=error.hint) from error


def _home(_document: Document, _setting: Setting, value: Any) -> str | None:
    from actions.run.context.store_address import parse_store

    try:
        return str(parse_store(value)) if isinstance(value, str) else None
    except ConsoleError:
        return None


def _words(_document: Document, _setting: Setting, value: Any) -> list[str] | None:
    is_list = isinstance(value, list) and value and all(isinstance(word, str) for word in value)
    return list(value) if is_list else None


def _hours(_document: Document, _setting: Setting, value: Any) -> str | None:
    return value if isinstance(value, str) and hours_of(value) is not None else None


def _moment(_document: Document, _setting: Setting, value: Any) -> str | None:
    from actions.run.limits.options import is_moment

    return value if isinstance(value, str) and is_moment(value) else None


def _limit(_document: Document, setting: Setting, value: Any) -> str | None:
    from actions.run.limits.options import IDLE_TIME, WATCHDOG_TIME, minutes_of, percentage

    text = str(value)
    try:
        if setting.form is SettingForm.PERCENT:
            percentage(text)
            return text
        return text if minutes_of(text, IDLE_TIME if setting.form is SettingForm.IDLE else WATCHDOG_TIME) else None
    except ConsoleError:
        return None


_READERS: Mapping[SettingForm, Callable[[Document, Setting, Any], Any]] = {
    SettingForm.TEXT: _text,
    SettingForm.FLAG: _flag,
    SettingForm.NUMBER: _number,
    SettingForm.FILE: _file,
    SettingForm.FOLDERS: _folders,
    SettingForm.CHOICE: _choice,
    SettingForm.LINES: _lines,
    SettingForm.WORDS: _words,
    SettingForm.STORE: _home,
    SettingForm.HOURS: _hours,
    SettingForm.MOMENT: _moment,
    SettingForm.WATCHDOG: _limit,
    SettingForm.IDLE: _limit,
    SettingForm.PERCENT: _limit,
}
