"""Changes of objects from the console: what is meant, what the dialog names, what is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.screen import Screen
from textual.widget import Widget

from actions.base.errors import ConfigError, ConsoleError, RefusedError
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.catalogue import KindCatalogue, ServedKind
from actions.command.parse import parse_line
from tests.support.builders import a_node, a_snapshot, console_services
from tests.support.waiting import wait_for
from tests.unit.cluster.changing import BUDGET, Objects, a_pod
from tests.unit.cluster.servers import session_to
from tui.base_app import TypeAheadApp
from tui.commands.app_actions import AppActions
from tui.commands.changes import ObjectChanges
from tui.commands.dispatcher import CommandDispatcher
from tui.commands.edit import EditCommand, editor_of
from tui.panes.objects import ObjectsPane
from tui.present.cells import text_of
from tui.present.subject import Subject
from tui.screens.confirm import Confirmation, ConfirmModal, TypeNameModal
from tui.screens.status_lines import hints_line
from tui.screens.workspace import PaneWorkspace
from tui.settings.keys import KeyContext
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

VERBS = ("get", "list", "watch", "delete", "patch")


@pytest.fixture(autouse=True)
def an_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBE_EDITOR", "sh")


CATALOGUE = KindCatalogue(
    [
        ServedKind("apps", "v1", "deployments", "Deployment", "deployment", ("deploy",), verbs=VERBS),
        ServedKind("", "v1", "nodes", "Node", "node", ("no",), False, VERBS),
        ServedKind("", "v1", "pods", "Pod", "pod", ("po",), verbs=VERBS),
        ServedKind("", "v1", "namespaces", "Namespace", "namespace", ("ns",), False, VERBS),
        ServedKind("", "v1", "secrets", "Secret", "secret", verbs=VERBS),
    ]
)


class Operator(TypeAheadApp[None]):
    """An app whose operator answers every dialog; notes dialogs, sentences and errors."""

    def __init__(self, *, says_yes: bool) -> None:
        super().__init__()
        self.asked: list[Confirmation] = []
        self.said: list[str] = []
        self.errors: list[str] = []
        self._says_yes = says_yes

    async def put_in_front(self, screen: Screen[object]) -> object:  # type: ignore[override]  # dialogs alone
        assert isinstance(screen, ConfirmModal | TypeNameModal)
        self.asked.append(screen._question)
        return self._says_yes

    def notify_error(self, error: ConsoleError) -> None:
        self.errors.append(error.sentence())


class Desk:
    """A console on one server, without its panes on screen."""

    def __init__(self, session: KubeSession, *, says_yes: bool = True, is_readonly: bool = False) -> None:
        self.app = Operator(says_yes=says_yes)
        self.edited: list[str] = []
        self.saves: list[str] = []
        services = self.services = console_services()
        services.settings = ConsoleSettings(target=services.settings.target, region="us-west-2", readonly=is_readonly)
        services.cluster._session = session
        services.cluster._connected.set()
        services.followed.on_screen.kinds._catalogue = (session, CATALOGUE)
        workspace = PaneWorkspace(services)

        async def allow(_: ConfigError) -> bool:
            return False

        actions = AppActions(
            show=lambda _: None,
            notify_plainly=self._notify,
            withdraw_notification=self.app.withdraw_notification,
            save_screen=_save_nothing,
            leave=lambda: None,
            close_notifications=lambda: False,
            close_front=lambda: False,
            open_shell=lambda *_: None,
            allow_plugin=allow,
            edit_text=self._edit,
        )
        handlers = {
            **ObjectChanges(workspace, services, actions).handlers(),
            **EditCommand(workspace, services, actions).handlers(),
        }
        self.dispatcher = CommandDispatcher(self.app, services, workspace, lambda: handlers)

    async def submit(self, line: str) -> None:
        async with self.app.run_test():
            self.dispatcher.submit(line)
            await self.app.workers.wait_for_complete()

    def _notify(self, text: str) -> None:
        self.app.said.append(text)
        self.app.notify_plainly(text)

    def body(self) -> str:
        """The text of the one dialog, on one line."""
        (question,) = self.app.asked
        return " ".join(text_of(line).strip() for line in question.lines)

    async def _edit(self, text: str, _argv: object) -> str:
        self.edited.append(text)
        change, _, into = self.saves.pop(0).partition(" -> ") if self.saves else ("", "", "")
        return text.replace(change, into) if change else text


@asynccontextmanager
async def a_desk(objects: Objects, folder: Path, **options: bool) -> AsyncIterator[Desk]:
    async with session_to(objects, folder) as session:
        yield Desk(session, **options)


async def test_a_deletion_names_object_cluster_and_context_and_carries_the_uid(tmp_path: Path) -> None:
    objects = Objects()
    async with a_desk(objects, tmp_path) as desk:
        await desk.submit("delete deploy/work/web propagation=orphan")
    assert desk.app.errors == []
    assert desk.app.asked[0].title == "Delete Deployment work/web?"
    assert not desk.app.asked[0].word
    assert "stays, without an owner" in desk.body()
    assert "cluster here · region us-west-2 · context here" in desk.body()
    assert objects.sent[0]["preconditions"] == {"uid": "u1"}
    assert desk.app.said == ["Deployment work/web is being deleted."]


async def test_a_no_changes_nothing_and_a_read_only_console_does_not_even_ask(tmp_path: Path) -> None:
    objects = Objects()
    async with a_desk(objects, tmp_path, says_yes=False) as desk:
        await desk.submit("scale 3 deploy/work/web")
        assert desk.app.asked[0].title == "Scale Deployment work/web to 3?"
    async with a_desk(objects, tmp_path, is_readonly=True) as desk:
        await desk.submit("delete deploy/work/web")
        assert desk.app.asked == []
        assert "read-only: delete was not carried out" in desk.app.errors[0]
    assert objects.sent == []


async def test_the_name_of_a_namespace_is_typed_and_several_objects_are_counted(tmp_path: Path) -> None:
    async with a_desk(Objects(), tmp_path) as desk:
        await desk.submit("delete ns/training")
        assert (desk.app.asked[0].word, desk.app.asked[0].word_is) == ("training", "its name")
        assert "Everything in the namespace is deleted with it." in desk.body()
    async with a_desk(Objects(), tmp_path) as desk:
        await desk.submit("restart deploy/work/web,deploy/work/api")
        assert desk.app.asked[0].title == "Restart 2 deployments?"
        assert "Deployment work/api" in desk.body()
        assert desk.app.said == ["2 objects are being restarted."]


async def test_an_object_that_was_replaced_since_it_was_chosen_is_not_asked_about(tmp_path: Path) -> None:
    objects = Objects(uid="u2")
    async with a_desk(objects, tmp_path) as desk:
        await desk.submit("delete deploy/work/web@u1")
        assert desk.app.asked == []
        assert "is not the object that was chosen" in desk.app.errors[0]


async def test_a_drain_that_loses_something_is_confirmed_by_name_and_a_script_has_to_say_so(tmp_path: Path) -> None:
    objects = Objects(pods={"alone": a_pod("alone", owner="")})
    async with a_desk(objects, tmp_path) as desk:
        await desk.submit("drain no/node-1")
        assert desk.app.asked[0].word == "node-1"
        assert "1 pod to evict. No controller makes work/alone again." in desk.body()
        assert desk.app.said == ["Node node-1 is drained: 1 pod evicted."]
    objects.pods["alone"] = a_pod("alone", owner="")
    async with a_desk(objects, tmp_path) as desk:
        with pytest.raises(RefusedError, match=r"cordoned, but not drained\. No controller"):
            await desk.dispatcher.execute(parse_line("drain no/node-1"))


@pytest.mark.parametrize(
    ("line", "asked"), [("cordon node-1", "node-1.us-west-2.compute.internal"), ("cordon no/node", "node")]
)
async def test_a_node_may_be_named_as_its_table_shows_it(
    line: str, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = a_snapshot([a_node(f"{name}.us-west-2.compute.internal") for name in ("node-1", "node-2")])
    async with a_desk(Objects(), tmp_path, says_yes=False) as desk:
        monkeypatch.setattr(desk.services.cluster, "snapshot", lambda: snapshot)
        await desk.submit(line)
        assert [question.title for question in desk.app.asked] == [f"Cordon Node {asked}?"]


async def test_a_name_alone_is_of_the_kind_on_screen_or_else_a_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deployments(ObjectsPane):
        def named(self, name: str) -> Subject | None:
            return Subject("Deployment", name, "work", api_version="apps/v1") if name == "web" else None

    async with a_desk(Objects(), tmp_path, says_yes=False) as desk:
        monkeypatch.setattr(PaneWorkspace, "current", Deployments(desk.services))
        desk.services.narrow("play")
        await desk.submit("restart web,other")
        assert desk.body().startswith("Deployment work/web Pod play/other")


async def test_a_drain_names_the_budget_that_holds_it_and_the_footer_what_is_left_until_the_node_is_uncordoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects(pods={"protected-0": a_pod("protected-0")}, protected=10_000)
    painted: list[dict[str, int]] = []
    async with a_desk(objects, tmp_path) as desk, desk.app.run_test(notifications=True) as pilot:
        monkeypatch.setattr(desk.services.ticker, "request_paint", lambda: painted.append(dict(desk.services.drains)))
        desk.dispatcher.submit("drain node-1")
        await wait_for(pilot, lambda: desk.services.drains == {"node-1": 1}, "a pod is left")
        assert f"work/protected-0. {BUDGET}. The drain waits for them, 30 minutes at most" in desk.body()
        assert desk.app.said[0].endswith(f"work/protected-0. {BUDGET}. :uncordon ends the drain.")
        footer = text_of(hints_line(KeyContext.PODS, width=80, drains=desk.services.drains))
        assert footer.startswith(" 1 ◐ draining node-1: 1 pod left  ")
        await wait_for(pilot, lambda: "1 pod left" in screen_text(desk.app), "a notification has the number")
        desk.dispatcher.submit("drain no/node-1")
        await wait_for(pilot, lambda: desk.app.errors != [], "a second drain is refused")
        assert "Node node-1 is being drained already. :uncordon ends the drain." in desk.app.errors[0]
        desk.dispatcher.submit("uncordon node-1")
        await pilot.app.workers.wait_for_complete()
        assert desk.app.said[1:] == ["Node node-1 was uncordoned already; its drain has ended."]
        await wait_for(pilot, lambda: "its drain has ended" in screen_text(desk.app), "the end is told")
        assert "1 pod left" not in screen_text(desk.app)
        assert (desk.services.drains, list(objects.pods)) == ({}, ["protected-0"])
        assert painted == [{"node-1": 1}, {}], "the footer is painted also when the drain has ended"


async def test_what_is_saved_is_sent_with_the_version_that_was_read(tmp_path: Path) -> None:
    objects = Objects()
    async with a_desk(objects, tmp_path) as desk:
        desk.saves.append("replicas: 2 -> replicas: 5")
        await desk.submit("edit deploy/work/web")
        assert desk.edited[0].startswith("# Deployment work/web · cluster here · region us-west-2 · context here\n")
    assert objects.sent == [{"metadata": {"uid": "u1", "resourceVersion": "5"}, "spec": {"replicas": 5}}]
    assert desk.app.said == ["Deployment work/web is changed."]


async def test_nothing_is_sent_when_nothing_is_changed_and_secrets_are_not_read(tmp_path: Path) -> None:
    objects = Objects()
    async with a_desk(objects, tmp_path) as desk:
        await desk.submit("edit deploy/work/web")
        await desk.dispatcher.execute(parse_line("edit deploy/work/web"))
        with pytest.raises(RefusedError, match="contents of Secrets are never read"):
            await desk.dispatcher.execute(parse_line("edit secret/work/token"))
    assert objects.sent == []
    assert desk.app.said == ["Deployment work/web is not changed."] * 2


async def test_a_refusal_returns_to_the_editor_with_what_was_typed_and_the_reason(tmp_path: Path) -> None:
    async with a_desk(Objects(refuses="spec.replicas: Invalid value: -1"), tmp_path) as desk:
        desk.saves.append("replicas: 2 -> replicas: -1")
        await desk.submit("edit deploy/work/web")
    assert desk.edited[1].startswith("# Not saved: Refused: spec.replicas: Invalid value: -1")
    assert "replicas: -1" in desk.edited[1]
    assert desk.app.said == ["Deployment work/web is not changed."]


async def test_changes_of_others_come_below_ours_before_it_is_saved_again(tmp_path: Path) -> None:
    objects = Objects(conflicts=1)
    async with a_desk(objects, tmp_path) as desk:
        desk.saves += ["replicas: 2 -> replicas: 5", "paused: false -> paused: true"]
        objects.after_conflict = {"replicas": 2, "paused": False}
        await desk.submit("edit deploy/work/web")
    (remark,) = [line for line in desk.edited[1].splitlines() if "Others have changed it meanwhile" in line]
    assert remark.endswith("Delete this line to send."), "the line that is to be deleted is one line"
    assert "replicas: 5\n  paused: false" in desk.edited[1]
    assert objects.sent[-1]["spec"] == {"replicas": 5, "paused": True}


@pytest.mark.parametrize(
    ("environment", "argv"),
    [
        ({"KUBE_EDITOR": "sh -x", "EDITOR": "cat"}, ["sh", "-x"]),
        ({"EDITOR": "sh"}, ["sh"]),
    ],
)
def test_the_editor_is_the_operators(environment: dict[str, str], argv: list[str]) -> None:
    assert editor_of(environment | {"PATH": "/usr/bin:/bin"}) == argv


def test_an_editor_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"The editor nowhere of \$EDITOR"):
        editor_of({"EDITOR": "nowhere --wait", "PATH": "/usr/bin:/bin"})
    with pytest.raises(ConfigError, match="no editor on the PATH"):
        editor_of({"PATH": "/nowhere"})


async def _save_nothing(_file: Path, _part: Widget | None) -> None:
    """Take no picture."""
