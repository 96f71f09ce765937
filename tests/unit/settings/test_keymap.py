"""Keys of the operator's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from actions.base.errors import InputError
from actions.cluster.auth.kubeconfig import ClusterTarget
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.settings.keyfile import key_ids, load_keymap
from tui.settings.keymap import Keymap
from tui.settings.keys import KeyContext, help_page
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text


def written(folder: Path, text: str) -> Path:
    file = folder / "keys.yaml"
    file.write_text(text)
    return file


def test_without_a_file_nothing_is_changed(tmp_path: Path) -> None:
    assert load_keymap(tmp_path / "none.yaml") == Keymap()
    assert load_keymap(written(tmp_path, "# nothing\n")) == Keymap()


def test_keys_are_moved_and_lines_get_keys(tmp_path: Path) -> None:
    keymap = load_keymap(
        written(tmp_path, "move: {pods.shell: S, everywhere.zoom: f5 f7}\nown: {f6: open pods of=run}\n")
    )
    assert keymap.moved == {"pods.shell": "S", "everywhere.zoom": "f5,f7"}
    assert keymap.lines == {"f6": "open pods of=run"}


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("keys: {}", "keys.yaml:1:1", "unknown key 'keys'"),
        ("move: {pods.shel: S}", "keys.yaml:1:8", "Did you mean pods.shell"),
        ("move: {pods.shell: entre}", "keys.yaml:1:8", "'entre' is not a key"),
        ("move: {pods.shell: ''}", "keys.yaml:1:8", "no key is given"),
        ("own: {f6: opne pods}", "keys.yaml:1:7", "Did you mean open"),
        ("move: {pods.shell: l}", "keys.yaml:1:8", "'l' would be both pods.logs and pods.shell"),
        ("move: {everywhere.zoom: q}", "keys.yaml:1:8", "'q' would be both everywhere.zoom and everywhere.quit"),
        ("move: {everywhere.enter: o}", "keys.yaml:1:8", "is not a row of the key tables"),
        ("own: {z: open cost}", "keys.yaml:1:7", "'z' is already the key of everywhere.zoom"),
        ("own: [f6]", "keys.yaml:1:1", "own is a mapping"),
        ("- f6", "keys.yaml", "the file is a mapping"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, place: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_keymap(written(tmp_path, text))
    assert place in caught.value.message
    assert said in caught.value.sentence()


def test_all_mistakes_are_named_at_once_and_in_order(tmp_path: Path) -> None:
    text = "own: {f6: opne pods, z: open cost}\nmove:\n  pods.shel: S\n  pods.shell: l\n  pods.logs: entre\nkeys: {}\n"
    with pytest.raises(InputError) as caught:
        load_keymap(written(tmp_path, text))
    said = caught.value.sentences()
    assert [line.partition("keys.yaml:")[2].split(":")[0] for line in said] == list("113456")
    words = ("mean open", "everywhere.zoom", "pods.shell", "both pods.logs", "'entre'", "'keys'")
    for word, line in zip(words, said, strict=True):
        assert word in line


def test_two_keys_can_change_places(tmp_path: Path) -> None:
    keymap = load_keymap(
        written(tmp_path, "move: {pods.shell: l, pods.logs: s, everywhere.zoom: f5}\nown: {z: open cost}")
    )

    assert keymap.moved["pods.logs"] == "s"
    assert keymap.lines == {"z": "open cost"}


def test_help_shows_the_operators_keys() -> None:
    page = help_page(KeyContext.PODS, Keymap(moved={"pods.shell": "S"}, lines={"f6": "open events"}))

    assert page.startswith("Your own keys\n  f6              :open events\n\nIn the pods pane")
    assert "  S               Open a shell. A shell in the container. (was s)" in page


def test_every_row_of_the_table_has_an_id_of_its_own() -> None:
    ids = list(key_ids())
    assert len(ids) == len(set(ids))


async def test_moved_and_own_keys_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    target = ClusterTarget()
    keymap = Keymap(
        moved={"everywhere.open pods": "f5", "panes.split right": "u", "run.approve": "A"}, lines={"f6": "open events"}
    )
    app = ConsoleApp(ConsoleSettings(target=target, keymap=keymap))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        app.post_message(events.Key("f6", None))
        await wait_for(pilot, lambda: app.workspace.split.current == "events", "the own key opens events")
        app.post_message(events.Key("f5", None))
        await wait_for(pilot, lambda: app.workspace.split.current == "pods", "the moved key opens pods")
        await wait_for(pilot, lambda: "[f5 " in screen_text(app), "the tabs show it")
        app.post_message(events.Key("ctrl+w", None))
        await wait_for(pilot, lambda: "u split right" in screen_text(app), "the keys after ctrl+w show it")
        app.post_message(events.Key("u", "u"))
        await wait_for(pilot, lambda: len(app.workspace.visible) == 2, "and it works there")
