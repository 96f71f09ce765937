"""What a release is made of: addresses, licences of what it needs, GitHub's files, the container."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata
from typing import Any

from tests.support.sources import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

ALLOWED = frozenset({
    "Apache", "BSD", "ISC", "MIT", "MIT-0", "PSF", "PSF-2.0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MPL-2.0",
    "LGPL-3.0",
})  # fmt: skip
"""None of these asks for anything of a program that only imports the package."""

_BY_WORDS = {
    "Apache Software License": "Apache", "BSD License": "BSD", "3-Clause BSD License": "BSD-3-Clause",
    "MIT License": "MIT", "Python Software Foundation License": "PSF",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0",
}  # fmt: skip


def locked() -> list[str]:
    """The packages of the program, by the lock file."""
    return re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)


def licences(package: str) -> set[str]:
    """The licences that a package declares: by expression, else by classifiers, else in words."""
    declared = metadata(package)
    if expression := declared.get("License-Expression"):
        return set(re.split(r" (?:AND|OR) ", expression))
    classifiers = [text for text in declared.get_all("Classifier", []) if text.startswith("License :: ")]
    words = [text.rpartition(" :: ")[2] for text in classifiers] or [declared.get("License") or "none"]
    return {_BY_WORDS.get(word, word) for word in words}


def test_every_package_of_the_program_has_a_licence_that_we_allow() -> None:
    assert len(locked()) > 40
    found = {package: licences(package) for package in locked()}
    assert {package: names for package, names in found.items() if not names <= ALLOWED} == {}


def test_the_project_has_one_address() -> None:
    address = PROJECT["project"]["urls"]["Repository"]
    texts = [(ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "README.md", "docs/script.md")]
    named = {found for text in texts for found in re.findall(r"https://github\.com/[\w-]+/eksml-tui", text)}
    assert named == {address}
