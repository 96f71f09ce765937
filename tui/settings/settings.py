"""The start parameters of a console."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from actions.base.errors import ConfigError
from actions.command.arguments import PaneName
from actions.run.alarms.ways import AlarmWays
from tui.settings.keymap import Keymap

if TYPE_CHECKING:  # the session's libraries are loaded after the first frame
    from actions.cluster.auth.session import ClusterTarget
    from actions.run.limits.options import LimitTexts

WriteFile = Callable[[Path, bytes], None]
REHEARSAL = "rehearsal"


def usual_preset(known: Iterable[str], *, is_demo: bool) -> str:
    """Return the preset of a launch that names none: on the embedded cluster the one made for it, else none."""
    return REHEARSAL if is_demo and REHEARSAL in known else ""


def form_of(file: Path, forms: Mapping[str, str], chosen: str = "") -> str:
    """Return the format that the ending of a file chooses; of a file without one the chosen, or the first.

    Args:
        file: A file that the operator named.
        forms: Formats by ending, such as `.tar.gz`.
        chosen: A format that the operator named as well; empty for none.

    Raises:
        ConfigError: The ending is that of another format, or of none.
    """
    found = next((form for ending, form in forms.items() if file.name.endswith(ending)), "")
    if not found and not file.suffix:
        found = chosen or next(iter(forms.values()))
    if not found or chosen not in ("", found):
        wanted = [ending for ending, form in forms.items() if chosen in ("", form)] or [*forms]
        one_of = "one of " if len(wanted) > 1 else ""
        raise ConfigError(f"{file} does not end in {one_of}{', '.join(wanted)}.", hint="Name such a file.")
    return found


def write_file(file: Path, data: bytes) -> None:
    """Write a file that the operator named.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.", hint="Choose another file.") from error


class DemoBadge(msgspec.Struct, frozen=True):
    """The header's badge of the embedded cluster.

    Args:
        speed: Speed of workloads as a multiple of real time.
    """

    speed: float = 1.0

    def text(self) -> str:
        """The badge's text, e.g. `demo ×20, cost simulated`."""
        return f"demo ×{self.speed:g}, cost simulated"


class DesktopNotice(StrEnum):
    """The sequence that has a terminal show a desktop notification; most support one of the two."""

    OFF = "off"
    OSC_9 = "osc9"
    """iTerm2, WezTerm."""
    OSC_777 = "osc777"
    """rxvt-unicode, foot, Ghostty."""


class AlarmSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The ways by which alarms ring in this terminal.

    Args:
        bell: Ring the terminal's bell.
        desktop: Ask the terminal for a desktop notification.
        repeat_minutes: An alarm that is not acknowledged rings again after so long; 0 for never.
        ways: How runners send them, and the quiet hours.
    """

    bell: bool = True
    desktop: DesktopNotice = DesktopNotice.OFF
    repeat_minutes: float = 15.0
    ways: AlarmWays = AlarmWays()


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The values that the command line, the environment and the settings files decide.

    Args:
        target: The cluster to open.
        contexts: Contexts whose clusters are followed at once; `target` is of one of them. Empty: one at a time.
        readonly: Refuse every command that would change the cluster or a run.
        blueprint_folders: Folders of blueprint folders; empty for the usual places.
        run_environment: Environment variables for launched runs, e.g. `AWS_ENDPOINT_URL`.
        demo: Set when the cluster is the embedded one.
        store: Place that launched runs are replicated to, `s3://BUCKET/PREFIX`; empty for this machine alone.
        prometheus: Service of a Prometheus with the metrics of GPUs, `NAMESPACE/NAME:PORT`; empty to look for one.
        region: AWS region to show and price by when no node names one; empty if unknown.
        profile: AWS profile to show; empty for the default one.
        open_run: Id of the run to show first; `None` for the latest active one, empty for none.
        keymap: The operator's own keys.
        is_ascii: The terminal, or its locale, has only ASCII characters.
        has_clipboard: Texts may be sent to the terminal's clipboard.
        watch: A job of the cluster to watch first, as typed; empty for none.
        has_operator: An operator can answer questions; false while a script plays.
        keeps_snapshots: Show the last snapshot of the cluster until it has been read, and keep the newest one on disk.
        theme: Name of the theme, one of `tui.settings.THEMES`.
        aliases: Words of the `:` line of the operator's own, and the lines that they stand for.
        filters: Saved filters by name, for `:filter @NAME`.
        checks_launches: A launch and its form ask machine, cluster and account; in a demo, no account.
        alarms: The ways by which alarms call the operator.
        limits: The limits that a launch has unless it states others; `None` for none.
        layout_folder: Folder of what is kept of the panes; `None` to keep nothing.
        record: File that the session is recorded to, as a script; `None` for none.
        write_file: Function that writes screenshots; raises a `ConfigError` if it cannot, or may not.
    """

    target: ClusterTarget
    contexts: tuple[str, ...] = ()
    readonly: bool = False
    blueprint_folders: tuple[Path, ...] = ()
    run_environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    demo: DemoBadge | None = None
    store: str = ""
    prometheus: str = ""
    region: str = ""
    profile: str = ""
    open_run: str | None = None
    watch: str = ""
    keymap: Keymap = msgspec.field(default_factory=Keymap)
    is_ascii: bool = False
    has_clipboard: bool = True
    has_operator: bool = True
    keeps_snapshots: bool = False
    theme: str = "dark"
    aliases: Mapping[str, str] = msgspec.field(default_factory=dict)
    filters: Mapping[str, str] = msgspec.field(default_factory=dict)
    checks_launches: bool = True
    alarms: AlarmSettings = AlarmSettings()
    limits: LimitTexts | None = None
    layout_folder: Path | None = None
    record: Path | None = None
    write_file: WriteFile = write_file

    @property
    def targets(self) -> tuple[ClusterTarget, ...]:
        """The clusters to follow from the start, that of `target` first."""
        others = (name for name in self.contexts if name != self.target.context)
        return (self.target, *(replace(self.target, context=name, namespace="") for name in others))

    @property
    def first_pane(self) -> PaneName:
        """The pane that is there from the first frame: a script, a run and a job have their own beginnings."""
        is_named = bool(self.open_run or self.watch) or not self.has_operator
        return "nodes" if is_named else "home"

    @property
    def is_silent(self) -> bool:
        """True if alarms do not call: a script has its own expectations."""
        return not self.has_operator

    def preferred_preset(self, known: Iterable[str]) -> str:
        """Return the initial preset of a launch form: on the embedded cluster the one made for it, else none."""
        return usual_preset(known, is_demo=self.demo is not None)
