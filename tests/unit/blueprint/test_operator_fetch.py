"""A launch fetches the operators that it needs before there is a run, or says in a sentence what cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from actions.base.clock import SystemClock
from actions.base.errors import (
    BlueprintError,
    ConflictError,
    ConsoleError,
    FormatError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.launch_plan import plan_of, plan_table
from actions.blueprint.mirror import CopyState, Mirror, fetch_missing, operator_copies
from actions.blueprint.model import Blueprint
from actions.blueprint.operators import cache_folder, digest_of, mirror_folder
from actions.blueprint.parameters import Binding, bind
from actions.blueprint.stages import ManifestsStage
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.fleet.prices import PriceBook
from actions.run.client import load_run
from actions.run.launch import LaunchOrder, create_run
from tests.support.answering import write_kubeconfig
from tests.unit.cluster.servers import serving
from tui.present.blueprints import plan_lines
from tui.present.cells import text_of

NAMESPACE = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: gangs}\n"
MANAGER = b"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: gang}\n"
BLUEPRINT = """\
schema: eksml/v1
id: gangs
title: A test
summary: None.
cluster: {{name: gangs, region: us-west-2}}
stages:
  - {{id: access, kind: kubeconfig, cluster: gangs, region: us-west-2, title: Access, expect: 1s..2s}}
  - id: operators
    kind: manifests
    title: Operator
    needs: [access]
    expect: 1s..2s
    source: {{name: gang, version: 2.0.0, {source}}}
    detect: {{api_version: apps/v1, kind: Deployment, namespace: gangs, name: gang}}
"""
ONE = 'url: "{url}", sha256: "' + digest_of(NAMESPACE) + '"'
TWO = (
    'url: "{url}", sha256: "", namespace: gangs, files: {{n.yaml: "'
    + digest_of(NAMESPACE)
    + '", rbac/m.yaml: "'
    + digest_of(MANAGER)
    + '"}}'
)
UNPINNED = 'url: "{url}", sha256: "", made_by: make it'


class Site:
    """A web server with the files of releases, and every way to fail."""

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        match request.path:
            case "/n.yaml" | "/good/n.yaml" | "/half/n.yaml" | "/wrong/n.yaml":
                return web.Response(body=NAMESPACE)
            case "/good/rbac/m.yaml":
                return web.Response(body=MANAGER)
            case "/other.yaml" | "/wrong/rbac/m.yaml":
                return web.Response(body=MANAGER + b"# changed\n")
            case "/elsewhere":
                raise web.HTTPFound("file:///etc/passwd")
            case "/hangs":
                await asyncio.Event().wait()
            case "/endless":
                return await self._endless(request)
        return web.Response(status=404)

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"# more\n" * 100_000)


@pytest.fixture(autouse=True)
def _a_machine_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with serving(site.answer) as address:
        site.address = address
        yield site


def a_system(tmp_path: Path, source: str, url: str) -> Blueprint:
    folder = tmp_path / "gangs"
    folder.mkdir(exist_ok=True)
    (folder / "blueprint.yaml").write_text(BLUEPRINT.format(source=source.format(url=url)))
    (folder / "README.md").write_text("# A test\n")
    return load_blueprint(folder)


async def fetched(blueprint: Blueprint, *, existing_cluster: bool = False, total_seconds: float = 120.0) -> list[str]:
    binding = bind(blueprint, {}, existing_cluster=existing_cluster)
    return await fetch_missing(blueprint, binding, clock=SystemClock(), total_seconds=total_seconds)


def launched(tmp_path: Path, blueprint: Blueprint, *, existing_cluster: bool = True) -> Path:
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {}, existing_cluster=existing_cluster),
            target=ClusterTarget(write_kubeconfig(tmp_path / "here", "https://here.example")),
            environment={},
            clock=SystemClock(),
            base=tmp_path / "runs",
        )
    )


@pytest.mark.parametrize(("source", "path"), [(ONE, "/n.yaml"), (TWO, "/good/")])
async def test_what_was_fetched_once_serves_every_launch_without_a_network(
    tmp_path: Path, site: Site, source: str, path: str
) -> None:
    blueprint = a_system(tmp_path, source, site.address + path)
    binding = bind(blueprint, {})
    assert [copy.state for copy in operator_copies(blueprint, binding)] == [CopyState.FETCHED]
    assert site.asked == []  # to look asks nobody
    assert await fetched(blueprint) == []
    (copy,) = operator_copies(blueprint, binding)
    assert (copy.state, Path(copy.path).parents[2]) == (CopyState.VERIFIED, cache_folder())
    asked = len(site.asked)
    assert await fetched(blueprint) == []
    assert len(site.asked) == asked


class Failure(NamedTuple):
    """A release that cannot be had: its source, its path on the site, and what is raised."""

    source: str
    path: str
    kind: type[ConsoleError]
    said: str


FAILURES = [
    Failure(ONE, "/nothing.yaml", MissingError, "does not exist (HTTP 404). Check name and version."),
    Failure(TWO, "/half", MissingError, "/half/rbac/m.yaml does not exist (HTTP 404)"),
    Failure(ONE, "/other.yaml", ConflictError, f"and the blueprint records {digest_of(NAMESPACE)[:16]}"),
    Failure(TWO, "/wrong", ConflictError, "rbac/m.yaml of gang/2.0.0 has the sha256"),
    Failure(ONE, "/elsewhere", UnreachableError, "could not be fetched"),
    Failure(ONE, "/hangs", UnreachableError, "could not be fetched: not done within 1 seconds"),
    Failure(ONE, "/endless", RefusedError, "is larger than 16 MiB"),
    Failure(UNPINNED, "/n.yaml", MissingError, "its blueprint records no sha256 for it. Run eksml-tui mirror gang."),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.path)
async def test_what_cannot_be_had_is_one_sentence_and_there_is_no_run(
    tmp_path: Path, site: Site, failure: Failure
) -> None:
    blueprint = a_system(tmp_path, failure.source, site.address + failure.path)
    with pytest.raises(failure.kind) as caught:
        await fetched(blueprint, total_seconds=1.0 if failure.path == "/hangs" else 120.0)
    assert failure.said in caught.value.sentence()
    assert not list(cache_folder().rglob("manifest.yaml"))
    with pytest.raises(MissingError, match=r"gang 2\.0\.0 is not on this machine"):
        launched(tmp_path, blueprint, existing_cluster=False)
    assert not (tmp_path / "runs").exists()


async def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="Cannot connect to host"):
        await fetched(a_system(tmp_path, ONE, "http://127.0.0.1:9/n.yaml"))


async def test_an_existing_cluster_may_have_it_already_so_the_launch_only_says_so(tmp_path: Path, site: Site) -> None:
    blueprint = a_system(tmp_path, ONE, f"{site.address}/nothing.yaml")
    (sentence,) = await fetched(blueprint, existing_cluster=True)
    assert sentence.startswith("gang 2.0.0 can only be used as it is in the cluster: ")
    assert load_run(launched(tmp_path, blueprint)).existing_cluster
    with pytest.raises(ConflictError):
        await fetched(a_system(tmp_path, ONE, f"{site.address}/other.yaml"), existing_cluster=True)


async def test_a_run_keeps_what_it_was_launched_with(tmp_path: Path, site: Site) -> None:
    blueprint = a_system(tmp_path, TWO, f"{site.address}/good")
    await fetched(blueprint)
    folder = launched(tmp_path, blueprint)
    kept = folder / "operators" / "gang" / "2.0.0"
    (copy,) = operator_copies(blueprint, bind(blueprint, {}))
    assert (kept / "manifest.yaml").read_bytes() == Path(copy.path).read_bytes()
    assert (kept / "manifest.yaml.sha256").read_text().startswith(copy.sha256)


async def test_the_mirror_goes_before_what_was_fetched_and_says_how_sure_it_is(tmp_path: Path, site: Site) -> None:
    blueprint = a_system(tmp_path, ONE, f"{site.address}/n.yaml")
    await fetched(blueprint)
    place = mirror_folder() / "gang" / "2.0.0"
    place.mkdir(parents=True)
    (place / "manifest.yaml").write_bytes(MANAGER)
    (place / "manifest.yaml.sha256").write_text(f"{digest_of(MANAGER)}  manifest.yaml\n")
    (copy,) = operator_copies(blueprint, bind(blueprint, {}))
    assert (copy.state, copy.note) == (CopyState.UNVERIFIED, f"given by hand: {place / 'manifest.yaml'}")
    (place / "manifest.yaml").write_bytes(MANAGER + b"\n")
    with pytest.raises(BlueprintError, match="not what was recorded"):
        operator_copies(blueprint, bind(blueprint, {}))


async def test_what_came_first_and_is_not_what_was_recorded_later_is_refused(tmp_path: Path, site: Site) -> None:
    unpinned = a_system(tmp_path, UNPINNED, f"{site.address}/other.yaml")
    stage = unpinned.stage("operators")
    assert isinstance(stage, ManifestsStage)
    assert stage.source is not None
    Mirror(mirror_folder()).take(stage.source, MANAGER, origin="x", by_hand=False, clock=SystemClock())
    (copy,) = operator_copies(unpinned, bind(unpinned, {}))
    assert copy.state is CopyState.UNVERIFIED
    pinned = a_system(tmp_path, ONE, f"{site.address}/n.yaml")
    with pytest.raises(ConflictError, match="the blueprint records"):
        operator_copies(pinned, bind(pinned, {}))


async def test_files_that_cannot_be_made_one_are_refused(tmp_path: Path, site: Site) -> None:
    blueprint = a_system(tmp_path, TWO.replace("namespace: gangs", "images: {{a: b}}"), f"{site.address}/good")
    with pytest.raises(FormatError, match="cannot be made of its files"):
        await fetched(blueprint)


def shown(blueprint: Blueprint, binding: Binding) -> tuple[str, str]:
    plan = plan_of(blueprint, binding, PriceBook({}))
    return plan_table(plan), "\n".join(text_of(line) for line in plan_lines(plan, 100))


async def test_plan_and_form_say_where_each_operator_comes_from(tmp_path: Path, site: Site) -> None:
    blueprint = a_system(tmp_path, TWO, f"{site.address}/good")
    table, form = shown(blueprint, bind(blueprint, {}))
    wanted = f"gang 2.0.0 fetched: 2 files from {site.address}/good, sha256 recorded"
    assert f"operator {wanted}\n" in table
    assert "Fetched and verified at launch, before the run starts: gang 2.0.0" in form
    await fetched(blueprint)
    table, form = shown(blueprint, bind(blueprint, {}))
    assert f"operator gang 2.0.0 verified: {cache_folder()}" in table
    assert "✔ Here and verified: gang 2.0.0" in form
    missing = a_system(tmp_path, UNPINNED.replace("{url}", ""), "").folder
    binding = bind(load_blueprint(missing), {})
    table, form = shown(load_blueprint(missing), binding)
    assert "gang 2.0.0 missing: Make it with make it > FILE, then run eksml-tui mirror gang --from FILE." in table
    assert "✘ gang 2.0.0 missing: Make it with" in form


async def test_a_rehearsal_needs_none_and_is_not_served_by_what_was_fetched(tmp_path: Path) -> None:
    for folder in shipped_blueprints().glob("*/blueprint.yaml"):
        blueprint = load_blueprint(folder.parent)
        chosen = blueprint.under("rehearsal")
        assert operator_copies(chosen, bind(blueprint, {}, preset="rehearsal")) == ()
        assert operator_copies(blueprint, bind(blueprint, {})) != ()
