"""The start parameters of a console."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actions.base.errors import ConfigError
from tui.settings.keymap import Keymap

if TYPE_CHECKING:  # the session's libraries are loaded after the first frame
    from actions.cluster.auth.session import ClusterTarget

WriteFile = Callable[[Path, bytes], None]
REHEARSAL = "rehearsal"


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


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The values that the command line, the environment and the settings files decide.

    Args:
        target: The cluster to open.
        readonly: Refuse every command that would change the cluster or a run.
        blueprint_folders: Folders of blueprint folders; empty for the usual places.
        run_environment: Environment variables for launched runs, e.g. `AWS_ENDPOINT_URL`.
        demo: Set when the cluster is the embedded one.
        region: AWS region to show and price by when no node names one; empty if unknown.
        profile: AWS profile to show; empty for the default one.
        open_run: Id of the run to show first; `None` for the latest active one, empty for none.
        keymap: The operator's own keys.
        is_ascii: The terminal, or its locale, has only ASCII characters.
        watch: A job of the cluster to watch first, as typed; empty for none.
        has_operator: An operator can answer questions; false while a script plays.
        checks_launches: A launch form asks machine, cluster and account for what the launch needs; never in a demo.
        write_file: Function that writes screenshots; raises a `ConfigError` if it cannot, or may not.
    """

    target: ClusterTarget
    readonly: bool = False
    blueprint_folders: tuple[Path, ...] = ()
    run_environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    demo: DemoBadge | None = None
    region: str = ""
    profile: str = ""
    open_run: str | None = None
    watch: str = ""
    keymap: Keymap = msgspec.field(default_factory=Keymap)
    is_ascii: bool = False
    has_operator: bool = True
    checks_launches: bool = True
    write_file: WriteFile = write_file

    def preferred_preset(self, known: Iterable[str]) -> str:
        """Return the initial preset of a launch form: on the embedded cluster the one made for it, else none."""
        return REHEARSAL if self.demo and REHEARSAL in known else ""
