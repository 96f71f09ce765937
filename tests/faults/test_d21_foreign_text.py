"""D21, S1: what a command prints of other people's text holds nothing that a terminal would obey, in any form."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from http.client import HTTPConnection
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import tui.cli.arguments
from actions.sandbox import __main__ as sandbox
from tests.support.answering import answering, write_kubeconfig
from tests.support.payloads import PAYLOADS, found_in
from tests.support.program import Program
from tests.unit.telemetry.corpus import samples
from tui.cli.main import main

KINDS = {"log": "logs", "nccl": "nccl", "nvidia-smi": "nvidia_smi", "neuron": "neuron", "efa": "efa"}
NEURON_LS = json.dumps(
    [{"neuron_device": 0, "bdf": "00:1e.0@", "nc_count": 2, "memory_size": 1 << 34, "connected_to": [1],
      "neuron_processes": [{"pid": 7, "command": "python@ train.py", "neuroncore_ids": [0]}]}]
)  # fmt: skip
MONITOR = json.dumps(
    {"neuron_runtime_data": [{"pid": 7, "neuron_runtime_tag": "tag@", "error": "bad@", "report": {}}],
     "instance_info": {"instance_type": "trn1@", "instance_id": "i-@"}, "neuron_hardware_info": {"error": "x@"}}
)  # fmt: skip
SMI = (
    "<?xml version='1.0'?><nvidia_smi_log><driver_version>5@80</driver_version><gpu id='00@'><product_name>H@200"
    "</product_name><uuid>GPU-@1</uuid><performance_state>P@0</performance_state><processes><process_info><pid>7</pid>"
    "<type>C@</type><process_name>py@thon</process_name></process_info></processes></gpu></nvidia_smi_log>"
)
NCCL = json.dumps({"version": "2@", "config": {"collective": "all@reduce"}, "results": [{"size": 8, "type": "fl@"}]})
FI_INFO = (
    "[1,0]<stdout>:provider: efa@\n    fabric: fe80::@\n    domain: rdmap0s6-rdm@\n    version: 120.0@\n"
    "    type: FI_EP_RDM@\n    protocol: FI_PROTO_EFA@\n"
)
LOG = '{"step": 1, "loss": 0.5, "na@me": "x@", "lr@": 1}\n[pod/a@/b] step 2 loss: 0.4@ {"loss@": 2}\n'


_parser_of_all_commands = cache(tui.cli.arguments.parser)


@pytest.fixture(autouse=True)
def _one_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser of the command line is made once: for each of a thousand commands it would take longer than they."""
    parser = _parser_of_all_commands()
    monkeypatch.setattr(tui.cli.arguments, "parser", lambda words: parser)


def _written(template: str, payload: str) -> list[str]:
    """The payload in a template, as it is and as JSON or XML can hide it: in other texts that is no payload."""
    forms = {payload}
    if template.startswith("<?xml"):
        forms.add("".join(f"&#{ord(sign)};" for sign in payload))
    elif "{" in template:
        forms.add(json.dumps(payload)[1:-1])
    return [template.replace("@", text) for text in forms]


def _sampled(kind: str) -> Iterator[str]:
    """Captured outputs with a payload in each line, in the middle of words and at its end; each with others."""
    payloads = list(PAYLOADS.values())
    for sample in samples(KINDS[kind])[:3]:
        lines = sample.read_bytes().decode("utf-8", "replace").splitlines()[:200]
        for shift in range(0, len(payloads), 7):
            pairs = zip(lines, cycle(payloads[shift:] + payloads[:shift]), strict=False)
            yield "\n".join(line.replace(" ", f" {payload}", 1) + payload for line, payload in pairs)


def _read_prints_none(kind: str, text: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(text, encoding="utf-8", errors="replace")
    for output in ("table", "json", "plot"):
        main(["read", kind, str(file), "-o", output])
        said = capsys.readouterr()
        assert not found_in(said.out), (output, text[:300])
        assert not found_in(said.err), (output, text[:300])


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
@pytest.mark.parametrize("kind", KINDS)
def test_d21_read_prints_no_control(
    kind: str, payload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    templates = {"log": [LOG], "nccl": [NCCL], "nvidia-smi": [SMI], "neuron": [NEURON_LS, MONITOR], "efa": [FI_INFO]}
    for text in (text for template in templates[kind] for text in _written(template, payload)):
        _read_prints_none(kind, text, tmp_path / "saved", capsys)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"neuron"}))
def test_d21_read_prints_no_control_in_captured_outputs(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in _sampled(kind):
        _read_prints_none(kind, text, tmp_path / "saved", capsys)


def _without_tls(host: str, port: int, *, timeout: float, context: object) -> HTTPConnection:
    assert context is None
    return HTTPConnection(host, port, timeout=timeout)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_d21_sandbox_faults_prints_no_control(
    payload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = {
        "kind": "cut",
        "name": f"a{payload}b",
        "path": f"/x{payload}",
        "verbs": [f"get{payload}"],
        "namespace": payload,
    }
    with answering(200, json.dumps([fault, fault | {"resources": [payload], "path": ""}])) as url:
        found = SimpleNamespace(kubeconfig=write_kubeconfig(tmp_path / "kubeconfig", url))
        monkeypatch.setattr(sandbox, "find_sandbox", lambda _: found)
        monkeypatch.setattr("http.client.HTTPSConnection", _without_tls)
        monkeypatch.setattr("sys.argv", ["sandbox", "faults"])
        assert sandbox.main() == 0
    said = capsys.readouterr()
    assert "cut" in said.out
    assert not found_in(said.out + said.err)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_d21_why_from_prints_no_control(payload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"0/3 nodes{payload} are available: 3 Insufficient nvidia.com/gpu. {payload}"
    pod = {
        "kind": "Pod",
        "metadata": {"name": f"a{payload}", "namespace": f"b{payload}", "uid": "u", "labels": {f"k{payload}": payload}},
        "spec": {"containers": [{"name": f"c{payload}", "image": f"i{payload}"}]},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}],
            "containerStatuses": [
                {"name": f"c{payload}", "state": {"waiting": {"reason": "ErrImagePull", "message": f"no {payload}"}}}
            ],
        },
    }
    file = tmp_path / "case.json"
    file.write_text(json.dumps({"kind": "List", "items": [pod]}))
    for output in ("table", "json"):
        main(["why", "--from", str(file), "-o", output])
        said = capsys.readouterr()
        assert not found_in(said.out + said.err), output


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_d21_texts_of_blueprints_and_scripts_hold_no_control(
    payload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "blueprints" / "odd"
    folder.mkdir(parents=True)
    stages = [{"id": "access", "kind": "kubeconfig", "title": "A", "expect": "1s..2s", "cluster": "c", "region": "r"}]
    document: dict[str, object] = {
        "schema": "eksml/v1",
        "id": "odd",
        "title": f"T{payload}",
        "summary": payload,
        "stages": stages,
    }
    document["cluster"] = {"name": "c", "region": "us-west-2"}
    (folder / "blueprint.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.setattr("actions.blueprint.catalogue.shipped_blueprints", lambda: tmp_path / "none")
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"eksml-script": 1, "steps": [{"wait": {"text": payload}}]}))
    for arguments in (
        ["validate", str(folder)],
        ["--blueprints", str(folder.parent), "blueprints"],
        ["--blueprints", str(folder.parent), "blueprints", "show", "odd"],
        ["--blueprints", str(folder.parent), "plan", "odd"],
        ["--script", str(script), "--script-check"],
    ):
        assert main(arguments) == 2, arguments
        said = capsys.readouterr()
        assert not found_in(said.out + said.err), arguments
        assert "control character" in said.err or "not valid YAML" in said.err


def test_d21_the_real_program_writes_no_byte_of_the_eight_bit_controls(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for template in (NEURON_LS, MONITOR, SMI):
        kind = "nvidia-smi" if template is SMI else "neuron"
        for text in _written(template, "\x9b2J\u202e\x1b]0;PWN\x07"):
            done = subprocess.run(
                program.argv("read", kind, "-o", "json"),
                input=text.encode("utf-8", "replace"),
                capture_output=True,
                env=dict(program.environment),
                check=False,
            )
            assert not found_in((done.stdout + done.stderr).decode()), (kind, text)
