"""Alarms with the real program and no console: a run that fails calls the hook and the webhook from its runner."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from actions.run.client import load_run, send_request
from actions.run.state.alarms import name_of
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState
from tests.support.polling import wait
from tests.support.program import Program

SOON_SECONDS = 10.0
BLUEPRINT = """\
schema: eksml/v1
id: hello-failure
title: Hello, failure
summary: One Job that fails.
cluster: {name: my-cluster, region: us-west-2}
stages:
  - id: kubeconfig
    kind: kubeconfig
    title: Access
    expect: 1s..30s
    cluster: my-cluster
    region: us-west-2
  - id: train
    kind: job
    title: Training
    needs: [kubeconfig]
    expect: 5s..1m
    manifests: [manifests/train.yaml]
    target: {api_version: batch/v1, kind: Job, name: hello-failure}
    watch:
      logs: {pods: job-name=hello-failure}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: hello-failure}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: "busybox:1.36", command: [sh, -c, "echo no; exit 3"]}
"""
HOOK = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"


class Webhook(BaseHTTPRequestHandler):
    """Takes what is sent, and answers as the test's server says."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(json.loads(body))  # type: ignore[attr-defined]
        self.server.may_answer.wait(60)  # type: ignore[attr-defined]
        self.send_response(self.server.answers)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def webhook() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    server.got, server.answers, server.may_answer = [], 200, threading.Event()  # type: ignore[attr-defined]
    server.may_answer.set()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.may_answer.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


@pytest.fixture
def program(tmp_path: Path, webhook: ThreadingHTTPServer) -> Iterator[Program]:
    started = Program(tmp_path / "program")
    config = Path(started.environment["XDG_CONFIG_HOME"]) / "eksml-tui"
    config.mkdir(parents=True, exist_ok=True)
    hook = [sys.executable, "-c", HOOK, str(tmp_path / "out")]
    (config / "config.yaml").write_text(f"alarm_hook: {json.dumps(hook)}\nalarm_webhook: address\n")
    (config / "address").write_text(f"http://127.0.0.1:{webhook.server_port}/T1/secret\n")
    folder = tmp_path / "blueprints" / "hello-failure"
    (folder / "manifests").mkdir(parents=True)
    (folder / "blueprint.yaml").write_text(BLUEPRINT)
    (folder / "manifests" / "train.yaml").write_text(JOB)
    yield started
    started.end_all()


def test_a_failure_is_sent_within_seconds_though_no_console_is_open(
    program: Program, webhook: ThreadingHTTPServer, tmp_path: Path
) -> None:
    words = ("--demo", "--blueprints", str(tmp_path / "blueprints"), "launch", "hello-failure")
    done = program.command(*words, "--existing-cluster", "--yes", "-n", "default")
    assert done.returncode == 0, done.stderr
    (folder,) = program.run_folders()
    wait(lambda: load_run(folder).state is RunState.FAILED, "the failure")
    failed_at = time.monotonic()
    out = tmp_path / "out"
    wait(out.exists, "the hook", deadline_seconds=SOON_SECONDS)
    wait(lambda: webhook.got, "the webhook", deadline_seconds=SOON_SECONDS)  # type: ignore[attr-defined]
    assert time.monotonic() - failed_at < SOON_SECONDS
    wait(lambda: program.runner(folder) is None, "the runner's end")
    (line,) = out.read_text().splitlines()
    message = json.loads(line)
    assert (message["kind"], message["key"]) == ("failed", f"{folder.name}/failed/train")
    assert message["text"].startswith(f"Run {folder.name} has failed at train: ")
    assert [got["text"] for got in webhook.got] == [message["text"]]  # type: ignore[attr-defined]
    secret = b"T1/secret"
    assert not [path for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()]
    said = json.loads(program.command("alarms", "-o", "json").stdout)
    assert [(one["key"], sorted(one["sent"])) for one in said] == [(message["key"], ["hook", "webhook"])]
    program.command("--demo", "runs", "list")
    program.command("alarms", "ack")
    assert program.command("alarms").stdout == "No alarm waits to be acknowledged.\n"
    assert [name_of(alarm).place for alarm in load_run(folder).alarms] == ["train"]
    assert len(out.read_text().splitlines()) == 1


def test_a_webhook_that_never_answers_holds_up_no_stage_and_is_given_up(
    program: Program, webhook: ThreadingHTTPServer, tmp_path: Path
) -> None:
    webhook.may_answer.clear()  # type: ignore[attr-defined]
    words = ("--demo", "--blueprints", str(tmp_path / "blueprints"), "launch", "hello-failure")
    done = program.command(*words, "--existing-cluster", "--yes", "-n", "default")
    assert done.returncode == 0, done.stderr
    (folder,) = program.run_folders()
    wait(lambda: webhook.got, "the call that hangs")  # type: ignore[attr-defined]
    wait((tmp_path / "out").exists, "the hook, which does not wait for the webhook")
    send_request(folder, RequestKind.RETRY, start=False)
    wait(lambda: load_run(folder).stage("train").attempt == 2, "the second attempt", deadline_seconds=SOON_SECONDS)
    first = load_run(folder).alarms[0]
    assert first.left == ("webhook",), "it hangs meanwhile"
    wait(lambda: not load_run(folder).alarms[0].left, "the end of the attempts")
    (reason,) = (sent.error for sent in load_run(folder).alarms[0].sent if sent.way == "webhook")
    assert reason.startswith("The webhook did not answer within 10 s.")
    assert len(webhook.got) >= 3  # type: ignore[attr-defined]
    wait(lambda: len((tmp_path / "out").read_text().splitlines()) == 2, "the alarm of the second attempt by the hook")


def test_the_test_of_the_ways_says_what_each_of_them_did(
    program: Program, webhook: ThreadingHTTPServer, tmp_path: Path
) -> None:
    done = program.command("alarms", "test")
    assert (done.returncode, done.stdout) == (0, "hook: took the test alarm.\nwebhook: took the test alarm.\n")
    webhook.answers = 500  # type: ignore[attr-defined]
    refused = program.command("alarms", "test")
    assert refused.returncode == 1
    assert "hook: took the test alarm.\nwebhook: The webhook at 127.0.0.1 answered HTTP 500." in refused.stdout
    assert "secret" not in refused.stdout + refused.stderr
    assert {got["text"] for got in webhook.got} == {json.loads((tmp_path / "out").read_text().splitlines()[0])["text"]}  # type: ignore[attr-defined]
    (Path(program.environment["XDG_CONFIG_HOME"]) / "eksml-tui" / "config.yaml").write_text("bell: true\n")
    none = program.command("alarms", "test")
    assert none.returncode == 2
    assert "alarm_webhook" in none.stderr
