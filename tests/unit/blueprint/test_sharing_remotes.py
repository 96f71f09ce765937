"""Blueprints over https and ssh: from git's own server behind TLS, with passwords, and by a program in place of ssh."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from actions.base import process
from actions.base.errors import BlueprintError, ConsoleError, MissingError, RefusedError, UnreachableError
from actions.blueprint.sharing import fetching
from actions.blueprint.sharing.fetching import fetched
from actions.blueprint.sharing.origins import Origin
from tests.unit.blueprint.test_sharing import git, repository

__all__ = ["repository"]
_CODES = {"forbidden": 403, "busy": 503}
TLS = Path(__file__).parents[2] / "fixtures" / "tls"


class _Git(BaseHTTPRequestHandler):
    """Git's own server, git-http-backend(1), below `/open` and, with anna's password, below `/closed`."""

    protocol_version = "HTTP/1.1"
    root = Path()

    def do_GET(self) -> None:
        """Answer what is fetched."""
        kind, _, rest = self.path.lstrip("/").partition("/")
        anna = f"Basic {base64.b64encode(b'anna:secret').decode()}"
        if kind in _CODES:
            self.send_error(_CODES[kind])
        elif kind == "closed" and self.headers.get("Authorization") != anna:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._serve(*rest.partition("?")[::2])

    def _serve(self, path: str, query: str) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{path}",
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        self.send_response(int(dict(fields).get("Status", "200").split()[0]))
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def served(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of a server of `repository`, whose authority is trusted."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_SSL_CAINFO", str(TLS / "ca.pem"))
    handler = type("Handler", (_Git,), {"root": repository.parent})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"kubernetes.default:{server.server_port}"
        git(tmp_path, "config", "--file", str(tmp_path / "gitconfig"), "http.curloptResolve", f"{host}:127.0.0.1")
        yield f"https://{host}"
        server.shutdown()


def failure(origin: Origin, into: Path) -> ConsoleError:
    """Fetch what cannot be fetched; return the error."""
    with pytest.raises(ConsoleError) as caught, fetched(origin, into):
        pass
    assert os.listdir(into) == []
    return caught.value


@pytest.mark.parametrize("ref", ["", "v1", "COMMIT"])
def test_a_blueprint_is_fetched_over_https(served: str, repository: Path, tmp_path: Path, ref: str) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    origin = Origin(f"{served}/open/repository/.git", ref.replace("COMMIT", commit), "esm/hello")
    with fetched(origin, tmp_path / "own") as found:
        assert (found.blueprint.id, found.commit) == ("hello", commit)


def test_a_password_is_the_credential_helpers_and_is_not_asked_for(served: str, tmp_path: Path) -> None:
    origin = Origin(f"{served}/closed/repository/.git", "", "esm/hello")
    error = failure(origin, tmp_path / "own")
    assert isinstance(error, RefusedError)
    assert "could not read Username" in error.sentence()
    helper = "!f() { echo username=anna; echo password=secret; }; f"
    git(tmp_path, "config", "--file", str(tmp_path / "gitconfig"), "credential.helper", helper)
    with fetched(origin, tmp_path / "own") as found:
        assert found.blueprint.id == "hello"


@pytest.mark.parametrize(
    ("place", "kind", "named"),
    [
        ("open/none", MissingError, "not found"),
        ("forbidden/repository", RefusedError, "403"),
        ("busy/repository", UnreachableError, "503"),
    ],
)
def test_what_a_server_answers_is_told_apart(
    served: str, tmp_path: Path, place: str, kind: type[ConsoleError], named: str
) -> None:
    error = failure(Origin(f"{served}/{place}", "", "esm/hello"), tmp_path / "own")
    assert type(error) is kind
    assert named in error.sentence()


def test_an_authority_that_is_not_trusted_is_named(
    served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIT_SSL_CAINFO")
    error = failure(Origin(f"{served}/open/repository/.git"), tmp_path / "own")
    assert isinstance(error, RefusedError)
    assert "GIT_SSL_CAINFO" in error.sentence()


@pytest.mark.parametrize(
    ("program", "kind", "named"),
    [
        ('shift; exec sh -c "$*"', None, ""),
        ("echo 'Host key verification failed.' >&2; exit 255", RefusedError, "Host key verification failed"),
        ("echo 'git@host: Permission denied (publickey).' >&2; exit 255", RefusedError, "publickey"),
        ("echo 'ssh: connect to host host port 22: Connection refused' >&2; exit 255", UnreachableError, "refused"),
        ("echo 'ERROR: Repository not found.' >&2; exit 1", MissingError, "Repository not found"),
    ],
)
def test_ssh_is_the_operators_and_its_answers_are_told_apart(
    repository: Path, monkeypatch: pytest.MonkeyPatch, program: str, kind: type[ConsoleError] | None, named: str
) -> None:
    tmp_path = repository.parent
    ssh = tmp_path / "ssh"
    options = 'while [ "${1#-}" != "$1" ]; do [ "$1" != -o ] || shift; shift; done'
    ssh.write_text(f"#!/bin/sh\n{options}\n{program}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    origin = Origin(f"git@host:{repository}", "", "esm/hello")
    if kind is None:
        with fetched(origin, tmp_path / "own") as found:
            assert found.blueprint.id == "hello"
        return
    error = failure(origin, tmp_path / "own")
    assert type(error) is kind
    assert named in error.sentence()


@pytest.mark.parametrize("address", ["https://127.0.0.1:{}/ml", "ssh://git@127.0.0.1:{}/ml"])
def test_a_server_that_takes_the_connection_and_is_silent_is_given_up(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(fetching, "SILENT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = failure(Origin(address.format(silent.getsockname()[1])), tmp_path / "own")
    assert isinstance(error, UnreachableError)
    assert "does not answer: nothing has come" in error.sentence()


def test_without_git_that_is_said(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not on PATH" in failure(Origin(str(repository)), tmp_path / "own").sentence()


def test_a_host_is_no_option_of_ssh(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    error = failure(Origin(f"ssh://-oProxyCommand=touch%20{ran}/ml"), tmp_path / "own")
    assert "strange hostname" in error.sentence()
    assert not ran.exists()


def test_submodules_pointers_and_files_are_no_folders_of_a_blueprint(repository: Path, tmp_path: Path) -> None:
    place, commit = str(repository), git(repository, "rev-parse", "HEAD")
    error = failure(Origin(place, "", "esm/hello/train.yaml"), tmp_path / "own")
    assert "is a file" in error.sentence()
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},esm/hello/module")
    git(repository, "commit", "--quiet", "--message=Module")
    error = failure(Origin(place, "", "esm/hello"), tmp_path / "own")
    assert isinstance(error, BlueprintError)
    assert "module is a submodule" in error.sentence()
    git(repository, "update-index", "--force-remove", "esm/hello/module")
    (repository / "esm" / "hello" / "data.log").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    git(repository, "add", "esm")
    git(repository, "commit", "--quiet", "--message=Pointer")
    assert "data.log is a pointer of Git LFS" in failure(Origin(place, "", "esm/hello"), tmp_path / "own").sentence()


def test_a_tree_that_leads_out_is_refused(repository: Path, tmp_path: Path) -> None:
    blob = git(repository, "rev-parse", "HEAD:esm/hello/train.yaml")
    entry = b"100644 ../../ran\0" + bytes.fromhex(blob)
    made = ["git", "-C", str(repository), "hash-object", "-t", "tree", "-w", "--literally", "--stdin"]
    tree = subprocess.run(made, input=entry, check=True, capture_output=True).stdout.decode().strip()
    git(repository, "update-ref", "refs/heads/out", git(repository, "commit-tree", "-m", "Out", tree))
    assert "leads out of the folder" in failure(Origin(str(repository), "out"), tmp_path / "own").sentence()


def test_filters_and_attributes_change_nothing(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    settings = tmp_path / "gitconfig"
    git(tmp_path, "config", "--file", str(settings), "filter.run.smudge", f"touch {ran}; cat")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    (repository / "esm" / "hello" / ".gitattributes").write_text("* filter=run text eol=crlf\nnotes export-ignore\n")
    (repository / "esm" / "hello" / "notes").write_text("$Format:%H$\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=Attributes")
    with fetched(Origin(str(repository), "", "esm/hello"), tmp_path / "own") as found:
        assert (found.blueprint.folder / "notes").read_text() == "$Format:%H$\n"
        assert b"\r" not in (found.blueprint.folder / "train.yaml").read_bytes()
    assert not ran.exists()


def test_a_large_file_elsewhere_in_the_repository_is_not_fetched(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    (repository / "weights.bin").write_bytes(os.urandom(17 << 20))
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=Weights")
    with fetched(Origin(str(repository), "", "esm/hello"), tmp_path / "own") as found:
        objects = (found.blueprint.folder.parent / "git").rglob("*")
        assert sum(path.stat().st_size for path in objects if path.is_file()) < 1 << 20
