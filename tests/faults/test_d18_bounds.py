"""D18, F26: whatever a server sends, the program stays small, asks rarely, and shows the cluster once it is well."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from tests.faults.hostile import (
    Answer,
    Hostile,
    Request,
    bomb,
    endless_event,
    endless_headers,
    endless_informational,
    endless_list,
    endless_pages,
    endless_trailers,
    good,
    hostile,
    memory_of,
)
from tests.support.answering import write_kubeconfig
from tests.support.polling import wait
from tests.support.program import Program

MOST_MIB = 400
"""Of all sources together, each with a part of its own. Before, it was 1.9 GB with packed lists and 6 GB with an event
without an end."""
KEPT_MIB = 110
"""A console on a small cluster has 60 to 70."""
MOST_A_SECOND = 10.0
"""Requests, over all sources together, while the server is ill."""
SOURCES = 9
ILL_SECONDS = 10.0
HEAVY_SECONDS = 6.0
"""Of an illness that sends all that a list may have: each try costs much, so fewer tries prove the same."""
HEAVY = frozenset({"list", "gzip"})


def no_lists(request: Request) -> None:
    """Events without an end, and no other way to the list."""
    if "limit" in request.query and not request.is_watch:
        request.answer({"code": 500, "message": "no lists here"}, code=500)
    else:
        endless_event(request)


def only_watches(answer: Answer) -> Answer:
    """The illness in watches only, so that what is asked once works."""
    return lambda request: answer(request) if request.is_watch else good(request)


ILLNESSES: dict[str, Callable[[], Answer]] = {
    "event": lambda: no_lists,
    "list": lambda: endless_list,
    "gzip": lambda: bomb("gzip"),
    "deflate": lambda: bomb("deflate"),
    "same-pages": lambda: endless_pages(has_news=False),
    "pages": lambda: endless_pages(has_news=True),
    "informational": lambda: endless_informational,
    "headers": lambda: endless_headers,
    "trailers": lambda: only_watches(endless_trailers),
}


def _console(program: Program, server: Hostile) -> subprocess.Popen[str]:
    """The console without a terminal, which waits for the node of the healthy server."""
    script = program.home / "script.yaml"
    script.write_text(
        "eksml-script: 1\ndeadline: 10m\n"
        "steps:\n  - wait: {text: never, within: 400s}\n"
        "always:\n  - wait: {nodes: {count: '>= 1'}, text: live, within: 60s}\n"
    )
    file = write_kubeconfig(program.home / "kubeconfig", server.url)
    return subprocess.Popen(
        program.argv("--kubeconfig", str(file), "--readonly", "--script", str(script)),
        stdout=subprocess.PIPE,
        text=True,
        env=dict(program.environment),
        cwd=program.home,
    )


@pytest.mark.parametrize("illness", sorted(ILLNESSES.keys() - {"deflate", "headers"}))
def test_d18_the_console_survives_a_hostile_server(program: Program, illness: str) -> None:
    lasting = HEAVY_SECONDS if illness in HEAVY else ILL_SECONDS
    with hostile(ILLNESSES[illness]()) as server, _console(program, server) as console:
        try:
            wait(lambda: server.requests, "the first request")
            began = time.monotonic()
            wait(lambda: time.monotonic() - began > lasting, "the illness to last")
            asked = len(server.requests)
            # The pages behind a list's first one are no new tries, and come late where the machine is slow.
            later = sum(at - began > lasting / 2 and "continue=" not in path for at, path in server.requests)
            server.answer = good
            server.drop_all()

            def watches_everything() -> bool:
                opened = {path.partition("?")[0] for _, path in server.requests[asked:] if "watch=true" in path}
                return len(opened) >= SOURCES

            wait(watches_everything, "all watches of the healthy server")
            peak = memory_of(console.pid)
            wait(lambda: memory_of(console.pid, "VmRSS") < KEPT_MIB, "the memory to go back")
            console.terminate()
            said = console.communicate(timeout=180)[0]
        finally:
            console.kill()
    assert 0 < peak < MOST_MIB
    assert later / (lasting / 2) < MOST_A_SECOND
    assert "passed" in said.splitlines()[-2], said


@pytest.mark.parametrize(
    ("illness", "words"),
    [
        ("list", "has more than 128 MiB"),
        ("gzip", "times its size"),
        ("deflate", "times its size"),
        ("same-pages", "does not end"),
        ("informational", "informational answers and nothing else"),
        ("headers", "broke"),
    ],
)
def test_d18_a_command_ends_with_a_sentence(program: Program, illness: str, words: str) -> None:
    with hostile(ILLNESSES[illness]()) as server:
        file = write_kubeconfig(program.home / "kubeconfig", server.url)
        done = subprocess.Popen(
            program.argv("--kubeconfig", str(file), "nodes"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(program.environment),
        )
        peak = 0
        while done.poll() is None:
            peak = max(peak, memory_of(done.pid))
            time.sleep(0.02)
        _, said = done.communicate()
    assert done.returncode == 1
    assert words in said
    assert "Traceback" not in said
    assert peak < MOST_MIB
