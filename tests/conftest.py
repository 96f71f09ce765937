"""The parts that all tests share: a program of their own, and an environment that does not leak in."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from actions.base import readonly
from actions.base.untrusted import KNOWN
from tests.support import zygote
from tests.support.authorities import forget_authorities
from tests.support.leftover import StartCounter, end_processes_of
from tests.support.program import Program
from tests.support.scheduling import RECORD, DurationRecorder, UnitScheduling, start_order
from tui import defects, gc_tuning

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell without job control starts a job in the background so
    signal.signal(signal.SIGINT, signal.default_int_handler)
zygote.install()
settings.register_profile("loaded", deadline=None)  # a busy machine must not make a property false
settings.load_profile("loaded")

# No test asks a system's authorities, and to read them costs the import of aiohttp, here and in each runner, 0.1 s.
forget_authorities()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling | None:
    """Deal out modules, or the units of more than one module; another `--dist` is left as it is."""
    return UnitScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """Record durations in the process that hears of all tests, where that is asked for."""
    if os.environ.get(RECORD, "") not in ("", "0") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationRecorder())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import all tests without the collector: what is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest modules first."""
    items.sort(key=lambda item: start_order(item.nodeid))


_SELDOM = (50_000, 10, 10)
"""Thresholds of the collector. With the usual ones it had a seventh of a worker's processor time, and with those of a
console, whose session is a thousand times as long as a test's, a fourteenth."""


def pytest_collection_finish() -> None:
    """Take modules and thousands of tests, which stay to the end, out of what the collector looks at each time."""
    gc.freeze()
    gc.set_threshold(*_SELDOM)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin with a usual umask: the program's `main`, which some tests call in this process, leaves one of its own."""
    os.umask(0o022)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_tuning, "THRESHOLDS", _SELDOM)
    for name in ("KUBECONFIG", "NO_COLOR", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setattr(defects, "are_raised", True)
    KNOWN.forget()
    monkeypatch.setattr(readonly, "_promise", readonly._Promise())


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home folder and folders of state and settings of the test's own."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


_STARTED = StartCounter()


@pytest.fixture(autouse=True, scope="module")
def _started_before() -> int:
    """Return the number of processes started before the module's first test; what a module shares may start more."""
    return _STARTED.count


@pytest.fixture(autouse=True)
def _nothing_left_running(request: pytest.FixtureRequest, _started_before: int) -> Iterator[None]:
    """End what was started in the test's own folder with the test, however it went.

    All processes of the machine are looked through, so this is left out where nothing was started.
    """
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None and _STARTED.count > _started_before:
        end_processes_of(folder)


@pytest.fixture(autouse=True, scope="session")
def _nothing_left_running_at_the_end(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    end_processes_of(tmp_path_factory.getbasetemp())
    zygote.end()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """The real program; its sandbox and runners end with the test."""
    started = Program(tmp_path)
    yield started
    started.end_all()


@pytest.fixture(scope="module")
def shared_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Like `program`, one for a module."""
    started = Program(tmp_path_factory.mktemp("program"))
    yield started
    started.end_all()
