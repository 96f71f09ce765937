"""The command `edit`: an object in the operator's own editor, sent back as it was saved."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from actions.base.errors import ConfigError, ConflictError, ConsoleError, RefusedError
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.commands.targets import place_of_changes, resolve_targets
from tui.feeds.cluster import ClusterFeed
from tui.feeds.followed import FollowedCluster
from tui.feeds.services import ConsoleServices
from tui.screens.workspace import PaneWorkspace

if TYPE_CHECKING:
    from actions.cluster.objects.operations import Target

_VARIABLES = ("KUBE_EDITOR", "VISUAL", "EDITOR")
_EDITORS = ("vi", "vim", "nano")
_HIDDEN = ("secrets",)
"""Kinds whose contents are never read."""
_REFUSED = "# Not saved: "
_OTHERS_FIRST = (
    "Others have changed it meanwhile; below, your changes are in its newest version. Delete this line to send."
)


def editor_of(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start the operator's editor: `$KUBE_EDITOR`, `$VISUAL`, `$EDITOR`, or vi.

    Raises:
        ConfigError: It cannot be found.
    """
    for variable in _VARIABLES:
        try:
            words = shlex.split(environment.get(variable, ""))
        except ValueError as error:
            raise ConfigError(f"${variable} cannot be read: {error}.", hint="Set it to your editor.") from error
        if words and shutil.which(words[0], path=environment.get("PATH")):
            return words
        if words:
            raise ConfigError(f"The editor {words[0]} of ${variable} is not on the PATH.", hint="Set it to another.")
    found = next((name for name in _EDITORS if shutil.which(name, path=environment.get("PATH"))), "")
    if not found:
        raise ConfigError("There is no editor on the PATH.", hint="Set $EDITOR to one.")
    return [found]


class EditCommand:
    """The handler of `edit`.

    Args:
        workspace: The panes; the selected object is edited if none is named.
        services: The cluster's session.
        actions: Shows notifications, and opens the editor.
    """

    def __init__(self, workspace: PaneWorkspace, services: ConsoleServices, actions: AppActions) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"edit": self._edit}

    async def _edit(self, arguments: args.TargetArguments) -> None:
        cluster, targets = await resolve_targets(self._services, self._workspace, arguments)
        if len(targets) != 1:
            raise RefusedError(f"{len(targets)} objects are chosen; one is edited at a time.", hint="esc drops marks.")
        if targets[0].qualified in _HIDDEN:
            raise RefusedError(f"{targets[0].title()} is not edited here: contents of Secrets are never read.")
        argv = editor_of(os.environ)
        document = await _read(cluster.feed, targets[0])
        if await self._edit_until_taken(cluster, targets[0], document, argv):
            self._app.notify_plainly(f"{targets[0].title()} is changed.")
        else:
            self._app.notify_plainly(f"{targets[0].title()} is not changed.")

    async def _edit_until_taken(
        self, cluster: FollowedCluster, target: Target, document: Mapping[str, Any], argv: Sequence[str]
    ) -> bool:
        """Open the editor until the server takes what was saved; return false if nothing is to be changed."""
        from actions.cluster.objects.editing import changed, changes_between, editable_text, parse_edited

        base, of = document, f"{target.title()} · {place_of_changes(self._services, cluster)}"
        text = editable_text(base, of=of)
        while True:
            saved = await self._app.edit_text(text, argv)
            if saved == text:
                return False
            try:
                wanted = parse_edited(saved)
                if wanted is None or not changes_between(base, wanted):
                    return False
                await _send(cluster.feed, target, wanted)
            except ConflictError:
                patch = _without_version(changes_between(base, wanted or {}))
                base = await _read(cluster.feed, target)
                text = editable_text(changed(base, patch), (_OTHERS_FIRST,), of=of)
            except ConsoleError as error:  # what was typed must not be lost
                text = _remarked(saved, error)
            else:
                return True


async def _read(cluster: ClusterFeed, target: Target) -> dict[str, Any]:
    from actions.cluster.objects.editing import without_managed_fields

    found = without_managed_fields(await cluster.session.get(target.path))
    if found.get("metadata", {}).get("uid") != target.uid:
        raise RefusedError(f"{target.title()} is not the object that was chosen; that one is gone.")
    return found


async def _send(cluster: ClusterFeed, target: Target, document: Mapping[str, Any]) -> None:
    await cluster.session.request(
        "PUT",
        target.path,
        query={"fieldManager": "eksml-tui-edit", "fieldValidation": "Strict"},
        body=msgspec.json.encode(document),
    )


def _without_version(patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes without that of the resource version, which is the server's."""
    metadata = {name: value for name, value in (patch.get("metadata") or {}).items() if name != "resourceVersion"}
    rest = {name: value for name, value in patch.items() if name != "metadata"}
    return rest | ({"metadata": metadata} if metadata else {})


def _remarked(saved: str, error: ConsoleError) -> str:
    """Return the saved text with the reason for its refusal above it, in place of an earlier one."""
    from actions.base.untrusted import one_line

    lines = [line for line in saved.splitlines(keepends=True) if not line.startswith(_REFUSED)]
    return f"{_REFUSED}{one_line(error.sentence(), limit=2000)}\n" + "".join(lines)
