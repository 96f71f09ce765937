"""The operator's settings: `config.yaml` in the settings folder, below the environment and the command line.

A value is taken from the first of these that has it: the flag, the environment variable, the file, the default.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from actions.base.files import config_folder
from tui.settings import THEMES

FILE_NAME = "config.yaml"
DEFAULT = "default"
"""The source of a value that is not set anywhere."""


VARIABLES = "EKSML_TUI_"
"""The beginning of the names of the settings' own environment variables."""


class SettingForm(StrEnum):
    """The form of a value in the file."""

    TEXT = "text"
    FLAG = "true or false"
    NUMBER = "a number above 0"
    FILE = "a path"
    FOLDERS = "a path, or a list of paths"
    CHOICE = "one of a few words"
    LINES = "a mapping of words to texts"
    WORDS = "a list of texts"
    STORE = "an address such as s3://BUCKET/PREFIX"
    HOURS = "hours such as 22:00-07:00"
    MOMENT = "a time such as 22:30, +8h or 2026-11-20T22:30:00Z"
    IDLE = "a time such as 30m or 1h: five minutes at least, seven days at most"
    PERCENT = "a share of load such as 5%"
    WATCHDOG = "a time such as 1h or 90m: ten minutes at least, seven days at most"


class Setting(msgspec.Struct, frozen=True):
    """One setting.

    Args:
        name: The key in the file.
        form: The form of its value in the file.
        help: One sentence without a full stop.
        flag: The option of the command line; empty for none.
        dest: The name of the option's value; empty for that of the setting.
        variables: Environment variables that have it, the first one that is set counts.
        choices: The words of a `CHOICE`.
        default: Its value without any of these.
        is_inverse: The flag turns it off.
        is_of_cluster: It chooses the cluster, so that it does not count for `--demo`.
    """

    name: str
    form: SettingForm
    help: str
    flag: str = ""
    dest: str = ""
    variables: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    default: Any = None
    is_inverse: bool = False
    is_of_cluster: bool = False

    @property
    def attribute(self) -> str:
        """The name of its value among the options."""
        return self.dest or self.name

    @property
    def variable(self) -> str:
        """Its environment variable, which replaces the file's value."""
        return f"{VARIABLES}{self.name.upper()}"


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "kubeconfig",
        SettingForm.FILE,
        "The kubeconfig",
        "--kubeconfig",
        variables=("KUBECONFIG",),
        is_of_cluster=True,
    ),
    Setting("context", SettingForm.TEXT, "The context of the kubeconfig to open", "--context", is_of_cluster=True),
    Setting(
        "contexts",
        SettingForm.WORDS,
        "Contexts whose clusters are followed at once; all of the kubeconfig: all",
        "--contexts",
        is_of_cluster=True,
    ),
    Setting("namespace", SettingForm.TEXT, "The namespace to start in", "--namespace", is_of_cluster=True),
    Setting(
        "profile", SettingForm.TEXT, "The AWS profile", "--profile", variables=("AWS_PROFILE",), is_of_cluster=True
    ),
    Setting(
        "region",
        SettingForm.TEXT,
        "The AWS region, if the cluster does not name one",
        "--region",
        variables=("AWS_REGION", "AWS_DEFAULT_REGION"),
    ),
    Setting(
        "store",
        SettingForm.STORE,
        "The place in S3 that launched runs are replicated to",
        "--store",
        default="",
        is_of_cluster=True,
    ),
    Setting(
        "readonly", SettingForm.FLAG, "Refuse whatever would change the cluster or a run", "--readonly", default=False
    ),
    Setting(
        "terraform_program",
        SettingForm.TEXT,
        "The name or path of the program for Terraform's roots: terraform, or tofu of OpenTofu",
        variables=("EKSML_TERRAFORM_PROGRAM",),
    ),
    Setting("blueprints", SettingForm.FOLDERS, "More folders of blueprints", "--blueprints"),
    Setting("prices", SettingForm.FILE, "The file with prices and discounts of your own", "--prices"),
    Setting("speed", SettingForm.NUMBER, "The speed of a new demo as a multiple of real time", "--speed"),
    Setting("theme", SettingForm.CHOICE, "The colours of the console", "--theme", choices=THEMES, default=THEMES[0]),
    Setting("ascii", SettingForm.FLAG, "Draw with ASCII only", "--ascii", default=False),
    Setting("mouse", SettingForm.FLAG, "Take the mouse", "--no-mouse", "no_mouse", default=True, is_inverse=True),
    Setting(
        "clipboard",
        SettingForm.FLAG,
        "Copy to the terminal's clipboard, by OSC 52",
        "--no-clipboard",
        "no_clipboard",
        default=True,
        is_inverse=True,
    ),
    Setting("keep_snapshots", SettingForm.FLAG, "Keep nodes and pods on disk for the next start", default=True),
    Setting(
        "prometheus",
        SettingForm.TEXT,
        "The Service of a Prometheus with the metrics of GPUs, NAMESPACE/NAME:PORT, where it is not found by its pods",
        default="",
        is_of_cluster=True,
    ),
    Setting("bell", SettingForm.FLAG, "Ring the terminal's bell for an alarm", default=True),
    Setting(
        "desktop",
        SettingForm.CHOICE,
        "The sequence that has the terminal show a desktop notification of an alarm",
        choices=("off", "osc9", "osc777"),
        default="off",
    ),
    Setting("alarm_hook", SettingForm.WORDS, "A program and its arguments that runners start for an alarm", default=[]),
    Setting("alarm_webhook", SettingForm.FILE, "A file with the https address that alarms are sent to"),
    Setting("alarm_repeat", SettingForm.NUMBER, "Minutes after which an alarm repeats", default=15.0),
    Setting("quiet_hours", SettingForm.HOURS, "Hours (UTC) in which alarms are silent", default=""),
    Setting("limit_until", SettingForm.MOMENT, "The time at which a launched run ends: 22:30 (UTC) or +8h", "--until"),
    Setting("limit_budget", SettingForm.NUMBER, "US dollars at which a launched run ends", "--budget"),
    Setting("limit_max_hourly", SettingForm.NUMBER, "US dollars an hour above which a run ends", "--max-hourly"),
    Setting(
        "limit_before_credentials_end",
        SettingForm.FLAG,
        "End a launched run in time before the AWS credentials do",
        "--before-credentials-end",
    ),
    Setting(
        "limit_before_capacity_end",
        SettingForm.FLAG,
        "End a launched run in time before its capacity block does",
        "--before-capacity-end",
    ),
    Setting(
        "limit_idle", SettingForm.IDLE, "The time after which a run ends whose accelerators are not used", "--idle"
    ),
    Setting("limit_below", SettingForm.PERCENT, "The load below which an accelerator is not used", "--below"),
    Setting(
        "limit_action",
        SettingForm.CHOICE,
        "How a run ends at a limit: parked or torn down",
        "--at-limit",
        choices=("park", "teardown"),
        default="park",
    ),
    Setting(
        "limit_watchdog",
        SettingForm.WATCHDOG,
        "The time without a heartbeat after which a CronJob in the cluster stops a run's jobs",
        "--watchdog",
    ),
    Setting("aliases", SettingForm.LINES, "Words of the : line, and the lines that they stand for", default={}),
    Setting("filters", SettingForm.LINES, "Filters by name, for :filter @NAME", default={}),
)
"""All settings, in the order in which they are printed."""


class ConfigFile(msgspec.Struct, frozen=True):
    """The contents of the file, checked.

    Args:
        values: By name; only those that are in the file.
        places: File and line of each, for people.
    """

    values: Mapping[str, Any] = msgspec.field(default_factory=dict)
    places: Mapping[str, str] = msgspec.field(default_factory=dict)


class SettingValue(msgspec.Struct, frozen=True):
    """A setting with its value, and the source of that: `flag --context`, `environment AWS_PROFILE`, `FILE:LINE`."""

    setting: Setting
    value: Any
    source: str


def config_path() -> Path:
    """Return the path of the file; it need not exist."""
    return config_folder() / FILE_NAME


def settle(options: Namespace, config: ConfigFile, environment: Mapping[str, str]) -> list[SettingValue]:
    """Put values of the file, or of its variables, into the options that no flag and no other variable has set.

    Args:
        options: The parsed command line; changed.
        config: The file, with the variables of settings.
        environment: Of the process. What other variables set is left to those who read them.

    Returns:
        All settings, with the sources of their values.
    """
    return [_settled(setting, options, config, environment) for setting in SETTINGS]


def _settled(setting: Setting, options: Namespace, config: ConfigFile, environment: Mapping[str, str]) -> SettingValue:
    given = getattr(options, setting.attribute, None)
    if given:
        return SettingValue(setting, not given if setting.is_inverse else given, f"flag {setting.flag}")
    variable = next((name for name in setting.variables if environment.get(name)), "")
    if variable and not environment.get(setting.variable):
        return SettingValue(setting, environment[variable], f"environment {variable}")
    is_demo = bool(getattr(options, "demo", False)) and setting.is_of_cluster
    if setting.name in config.values and not is_demo:
        value, source = config.values[setting.name], config.places[setting.name]
    else:
        value, source = setting.default, DEFAULT
    if value is not None:
        setattr(options, setting.attribute, not value if setting.is_inverse else value)
    return SettingValue(setting, value, source)


def config_schema() -> dict[str, Any]:
    """Return a JSON Schema of the file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"eksml-tui {FILE_NAME}",
        "type": "object",
        "additionalProperties": False,
        "properties": {setting.name: {"description": setting.help, **_form(setting)} for setting in SETTINGS},
    }


_PATTERNS = {
    SettingForm.HOURS: r"^\d\d:\d\d-\d\d:\d\d$",
    SettingForm.STORE: "^s3://",
    SettingForm.MOMENT: r"^(\+[0-9.dhm]+|\d\d:\d\d|\d{4}-\d\d-\d\d.+)$",
    SettingForm.WATCHDOG: "^[0-9.dhm]+$",
    SettingForm.IDLE: "^[0-9.dhm]+$",
}


def _form(setting: Setting) -> dict[str, Any]:
    match setting.form:
        case SettingForm.FLAG:
            return {"type": "boolean"}
        case SettingForm.NUMBER:
            return {"type": "number", "exclusiveMinimum": 0}
        case SettingForm.FOLDERS:
            return {"type": ["string", "array"], "items": {"type": "string"}}
        case SettingForm.CHOICE:
            return {"enum": list(setting.choices)}
        case SettingForm.WORDS:
            return {"type": "array", "items": {"type": "string"}}
        case SettingForm.PERCENT:
            return {"type": ["string", "number"]}
        case SettingForm.HOURS | SettingForm.STORE | SettingForm.MOMENT | SettingForm.WATCHDOG | SettingForm.IDLE:
            return {"type": "string", "pattern": _PATTERNS[setting.form]}
        case SettingForm.LINES:
            return {"type": "object", "additionalProperties": {"type": "string"}}
        case SettingForm.TEXT | SettingForm.FILE:
            return {"type": "string"}
