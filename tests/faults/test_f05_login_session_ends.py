"""F5: the end of a login session ends no run. There is no systemd where tests run: one that does the same stands in."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from actions.base.process import is_alive
from actions.run.client import load_run, send_request
from actions.run.engine import systemd as service
from actions.run.engine.systemd import logout_warning
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.longruns import a_long_run, runner_of, started_last, until_view
from tests.faults.rehearsal import uids_by_object
from tests.support.leftover import read_all
from tests.support.polling import wait
from tests.support.program import Program

SANDBOX_SPEED = 100.0
CANARY = "CANARY-secret-access-key"

SYSTEMD_RUN = """\
#!{python}
# Starts a transient service with nothing of its caller's environment, and again when it fails.
import json, os, subprocess, sys, time
place = {place!r}
with open(place + "/calls", "a") as calls:
    calls.write(json.dumps({{"argv": sys.argv, "environment": dict(os.environ)}}) + "\\n")
cut = sys.argv.index("--")
options, command = sys.argv[1:cut], sys.argv[cut + 1:]
unit = next(o for o in options if o.startswith("--unit=")).removeprefix("--unit=")
properties = dict(o.removeprefix("--property=").split("=", 1) for o in options if o.startswith("--property="))
log = properties["StandardOutput"].removeprefix("append:")
if os.fork():
    while not os.path.exists(place + "/" + unit):
        time.sleep(0.01)
    sys.exit(0)
os.setsid()
for descriptor in (0, 1, 2):
    os.dup2(os.open("/dev/null", os.O_RDWR), descriptor)
for _ in range(int(properties["StartLimitBurst"])):
    with open(log, "ab") as output:
        child = subprocess.Popen(command, env={{}}, cwd=properties["WorkingDirectory"], stdout=output, stderr=output)
    with open(place + "/" + unit + ".new", "w") as file:
        file.write(str(child.pid))
    os.rename(place + "/" + unit + ".new", place + "/" + unit)
    if child.wait() in (0, int(properties["RestartPreventExitStatus"])):
        break
    time.sleep(0.1)
"""
SYSTEMCTL = """\
#!{python}
import sys
assert sys.argv[1:5] == ["--user", "show", "--property=MainPID", "--value"], sys.argv
print(open({place!r} + "/" + sys.argv[5]).read())
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user manager, and the folder in which its calls are noted."""
    place = tmp_path / "systemd"
    place.mkdir()
    for name, text in (("systemd-run", SYSTEMD_RUN), ("systemctl", SYSTEMCTL)):
        file = place / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.format(python=sys.executable, place=str(place)))
        file.chmod(0o755)
    runtime = tmp_path / "runtime"
    (runtime / "systemd").mkdir(parents=True)
    (runtime / "systemd" / "private").touch()
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return place


def test_a_runner_is_a_service_that_is_started_again_and_gets_its_secrets_by_a_file(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, systemd: Path
) -> None:
    folder = a_long_run(program, sandbox, monkeypatch, environment={"AWS_SECRET_ACCESS_KEY": CANARY})
    (call,) = map(json.loads, (systemd / "calls").read_text().splitlines())
    assert CANARY not in json.dumps(call)
    asked = set(call["argv"])
    assert {
        "--user", "--collect", "--property=Type=exec", "--property=Restart=on-failure",
        "--property=StartLimitBurst=5", "--property=StartLimitIntervalSec=600",
        "--property=KillMode=process", "--property=OOMPolicy=continue", "--property=UMask=0077",
        "--property=RestartPreventExitStatus=3",
    } <= asked  # fmt: skip
    assert not any(word.startswith(("--setenv", "-E", "--property=Environment")) for word in asked)

    runner = runner_of(program, folder)
    assert CANARY.encode() not in Path(f"/proc/{runner.pid}/environ").read_bytes()
    (handed_over,) = Path(os.environ["XDG_RUNTIME_DIR"], "eksml-tui").iterdir()
    assert CANARY in handed_over.read_text()
    assert stat.S_IMODE(handed_over.stat().st_mode) == 0o600
    assert stat.S_IMODE(handed_over.parent.stat().st_mode) == 0o700
    assert [path for path, data in read_all(folder).items() if CANARY.encode() in data] == []

    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the end of the runner")
    wait(lambda: started_last(folder) is not None, "the service to be started again")
    until_view(folder, lambda view: view.state is RunState.RUNNING and not view.notices, "the run to go on")
    send_request(folder, RequestKind.CANCEL)
    until_view(folder, lambda view: view.state is RunState.CANCELLED, "the cancel")
    wait(lambda: not handed_over.exists(), "the secrets to be removed")
    assert all(len(uids) == 1 for uids in uids_by_object(folder).values())
    assert len((systemd / "calls").read_text().splitlines()) == 1


def test_where_the_user_manager_does_not_start_it_the_runner_is_started_without(
    program: Program, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, systemd: Path
) -> None:
    (systemd / "bin" / "systemd-run").write_text("#!/bin/sh\nexit 1\n")
    folder = a_long_run(program, sandbox, monkeypatch)
    assert load_run(folder).state is RunState.RUNNING


def test_an_operator_whose_runs_end_with_the_session_is_warned(
    systemd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "somebody")
    monkeypatch.setattr(service, "_LINGER", tmp_path)
    assert "loginctl enable-linger" in logout_warning()
    (tmp_path / "somebody").touch()
    assert logout_warning() == ""
    (Path(os.environ["XDG_RUNTIME_DIR"]) / "systemd" / "private").unlink()
    assert logout_warning() == ""
