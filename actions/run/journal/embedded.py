"""The embedded account of a rehearsal: whether it is still there."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from actions.base.decoding import decode_json
from actions.base.files import read_file
from actions.run.journal.folder import environment_path
from actions.run.state.view import RunView

_LOOPBACK, _PATH, _LOOPBACK_SECONDS = "127.0.0.1", "/aws", 1.0


def account_has_ended(view: RunView, folder: Path) -> bool:
    """Return whether the embedded account in which a rehearsal has its cluster has certainly ended, and all with it.

    Nothing listens at its address, which is of this machine alone; another embedded account gets another port. A
    cluster that was there is the account's own if its kubeconfig lies beside the account's credentials.
    """
    if not view.is_cost_simulated:
        return False
    try:
        kept = decode_json(read_file(environment_path(folder)), dict[str, str])
        address = urlsplit(kept.get("AWS_ENDPOINT_URL", ""))
        host, port = address.hostname or "", address.port or 0
        credentials = Path(kept.get("AWS_SHARED_CREDENTIALS_FILE", ""))
    except (OSError, ValueError, msgspec.DecodeError):
        return False
    cluster = view.cluster.kubeconfig
    if view.existing_cluster and not (cluster and Path(cluster).parent == credentials.parent):
        return False
    with socket.socket() as probe:
        probe.settimeout(_LOOPBACK_SECONDS)
        return (host, address.path) == (_LOOPBACK, _PATH) and probe.connect_ex((host, port)) == errno.ECONNREFUSED
