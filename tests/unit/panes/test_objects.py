"""The objects pane: rows of any kind in, text out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.cluster.objects.catalogue import KindCatalogue, ServedKind
from actions.cluster.watch.table_format import ObjectRow, TableColumn
from tests.support.builders import NOW, console_services
from tests.support.waiting import settle, wait_for
from tests.unit.panes.alone import WIDE, PaneApp, text_of
from tui.feeds.objects import ObjectsScope
from tui.feeds.services import ConsoleServices
from tui.feeds.supervisor import FeedHealth, FeedState
from tui.panes.objects import ObjectsPane
from tui.present.objects import kinds_page, line_into
from tui.present.subject import Subject
from tui.textual_private import screen_text

JOBS = ServedKind("batch", "v1", "jobs", "Job", "job", verbs=("get", "list", "watch"))
COLUMNS = (
    TableColumn("Name", format="name"),
    TableColumn("Status"),
    TableColumn("Age"),
    TableColumn("Images", priority=1),
)


def a_row(name: str, status: str = "Running", *, namespace: str = "work", seconds: float = 3600) -> ObjectRow:
    made = NOW.timestamp() - seconds
    return ObjectRow(f"u-{namespace}-{name}", namespace, name, (name, status, "1h", "busybox"), created_at=made)


def showing(*rows: ObjectRow, namespace: str = "") -> ConsoleServices:
    services = console_services()
    services.objects.show(ObjectsScope(JOBS, namespace))
    services.objects.take_all(rows, COLUMNS)
    services.objects.take_health(FeedHealth(FeedState.LIVE))
    return services


async def test_rows_have_the_servers_columns_in_natural_order() -> None:
    lines = (await text_of(ObjectsPane(showing(a_row("job-10"), a_row("job-2", "Failed"))))).splitlines()
    assert "jobs.batch" in lines[0]
    assert lines[1].strip("│ ").split() == ["NAMESPACE", "NAME", "STATUS", "AGE", "IMAGES"]
    assert [line.split()[1] for line in lines[2:4]] == ["job-2", "job-10"]
    assert lines[2].split()[1:5] == ["job-2", "Failed", "60m", "busybox"]


async def test_one_namespace_needs_no_column_and_no_rows_are_said_to_be_none() -> None:
    text = await text_of(ObjectsPane(showing(a_row("train"), namespace="work")))
    assert "jobs.batch in work" in text
    assert "NAMESPACE" not in text
    assert "No jobs.batch in work." in await text_of(ObjectsPane(showing(namespace="work")))


async def test_without_a_kind_the_pane_names_some() -> None:
    assert ":jobs, :pvc" in await text_of(ObjectsPane(console_services()))


async def test_changes_move_rows_and_a_new_object_of_the_same_name_is_another_row() -> None:
    services = showing(a_row("one"), a_row("two"))
    app = PaneApp(ObjectsPane(services))
    async with app.run_test(size=WIDE) as pilot:
        app.pane.refresh_data()
        app.pane.focus_content()
        await settle(pilot)
        await pilot.press("down")
        services.objects.drop(a_row("one"))
        services.objects.take(replace(a_row("one"), uid="u-new", cells=("one", "Suspended", "1s", "busybox")))
        app.pane.refresh_data()
        await settle(pilot)
        text = screen_text(app)
        assert app.pane.subject() == Subject("Job", "two", "work", api_version="batch/v1", uid="u-work-two")
    assert "Suspended" in text
    assert "2 objects" in text


async def test_a_refusal_is_at_the_border() -> None:
    services = console_services()
    services.objects.show(ObjectsScope(JOBS))
    services.objects.take_health(FeedHealth(FeedState.REFUSED, 'Not allowed: User "me" cannot list resource "jobs"'))
    text = await text_of(ObjectsPane(services))
    assert 'cannot list resource "jobs"' in text
    assert ":ns NAME" in text


def test_the_list_of_kinds_has_the_words_to_type() -> None:
    page = kinds_page(KindCatalogue([JOBS, ServedKind("", "v1", "nodes", "Node", "", ("no",), False, ("list",))]).kinds)
    assert [line.split() for line in page.splitlines()] == [
        ["NAME", "SHORT", "NAMESPACED", "KIND", "VERSION"],
        ["jobs.batch", "true", "Job", "v1"],
        ["nodes", "no", "false", "Node", "v1"],
    ]


async def test_columns_are_chosen_by_their_titles_and_kept_for_the_kind() -> None:
    pane = ObjectsPane(showing(a_row("train"), namespace="work"))
    app = PaneApp(pane)
    async with app.run_test(size=WIDE) as pilot:
        pane.refresh_data()
        pane.choose_columns(["status", "NAME"])
        await settle(pilot)
        assert screen_text(app).splitlines()[1].strip("│ ").split() == ["STATUS", "NAME"]
        with pytest.raises(MissingError, match="no column 'NODE'") as refused:
            pane.choose_columns(["NODE"])
        assert refused.value.hint == "It has NAME, STATUS, AGE, IMAGES."
        pane.choose_columns([])
        await settle(pilot)
        assert "IMAGES" in screen_text(app)


async def test_labels_are_columns_and_are_read_from_the_server() -> None:
    services = showing(a_row("train"), namespace="work")
    pane = ObjectsPane(services)
    async with PaneApp(pane).run_test(size=WIDE) as pilot:
        pane.refresh_data()
        pane.choose_columns(["label:team", "NAME"])
        assert services.objects.scope is not None
        assert services.objects.scope.label_names == ("team",)
        row = a_row("train")
        services.objects.take_all([replace(row, cells=(*row.cells, "a"))], (*COLUMNS, TableColumn("label:team")))
        pane.refresh_data()
        await settle(pilot)
        assert [line.strip("│ ").split() for line in screen_text(pane.app).splitlines()[1:3]] == [
            ["LABEL:TEAM", "NAME"],
            ["a", "train"],
        ]
        services.show_objects(ObjectsScope(JOBS, "other"))  # the labels of a kind are kept
        pane.refresh_data()
        assert services.objects.scope.label_names == ("team",)


async def test_a_kind_keeps_its_order_while_it_is_read_anew_and_another_one_begins_in_natural_order() -> None:
    services = showing(a_row("job-2", seconds=5), a_row("job-10", seconds=9))
    pane = ObjectsPane(services)
    app = PaneApp(pane)

    def names() -> list[str]:
        return [row.name for key in pane.table.shown_keys if (row := services.objects.rows.get(key))]

    def show(kind: ServedKind, *, is_read: bool = True) -> None:
        services.objects.show(ObjectsScope(kind))
        pane.refresh_data()
        if is_read:
            services.objects.take_all([a_row("job-2", seconds=5), a_row("job-10", seconds=9)], COLUMNS)
            pane.refresh_data()

    async with app.run_test(size=WIDE) as pilot:
        pane.refresh_data()
        pane.table.sort_by("age", reverse=True)
        assert names() == ["job-10", "job-2"]
        show(JOBS)
        assert (names(), pane.table.sort_state) == (["job-10", "job-2"], ("age", True))
        show(replace(JOBS, plural="crons"), is_read=False)
        pane.focus_content()
        await settle(pilot)
        await pilot.press(".", ",", ";")  # nothing to sort by yet
        show(replace(JOBS, plural="crons"))
        assert (names(), pane.table.sort_state) == (["job-2", "job-10"], ("", False))
        show(JOBS)
        assert pane.table.sort_state == ("age", True)


async def test_selectors_go_to_the_server_and_words_to_the_rows() -> None:
    services = showing(a_row("train"), a_row("other"))
    pane = ObjectsPane(services)
    async with PaneApp(pane).run_test(size=WIDE):
        pane.refresh_data()
        pane.filter("-l app=web tra")
        assert services.objects.scope == ObjectsScope(JOBS, labels="app=web")
        assert (pane.active_filter, pane.table.filter_text) == ("-l app=web tra", "tra")
        pane.filter("")
        assert services.objects.scope == ObjectsScope(JOBS)


async def test_a_name_stands_for_the_one_object_on_screen_that_has_it() -> None:
    pane = ObjectsPane(showing(a_row("train"), a_row("web"), a_row("web", namespace="play")))
    async with PaneApp(pane).run_test(size=WIDE):
        pane.refresh_data()
        assert set(pane.names) == {"train", "web"}
        assert pane.named("train") == Subject("Job", "train", "work", api_version="batch/v1", uid="u-work-train")
        assert (pane.named("web"), pane.named("other")) == (None, None)


async def test_marks_belong_to_objects_and_are_counted_in_the_title() -> None:
    services = showing(a_row("one"), a_row("two"), a_row("three"))
    pane = ObjectsPane(services)
    app = PaneApp(pane)
    async with app.run_test(size=WIDE) as pilot:
        pane.refresh_data()
        pane.focus_content()
        await settle(pilot)
        await pilot.press("space", "space")
        await wait_for(pilot, lambda: "2 marked" in screen_text(app), "marks are counted")
        assert [subject.name for subject in pane.marked()] == ["one", "three"]
        services.objects.drop(a_row("one"))
        services.objects.take(replace(a_row("one"), uid="u-new"))
        pane.refresh_data()
        await wait_for(pilot, lambda: "1 marked" in screen_text(app), "the mark of a lost object is dropped")
        assert pane.marked() == (Subject("Job", "three", "work", api_version="batch/v1", uid="u-work-three"),)
        assert pane.clear_marks()
        await wait_for(pilot, lambda: "marked" not in screen_text(app), "the marks are dropped")
        assert not pane.clear_marks()


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (JOBS, "open pods of=Job/work/train"),
        (ServedKind("", "v1", "pods", "Pod"), "logs work/train"),
        (ServedKind("", "v1", "nodes", "Node"), "open pods of=train"),
        (ServedKind("", "v1", "namespaces", "Namespace"), "namespace train"),
        (ServedKind("", "v1", "configmaps", "ConfigMap"), "describe"),
    ],
)
def test_enter_goes_into_an_object(kind: ServedKind, line: str) -> None:
    assert line_into(kind, a_row("train")) == line


async def test_what_is_being_deleted_is_marked_behind_its_name() -> None:
    text = await text_of(ObjectsPane(showing(replace(a_row("train"), is_going=True))))
    assert "train ◌" in text
