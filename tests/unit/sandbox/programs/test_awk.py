"""The sandbox's awk: answers as the machine's own awk does, and refuses what it cannot do."""

from __future__ import annotations

import subprocess

import pytest
from msgspec.structs import replace

from actions.sandbox.kubelet.images import exec_program
from actions.telemetry.tools.devices import NVIDIA_COMMAND, read_devices
from actions.telemetry.tools.traffic import TRAFFIC_SCRIPT
from tests.unit.sandbox.programs.containers import Outcome, a_container, context, run

TEXT = "GPU 0: A100\n  Link 0: Data Tx: 12 KiB\n  Link 0: Data Rx: 30 KiB\nGPU 1: A100\n  Link 0: Data Tx: 7 KiB\n"
PROGRAMS = (
    *TRAFFIC_SCRIPT.split("'")[1:6:4],
    "{ print }",
    "/Link/ { print $1, $5 + 1; n++ } END { print n, NR, NF }",
    'BEGIN { x = 3; if (x > 2 && x != 4) print "big"; else print "small" }',
    'NF > 4 || $1 == "GPU" { n += $5 } END { printf "%s %d %.2f%%\\n", n, n / 2, -n * 1.5 }',
    "{ for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+$/) sum[$(i - 1)] += $i } END { for (k in sum) print k, sum[k] }",
    "/GPU 1/ { exit 3 } { print $NF }",
    "!/GPU/ { next } { print $2 }  # the number",
    "{ s = $1; print (s !~ /x/) } END { print s, undefined + 0, --NR }",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_answers_as_the_machines_own(program: str) -> None:
    ours = _awk(program, TEXT)
    own = subprocess.run(["awk", program], input=TEXT, capture_output=True, text=True, check=False, timeout=60)
    assert (ours.exit_code, ours.out) == (own.returncode, own.stdout)


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ('{ print "a" "b" }', "'b' is more than"),
        ("{ print toupper($1) }", "more than the sandbox's awk can do"),
        ("{ print", "awk: "),
        ("{ $1 = 2 }", "cannot change fields"),
        ("{ print 1 / 0 }", "division by zero"),
        ("BEGIN { for (i = 0; i < 1; i += 0) n++ }", "does not end"),
        ("-F:", "without options and files"),
    ],
)
def test_it_refuses_what_it_cannot_do(program: str, complaint: str) -> None:
    ours = _awk(program, TEXT)
    assert ours.exit_code == 2
    assert complaint in ours.err


def test_the_console_reads_nvlink_of_a_node_of_the_sandbox() -> None:
    container = replace(a_container(gpus=tuple(range(8))), instance_type="p4de.24xlarge")
    done = run(exec_program(context(container), list(NVIDIA_COMMAND)))
    assert done.exit_code == 0
    assert all(device.nvlink_bytes is not None for device in read_devices(done.out).devices)


def _awk(program: str, text: str) -> Outcome:
    container = a_container()
    container.files.write("/tmp/text", text.encode())
    quoted = program.replace("'", "'\\''")
    return run(exec_program(context(container), ["sh", "-c", f"cat /tmp/text | awk '{quoted}'"]))
