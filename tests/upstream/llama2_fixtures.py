"""The facts of upstream, rendered words, and table of Neuron releases that the tests of both Llama-2 systems share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from actions.base.files import shipped_blueprints

_FACTS = Path(__file__).parents[1] / "fixtures" / "upstream"


def facts(name: str) -> dict[str, Any]:
    """A fixture, which names its repository, commit and file."""
    found = yaml.safe_load((_FACTS / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", found["repository"])
    return found


def neuron_table() -> dict[str, Any]:
    """The table of what belongs together, as it is shipped."""
    found = yaml.safe_load((shipped_blueprints() / "common" / "neuron-releases.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


class Dockerfile:
    """A Dockerfile's instructions, continued lines joined, with its arguments put in."""

    def __init__(self, blueprint: str) -> None:
        text = (shipped_blueprints() / blueprint / "image" / "Dockerfile").read_text(encoding="utf-8")
        bare = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        lines = [line.strip() for line in bare.replace("\\\n", " ").splitlines() if line.strip()]
        self.arguments = dict(line[4:].split("=", 1) for line in lines if line.startswith("ARG "))
        self.lines = [self._filled(" ".join(line.split())) for line in lines]
        self.base = next(line[5:] for line in self.lines if line.startswith("FROM "))

    def runs(self) -> list[str]:
        """The commands of RUN, in order."""
        return [line[4:] for line in self.lines if line.startswith("RUN ")]

    def installed(self) -> list[str]:
        """Return what pip installs, as it is written there: `torch==1.13.1`, `-r requirements.txt`, `./build/*.whl`."""
        found: list[str] = []
        for run in self.runs():
            for call in re.findall(r"pip3? install ([^&|;]*)", run):
                words = re.sub(r"--(?:extra-)?index-url \S+", "", call).replace('"', "").split()
                found += [word for word in words if not word.startswith("--")]
        return found

    def apt(self) -> set[str]:
        """The Debian packages."""
        words: set[str] = set()
        for run in self.runs():
            for call in re.findall(r"apt-get install ([^&|;]*)", run):
                words |= {word.strip('"') for word in call.split() if not word.startswith("-")}
        return words

    def _filled(self, line: str) -> str:
        for name, value in self.arguments.items():
            line = line.replace(f"${{{name}}}", value).replace(f"${name}", value)
        return line


def distribution(requirement: str) -> str:
    """The normalised name in a requirement (PEP 503)."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~\[;]", requirement.strip(), maxsplit=1)[0]).lower()


def check_flags(words: list[str], flags: dict[str, dict[str, Any]]) -> None:
    """Fail for a word that is no flag of these, or has a value that its type does not take."""
    for word in words:
        if not word.startswith("-"):
            continue
        name, has_value, value = word.partition("=")
        assert name in flags, f"{name} is no argument of the program"
        kind = flags[name].get("type", "str")
        if flags[name].get("action") == "store_true":
            assert not has_value, f"{name} takes no value"
        else:
            assert has_value
            {"int": int, "float": float, "str": str, "bool": bool}[kind](value)
            assert "choices" not in flags[name] or value in flags[name]["choices"]
            assert kind != "bool" or value == "True", f"any text is True for {name}"
    given = {word.partition("=")[0] for word in words}
    assert {name for name, flag in flags.items() if flag.get("required")} <= given
