"""The configuration of a script that Hydra would start: a file of YAML, and `key=value` on the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml


class Settings:
    """Values by dotted name.

    Args:
        words: The script's arguments: `--config-path=FOLDER --config-name=NAME`, `a.b=c`, `+a.b=c`, `++a.b=c`.
    """

    def __init__(self, words: list[str] | None = None) -> None:
        words = sys.argv[1:] if words is None else words
        options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
        self._given = {
            name.lstrip("+"): value
            for name, separator, value in (word.partition("=") for word in words if not word.startswith("--"))
            if separator
        }
        self._file: dict[str, Any] = {}
        name = options.get("config-name", "")
        path = Path(options.get("config-path", ""), name if name.endswith(".yaml") else f"{name}.yaml")
        if path.is_file():
            self._file = yaml.safe_load(path.read_text(encoding="utf-8")) or {}

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return a value as YAML reads it; what is null, or refers to another value, counts as not given."""
        if name in self._given:
            return yaml.safe_load(self._given[name])
        found: Any = self._file
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return otherwise if found is None or "${" in str(found) else found

    def text(self, name: str, otherwise: str = "") -> str:
        """Return a value as it was written."""
        return self._given.get(name) or str(self.get(name, otherwise))

    def number(self, name: str, otherwise: int) -> int:
        """Return an integer."""
        return int(self.get(name, otherwise))

    def real(self, name: str, otherwise: float) -> float:
        """Return a floating-point number; YAML takes `2e-4` for a text."""
        return float(self.get(name, otherwise))

    def truth(self, name: str, *, otherwise: bool) -> bool:
        """Return a truth value, however its first letter is written."""
        return str(self.get(name, otherwise)).lower() == "true"
