"""The processes that mpirun starts, where, with which variables, and its message when it failed."""

from __future__ import annotations

from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.mpirun import launch, request_of
from actions.sandbox.programs.program import ContainerView, Program, ProgramStep, RemoteFailed, RemoteProcess
from tests.unit.sandbox.programs.containers import MOMENT

_HOSTS = tuple(f"job-worker-{index}.job.default.svc" for index in range(3))


def _launcher(*argv: str, slots: int = 1, **environment: str) -> ContainerView:
    volume = MemoryVolume()
    volume.put("/hostfile", "".join(f"{host} slots={slots}\n" for host in _HOSTS).encode())
    return ContainerView(
        namespace="default",
        pod="job-launcher-x7f2p",
        name="mpi",
        image="image",
        argv=("/opt/amazon/openmpi/bin/mpirun", *argv),
        environment={"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"} | environment,
        files=FileView({"/etc/mpi": volume}),
        started_at=MOMENT,
    )


def _remote(program: Program) -> tuple[RemoteProcess, ...]:
    return next(step.remote for step in program if step.remote)


def _ended(program: Program, failure: RemoteFailed | None = None) -> tuple[str, int]:
    """Return the output of a launcher, and its code, when its processes fail like that."""
    text: list[str] = []
    try:
        step: ProgramStep = next(program)
        while True:
            text.append(step.text)
            step = program.throw(failure) if step.remote and failure else next(program)
    except StopIteration as end:
        return "".join(text), int(end.value)


def test_options_end_where_the_command_begins() -> None:
    argv = "--allow-run-as-root --mca btl ^openib -np 4 -bind-to none -map-by slot -x A -x B=1 --wdir=/w cmd -np 9"
    request = request_of(argv.split())
    assert request.command == ("cmd", "-np", "9")
    assert (request.processes, request.folder, dict(request.exported)) == (4, "/w", {"A": None, "B": "1"})


def test_each_slot_gets_a_rank_and_its_variables() -> None:
    launcher = _launcher("--allow-run-as-root", "-np", "6", "-x", "POD_UID", "prog", slots=2, POD_UID="u-1")
    processes = _remote(launch(launcher))
    assert [process.host for process in processes] == [host for host in _HOSTS for _ in range(2)]
    assert processes[3].environment["OMPI_COMM_WORLD_RANK"] == "3"
    assert processes[3].environment["OMPI_COMM_WORLD_LOCAL_RANK"] == "1"
    assert {process.environment["POD_UID"] for process in processes} == {"u-1"}
    assert "PATH" not in processes[0].environment


def test_ranks_per_node_may_be_given() -> None:
    processes = _remote(launch(_launcher("--allow-run-as-root", "-N", "1", "-np", "3", "prog", slots=8)))
    assert [process.host for process in processes] == list(_HOSTS)


def test_more_ranks_than_slots_is_an_error() -> None:
    text, code = _ended(launch(_launcher("--allow-run-as-root", "-np", "4", "prog")))
    assert code == 1
    assert "not enough slots" in text


def test_root_must_be_allowed() -> None:
    text, code = _ended(launch(_launcher("-np", "1", "prog")))
    assert (code, "run as root" in text) == (1, True)


def test_the_first_rank_that_fails_is_named_and_gives_the_code() -> None:
    launcher = _launcher("--allow-run-as-root", "-np", "3", "prog")
    text, code = _ended(launch(launcher), RemoteFailed(2, _HOSTS[2], 7))
    assert code == 7
    assert "Process name: [[40741,1],2]\n  Exit code:    7" in text


def test_a_lost_and_an_unreachable_host_are_told_apart() -> None:
    launcher = _launcher("--allow-run-as-root", "-np", "3", "prog")
    assert "lost communication" in _ended(launch(launcher), RemoteFailed(1, _HOSTS[1], None))[0]
    text, code = _ended(launch(launcher), RemoteFailed(1, _HOSTS[1], None, is_unreachable=True))
    assert (code, "Could not resolve hostname job-worker-1" in text) == (1, True)


def test_a_tag_begins_each_piece_of_output_so_lines_get_glued() -> None:
    process = RemoteProcess("h", ("p",), {}, tag="[1,0]")
    assert process.tagged("a\nb\n", is_error=False) == "[1,0]<stdout>:a\n[1,0]<stdout>:b\n"
    assert process.tagged("\rbar", is_error=True) == "[1,0]<stderr>:\rbar"


def test_a_process_that_a_signal_ends_is_named_with_the_signal() -> None:
    launcher = _launcher("--allow-run-as-root", "-np", "2", "prog")
    text, code = _ended(launch(launcher), RemoteFailed(1, _HOSTS[1], 134))
    assert code == 134
    assert "process rank 1 with PID 0 on node job-worker-1 exited on signal 6 (Aborted)." in text
