"""TensorBoard: serves a page that names the runs below its folder, and prints its address.

Source: TensorBoard 2.11: its start line, the paths `/data/runs` and `/data/environment`.
"""

from __future__ import annotations

import html
import json
import posixpath
import re

from actions.sandbox.programs.files import FileView
from actions.sandbox.programs.network import HttpAnswer, pod_host
from actions.sandbox.programs.program import ContainerView, Program, ProgramStep

_VERSION = "2.11.2"
_WHOLE_DAY = 86_400.0


def is_wanted_by(container: ContainerView) -> bool:
    """Return whether a container's command is TensorBoard."""
    return "tensorboard" in container.command_line and "--logdir" in container.command_line


def serve(container: ContainerView) -> Program:
    """Run until the process is ended."""
    given = dict(re.findall(r"--(logdir|port)[= ](\S+)", container.command_line))
    port = int(given.get("port", "6006"))
    board = _Board(container.files, given.get("logdir", "/"))
    container.network.listen([pod_host(container.namespace, container.pod)], port, board)
    try:
        yield ProgramStep(
            2.0, f"TensorBoard {_VERSION} at http://0.0.0.0:{port}/ (Press CTRL+C to quit)\n", is_error=True
        )
        while True:
            yield ProgramStep(_WHOLE_DAY)
    finally:
        container.network.close(board)


class _Board:
    """The service behind the port (`HttpService`)."""

    def __init__(self, files: FileView, folder: str) -> None:
        self._files = files
        self._folder = folder

    def answer(self, method: str, path: str, body: bytes) -> HttpAnswer:
        """Answer a request (`HttpService`)."""
        match (method, path.partition("?")[0]):
            case ("GET" | "HEAD", "/"):
                return HttpAnswer(200, self._page().encode(), "text/html; charset=utf-8")
            case ("GET", "/data/runs"):
                return HttpAnswer(200, json.dumps(self._runs()).encode())
            case ("GET", "/data/environment"):
                known = {"version": _VERSION, "data_location": self._folder, "window_title": ""}
                return HttpAnswer(200, json.dumps(known).encode())
        return HttpAnswer(404, b"Not found", "text/plain")

    def _runs(self) -> list[str]:
        """Return the folders with an events file, relative to the folder that is served."""
        paths = (path for path in self._files.walk(self._folder) if "tfevents" in posixpath.basename(path))
        return sorted({posixpath.relpath(posixpath.dirname(path), self._folder) for path in paths})

    def _page(self) -> str:
        rows = "".join(f"<li>{html.escape(run)}</li>" for run in self._runs()) or "<li>no runs yet</li>"
        return f"<!doctype html><title>TensorBoard</title><h1>Runs in {html.escape(self._folder)}</h1><ul>{rows}</ul>"
