"""The pictures of the README are small, load nothing, and show what they showed."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from actions.script.model import Conditions
from actions.script.parse import load_script
from tests.support.pictures import LARGEST_BYTES, smaller
from tests.support.sources import ROOT

PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
SCRIPTS = sorted((ROOT / "assets" / "scripts" / "pictures").glob("*.yaml"))
DRAWN = """<svg class="rich-terminal" viewBox="0 0 10.12345 9">
<style>.terminal-123-r1 { fill: #c5c8c6 }</style>
<defs><clipPath id="terminal-123-line-0">
  <rect x="0" y="1.5"/>
</clipPath><clipPath id="terminal-123-clip-terminal"><rect/></clipPath></defs>
<g clip-path="url(#terminal-123-clip-terminal)">
<text class="terminal-123-r1" x="0.123456" clip-path="url(#terminal-123-line-0)">a&#160;$13.08</text></g></svg>"""


def test_a_smaller_picture_has_the_same_text_and_every_name_that_it_uses() -> None:
    small = smaller(DRAWN)
    root = ElementTree.fromstring(small)
    assert "".join(root.itertext()) == ".t-r1 { fill: #c5c8c6 }a\xa0$13.08"
    assert 'viewBox="0 0 10.12 9"' in small
    assert set(re.findall(r"url\(#([\w-]+)\)", small)) <= set(re.findall(r'id="([\w-]+)"', small))
    assert "line-0" not in small


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_each_picture_is_small_and_loads_nothing(picture: object) -> None:
    text = (ROOT / "docs" / "pictures" / str(picture)).read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST_BYTES
    root = ElementTree.fromstring(text)
    assert "demo" in "".join(root.itertext())
    assert not re.search(r"(?:href|src)=|url\((?!#)|@import|<script", text)


def test_the_scripts_draw_each_picture_of_the_readme_and_one_of_each_system() -> None:
    scripts = [load_script(path, environment={}) for path in SCRIPTS]
    steps = [step for script in scripts for step in script.steps if step.verb == "screenshot"]
    drawn = {step.text.split()[1].removeprefix("file=") for step in steps}
    assert drawn == {path.name for path in PICTURES}
    shown = set(re.findall(r"\(docs/pictures/([\w.-]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert shown == drawn
    systems = {path.parent.name for path in (ROOT / "blueprints").glob("*/blueprint.yaml")}
    assert len(systems) == 6
    assert systems <= {Path(name).stem for name in drawn}
    assert all(isinstance(script.always[-1].action, Conditions) for script in scripts)
