"""The forms of a table, and the tables of a cluster that are printed once."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from msgspec.structs import replace

from actions.base.errors import AccessError, UsageError
from actions.base.executors import in_thread
from actions.base.wording import aligned_text
from actions.cluster.watch.health import Health, SourceHealth
from actions.fleet.facts import PodFacts
from tests.unit.cluster.faults import page, refusal
from tests.unit.cluster.samples import EVENT, NODE, POD
from tests.unit.cluster.servers import serving, write_kubeconfig
from tui.cli.arguments import parse_arguments
from tui.cli.main import function_of
from tui.cli.tables.cluster import pod_document
from tui.cli.tables.follow import ChangedRows
from tui.cli.tables.output import formatted, in_order

DOCUMENT = json.dumps(
    {
        "a": 1,
        "rows": [{"name": "x", "price": {"usd": 1.5, "from": None}, "tags": ["p", "q"], "is": True}, {"name": "y,"}],
    }
)


def test_csv_and_wide_have_a_line_for_each_row_and_a_column_for_each_key() -> None:
    read = list(csv.reader(io.StringIO(formatted("csv", DOCUMENT, rows="rows"))))
    assert read == [
        ["name", "price.usd", "price.from", "tags", "is"],
        ["x", "1.5", "", "p q", "true"],
        ["y,"] + [""] * 4,
    ]
    wide = formatted("wide", DOCUMENT, rows="rows").splitlines()
    assert wide[0].split() == ["NAME", "PRICE.USD", "PRICE.FROM", "TAGS", "IS"]
    assert wide[2].split() == ["y,", "-", "-", "-", "-"]


def test_yaml_is_the_same_document_and_json_is_untouched() -> None:
    assert yaml.safe_load(formatted("yaml", DOCUMENT)) == json.loads(DOCUMENT)
    assert formatted("json", DOCUMENT) is DOCUMENT


def test_without_rows_csv_has_its_head() -> None:
    assert formatted("csv", "[]", fields=("a", "b")) == "a,b\n"
    assert formatted("csv", '{"rows": []}', rows="rows", fields=("a",)) == "a\n"


def test_a_key_that_is_null_or_an_object_has_the_same_columns_whatever_the_rows() -> None:
    fields = ("name", "price.usd", "price.source", "state")
    unknown, known = {"name": "x", "price": None, "state": "up"}, {"name": "y", "price": {"usd": 2, "source": "s"}}
    for rows in ([], [unknown], [known], [unknown, known]):
        assert formatted("csv", json.dumps(rows), fields=fields).splitlines()[0] == "name,price.usd,price.source,state"
    assert formatted("csv", json.dumps([unknown, known]), fields=fields).splitlines()[1:] == ["x,,,up", "y,2,s,"]


def test_rows_by_name_a_single_row_and_lists_of_objects() -> None:
    assert formatted("csv", '{"p": {"x": {"v": 1}, "y": 2}}', rows="p") == "name,v,value\nx,1,\ny,,2\n"
    assert formatted("csv", '{"a": [{"b": 1}]}') == 'a\n"[{""b"":1}]"\n'


def test_lines_of_json_and_names_have_a_row_a_line() -> None:
    assert [json.loads(line) for line in formatted("jsonl", DOCUMENT, rows="rows").splitlines()] == json.loads(
        DOCUMENT
    )["rows"]
    assert formatted("name", DOCUMENT, rows="rows", noun="node") == "node/x\nnode/y,\n"


def test_rows_are_in_the_order_of_a_column_unknown_ones_last() -> None:
    rows: list[dict[str, Any]] = [
        {"n": 10, "labels": {"a.b/c": "x"}},
        {"n": None, "labels": {}},
        {"n": 9, "labels": {"a.b/c": "a"}},
    ]
    for column, found in (
        ("n", [9, 10, None]),
        ("-n", [10, 9, None]),
        ("labels.a.b/c", [9, 10, None]),
        ("", [10, None, 9]),
    ):
        assert [row["n"] for row in in_order(rows, column, lambda row: row, ["n"])] == found
    with pytest.raises(UsageError, match="no column 'm'"):
        in_order(rows, "m", lambda row: row, ["n"])


async def test_what_comes_is_printed_once_below_the_titles(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ChangedRows[PodFacts](
        parse_arguments(["pods"]), ["NAME", "PHASE"], lambda pod: [pod.name, pod.phase], pod_document, noun="pod"
    )
    first, other = PodFacts("1", "ns", "a", phase="Pending"), PodFacts("2", "ns", "longer", phase="Running")
    await rows.replace([first])
    rows.upsert(first)
    rows.upsert(other)
    rows.remove(other)
    await rows.replace([replace(first, phase="Failed")])
    rows.health(SourceHealth(Health.RECONNECTING, "it is away", 0.0))
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["NAME  PHASE", "a     Pending", "longer  Running", "a       Failed"]
    assert printed.err == "eksml-tui: reconnecting: it is away\n"


def test_columns_are_aligned() -> None:
    assert aligned_text([["A", "N"], ["long", "7"]], right=(1,)) == "A     N\nlong  7\n"


async def _cluster(request: web.Request) -> web.StreamResponse:
    if request.path == "/version":
        return web.json_response({"gitVersion": "v1.34.0"})
    items = {
        "/api/v1/pods": [POD],
        "/api/v1/namespaces/training/pods": [],
        "/api/v1/nodes": [NODE],
        "/api/v1/events": [EVENT],
    }.get(request.path)
    if items is None:
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
    return await page(items, 10)(request)


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "kubeconfig"


async def _printed(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command beside the server that it asks."""
    async with serving(_cluster) as address:
        kubeconfig = write_kubeconfig(folder, address)
        options = parse_arguments(["--kubeconfig", str(kubeconfig), *words])
        assert await in_thread("command", function_of(options.command), options) == 0
    return capsys.readouterr().out


async def test_pods_are_printed_with_their_fields(
    tmp_path: Path, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await _printed(["pods"], tmp_path, capsys)
    assert "esm1nv-pretraining-worker-0" in text
    (pod,) = json.loads(await _printed(["pods", "-o", "json"], tmp_path, capsys))
    assert (pod["namespace"], pod["requests"]["gpu"]) == ("default", 4)
    assert await _printed(["-n", "training", "pods"], tmp_path, capsys) == "No pods in training.\n"
    head = await _printed(["pods", "-n", "training", "-o", "csv"], tmp_path, capsys)
    assert head.startswith("namespace,name,phase,")


async def test_labels_select_and_are_columns(
    tmp_path: Path, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []

    async def labelled(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, request.query.get("labelSelector", "")))
        if "as=Table" in request.headers["Accept"] and request.path in ("/api/v1/pods", "/api/v1/nodes"):
            of = POD if request.path.endswith("pods") else NODE
            metadata = of["metadata"] | {"labels": {"team.x/y": "a"}}
            row = {"cells": [], "object": {"metadata": metadata}}
            return web.json_response({"kind": "Table", "metadata": {"resourceVersion": "1"}, "rows": [row]})
        return await _cluster(request)

    async with serving(labelled) as address:
        where = ["--kubeconfig", str(write_kubeconfig(tmp_path, address))]
        for words in (["pods", "-A"], ["nodes"]):
            options = parse_arguments([*where, *words, "-l", "team=a", "-L", "team.x/y,none"])
            assert await in_thread("command", function_of(options.command), options) == 0
            head, row = capsys.readouterr().out.splitlines()[:2]
            assert (head.split()[-2:], row.split()[-2:]) == (["Y", "NONE"], ["a", "-"])
            options.output = "jsonl"
            assert await in_thread("command", function_of(options.command), options) == 0
            assert json.loads(capsys.readouterr().out)["labels"] == {"team.x/y": "a", "none": None}
    assert ("/api/v1/nodes", "team=a") in asked
    assert {query for path, query in asked if path == "/api/v1/pods"} == {"team=a", ""}  # of all pods for sums of nodes


async def test_titles_and_bars_are_for_people(
    tmp_path: Path, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await _printed(["nodes"], tmp_path, capsys)).startswith("NAME ")
    assert len((await _printed(["nodes", "--no-headers"], tmp_path, capsys)).splitlines()) == 1
    assert await _printed(["pods", "-n", "training", "--no-headers"], tmp_path, capsys) == ""
    assert (await _printed(["nodes", "-o", "name"], tmp_path, capsys)).startswith("node/")


async def test_a_refusal_of_all_namespaces_names_the_option_for_one(tmp_path: Path, kubeconfig: Path) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403)

    for words, hint in (
        (["pods"], "with -n NAME"),
        (["events"], "with -n NAME"),
        (["pods", "-n", "x"], "another user"),
    ):
        async with serving(refuse) as address:
            options = parse_arguments(["--kubeconfig", str(write_kubeconfig(tmp_path, address)), *words])
            with pytest.raises(AccessError) as refused:
                await in_thread("command", function_of(options.command), options)
        assert hint in refused.value.hint


@pytest.mark.parametrize("words", [["pods"], ["pods", "-o", "json"], ["events"], ["nodes"], ["cost"]])
async def test_what_cannot_be_read_is_left_out_with_a_sentence(
    words: list[str], tmp_path: Path, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists were shorter than the cluster's, and nobody could see it."""

    async def broken(request: web.Request) -> web.StreamResponse:
        whole = {"/api/v1/pods": POD, "/api/v1/nodes": NODE, "/api/v1/events": EVENT}.get(request.path)
        if whole is None:
            return await _cluster(request)
        return await page([whole, {**whole, "metadata": 7}, {**whole, "metadata": 8}], 2)(request)

    async with serving(broken) as address:
        options = parse_arguments(["--kubeconfig", str(write_kubeconfig(tmp_path, address)), *words])
        assert await in_thread("command", function_of(options.command), options) == 0
    told = capsys.readouterr().err.splitlines()
    kinds = ["nodes", "pods"] if words[0] in ("nodes", "cost") else words[:1]
    assert told == [f"eksml-tui: 2 {kind} cannot be read and are left out." for kind in kinds]


@pytest.mark.parametrize("words", [["pods"], ["nodes", "-o", "json"], ["cost"]])
async def test_devices_of_claims_that_may_not_be_listed_are_stated_not_to_be_counted(
    words: list[str], tmp_path: Path, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def restricted(request: web.Request) -> web.StreamResponse:
        if request.path == "/apis/resource.k8s.io":
            return web.json_response({"versions": [{"version": "v1"}]})
        if request.path.startswith("/apis/resource.k8s.io/"):
            return await refusal(403, "Forbidden", "you may not")(request)
        return await _cluster(request)

    async with serving(restricted) as address:
        options = parse_arguments(["--kubeconfig", str(write_kubeconfig(tmp_path, address)), *words])
        assert await in_thread("command", function_of(options.command), options) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("eksml-tui: Devices of resource claims are not counted: ")
    assert "you may not" in printed.err
    if "json" in words:
        assert json.loads(printed.out)["summary"]["leaves_out_claims"] is True


async def test_kinds_that_a_diagnosis_may_not_list_are_named(
    tmp_path: Path, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = [{"name": "pods", "kind": "Pod", "namespaced": True}, {"name": "events", "kind": "Event"}]
    resources.append({"name": "nodes", "kind": "Node", "namespaced": False})

    async def restricted(request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1":
            return web.json_response({"resources": resources})
        if request.path in ("/api/v1/nodes", "/api/v1/events"):
            return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403)
        return await _cluster(request)

    async with serving(restricted) as address:
        options = parse_arguments(["--kubeconfig", str(write_kubeconfig(tmp_path, address)), "why"])
        assert await in_thread("command", function_of(options.command), options) == 1
    printed = capsys.readouterr()
    assert printed.err == "eksml-tui: You may not list events, nodes: they were not looked at.\n"
    assert "Whether anything is wrong is not known: events could not be read" in printed.out


async def test_events_and_costs_are_printed(
    tmp_path: Path, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (event,) = json.loads(await _printed(["events", "-o", "json"], tmp_path, capsys))
    assert event.keys() == {"last_seen_at", "type", "reason", "namespace", "kind", "name", "count", "message"}
    cost = yaml.safe_load(await _printed(["cost", "-o", "yaml"], tmp_path, capsys))
    assert cost["summary"]["nodes"] == 1
    assert cost["groups"][0]["nodes"] == 1
    rows = list(csv.DictReader(io.StringIO(await _printed(["nodes", "-o", "csv"], tmp_path, capsys))))
    assert rows[0]["price.usd_per_hour"] != ""


def test_no_text_is_a_formula_of_a_spreadsheet() -> None:
    """Texts come from pods: `=cmd|…` would be carried out by who opens the file."""
    texts = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx", "plain", "-", "a=b", "-5", "+1e3", "-inf"]
    document = json.dumps([{"text": text, "number": -5, "share": -0.25} for text in texts])
    rows = list(csv.DictReader(io.StringIO(formatted("csv", document))))
    told = [row["text"] for row in rows]
    assert told[:6] == ["'=1+1", "'+cmd|' /C calc'!A0", "'-2+3", "'@SUM(A1)", "'\tx", "'\nx"]
    assert told[6:] == ["plain", "'-", "a=b", "-5", "+1e3", "-inf"], "numbers stay numbers"
    assert {(row["number"], row["share"]) for row in rows} == {("-5", "-0.25")}
    assert formatted("csv", '[{"=HYPERLINK(1)": 1}]').startswith("'=HYPERLINK")
    assert "'" not in formatted("wide", document).replace("' /C calc'", "")
