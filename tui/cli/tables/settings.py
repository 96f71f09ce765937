"""`eksml-tui config`: every setting with its value, and where that is from."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from actions.base.decoding import json_document
from actions.base.wording import aligned_text
from tui.cli.tables.output import print_table
from tui.settings.config import SettingValue, config_path

_FIELDS = ("name", "value", "source", "help")


def run(options: Namespace) -> int:
    """Print the settings."""
    settled: list[SettingValue] = options.settled
    print_table(
        options.output,
        table=lambda: _table(settled),
        document=lambda: json_document([_row(each) for each in settled]),
        fields=_FIELDS,
    )
    return 0


def _row(each: SettingValue) -> dict[str, Any]:
    return {
        "name": each.setting.name,
        "value": _plain(each.value),
        "source": each.source,
        "help": each.setting.help,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if value == "" else value


def _table(settled: list[SettingValue]) -> str:
    lines = [["SETTING", "VALUE", "FROM"]]
    lines += [[each.setting.name, _text(each.value), each.source] for each in settled]
    return aligned_text(lines) + f"\nfile: {config_path()}{'' if config_path().exists() else ' (there is none)'}\n"


def _text(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, list):
        return ", ".join(plain) or "-"
    if isinstance(plain, dict):
        return ", ".join(f"{name}: {line}" for name, line in plain.items()) or "-"
    return "-" if plain is None else f"{plain:g}" if isinstance(plain, float) else str(plain)
