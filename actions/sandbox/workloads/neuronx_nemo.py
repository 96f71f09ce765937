"""One node of neuronx-nemo-megatron under `mpirun`: `llama_7b.sh`, which starts torchrun with 32 processes.

What the processes print goes to the launcher and to a file on the shared file system, below the launcher pod's UID.

Source: neuronx-nemo-megatron at f4743ce; training bars of its pull request 28 on EKS; AWS Neuron SDK 2.18.
"""

from __future__ import annotations

import msgspec

from actions.sandbox.workloads.neuron_cores import CORES_OF_A_DEVICE
from actions.sandbox.workloads.neuron_errors import cores_taken, no_fabric, out_of_device_memory, suspected_hang
from actions.sandbox.workloads.neuronx_nemo_scripts import PROCESSES_PER_NODE, Choices, read_scripts
from actions.sandbox.workloads.program import Container, Meeting, NeuronLoad, PeerLost, Program, Step

CACHE = "/shared/neuron_cache"
COMMAND = "python3 -u megatron_gpt_pretraining.py --config-path=conf --config-name=megatron_llama_7b_config"
EXPERIMENTS = "/shared/nemo_experiments"
LOADED = NeuronLoad(0.0, 420, command=COMMAND)
_FIRST_PROCESS = 2101
_LARGEST_MICRO_BATCH = 2
_TIME_LIMIT_SECONDS = 100.0
"""NEURON_RT_EXEC_TIMEOUT."""


class Node(msgspec.Struct, frozen=True):
    """One node's part of a run."""

    container: Container
    choices: Choices
    rank: int
    """Of the node."""
    nodes: int
    run_id: str
    """The launcher pod's UID."""
    batch: int
    micro_batch: int
    is_compiling: bool

    @property
    def folder(self) -> str:
        """Of the run, on the shared file system."""
        return f"{EXPERIMENTS}/{self.run_id}"


def is_wanted_by(container: Container) -> bool:
    """Whether a container starts the model's script."""
    return bool(container.argv) and container.argv[0].endswith(("/llama_7b.sh", "/test_llama.sh"))


def node_of(container: Container) -> Node | None:
    """The node's part in the run, `None` where the scripts are missing."""
    choices = read_scripts(container.files)
    if choices is None:
        return None
    known = container.environment
    return Node(
        container=container,
        choices=choices,
        rank=int(known["OMPI_COMM_WORLD_RANK"]),
        nodes=int(known["OMPI_COMM_WORLD_SIZE"]),
        run_id=known.get("POD_UID", ""),
        batch=int(known.get("GBS") or 256),
        micro_batch=int(known.get("UBS") or 1),
        is_compiling=known.get("COMPILE") == "1",
    )


def start(node: Node) -> Program:
    """All up to the first collective. Returns 0, or the code with which the node ends."""
    known, place = node.choices, node.container
    host = place.pod.rpartition("-")[0]
    yield Step(
        1.0,
        f"--nproc_per_node {PROCESSES_PER_NODE} --nnodes {node.nodes} --node_rank {node.rank} "
        f"--master_addr {host}-0 --master_port 41000\nusing {known.precision}\n",
    )
    if node.is_compiling:
        yield Step(0.1, "compiling only run\n")
    yield Step(
        0.1,
        f"SEQ_LEN={known.seq_length}, HS=4096, FFN_HS=11008 TP={known.tensor_parallel} PP={known.pipeline_parallel} "
        f"N_LAYERS=32 N_AH=32 GBS={node.batch} UBS={node.micro_batch}\n",
    )
    yield Step(3.0, meeting=Meeting(f"{place.namespace}/{node.run_id}", node.nodes))
    problem = _missing_file(node)
    if problem:
        return (yield from fail(problem))
    yield Step(2.0, load=LOADED)
    problem = _problem(node, place.started_at + 6.0)
    if problem:
        return (yield from fail(problem))
    return 0


def fail(problem: str, code: int = 1) -> Program:
    """A process has ended badly; torchrun says so and ends the node."""
    yield Step(0.5, problem)
    yield Step(
        1.0,
        f"ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: {code}) local_rank: 0 "
        f"(pid: {_FIRST_PROCESS}) of binary: /usr/bin/python3.10\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"megatron_gpt_pretraining.py FAILED\n",
        load=NeuronLoad(),
    )
    return code


def hang(moment: float) -> Program:
    """A node of the group is gone: the collective waits for its time limit."""
    yield Step(_TIME_LIMIT_SECONDS)
    return (yield from fail(suspected_hang(moment, _FIRST_PROCESS)))


def _missing_file(node: Node) -> str:
    files, known = node.container.files, node.choices
    if files.file(f"{known.tokenizer}/tokenizer.model") is None:
        return (
            "Traceback (most recent call last):\n"
            f"OSError: Can't load tokenizer for '{known.tokenizer}': it does not contain tokenizer.model.\n"
        )
    if files.file(f"{known.dataset}.idx") is None:
        return (
            "Traceback (most recent call last):\n"
            f"FileNotFoundError: [Errno 2] No such file or directory: '{known.dataset}.idx'\n"
        )
    return ""


def _problem(node: Node, moment: float) -> str:
    """Why the runtime cannot start here, in its words; empty if it can."""
    cores = len(node.container.neurons) * CORES_OF_A_DEVICE
    if cores < PROCESSES_PER_NODE:
        return cores_taken(moment, _FIRST_PROCESS + cores, cores)
    if node.nodes > 1 and not node.container.efa_interfaces:
        return no_fabric(moment, _FIRST_PROCESS)
    if node.micro_batch > _LARGEST_MICRO_BATCH and not node.is_compiling:
        asked = node.micro_batch * node.choices.seq_length * 4096 * 32
        return out_of_device_memory(moment, _FIRST_PROCESS, 0, 0, asked)
    return ""


def logged(node: Node, program: Program) -> Program:
    """Run a program and keep what it prints in the node's log file, as `tee -a` does."""
    path = f"{node.folder}/{node.rank}/log"
    lost: PeerLost | None = None
    while True:
        try:
            step = next(program) if lost is None else program.throw(lost)
        except StopIteration as end:
            return int(end.value or 0)
        lost = None
        if step.text:
            node.container.files.append(path, step.text.encode())
        try:
            yield step
        except PeerLost as error:
            lost = error
