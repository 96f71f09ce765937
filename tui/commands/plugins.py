"""The command `plugin`: an external program of the operator's plugins.yaml, with the selected object."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence, Set

from actions.base.errors import (
    ConfigError,
    ConsoleError,
    MissingError,
    ParameterError,
    RefusedError,
    ToolError,
    nearest_hint,
)
from actions.base.executors import in_thread
from actions.base.files import expanded
from actions.base.process import stream_tool
from actions.base.untrusted import one_line
from actions.base.wording import folded
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.command import arguments as args
from tui.commands.app_actions import AppActions, Handler
from tui.commands.targets import cluster_meant, place_of_changes
from tui.feeds.cluster import ClusterFeed
from tui.feeds.followed import FollowedCluster
from tui.feeds.services import ConsoleServices
from tui.panes.base import Pane, TablePane
from tui.present.cells import Cells, Span, Tone
from tui.present.subject import Subject
from tui.screens.confirm import BODY_COLUMNS, Confirmation
from tui.screens.workspace import PaneWorkspace
from tui.settings.keymap import ConsolePlugin
from tui.settings.plugins import (
    ALL,
    CONTAINERS,
    filled,
    is_one_placeholder,
    kind_of_scope,
    names_in,
    panes_of,
    typed_line,
    what_is_wrong,
)

_SHELLS = frozenset(
    {
        *("sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish", "pwsh", "eval"),
        *("busybox", "toybox", "watch", "ssh", "xargs", "parallel", "su", "runuser", "script", "tmux", "screen"),
    }
)
"""Shells, and programs that give their arguments to one."""
_BETWEEN_WORDS = re.compile(r"""[^\w.+-]+""")
_HARMLESS = re.compile(r"[\w.,:/@%+=~^-]*")
"""Values that are one word to a shell, and in which it finds nothing to carry out."""
_SIGNS = re.compile(r"[^\x20-\x7e\w]+")
"""Bars, and the signs of states, which stand in cells beside their words."""
_LONGEST_SECONDS = 24 * 3600.0


def is_for(plugin: ConsolePlugin, subject: Subject, pane: Pane, services: ConsoleServices) -> bool:
    """Return whether a plugin works in a pane, and one of its scopes names the kind of the object there."""
    row, scope = subject.row, services.objects.scope
    if pane.CONTEXT not in panes_of(plugin) or (row is None and (scope is None or not subject.api_version)):
        return False
    words = {ALL, CONTAINERS} if subject.kind == "Pod" else {ALL}
    if row is None and scope is not None:
        served = scope.kind
        words |= {served.plural, served.qualified, served.kind.lower(), served.singular, *served.short_names}
    return any(word.lower() in words or (row is not None and kind_of_scope(word) is row) for word in plugin.scopes)


class PluginCommand:
    """The handler of `plugin`.

    Args:
        workspace: The panes; the program gets the selected object of the current one.
        services: The plugins, and the cluster.
        actions: Ask, and run programs.
    """

    def __init__(self, workspace: PaneWorkspace, services: ConsoleServices, actions: AppActions) -> None:
        self._workspace = workspace
        self._services = services
        self._app = actions

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by command id."""
        return {"plugin": self._plugin}

    async def _plugin(self, arguments: args.PluginArguments) -> None:
        if not self._services.settings.has_operator:
            raise RefusedError("A script starts no plugin: somebody has to be asked.", hint="Start it by hand.")
        pane = self._workspace.current
        subject = pane.subject_in_sight()
        plugin = self._of_key(arguments.key, pane, subject) if arguments.key else self._named(arguments.plugin)
        if arguments.key and plugin.inputs:
            await self._app.type_line(typed_line(plugin))
            return
        if subject is None:
            raise MissingError("Nothing is selected.", hint="Put the cursor on an object.")
        if not is_for(plugin, subject, pane, self._services):
            panes = ", ".join(sorted(panes_of(plugin)))
            raise RefusedError(
                f"{plugin.name} is for {', '.join(plugin.scopes)}, not for {subject.title()} here.",
                hint=f"It works in {panes}.",
            )
        cluster = cluster_meant(self._services, "", (subject,))
        inputs = _inputs(plugin, arguments.set)
        typed = {*inputs, *(["FILTER"] if pane.active_filter else [])}
        values = inputs | self._values(cluster.feed, pane, subject)
        values |= await in_thread("plugin", _of_context, cluster.feed.target)
        argv = _argv(plugin, values, typed)
        if plugin.is_confirmed and not await self._app.confirm(self._question(cluster, plugin, subject, argv)):
            return
        environment = {**os.environ, **({"KUBECONFIG": values["KUBECONFIG"]} if values["KUBECONFIG"] else {})}
        if plugin.is_background:
            self._app.run_beside(self._run(plugin, argv, environment))
            self._app.notify_plainly(f"{plugin.name} has been started.")
        elif code := await self._app.run_in_front(argv, environment):
            raise ToolError(argv[:1], exit_code=code, tail="")

    def _of_key(self, key: str, pane: Pane, subject: Subject | None) -> ConsolePlugin:
        """Return the plugin of a key that is for the selected object; if none is, one of that key, which is refused.

        One for pods comes before one for their containers, which have no pane of their own.
        """
        plugins = [plugin for plugin, _ in self._services.settings.keymap.plugins if plugin.key == key]
        plugins.sort(key=lambda one: CONTAINERS in one.scopes)
        if not plugins:
            raise MissingError(f"{key!r} is not the key of a plugin.")
        return next((one for one in plugins if subject and is_for(one, subject, pane, self._services)), plugins[0])

    def _named(self, name: str) -> ConsolePlugin:
        plugins = {plugin.name: plugin for plugin, _ in self._services.settings.keymap.plugins}
        if name not in plugins:
            raise MissingError(f"There is no plugin {name!r}.", hint=nearest_hint(name, plugins))
        return plugins[name]

    def _values(self, cluster: ClusterFeed, pane: Pane, subject: Subject) -> dict[str, str]:
        """Return the values of the selection: names, the columns of its row, the filter, its kind."""
        row, scope = subject.row, self._services.objects.scope
        kind = scope.kind if row is None and scope is not None else None
        group, plural = (kind.group, kind.plural) if kind else (row.group, row.plural) if row else ("", "")
        version = kind.version if kind else row.versions[0] if row else ""
        snapshot = cluster.snapshot()
        pod = snapshot.pods.get(f"{subject.namespace}/{subject.name}") if snapshot and subject.kind == "Pod" else None
        values = {
            "NAME": subject.name,
            "NAMESPACE": subject.namespace,
            "FILTER": pane.active_filter or subject.name,
            "RESOURCE_GROUP": group,
            "RESOURCE_VERSION": version,
            "RESOURCE_NAME": plural,
        }
        if pod is not None:
            container = subject.container or next(iter(pod.containers), "")
            values |= {"POD": pod.name, "CONTAINER": container}
        titles = pane.shown_titles if isinstance(pane, TablePane) else ()
        cells = {title: _SIGNS.sub("", pane.clipping(title).text).strip() for title in titles}
        return values | {f"COL-{title.upper()}": text for title, text in cells.items()}

    def _question(
        self, cluster: FollowedCluster, plugin: ConsolePlugin, subject: Subject, argv: Sequence[str]
    ) -> Confirmation:
        words = [*folded(one_line(shlex.join(argv), limit=2000), BODY_COLUMNS - 2, further="    "), ""]
        lines: list[Cells] = [(Span(line, Tone.STRONG),) for line in words]
        lines += [(Span(line),) for line in folded(place_of_changes(self._services, cluster), BODY_COLUMNS - 2)]
        return Confirmation(f"Start {plugin.name} with {subject.title()}?", lines)

    async def _run(self, plugin: ConsolePlugin, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Carry out a program in the background, and tell how it has ended."""
        printed: list[str] = []

        def take(line: str) -> None:
            if not printed and line.strip():
                printed.append(one_line(line))

        try:
            await stream_tool(argv, on_line=take, deadline_seconds=_LONGEST_SECONDS, extra_environment=environment)
        except ConsoleError as error:
            self._app.notify_plainly(f"{plugin.name}: {error.sentence()}")
        else:
            self._app.notify_plainly(printed[0] if plugin.shows_output and printed else f"{plugin.name} has ended.")


def _of_context(target: ClusterTarget) -> dict[str, str]:
    """Return the values of a kubeconfig's context; reads its files."""
    context = load_context(target)
    file = str(expanded(target.kubeconfig)) if target.kubeconfig else os.environ.get("KUBECONFIG", "")
    return {
        "CONTEXT": context.context,
        "CLUSTER": context.cluster,
        "USER": context.user,
        "GROUPS": ",".join(context.impersonation.groups),
        "KUBECONFIG": file,
    }


def _inputs(plugin: ConsolePlugin, typed: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a plugin's inputs.

    Raises:
        ParameterError: One is unknown, missing, or of another form.
    """
    known = {one.name: one for one in plugin.inputs}
    for name in typed:
        if name not in known:
            raise ParameterError(f"{plugin.name} has no input {name!r}.", hint=nearest_hint(name, known))
    found = {}
    for name, wanted in known.items():
        value = typed.get(name, wanted.default)
        if not value and wanted.is_required:
            raise ParameterError(f"{plugin.name} needs {name}.", hint=f":plugin {plugin.name} {name}=…")
        if value and (wrong := what_is_wrong(wanted, value)):
            raise ParameterError(f"{plugin.name}: {name} {wrong}.")
        found[f"INPUT_{name.upper()}"] = value
    return found


def _argv(plugin: ConsolePlugin, values: Mapping[str, str], typed: Set[str]) -> list[str]:
    """Return the words that start a plugin.

    Args:
        plugin: The plugin.
        values: By the name of the placeholder.
        typed: Names of the values that the operator has typed; all others are of the cluster and the kubeconfig.

    Raises:
        ConfigError: It has no command.
        MissingError: A column is not shown.
        RefusedError: A value that was not typed would be taken for an option, or be carried out by a shell.
    """
    texts = (plugin.command, *plugin.args)
    for name in sorted({name for text in texts for name in names_in(text)} - values.keys()):
        if name.startswith("COL-"):
            raise MissingError(f"{plugin.name} needs the column {name[4:]}.", hint=f"Shown: {_columns(values)}.")
    argv = [filled(text, values) for text in texts]
    if not argv[0]:
        raise ConfigError(f"{plugin.name} has no command.")
    has_shell = any(_has_shell(word) for word in argv)
    for text in texts:
        for name in names_in(text):
            if name in values and name not in typed:
                _refuse_harm(plugin, name, values[name], is_word=is_one_placeholder(text) and not has_shell)
    return argv


def _has_shell(text: str) -> bool:
    """Return whether one of the words of an argument is a shell: `/bin/sh`, `env bash -c date`, `sh;`."""
    return not _SHELLS.isdisjoint(_BETWEEN_WORDS.split(text))


def _refuse_harm(plugin: ConsolePlugin, name: str, value: str, *, is_word: bool) -> None:
    """Refuse a value that was not typed, if a program would find more in it than a value.

    Args:
        plugin: The plugin.
        name: Of the placeholder.
        value: Of the cluster, or the kubeconfig.
        is_word: It is an argument by itself, and there is no shell; else only signs that mean nothing to one pass.

    Raises:
        RefusedError: It begins as an option does, or has signs of a shell.
    """
    shown = one_line(value, limit=80)
    if value.startswith("-"):
        raise RefusedError(
            f"{plugin.name} would take ${name} for an option: {shown!r} begins with '-'.",
            hint="Choose another object, or another placeholder.",
        )
    if not is_word and not _HARMLESS.fullmatch(value):
        raise RefusedError(
            f"{plugin.name} would put ${name} into a shell or a text: {shown!r} has a blank or a sign of a shell.",
            hint="Write the plugin without a shell, with the placeholder as an argument by itself.",
        )


def _columns(values: Mapping[str, str]) -> str:
    return ", ".join(name[4:] for name in values if name.startswith("COL-"))
