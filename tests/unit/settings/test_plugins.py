"""Plugins of k9s' form: what a file may say, each mistake with its place, and placeholders."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import InputError
from tui.settings.keymap import Keymap, PluginInput, plugin_files
from tui.settings.keys import KeyContext, footer, help_page
from tui.settings.plugins import filled, is_one_placeholder, panes_of, typed_line, what_is_wrong, with_plugins

PLAIN = "description: say it, scopes: [pods], command: echo"


def written(folder: Path, text: str) -> Path:
    file = folder / "plugins.yaml"
    file.write_text(text)
    return file


def read(folder: Path, text: str) -> list[Path]:
    return [written(folder, text)]


def test_a_plugin_of_k9s_is_read(tmp_path: Path) -> None:
    text = """
plugins:
  tail-it:
    shortCut: Shift-A
    override: false
    confirm: false
    dangerous: true
    description: tail
    scopes: [po, deployments]
    command: tailer
    background: true
    overwriteOutput: true
    args: [--tail, 50, $NAME]
    inputs:
      - {name: lines, label: Lines, type: number, required: true, default: 3}
      - {name: all, type: bool, default: true}
"""
    keymap = with_plugins(Keymap(), read(tmp_path, text))
    ((plugin, panes),) = keymap.plugins
    assert (plugin.name, plugin.key, plugin.args) == ("tail-it", "A", ("--tail", "50", "$NAME"))
    assert (plugin.is_background, plugin.is_confirmed, plugin.shows_output) == (True, True, True)
    assert [(one.name, one.default) for one in plugin.inputs] == [("lines", "3"), ("all", "true")]
    assert typed_line(plugin) == "plugin tail-it lines=3 all=true"
    assert panes == panes_of(plugin)
    assert sorted(map(str, panes)) == ["accelerators", "objects", "pods", "queues"]
    assert ("A", "tail") in footer(KeyContext.PODS, keymap)
    assert ("A", "tail") not in footer(KeyContext.NODES, keymap)
    assert help_page(KeyContext.PODS, keymap).startswith("Your own keys\n  A               tail (:plugin tail-it)")


def test_inputs_are_confirmed_unless_that_is_denied(tmp_path: Path) -> None:
    inputs = "inputs: [{name: x, type: string}]"
    text = (
        f"plugins:\n  a: {{shortCut: r, {PLAIN}, {inputs}}}\n  b: {{shortCut: i, {PLAIN}, confirm: false, {inputs}}}\n"
    )
    found = with_plugins(Keymap(), read(tmp_path, text)).plugins
    assert [plugin.is_confirmed for plugin, _ in found] == [True, False]


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert with_plugins(Keymap(), []) == Keymap()
    assert with_plugins(Keymap(), read(tmp_path, "# nothing\n")) == Keymap()


@pytest.mark.parametrize(
    ("keys", "scopes", "key"),
    [("shortCut: Ctrl-Y", "[all]", "ctrl+y"), ("shortCut: F5", "[no]", "f5"), ("shortCut: Shift-F", "[pods]", "F")],
)
def test_keys_are_written_as_in_k9s(keys: str, scopes: str, key: str, tmp_path: Path) -> None:
    text = f"plugins: {{x: {{{keys}, description: d, scopes: {scopes}, command: c}}}}"
    assert with_plugins(Keymap(), read(tmp_path, text)).plugins[0][0].key == key


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (f"shortCut: l, {PLAIN}", "'l' is already the key of pods.logs"),
        (f"shortCut: l, {PLAIN}, override: true", "move that one in keys.yaml: move: {pods.logs: f12}"),
        (f"shortCut: q, {PLAIN}", "'q' is already the key of everywhere.quit"),
        (f"shortCut: j, {PLAIN}", "'j' is already the key of Go down, up"),
        (f"shortCut: Ctrl-I, {PLAIN}", "'ctrl+i' is already the key of tab"),
        (f"shortCut: f9, {PLAIN}", "'f9' is not a key"),
        (f"shortCut: r, {PLAIN}, dangerus: true", "Did you mean dangerous"),
        (f"shortCut: r, {PLAIN}, dangerous: 1", "dangerous must be true or false"),
        ("shortCut: r, description: d, command: c", "x needs scopes"),
        (f"shortCut: r, {PLAIN}, inputs: [{{name: a}}]", "Types are string, number, bool, dropdown"),
        (f"shortCut: r, {PLAIN}, inputs: [{{name: a, type: number, default: b}}]", "must be a number, not 'b'"),
        (f"shortCut: r, {PLAIN}, inputs: [{{name: a, type: bool, lable: b}}]", "Did you mean label"),
        (f"shortCut: r, {PLAIN}, inputs: [{{name: a, type: bool}}, {{name: a, type: bool}}]", "at most 5 inputs"),
    ],
)
def test_each_mistake_has_its_line_and_a_remedy(value: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        with_plugins(Keymap(), read(tmp_path, f"plugins:\n  x: {{{value}}}\n"))
    sentence = refused.value.sentence()
    assert f"{tmp_path / 'plugins.yaml'}:2:" in sentence
    assert said in sentence


@pytest.mark.parametrize("text", ["- x", "plugin: {}", "plugins: [x]", "plugins: {x: 5}"])
def test_another_form_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mapping"):
        with_plugins(Keymap(), read(tmp_path, text))


def test_two_plugins_share_a_key_only_for_different_kinds(tmp_path: Path) -> None:
    one, other = f"{{shortCut: r, {PLAIN}}}", "{shortCut: r, description: d, scopes: [%s], command: c}"
    for scope in ("cj", "containers"):
        assert len(with_plugins(Keymap(), read(tmp_path, f"plugins: {{a: {one}, b: {other % scope}}}")).plugins) == 2
    for scope in ("pod", "all"):
        with pytest.raises(InputError, match="'r' is already the key of the plugin a"):
            with_plugins(Keymap(), read(tmp_path, f"plugins: {{a: {one}, b: {other % scope}}}"))


def test_a_key_of_ones_own_is_taken_and_a_moved_one_is_free(tmp_path: Path) -> None:
    file = written(tmp_path, f"plugins: {{x: {{shortCut: l, {PLAIN}}}}}")
    moved = {"pods.logs": "f9", "accelerators.logs": "f9", "objects.logs": "f9"}
    assert with_plugins(Keymap(moved=moved), [file]).plugins[0][0].key == "l"
    with pytest.raises(InputError, match="own line 'open cost'"):
        with_plugins(Keymap(moved=moved, lines={"l": "open cost"}), [file])


VALUES = {"NAME": "web-0", "COL-READY": "true", "COL-CPU/L": "5%", "COL-N": "1", "INPUT_X": "$NAME"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$NAME", "web-0"),
        ("a-${name}-b", "a-web-0-b"),
        ("${COL-CPU/L}", "5%"),
        ('{"suspend": $!COL-READY}', '{"suspend": false}'),
        ("$COL-READY ${!COL-READY}", "true false"),
        ("$COL-N", "1"),
        ("$1 $(id) $HOME $$", "$1 $(id) $HOME $$"),
        ("$INPUT_X", "$NAME"),
    ],
)
def test_placeholders_are_those_of_k9s(text: str, found: str) -> None:
    assert filled(text, VALUES) == found


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("$NAME", True), ("${COL-CPU/L}", True), ("$!COL-X", True), ("a$NAME", False), ("$NAME;", False), ("", False)],
)
def test_an_argument_is_one_placeholder_or_has_more(text: str, is_one: bool) -> None:
    assert is_one_placeholder(text) == is_one


def test_a_value_fits_its_input() -> None:
    choice = PluginInput("size", "dropdown", options=("a", "b"))
    assert what_is_wrong(choice, "c") == "must be one of a, b, not 'c'"
    assert what_is_wrong(choice, "a") == what_is_wrong(PluginInput("n", "number"), "1e3") == ""
    assert what_is_wrong(PluginInput("on", "bool"), "yes") == "must be one of true, false, not 'yes'"


def test_the_files_of_a_folder_are_read_in_the_three_forms_of_k9s(tmp_path: Path) -> None:
    (tmp_path / "plugins" / "more").mkdir(parents=True)
    written(tmp_path, f"plugins:\n  first: {{shortCut: r, {PLAIN}}}\n  twice: {{shortCut: i, {PLAIN}}}\n")
    (tmp_path / "plugins" / "one.yaml").write_text(
        f"shortCut: f1\n{PLAIN.replace(', ', chr(10))}\n".replace("f1", "F1")
    )
    (tmp_path / "plugins" / "more" / "few.yml").write_text(
        f"two: {{shortCut: F2, {PLAIN}}}\ntwice: {{shortCut: F3, {PLAIN}}}\n"
    )
    (tmp_path / "plugins" / "notes.txt").write_text("not a plugin")
    files = plugin_files(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in files] == [
        "plugins.yaml",
        "plugins/more/few.yml",
        "plugins/one.yaml",
    ]
    keys = {plugin.name: plugin.key for plugin, _ in with_plugins(Keymap(), files).plugins}
    assert keys == {"first": "r", "twice": "f3", "two": "f2", "one": "f1"}, "of one name the last one counts"

    (tmp_path / "plugins" / "one.yaml").write_text(f"shortCut: l\n{PLAIN.replace(', ', chr(10))}\n")
    (tmp_path / "plugins" / "more" / "few.yml").write_text("two: {shortCut: F2, command: x}\n")
    with pytest.raises(InputError, match=r"few.yml:1:\d+: two needs description") as refused:
        with_plugins(Keymap(), files)
    assert "one.yaml:1:1: one: 'l' is already the key of pods.logs" in str(refused.value.others[0])
    assert plugin_files(tmp_path / "none") == []
