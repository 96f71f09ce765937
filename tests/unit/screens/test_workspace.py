"""Panes as one places them, through the real screen. No cluster, no run."""

from __future__ import annotations

import asyncio
import importlib
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widget import Widget

from actions.base.errors import ConfigError, ConsoleError, MissingError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.command.parse import parse_line
from tests.support.polling import until
from tests.support.waiting import settle, wait_for
from tui import defects
from tui.app import ConsoleApp
from tui.panes.cost import CostPane
from tui.screens.kept_panes import CHARTS_FILE, LAST_FILE, KeptPanes, read_charts, read_layout
from tui.screens.workspace import PANES, forms_of, layout_of
from tui.settings.keys import KeyContext, key_name
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text
from tui.widgets.arrangement import Leaf, leaves, side_by_side, stacked

SETTINGS = ConsoleSettings(target=ClusterTarget())


pytestmark = pytest.mark.usefixtures("own_home")


class Console:
    """A console on which lines are typed."""

    def __init__(self, app: ConsoleApp, pilot: Pilot[Any]) -> None:
        self.app = app
        self.pilot = pilot
        self.split = app.workspace.split

    async def lines(self, *lines: str) -> None:
        for line in lines:
            await self.app.script_driver.execute(parse_line(line))

    async def press(self, *keys: str) -> None:
        await self.app.script_driver.press(keys)

    async def shows(self, text: str) -> None:
        await wait_for(self.pilot, lambda: text in screen_text(self.app), text)

    async def hides(self, text: str) -> None:
        await wait_for(self.pilot, lambda: text not in screen_text(self.app), f"no {text}")

    async def sees(self, *panes: str) -> None:
        await wait_for(self.pilot, lambda: self.visible == panes, f"panes {panes}")

    @property
    def visible(self) -> tuple[str, ...]:
        return self.split.visible_keys


@asynccontextmanager
async def a_console(
    size: tuple[int, int] = (120, 36), settings: ConsoleSettings = SETTINGS, *, notifications: bool = False
) -> AsyncIterator[Console]:
    app = ConsoleApp(settings)
    async with app.run_test(size=size, notifications=notifications) as pilot:
        await settle(pilot)
        await wait_for(pilot, lambda: app.workspace.split.size.width > 0, "the first layout")
        yield Console(app, pilot)


FIRST = PANES[0]
KEYS = {pane: key_name(KeyContext.EVERYWHERE, f"open {pane}") for pane in PANES}
WATCH = ("run", "logs", "accelerators", "charts")


async def test_a_pane_is_focused_by_its_name_or_by_its_key_alone() -> None:
    async with a_console() as console:
        for pane, key in KEYS.items():
            await console.lines(f"focus {key}")
            assert console.split.current == pane
        with pytest.raises(MissingError):  # ten panes have a digit, none of them is the tenth
            console.app.workspace.focus("10")


async def test_a_digit_shows_a_pane_over_the_watch_layout_and_escape_returns_to_it() -> None:
    async with a_console() as console:
        await console.lines("layout watch", "focus logs")
        before = console.split.arrangement
        await console.press(KEYS["nodes"])
        await console.sees("nodes")
        await console.shows("esc layout")
        await console.press(KEYS["events"])
        await console.sees("events")
        await console.press("escape", "escape")
        await console.sees(*WATCH)
        assert console.split.arrangement is before
        assert console.split.current == "logs"
        await console.press(KEYS["nodes"], KEYS["run"])
        await console.sees(*WATCH)
        assert console.split.current == "run"
        await console.press("escape")
        await console.sees(*WATCH)


async def test_escape_returns_to_a_list_in_front_from_what_was_chosen_in_it() -> None:
    async with a_console() as console:
        await console.lines("open nodes", "split right pods", "open cost")
        await console.sees("cost")
        await console.lines("open pods of=ip-10-1-42-17")
        await console.sees("nodes", "pods")
        await console.press("escape")
        await console.sees("cost")
        await console.press("escape")
        await console.sees("nodes", "pods")


@pytest.mark.parametrize(
    ("size", "rows"),
    [((200, 50), 1), ((132, 36), 1), ((120, 36), 2), ((100, 30), 2)],
)
async def test_the_watch_layout_shows_four_panes_from_a_hundred_columns(size: tuple[int, int], rows: int) -> None:
    async with a_console(size) as console:
        await console.lines("layout watch")
        assert console.visible == WATCH
        places = console.app.workspace.visible
        columns = 3 if rows == 1 else 2

        def is_placed() -> bool:
            regions = [pane.region for pane in places]
            return len({region.x for region in regions}) == columns and min(region.width for region in regions) >= 40

        await wait_for(console.pilot, is_placed, "their places")


async def test_at_eighty_columns_the_panes_are_tabs_and_the_footer_names_the_key() -> None:
    async with a_console((80, 24)) as console:
        await console.lines("layout watch")
        assert console.visible == ("run",)
        await console.shows("tab next: too small for all")
        await console.press("tab", "tab")
        assert console.visible == ("accelerators",)
        await console.press(KEYS["nodes"], "escape")
        assert console.visible == ("accelerators",)
        with pytest.raises(ConsoleError, match="no room to show"):
            await console.lines("resize left")


async def test_panes_are_split_swapped_resized_equalized_and_closed_by_keys() -> None:
    third = next(pane for pane in PANES if pane not in ("pods", FIRST))
    async with a_console() as console:
        await console.press(KEYS["pods"], "ctrl+w", "v")
        assert console.split.arrangement == side_by_side("pods", FIRST)
        await console.press("ctrl+w", "s")
        assert leaves(console.split.arrangement) == ("pods", FIRST, third)
        await console.press("ctrl+w", "x")
        assert leaves(console.split.arrangement) == (third, FIRST, "pods")
        assert console.split.current == third
        await console.press("ctrl+w", "L", "L", "H", "escape")
        await wait_for(console.pilot, lambda: console.app.workspace.current.region.width == 63, "a wider pane")
        assert len(console.app.screen_stack) == 1
        await console.press("ctrl+w", "=")
        assert console.split.arrangement == side_by_side(third, stacked(FIRST, "pods"))
        await console.press("ctrl+w", "c")
        assert console.split.arrangement == stacked(FIRST, "pods")
        assert console.split.current == FIRST
        await console.press("ctrl+w", "c")
        assert console.split.arrangement == Leaf("pods")
        with pytest.raises(ConsoleError, match="last pane stays"):
            await console.lines("close")


async def test_a_pane_in_front_is_put_beside_the_one_behind_it() -> None:
    async with a_console((160, 45)) as console:
        await console.lines("split right pods", "open events")
        assert console.split.placing.has_front
        await console.lines("split down")
        assert console.split.arrangement == side_by_side(FIRST, stacked("pods", "events"))
        assert console.split.current == "events"
        await console.lines("open cost", "close")
        assert console.visible == (FIRST, "pods", "events")
        assert console.split.current == "events"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"split right {FIRST}", f"{FIRST} is the pane that is split"),
        ("split right foo", "no pane 'foo'"),
        ("split sideways", "not one of"),
        ("swap left", f"{FIRST} is the only pane"),
        ("resize left", f"{FIRST} is the only pane"),
        ("layout watsh", "not one of"),
    ],
)
async def test_what_cannot_be_done_is_a_sentence(line: str, sentence: str) -> None:
    async with a_console((80, 24)) as console:
        with pytest.raises(ConsoleError) as error:
            await console.lines(line)
        assert sentence in error.value.sentence()


async def test_no_split_makes_a_pane_too_small() -> None:
    async with a_console((80, 24)) as console:
        await console.lines("split right", "split down")
        with pytest.raises(ConsoleError, match="no room"):
            await console.lines("split right")
        assert len(console.visible) == 3


async def test_panes_come_back_in_the_next_session_as_they_were_placed(tmp_path: Path) -> None:
    settings = replace(SETTINGS, layout_folder=tmp_path / "state")
    async with a_console(settings=settings) as console:
        await console.lines("layout quad", "resize right 5")
        placed = console.split.arrangement
    last = tmp_path / "state" / LAST_FILE
    assert read_layout(last) == placed != layout_of("quad", "")[0].tree
    assert stat.S_IMODE(last.stat().st_mode) == 0o600

    async with a_console(settings=settings) as console:
        await wait_for(console.pilot, lambda: console.split.placing.has_front, "home in front of the last layout")
        assert console.visible == ("home",)
        await console.press("escape")
        await console.sees("nodes", "run", "pods", "events")
        assert console.split.arrangement == placed


async def test_home_in_front_of_the_last_layout_has_the_keys(tmp_path: Path) -> None:
    panes = KeptPanes(tmp_path)
    await panes.keep_last(layout_of("watch", "")[0].tree)
    panes.close()
    async with a_console(settings=replace(SETTINGS, layout_folder=tmp_path)) as console:
        await wait_for(console.pilot, lambda: console.split.placing.has_front, "home in front of the last layout")
        await wait_for(console.pilot, lambda: console.app.workspace.pane("run").is_mounted, "the panes behind it")
        await settle(console.pilot)
        assert console.app.workspace.pane("home").has_focus_within, "keys went to a pane that is not seen"


async def test_a_session_that_brings_its_own_panes_does_not_restore_the_last_ones(tmp_path: Path) -> None:
    panes = KeptPanes(tmp_path)
    await panes.keep_last(side_by_side("pods", "events"))
    panes.close()
    async with a_console(settings=replace(SETTINGS, layout_folder=tmp_path, watch="job/foo")) as console:
        assert console.visible == ("nodes",)


DAMAGED = (
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b'{"version": 2, "layout": {"is": "pane", "pane": "runs"}}',
    b'{"version": 1, "layout": {"is": "pane", "pane": "runs"}, "more": 1}',
    b'{"version": 1, "layout": {"is": "pane", "pane": "foo"}}',
    b'{"version": 1, "layout": {"is": "cut", "side_by_side": true, "first": {"is": "pane", "pane": "runs"},'
    b' "second": {"is": "pane", "pane": "runs"}}}',
    b'{"version": 1, "layout": {"is": "cut", "side_by_side": true, "share": 7, "first": {"is": "pane",'
    b' "pane": "runs"}, "second": {"is": "pane", "pane": "pods"}}}',
    b'{"version": 1, "layout": ' + b'{"is": "cut", "side_by_side": true, "first": ' * 5000,
    b" " * 300_000,
)


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_a_sentence(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / LAST_FILE
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"is damaged|cannot be read"):
        read_layout(file)


async def test_a_damaged_file_ends_no_console_and_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / LAST_FILE).write_bytes(b"mine, by hand")
    settings = replace(SETTINGS, layout_folder=tmp_path)
    async with a_console((160, 45), settings, notifications=True) as console:
        await console.shows("damaged")
        told = [one.message for one in console.app._notifications]  # on screen it is folded, by the length of its path
        assert any("last-layout.json is damaged" in one for one in told), told
        await console.lines("split right events")
    assert {file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == {b"mine, by hand"}


def test_a_kept_form_of_a_layout_stands_for_all_its_forms() -> None:
    wide, narrow = layout_of("watch", "")
    assert forms_of(narrow.tree) == (wide, narrow)
    assert leaves(wide.tree) == leaves(narrow.tree)


async def test_escape_takes_a_notification_away_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ConsoleApp, "NOTIFICATION_TIMEOUT", 600.0)  # on a busy machine it was gone by itself before
    async with a_console(notifications=True) as console:
        await console.press(KEYS["events"])
        monkeypatch.chdir(tmp_path)
        await console.lines("screenshot here.txt")
        await console.shows("Saved here.txt")
        await console.press(":", *"open")
        rows = screen_text(console.app).splitlines()
        assert "open" in rows[-1]
        assert "Saved" not in rows[-1]
        await console.press("escape", "escape")
        await console.hides("Saved here.txt")
        assert console.split.current == "events"
        await console.press("escape")
        assert console.split.current == FIRST


async def test_the_place_of_a_pane_whose_parts_are_not_there_yet_is_not_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = asyncio.Event()
    mount = CostPane.mount_composed_widgets

    async def later(pane: CostPane, widgets: list[Widget]) -> None:
        await may_go_on.wait()
        await mount(pane, widgets)

    monkeypatch.setattr(CostPane, "mount_composed_widgets", later)
    async with a_console() as console:
        pressing = asyncio.create_task(console.press(KEYS["cost"]))  # which waits for what the key does
        try:
            await until(lambda: "Opening cost." in screen_text(console.app), "the place", deadline_seconds=60)
        finally:
            may_go_on.set()
            await pressing
        await console.hides("Opening cost.")
        await console.shows("─ cost ─")


async def test_panes_are_imported_before_their_keys_are_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine the first press of `5` or `3` waited for a second of imports."""
    imported: dict[str, str] = {}

    def note(module: str) -> ModuleType:
        if module.startswith("tui.panes."):
            imported.setdefault(module, threading.current_thread().name)
        return found(module)

    found = importlib.import_module
    monkeypatch.setattr("tui.screens.workspace.importlib.import_module", note)
    async with a_console() as console:
        console.app.services.cluster._settled.set()
        await wait_for(console.pilot, lambda: len(imported) == len(PANES), "all panes are imported")

    del imported[f"tui.panes.{FIRST}"]
    assert {name.rstrip("_0123456789") for name in imported.values()} == {"eksml-panes"}


async def test_tabs_footer_and_header_can_be_clicked() -> None:
    async with a_console() as console:
        rows = screen_text(console.app).splitlines()
        await console.pilot.click(offset=(rows[1].index("8 ev"), 1))
        await console.sees("events")
        await console.pilot.click(offset=(rows[0].index("$"), 0))
        await settle(console.pilot)
        assert console.visible == ("events",), "no cost is known yet"
        await console.pilot.click(offset=(rows[0].index("no cluster"), 0))
        await console.shows("Show one with :context NAME")
        await console.press("escape")
        await console.hides("Connect to one")
        await console.shows("? help")
        last = screen_text(console.app).splitlines()[-1]
        await console.pilot.click(offset=(last.index("help"), console.app.size.height - 1))
        await console.shows("─ help ─")


async def test_a_border_is_dragged_and_the_place_is_kept(tmp_path: Path) -> None:
    async with a_console((120, 36), replace(SETTINGS, layout_folder=tmp_path)) as console:
        await console.lines("split right events")
        await wait_for(console.pilot, lambda: console.app.workspace.current.region.x == 60, "two halves")
        await console.pilot.mouse_down(offset=(60, 10))
        await console.pilot.hover(offset=(80, 10))
        await console.pilot.mouse_up(offset=(80, 10))
        await wait_for(console.pilot, lambda: console.app.workspace.current.region.x == 80, "a border further right")
        await console.pilot.click(offset=(5, 20))
        await wait_for(console.pilot, lambda: console.split.current == FIRST, "the focus on the clicked pane")
    assert read_layout(tmp_path / LAST_FILE) == side_by_side(FIRST, "events", share=80 / 120)


async def test_picked_charts_are_kept_of_the_newest_runs(tmp_path: Path) -> None:
    panes = KeptPanes(tmp_path)
    assert await panes.charts() == {}
    await panes.keep_charts({f"run-{number}": ("loss", "lr") for number in range(250)})
    panes.close()
    again = KeptPanes(tmp_path)
    kept = await again.charts()
    assert list(kept) == [f"run-{number}" for number in range(50, 250)]
    assert kept["run-249"] == ("loss", "lr")
    again.close()
    nowhere = KeptPanes(None)
    await nowhere.keep_charts({"run": ("loss",)})
    assert await nowhere.charts() == {}


@pytest.mark.parametrize("content", [b"{", b'{"version": 2, "charts": {}}', b'{"version": 1, "charts": {"a": "loss"}}'])
async def test_a_damaged_file_of_charts_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / CHARTS_FILE
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"charts\.json is damaged"):
        read_charts(file)
    panes = KeptPanes(tmp_path)
    with pytest.raises(ConfigError):
        await panes.charts()
    await panes.keep_charts({"run": ("loss",)})
    panes.close()
    assert file.read_bytes() == content


async def test_a_pane_that_cannot_be_shown_says_so_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_pane: object) -> None:
        raise OverflowError("math range error")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(defects, "are_raised", False)
    async with a_console((160, 45)) as console:
        await console.lines("layout watch")
        pane = console.app.workspace.pane("charts")
        monkeypatch.setattr(type(pane), "refresh_data", broken)
        console.app.workspace.refresh_data()
        await wait_for(console.pilot, lambda: "defects.log." in screen_text(console.app), "the sentence")
        await console.lines("focus logs", "layout watch")
        monkeypatch.undo()
        console.app.workspace.refresh_data()
        await console.hides("defects.log.")
    assert "OverflowError" in (tmp_path / "eksml-tui" / "defects.log").read_text()
