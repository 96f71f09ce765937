"""The working directory of one root: its private copy, variables, saved plan and state."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import BlueprintError, FormatError
from actions.base.files import private_directory, read_file, write_private
from actions.base.untrusted import one_line
from actions.base.wording import listed
from actions.terraform.backend import OVERRIDE_FILE
from actions.terraform.failure import NoPlanError, UnsavedStateError
from actions.terraform.program import PUBLIC_REGISTRY, registry_of
from actions.terraform.state import DeadHolder, StateFile, read_state

PLAN_FILE = "run.tfplan"
PLAN_RECORD = "run.tfplan.json"
UPDATE_PLAN_FILE = "update.tfplan"
"""A plan for some resources of the state, applied at once; never one that was approved."""
VARIABLES_FILE = "run.tfvars.json"
LOCK_FILE = ".terraform.lock.hcl"
STATE_FILE = "terraform.tfstate"
UNSAVED_STATE = "errored.tfstate"
PUSHED_STATE = "errored.tfstate.pushed"
WAIVED_STATE = "errored.tfstate.waived"
BACKUP_STATE = "terraform.tfstate.backup"
"""The state before the newest operation that has changed it, as Terraform's local backend keeps it."""
VANISHED_STATE = "vanished.tfstate"
"""Our copy of that file, from a destroy in which resources vanished."""
WAIVED_VANISHED_STATE = "vanished.tfstate.waived"
DELETIONS_FILE = "deletions.json"
HOLDERS_FILE = "dead.json"
QUERY_LOG = "query.log"
"""Terraform's log of a short command that locks the state; removed with its end."""
BACKEND_FILE = ".terraform/terraform.tfstate"
"""The file that names the backend of the state; there is none for the local backend."""
PROVIDERS_FOLDER = ".terraform/providers"
MODULES_FOLDER = ".terraform/modules"

_SHOWN = 5
_KEPT_HOLDERS = 20
_LOCKED = re.compile(r'^provider "[^"/]+/([^"]+)" \{\s+version\s+= "([^"]+)"', re.M)
_MOST_BYTES = 1 << 30
"""Of a state, and of a plan."""
_COPIED = (".tf", ".tf.json", ".tftpl", ".json", LOCK_FILE)


class PlanRecord(msgspec.Struct, frozen=True):
    """The identity of the plan in the plan file."""

    plan_hash: str
    file_sha256: str


class DeletionRecord(msgspec.Struct):
    """The resources of a root that a destroy has to account for."""

    before: tuple[str, ...] = ()
    """Addresses of managed resources in the state before the newest destroy."""
    begun: tuple[str, ...] = ()
    """Addresses whose deletion an operation before it has begun, and which were not made again since."""


class WorkingDirectory:
    """A folder that only this user can read, with everything one root needs.

    Args:
        root: The root in the blueprint's folder. Never written to.
        folder: Created if needed, mode 0700.
        program: That is started in it.
    """

    def __init__(self, root: Path, folder: Path, *, program: Path = Path("terraform")) -> None:
        self.root = root
        self.folder = folder
        self._program = program

    def prepare(self, override: bytes = b"") -> None:
        """Copy the root's files in. Existing state, providers and saved plans stay.

        Args:
            override: The file that configures the backend of the state; empty for the root's own, or none.

        Raises:
            BlueprintError: The root is not a folder, has no `.tf` file, or holds a symbolic link.
        """
        private_directory(self.folder)
        sources = sorted(self.root.iterdir()) if self.root.is_dir() else []
        if not any(source.name.endswith(".tf") for source in sources):
            raise BlueprintError("it is not a Terraform root: it has no .tf file.", file=str(self.root))
        for source in sources:
            if source.is_symlink():
                raise BlueprintError(f"{source.name} is a symbolic link.", file=str(self.root), hint="Copy the file.")
            if source.name == LOCK_FILE and self._is_recorded(source):
                continue
            if source.is_file() and source.name.endswith(_COPIED):
                write_private(self.folder / source.name, read_file(source))
            elif source.is_dir() and not source.name.startswith("."):
                shutil.copytree(source, self.folder / source.name, dirs_exist_ok=True)
        if override:
            write_private(self.folder / OVERRIDE_FILE, override)
        else:
            (self.folder / OVERRIDE_FILE).unlink(missing_ok=True)

    def write_variables(self, variables: Mapping[str, str | int | float | bool]) -> None:
        """Write the variables file, 0600."""
        write_private(self.folder / VARIABLES_FILE, msgspec.json.encode(dict(variables)))

    def record_plan(self, plan_hash: str) -> None:
        """Record the identity of the plan in the plan file."""
        record = PlanRecord(plan_hash, self._plan_sha256())
        write_private(self.folder / PLAN_RECORD, msgspec.json.encode(record))

    def require_plan(self, plan_hash: str) -> None:
        """Require that the plan file is the approved one.

        Args:
            plan_hash: As approved; empty for the last saved plan.

        Raises:
            NoPlanError: There is no saved plan, it is another one, or the file was changed since.
        """
        try:
            record = decode_json(read_file(self.folder / PLAN_RECORD), PlanRecord)
            is_same = record.file_sha256 == self._plan_sha256()
        except (OSError, msgspec.DecodeError) as error:
            raise NoPlanError("There is no saved plan to apply.", hint="Plan again.") from error
        if not is_same or plan_hash not in ("", record.plan_hash):
            raise NoPlanError("The saved plan is not the one that was approved.", hint="Plan and approve again.")

    def forget_plan(self) -> None:
        """Remove the saved plan, which is applied or out of date, as it holds variables in plain text."""
        (self.folder / PLAN_FILE).unlink(missing_ok=True)
        (self.folder / PLAN_RECORD).unlink(missing_ok=True)

    def require_saved_state(self) -> None:
        """Refuse to continue while there is a state that an earlier operation could not save.

        Raises:
            UnsavedStateError: There is one.
        """
        if (self.folder / UNSAVED_STATE).exists():
            raise self.unsaved_error()

    def unsaved_error(self, why: str = "") -> UnsavedStateError:
        """Return the refusal to continue, with the resources that may exist.

        Args:
            why: The reason why the state cannot be saved now, as a sentence.
        """
        try:
            unsaved = self.unsaved_state()
        except FormatError:
            unsaved = None
        held = f" It holds {listed(unsaved.addresses, _SHOWN)}." if unsaved and unsaved.addresses else ""
        return UnsavedStateError(
            f"An earlier apply could not save its state; it is in {self.folder / UNSAVED_STATE}.{held}"
            + (f" {why}" if why else ""),
            hint=f"Run: cd {self.folder} && {self._program.name} state push {UNSAVED_STATE}, then remove that file.",
        )

    def unsaved_state(self) -> StateFile | None:
        """Return the state that an earlier operation could not save, if there is one.

        Raises:
            FormatError: It is not a state.
        """
        try:
            return read_state(read_file(self.folder / UNSAVED_STATE, _MOST_BYTES))
        except FileNotFoundError:
            return None

    def put_unsaved_state_aside(self, name: str) -> None:
        """Rename the unsaved state once it is pushed or waived, so that it no longer blocks."""
        self._rename(UNSAVED_STATE, name)

    def put_vanished_state_aside(self) -> None:
        """Rename the copy of a backup once what vanished is waived."""
        self._rename(VANISHED_STATE, WAIVED_VANISHED_STATE)

    def _rename(self, name: str, to: str) -> None:
        path = self.folder / name
        if path.exists():
            path.replace(self.folder / to)

    def dead_holders(self) -> list[DeadHolder]:
        """Return the recorded processes of this folder that may have left a lock."""
        try:
            return decode_json(read_file(self.folder / HOLDERS_FILE), list[DeadHolder])
        except (OSError, msgspec.DecodeError):
            return []

    def record_dead_holders(self, holders: Sequence[DeadHolder]) -> None:
        """Record processes that may have left a lock, before their output is overwritten."""
        known = self.dead_holders()
        found = [*known, *(holder for holder in holders if holder not in known)][-_KEPT_HOLDERS:]
        if found != known:
            write_private(self.folder / HOLDERS_FILE, msgspec.json.encode(found))

    def deletions(self) -> DeletionRecord:
        """Return the record of deletions; an empty one if there is none."""
        try:
            return decode_json(read_file(self.folder / DELETIONS_FILE), DeletionRecord)
        except (OSError, msgspec.DecodeError):
            return DeletionRecord()

    def record_deletions(self, record: DeletionRecord) -> None:
        """Replace the record of deletions."""
        if record != self.deletions():
            write_private(self.folder / DELETIONS_FILE, msgspec.json.encode(record))

    def keep_backup(self) -> Path | None:
        """Copy the state's backup, which the next operation overwrites; an earlier copy is left as it is.

        Returns:
            The copy; `None` if there is no backup, as with a remote backend.
        """
        copy = self.folder / VANISHED_STATE
        if not copy.exists():
            try:
                write_private(copy, read_file(self.folder / BACKUP_STATE, _MOST_BYTES))
            except FileNotFoundError:
                return None
        return copy

    @property
    def pins_providers(self) -> bool:
        """True if the program's providers are pinned by hash: by the root, or by this folder's first init."""
        return self._pins(self.folder / LOCK_FILE)

    def unpinned(self) -> str:
        """Return a sentence on a root that does not pin the program's providers."""
        if not (self.root / LOCK_FILE).is_file():
            return "The root pins no providers."
        return (
            f"The root pins providers of {PUBLIC_REGISTRY}, and {self._program.name} takes those of "
            f"{registry_of(self._program)}, whose digests are others."
        )

    def _is_recorded(self, pinned: Path) -> bool:
        """Return whether a first init has recorded providers beside a root's lock file that pins another registry's."""
        return self._pins(self.folder / LOCK_FILE) and not self._pins(pinned)

    def _pins(self, lock_file: Path) -> bool:
        try:
            text = read_file(lock_file).decode(errors="replace")
        except FileNotFoundError:
            return False
        return registry_of(self._program) in text or PUBLIC_REGISTRY not in text

    @property
    def is_configured(self) -> bool:
        """True if the last init has configured a backend for the state."""
        return (self.folder / BACKEND_FILE).is_file()

    @property
    def is_prepared(self) -> bool:
        """True if the root's files are in it."""
        return is_prepared(self.folder)

    def _plan_sha256(self) -> str:
        return hashlib.sha256(read_file(self.folder / PLAN_FILE, _MOST_BYTES)).hexdigest()


def is_prepared(folder: Path) -> bool:
    """Return whether a root was copied into a working directory. A state alone is not enough."""
    return folder.is_dir() and any(path.suffix == ".tf" for path in folder.iterdir())


def has_history(folder: Path) -> bool:
    """Return whether an operation was ever started in a working directory, or a plan is saved in it."""
    return (folder / PLAN_RECORD).is_file() or any(folder.glob("*.pid"))


def has_unsaved(folder: Path) -> bool:
    """Return whether a working directory has a state that could not be saved in its backend."""
    return (folder / UNSAVED_STATE).exists()


def locked_providers(lock_file: Path) -> dict[str, str]:
    """Return versions by provider (`hashicorp/aws`) in a `.terraform.lock.hcl`; empty if there is none."""
    try:
        text = read_file(lock_file).decode(errors="replace")
    except OSError:
        return {}
    return {one_line(name): one_line(version) for name, version in _LOCKED.findall(text)}
