"""The identity of a machine's copy of a run, `COPY/BOOT`, in the lease of its store and its record in the cluster.

Names do not tell machines apart: two containers of one image have one host name and one user, and a virtual machine
that was copied has the run's folder, too. So a copy of a run has a random word in its folder, and a machine is known by
this boot of its kernel, its own id, and its process namespace, which each container has for itself. Within one epoch

* the same identity is this machine, whatever process asks;
* the same copy under another boot is this machine before it was restarted, or another one that has the same folder: who
  of them is alive is known by signs alone;
* another copy is another machine.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path

from actions.base.files import read_file, write_private
from actions.base.process import boot_id

SILENT_COPY_SECONDS = 45.0
"""Time without a new sign after which another machine of the same epoch is gone: a record in a cluster has a heartbeat
every 30 s."""
_NAME = "machine"
_MOST_BYTES = 64
_MACHINE_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_NAMESPACE = "/proc/self/ns/pid"
_lock = threading.Lock()


def machine_id(folder: Path) -> str:
    """Return the identity of this machine's copy of a run. Blocking; the word is written with the first call.

    Raises:
        OSError: It cannot be read or written.
    """
    with _lock:
        word = _word_in(folder)
        if not word:
            word = new_copy()
            name_copy(folder, word)
    return identity_of_copy(word)


def new_copy() -> str:
    """Return the word of a copy that is about to be made."""
    return secrets.token_hex(8)


def name_copy(folder: Path, word: str) -> None:
    """Write the word of a copy into its folder.

    Raises:
        OSError: The disk is full.
    """
    write_private(folder / _NAME, word.encode())


def identity_of_copy(word: str) -> str:
    """Return the identity of a copy on this machine."""
    return f"{word}/{boot()}"


def known_machine_id(folder: Path) -> str:
    """Return the identity of this machine's copy of a run; empty if it has none yet. Writes nothing."""
    with suppress(OSError):
        word = _word_in(folder)
        return identity_of_copy(word) if word else ""
    return ""


def boot() -> str:
    """Return an identity of this machine since its start, unlike all others; two containers of one machine are two."""
    parts = [boot_id()]
    for path in _MACHINE_FILES:
        with suppress(OSError):
            parts.append(read_file(Path(path), _MOST_BYTES, is_cut=True).decode("ascii", "replace").strip())
            break
    with suppress(OSError):
        parts.append(os.readlink(_NAMESPACE))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def is_same_machine(mine: str, theirs: str) -> bool:
    """Return whether two identities are one machine's; an empty one, of an earlier version, equals any."""
    return not mine or not theirs or mine == theirs


def is_same_copy(mine: str, theirs: str) -> bool:
    """Return whether two identities are of one copy of a run, perhaps before and after a restart of its machine."""
    return is_same_machine(mine, theirs) or mine.partition("/")[0] == theirs.partition("/")[0]


def _word_in(folder: Path) -> str:
    try:
        return read_file(folder / _NAME, _MOST_BYTES, is_cut=True).decode("ascii", "replace")
    except FileNotFoundError:
        return ""
