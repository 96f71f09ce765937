"""`ray job submit` sends an entry point to a head's dashboard, and prints the job's log until it ends; `ray job stop`.

Source: Ray 2.22 `dashboard/modules/job/cli.py`, `sdk.py` (texts).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from actions.sandbox.programs.network import HttpService, pod_host
from actions.sandbox.programs.program import ContainerView, Program, ProgramStep
from actions.sandbox.programs.ray.head import PORT, TERMINAL

_POLL_SECONDS = 1.0
_LOST_AFTER_POLLS = 20
_RULE = "-" * 58


def is_wanted_by(container: ContainerView) -> bool:
    """Return whether this container submits a Ray job."""
    return container.argv[:3] == ("ray", "job", "submit")


def submit(container: ContainerView) -> Program:
    """Submit and follow. Ends with 0 if the job succeeds, with 1 if it fails or cannot be submitted."""
    options, entrypoint = _arguments(container.argv[3:])
    address = options.get("--address", container.environment.get("RAY_DASHBOARD_ADDRESS", ""))
    log = _Log(container.started_at)
    yield log.line(1.5, "INFO", "cli.py:36", f"Job submission server address: {address}")
    service = _service(container, address)
    if service is None:
        yield ProgramStep(2.0, _unreachable(address), is_error=True)
        return 1
    body = {"entrypoint": _command_line(entrypoint), "submission_id": options.get("--submission-id", "")}
    if "--runtime-env-json" in options:
        body["runtime_env"] = json.loads(options["--runtime-env-json"])
    answer = service.answer("POST", "/api/jobs/", json.dumps(body).encode())
    if answer.status != 200:
        yield ProgramStep(0.5, _refused(answer.status, answer.body.decode()), is_error=True)
        return 1
    job_id = str(json.loads(answer.body)["submission_id"])
    yield from _announce(log, job_id)
    return (yield from _follow(container, service, address, job_id, log))


def stop(container: ContainerView, argv: Sequence[str]) -> Program:
    """Run `ray job stop … ID` in a head: request the end of a job, and wait for it."""
    job_id = argv[-1]
    service = container.network.find(pod_host(container.namespace, container.pod), PORT)
    if service is None or tuple(argv[1:3]) != ("job", "stop"):
        yield ProgramStep(0.5, _unreachable("http://127.0.0.1:8265"), is_error=True)
        return 1
    yield ProgramStep(0.5, f"Attempting to stop job '{job_id}'\n")
    answer = service.answer("POST", f"/api/jobs/{job_id}/stop", b"")
    if answer.status != 200:
        yield ProgramStep(0.0, _refused(answer.status, answer.body.decode()), is_error=True)
        return 1
    while json.loads(service.answer("GET", f"/api/jobs/{job_id}", b"").body)["status"] not in TERMINAL:
        yield ProgramStep(_POLL_SECONDS, "Job has not exited yet.\n")
    return 0


def _service(container: ContainerView, address: str) -> HttpService | None:
    place = urlsplit(address if "//" in address else f"http://{address}")
    return container.network.find(place.hostname or "", place.port or PORT)


def _announce(log: _Log, job_id: str) -> Program:
    for text in (_RULE, f"Job '{job_id}' submitted successfully", _RULE):
        yield log.line(0.0, "SUCC", "cli.py:61", text)
    yield log.line(0.0, "INFO", "cli.py:285", "Next steps")
    for what, command in (
        ("Query the logs of the job:", f"ray job logs {job_id}"),
        ("Query the status of the job:", f"ray job status {job_id}"),
        ("Request the job to be stopped:", f"ray job stop {job_id}"),
    ):
        yield ProgramStep(0.0, f"  {what}\n    {command}\n")
    yield log.line(0.1, "INFO", "cli.py:292", "Tailing logs until the job exits (disable with --no-wait):")
    return 0


def _follow(container: ContainerView, service: HttpService, address: str, job_id: str, log: _Log) -> Program:
    """Print what the job prints; its end is this program's end."""
    printed, lost = 0, 0
    while lost < _LOST_AFTER_POLLS:
        is_there = _service(container, address) is service
        lost = 0 if is_there else lost + 1
        info = json.loads(service.answer("GET", f"/api/jobs/{job_id}", b"").body) if is_there else {"status": ""}
        if is_there:
            text = json.loads(service.answer("GET", f"/api/jobs/{job_id}/logs", b"").body)["logs"]
            fresh, printed = text[printed:], len(text)
            log.elapsed += _POLL_SECONDS
            yield ProgramStep(_POLL_SECONDS, fresh)
        else:
            yield ProgramStep(_POLL_SECONDS)
        if info["status"] in TERMINAL:
            return (yield from _conclude(log, job_id, str(info["status"]), str(info["message"])))
    yield ProgramStep(0.0, _unreachable(address), is_error=True)
    return 1


def _conclude(log: _Log, job_id: str, status: str, message: str) -> Program:
    if status == "SUCCEEDED":
        for text in (_RULE, f"Job '{job_id}' succeeded", _RULE):
            yield log.line(0.0, "SUCC", "cli.py:62", text)
        return 0
    word = "failed" if status == "FAILED" else "was stopped"
    for text in (_RULE, f"Job '{job_id}' {word}", _RULE):
        yield log.line(0.0, "ERR", "cli.py:70", text, is_error=True)
    yield log.line(0.0, "INFO", "cli.py:85", f"Status message: {message}")
    return 1


class _Log:
    """The lines of Ray's command line tools."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self.elapsed = 0.0

    def line(self, after_seconds: float, level: str, where: str, text: str, *, is_error: bool = False) -> ProgramStep:
        self.elapsed += after_seconds
        moment = datetime.fromtimestamp(self._started_at + self.elapsed, UTC)
        stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
        return ProgramStep(after_seconds, f"{stamp}\t{level} {where} -- {text}\n", is_error=is_error)


def _arguments(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options with their values, and the words after `--`."""
    given, entrypoint = list(words), []
    if "--" in given:
        entrypoint = given[given.index("--") + 1 :]
        given = given[: given.index("--")]
    return dict(zip(given[::2], given[1::2], strict=False)), entrypoint


def _command_line(words: Sequence[str]) -> str:
    """The words as the tool joins them: quoted for blanks only, so that the head's shell still finds variables."""
    return " ".join(f'"{word}"' if " " in word or not word else word for word in words)


def _unreachable(address: str) -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/usr/local/bin/ray", line 8, in <module>\n    sys.exit(main())\n'
        f"ConnectionError: Failed to connect to Ray at address: {address}.\n"
    )


def _refused(status: int, text: str) -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/usr/local/bin/ray", line 8, in <module>\n    sys.exit(main())\n'
        f"RuntimeError: Request failed with status code {status}: {text}\n"
    )
