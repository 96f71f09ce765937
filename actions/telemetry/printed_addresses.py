"""The addresses of web interfaces that programs print: of wandb, MLflow and TensorBoard.

Whoever writes a log chooses them, so only http and https count, in printable ASCII, and without a user in front of
the host, which would look like one.

Source:
    wandb 0.15 to 0.28: `View project at URL`, `View run at URL`, at the end `View run NAME at: URL`; MLflow 2 and 3:
    `View run NAME at: URL/#/experiments/ID/runs/ID`, `View experiment at: URL/#/experiments/ID`, some with a full stop;
    TensorBoard 2: `TensorBoard 2.11.2 at http://localhost:6006/ (Press CTRL+C to quit)`.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

LINES = r"View (?:run|project|sweep|experiment)\b.{0,300} at:? {1,4}http|TensorBoard \S{1,40} at http"
"""The lines that may have one, as a search of a log finds them."""
_URL = r"(?P<url>https?://[!#-;=?-_a-z~|{}]{1,2000})"
_VIEW = re.compile(rf"View (?P<of>run|project|sweep|experiment)\b.{{0,300}}? at:? {{1,4}}{_URL}")
_TENSORBOARD = re.compile(rf"TensorBoard [\w.+-]{{1,40}} at {_URL}")
_LOCAL = frozenset({"localhost", "0.0.0.0", "::", "::1"})  # noqa: S104 - read in logs, nothing is bound to it
_RANKS = ("run", "TensorBoard", "sweep", "project", "experiment")
"""The most special first."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


class PrintedAddress(msgspec.Struct, frozen=True):
    """An address of a web interface."""

    title: str
    """Such as `wandb run`, `MLflow experiment`, `TensorBoard`."""
    url: str
    port: int
    is_local: bool
    """It is one of the machine, or the pod, that printed it."""

    @property
    def rank(self) -> int:
        """Smaller for a more special one: a run comes before its project."""
        return _RANKS.index(self.title.rpartition(" ")[2])


def address_in(line: str) -> PrintedAddress | None:
    """Return the address that a line of a log names, without colours; `None` without one that can be used."""
    found = _VIEW.search(line) or _TENSORBOARD.search(line)
    if found is None:
        return None
    url = found["url"].rstrip(".,;:!?)]}'")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
    except ValueError:
        return None
    if not host or "@" in parts.netloc:
        return None
    of = found.groupdict().get("of")
    tool = "MLflow" if "/#/experiments/" in url else "wandb"
    is_local = host in _LOCAL or host.startswith("127.")
    return PrintedAddress(f"{tool} {of}" if of else "TensorBoard", url, port, is_local)
