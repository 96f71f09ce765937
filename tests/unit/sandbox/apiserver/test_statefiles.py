"""The state file belongs to the process that wrote it last."""

from __future__ import annotations

from pathlib import Path

import msgspec

from actions.sandbox.locate import ProcessFile
from actions.sandbox.model.keys import make_keys
from actions.sandbox.statefiles import remove_process, write_kubeconfig, write_process

URL = "https://127.0.0.1:1"


def written(folder: Path) -> Path:
    kubeconfig = write_kubeconfig(folder, url=URL, authority=b"", cluster="c", keys=make_keys())
    return write_process(folder, url=URL, kubeconfig=kubeconfig, aws_endpoint_url="", speed=2)


def test_the_file_goes_with_its_process(tmp_path: Path) -> None:
    path = written(tmp_path)
    remove_process(tmp_path)
    assert not path.exists()
    remove_process(tmp_path)


def test_the_file_of_a_successor_stays(tmp_path: Path) -> None:
    path = written(tmp_path)
    other = msgspec.structs.replace(msgspec.json.decode(path.read_bytes(), type=ProcessFile), pid=1)
    path.write_bytes(msgspec.json.encode(other))
    remove_process(tmp_path)
    assert path.exists()
