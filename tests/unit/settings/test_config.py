"""Settings of the operator's own: where each value is from, and every mistake with its place."""

from __future__ import annotations

import json
from datetime import time
from pathlib import Path

import pytest

from actions.base.errors import InputError, UsageError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.alarms.ways import AlarmWays
from tests.support.waiting import settle as settled_screen
from tests.support.waiting import wait_for
from tui.app import ConsoleApp
from tui.cli.arguments import parse_arguments
from tui.cli.console import _alarm_settings
from tui.cli.main import main
from tui.cli.target import chosen_target
from tui.commands.dispatcher import expanded
from tui.settings import THEMES
from tui.settings.appearance import console_theme, theme_name, tokens
from tui.settings.config import SETTINGS, ConfigFile, config_schema, settle
from tui.settings.configfile import load_config, with_environment
from tui.settings.settings import AlarmSettings, ConsoleSettings, DesktopNotice
from tui.textual_private import screen_strips


def written(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(text)
    return file


def sources(words: list[str], config: ConfigFile, environment: dict[str, str]) -> dict[str, tuple[object, str]]:
    options = parse_arguments(words)
    return {each.setting.name: (each.value, each.source) for each in settle(options, config, environment)}


def test_without_a_file_all_values_are_defaults(tmp_path: Path) -> None:
    assert load_config(tmp_path / "none.yaml") == ConfigFile()
    assert load_config(written(tmp_path, "# nothing\n")) == ConfigFile()
    found = sources([], ConfigFile(), {})
    assert {source for _, source in found.values()} == {"default"}
    assert (found["theme"][0], found["mouse"][0], found["readonly"][0]) == ("dark", True, False)


def test_a_value_is_of_the_flag_then_the_environment_then_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "theme: light\nprofile: research\nregion: us-east-1\nmouse: false\nblueprints: [own]\n")
    config = load_config(file)
    found = sources(["--theme", "transparent"], config, {"AWS_REGION": "eu-west-1"})
    assert found["theme"] == ("transparent", "flag --theme")
    assert found["region"] == ("eu-west-1", "environment AWS_REGION")
    assert found["profile"] == ("research", f"{file}:2")
    assert found["mouse"] == (False, f"{file}:4")
    assert found["blueprints"] == ([tmp_path / "own"], f"{file}:5")
    options = parse_arguments(["nodes"])
    settle(options, config, {})
    assert (options.no_mouse, options.profile, options.theme, options.keep_snapshots) == (
        True,
        "research",
        "light",
        True,
    )
    assert options.context == ""


def test_a_demo_has_a_cluster_of_its_own(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "context: prod\nkubeconfig: /k\ntheme: light\n"))
    options = parse_arguments(["--demo"])
    settle(options, config, {})
    assert (options.context, options.kubeconfig, options.theme) == ("", None, "light")


def test_a_home_is_of_the_flag_or_the_file_and_a_demo_has_none_but_by_its_flag(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "store: s3://team-runs/ml/\n"))
    for words, home in (
        ([], "s3://team-runs/ml"),
        (["--demo"], ""),
        (["--store", "s3://other"], "s3://other"),
        (["--demo", "launch", "x", "--store", "s3://other"], "s3://other"),
        (["runs", "list", "--store"], "s3://team-runs/ml"),
    ):
        options = parse_arguments(words)
        settle(options, config, {})
        assert options.store == home
    listed = parse_arguments(["runs", "list", "--store", "-o", "json"])
    assert (listed.of_store, listed.output) == ("", "json")
    assert parse_arguments(["runs", "list"]).of_store is None
    assert parse_arguments(["runs", "show", "--store", "abc"]).run == "abc"
    shown = parse_arguments(["runs", "show", "abc", "--store", "s3://b/c", "-o", "json"])
    assert (shown.run, shown.of_store) == ("abc", "s3://b/c")


def test_a_demo_takes_no_home_that_its_account_cannot_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    with pytest.raises(UsageError, match="no S3") as refused:
        chosen_target(parse_arguments(["--demo", "launch", "x", "--store", "s3://other"]))
    assert "AWS_ENDPOINT_URL_S3" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("them: light", "config.yaml:1:1", "Did you mean theme?"),
        ("readonly: true\ntheme: ligt", "config.yaml:2:1", "Did you mean light"),
        ("readonly: perhaps", "config.yaml:1:1", "must be true or false"),
        ("speed: -1", "config.yaml:1:1", "must be a number above 0"),
        ("speed: true", "config.yaml:1:1", "must be a number above 0"),
        ("context: [a]", "config.yaml:1:1", "must be text"),
        ("blueprints: [1]", "config.yaml:1:1", "must be a path, or a list of paths"),
        ("aliases: {open: open pods}", "config.yaml:1:11", "is a command already"),
        ("aliases: {x: opne pods}", "config.yaml:1:11", "Did you mean open"),
        ("aliases: {'a b': open pods}", "config.yaml:1:11", "is not a word"),
        ("filters: {x: [1]}", "config.yaml:1:11", "must be a text"),
        ("filters: {x: '/[/'}", "config.yaml:1:11", "cannot be read as a regular expression"),
        ("filters: {ok: '!Running', x: '-l'}", "config.yaml:1:27", "has nothing after -l"),
        ("store: /mnt/runs", "config.yaml:1:1", "must be an address such as s3://BUCKET/PREFIX"),
        ("store: 3", "config.yaml:1:1", "must be an address such as s3://BUCKET/PREFIX"),
        ("- theme", "config.yaml:1:1", "is a mapping"),
        ("theme: light\ntheme: dark", "config.yaml:2:1", "is repeated"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, place: str, words: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_config(file)
    assert place in caught.value.message
    assert words in caught.value.sentence()


def test_the_command_prints_each_setting_with_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "eksml-tui").mkdir()
    file = written(tmp_path / "eksml-tui", "theme: light\n")
    assert main(["config"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["theme", "light", f"{file}:1"] in lines
    assert main(["--ascii", "config", "-o", "json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == {setting.name for setting in SETTINGS}
    assert (rows["ascii"]["value"], rows["ascii"]["source"]) == (True, "flag --ascii")
    file.write_text("colour: light\n")
    assert main(["nodes"]) == 2
    assert f"{file}:1:1: unknown setting 'colour'" in capsys.readouterr().err
    assert main(["man"]) == 0
    capsys.readouterr()


def test_the_program_names_all_mistakes_of_the_file_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "eksml-tui").mkdir()
    file = written(
        tmp_path / "eksml-tui", "speed: -1\naliases: {open: open pods, x: opne pods}\nthem: light\nbell: yes\n"
    )
    assert main(["config"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(f"eksml-tui: {file}:").partition(": ")[0] for line in lines] == [
        "1:1", "2:11", "2:28", "3:1", "4:1",
    ]  # fmt: skip
    for word, line in zip(("above 0", "already", "mean open", "mean theme", "true or false"), lines, strict=True):
        assert word in line


def test_the_schema_has_every_setting() -> None:
    schema = config_schema()
    assert schema["properties"].keys() == {setting.name for setting in SETTINGS}
    assert schema["properties"]["theme"]["enum"] == list(THEMES)
    assert schema["additionalProperties"] is False


def test_an_own_word_stands_for_a_line() -> None:
    own = {"big": "filter p5", "pp": "po"}
    assert expanded("big", own) == "filter p5"
    assert expanded("pp node-1", own) == "po node-1"
    assert expanded("bigger", own) == "bigger"


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_every_theme_has_all_colours_and_can_be_read(theme: str) -> None:
    known = tokens(theme)
    assert known.keys() == tokens().keys()
    least = 7.0 if theme == "high-contrast" else 4.5
    for name in ("foreground", "primary", "secondary", "accent", "success", "warning", "error"):
        assert _contrast(known[name], known["background"]) >= least, name
    assert console_theme(theme).dark is (theme != "light")


async def test_the_theme_can_be_changed_while_the_console_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    saved = {"gpu": "p5 !spot"}
    settings = ConsoleSettings(target=ClusterTarget(), theme="light", aliases={"night": "theme dark"}, filters=saved)
    app = ConsoleApp(settings)
    async with app.run_test(size=(100, 30)) as pilot:
        await settled_screen(pilot)
        assert app.theme == theme_name("light")
        assert not app.current_theme.dark

        def backgrounds() -> set[object]:
            styles = [style for strip in screen_strips(app) for _, style, _ in strip if style is not None]
            return {style.bgcolor.name for style in styles if style.bgcolor is not None}

        assert tokens("light")["background"] in backgrounds()
        app.dispatcher.submit("night")
        await wait_for(pilot, lambda: app.theme == theme_name("dark"), "the own word chooses a theme")
        await wait_for(pilot, lambda: tokens()["background"] in backgrounds(), "and it is drawn")
        app.dispatcher.submit("theme transparent")
        await wait_for(
            pilot, lambda: tokens()["background"] not in backgrounds(), "the terminal's own background is left"
        )
        assert "default" in backgrounds()
        app.dispatcher.submit("open nodes")
        await wait_for(pilot, lambda: app.workspace.split.current == "nodes", "nodes can be filtered")
        app.dispatcher.submit("filter @gpu")
        await wait_for(pilot, lambda: app.workspace.current.active_filter == "p5 !spot", "a saved filter is used")


@pytest.mark.parametrize(
    ("ground", "palette"), [("", "dark"), ("15;0", "dark"), ("0;15", "light"), ("0;default;15", "light")]
)
def test_on_a_light_terminal_the_transparent_theme_has_dark_text(
    ground: str, palette: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", ground)
    theme = console_theme("transparent")
    assert (theme.foreground, theme.dark) == (tokens(palette)["foreground"], palette == "dark")
    assert console_theme("dark").dark


def test_alarms_are_set_in_the_file(tmp_path: Path) -> None:
    text = "bell: false\ndesktop: osc9\nalarm_hook: [notify, -u]\nquiet_hours: 22:00-07:00\nalarm_webhook: slack\n"
    options = parse_arguments([])
    settle(options, load_config(written(tmp_path, text)), {})
    alarms = _alarm_settings(options)
    assert (alarms.bell, alarms.desktop) == (False, DesktopNotice.OSC_9)
    assert alarms.ways == AlarmWays(("notify", "-u"), tmp_path / "slack", time(22), time(7))
    settle(options := parse_arguments([]), ConfigFile(), {})
    assert _alarm_settings(options) == AlarmSettings()


@pytest.mark.parametrize(
    "line",
    [
        "quiet_hours: 22-7h",
        "alarm_hook: notify",
        "alarm_hook: []",
        "desktop: loud",
        "alarm_repeat: 0",
        "limit_until: tomorrow",
        "limit_watchdog: 5m",
        "limit_idle: 4m",
        "limit_below: 100%",
    ],
)
def test_a_mistake_in_the_setting_of_an_alarm_or_a_limit_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match=rf"config\.yaml:1:1: {line.partition(':')[0]} must be"):
        load_config(written(tmp_path, line))


@pytest.mark.parametrize("time", ["22:30", "+8h", "2026-11-20T22:30:00Z"])
def test_a_time_is_taken_as_it_is_written(tmp_path: Path, time: str) -> None:
    """One that has passed is refused by a launch alone, not by every command."""
    loaded = load_config(written(tmp_path, f"limit_until: {time}\nlimit_watchdog: 90m"))
    assert loaded.values == {"limit_until": time, "limit_watchdog": "90m"}


def test_each_setting_has_a_variable_before_those_of_others_and_the_file() -> None:
    config = ConfigFile({"theme": "dark", "bell": False}, {"theme": "f:1", "bell": "f:2"})
    given = {"EKSML_TUI_THEME": "light", "EKSML_TUI_REGION": "eu-west-1", "AWS_REGION": "us-west-2"}
    found = sources([], with_environment(config, given), given)
    assert found["theme"] == ("light", "environment EKSML_TUI_THEME")
    assert found["region"] == ("eu-west-1", "environment EKSML_TUI_REGION")
    assert found["bell"] == (False, "f:2")
    with pytest.raises(InputError, match="speed must be") as refused:
        with_environment(config, {"EKSML_TUI_SPEED": "fast"})
    assert refused.value.file == "EKSML_TUI_SPEED"
