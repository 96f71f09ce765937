"""A node of neuronx-nemo-megatron under `mpirun`: its scripts, `llama_7b.sh` with its 32 processes, its failures.

The output of the processes goes to the launcher and to a file on the shared file system, below the launcher pod's
UID. The sandbox's scripts have only the lines that a run changes; the training reads its choices back from them.

Source: neuronx-nemo-megatron at f4743ce (`llama_7b.sh`, `test_llama.sh`, `train_setup.sh`: names and defaults);
training bars of its pull request 28 on EKS; AWS Neuron SDK 2.18 to 2.25, troubleshooting of the runtime;
`docs/facts/neuron.md#runtime-errors`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from actions.sandbox.programs.files import FileView
from actions.sandbox.programs.neuron.cores import CORES_OF_A_DEVICE
from actions.sandbox.programs.program import ContainerView, NeuronLoad, PeerLost, Program, ProgramStep, Rendezvous


def cores_taken(moment: float, process_id: int, core: int) -> str:
    """Return the runtime's error of a process that finds its core in use, or missing."""
    return _line(
        moment,
        process_id,
        "NRT:nrt_allocate_neuron_cores",
        f"NeuronCore(s) not available - Requested:nc{core}-nc{core} Available:0",
    )


def out_of_device_memory(moment: float, process_id: int, device: int, core: int, asked_bytes: int) -> str:
    """Return the runtime's error of a tensor that does not fit into the memory of the device."""
    return _line(
        moment,
        process_id,
        "TDRV:dmem_alloc_internal",
        f"Failed to alloc DEVICE memory: {asked_bytes} on ND {device}:NC {core}",
    ) + _line(moment, process_id, "NRT:nrt_infodump", "Failure: NRT_RESOURCE in nrt_tensor_allocate()")


def suspected_hang(moment: float, process_id: int) -> str:
    """Return the runtime's warning of a collective that waits for a worker without an answer."""
    return _line(
        moment,
        process_id,
        "TDRV:exec_consume_topsp_cc_notifications",
        "(FATAL-RT-UNDEFINED-STATE) missing collectives status on Neuron Device 0 NC 0, model 10001 - suspected hang "
        "in collectives operation 0 out of 100",
    )


def no_fabric(moment: float, process_id: int) -> str:
    """Return the runtime's error for EFA without an interface."""
    return _line(
        moment, process_id, "ENC:ncclInit", "Failed to initialize OFI: FI_PROVIDER=efa, but no EFA interface was found"
    )


def mixed_programs(moment: float, process_id: int) -> str:
    """Return the runtime's error of a collective whose ranks run different graphs."""
    return _line(
        moment,
        process_id,
        "ENC:enc_load_operations",
        "MPMD execution is not supported: ranks of the replica group have loaded different graphs",
    )


def _line(moment: float, process_id: int, place: str, text: str) -> str:
    stamp = datetime.fromtimestamp(moment, UTC)
    module, _, function = place.partition(":")
    head = f"{stamp:%Y-%b-%d %H:%M:%S}.{stamp.microsecond:06d} {process_id}:{process_id + 9} ERROR"
    return f"{head} {module:>5}:{function:<40} {text}\n"


SOURCES = "/shared/neuronx-nemo-megatron"
SCRIPTS = f"{SOURCES}/nemo/examples/nlp/language_modeling"
EXPERIMENTS = "/shared/nemo_experiments"
PROCESSES_PER_NODE = 32
_HEAD = "#!/usr/bin/env bash\n"
_UNKNOWN = re.compile(r"^[\w./+-]+$")


class ScriptParameters(msgspec.Struct, frozen=True):
    """The parameters that the scripts are set to."""

    tokenizer: str = "/root/llamav2_weights/7b-hf"
    dataset: str = "/root/examples_datasets/llama_7b/book.jsonl-processed_text_document"
    learning_rate: float = 3e-4
    min_learning_rate: float = 3e-5
    warmup_steps: int = 2000
    seq_length: int = 4096
    tensor_parallel: int = 8
    pipeline_parallel: int = 1
    precision: str = "bf16SR"
    checkpoint_seconds: int = 36_000
    saves_last: bool = False
    """`save_last`: the newest checkpoint is kept, and the end of the training has one."""
    resumes: bool = False
    """`resume_if_exists`: a run that finds checkpoints in its folder continues from them."""
    has_experiment: bool = False
    """The folder of checkpoints is that of `EXPERIMENT`; as the scripts come, it is that of the launcher's pod."""


def write_scripts(files: FileView, choices: ScriptParameters) -> list[str]:
    """Put the scripts in place. Return the changed lines, as printing them shows."""
    test = [
        f": ${{TOKENIZER_PATH={choices.tokenizer}}}",
        f": ${{DATASET_PATH={choices.dataset}}}",
        f"    model.optim.lr={choices.learning_rate} \\",
        f"    model.optim.sched.min_lr={choices.min_learning_rate} \\",
        f"    +exp_manager.checkpoint_callback_params.train_time_interval={choices.checkpoint_seconds} "
        f"{'exp_manager.checkpoint_callback_params.save_last=True ' if choices.saves_last else ''}\\",
        f"    exp_manager.resume_if_exists={choices.resumes} \\",
    ]
    model = [
        f"export SEQ_LENGTH={choices.seq_length}",
        f"export TP={choices.tensor_parallel}",
        f"export PP={choices.pipeline_parallel}",
        f"export WARMUP_STEPS={choices.warmup_steps}",
    ]
    for name, lines in (
        ("test_llama.sh", test),
        ("llama_7b.sh", [*model, "./test_llama.sh"]),
        (
            "train_setup.sh",
            [
                f'training_precision="{choices.precision}"',
                f"    export EXPLICIT_LOGDIR={EXPERIMENTS}/"
                + ("${EXPERIMENT:-$POD_UID}" if choices.has_experiment else "$POD_UID"),
            ],
        ),
    ):
        files.write(f"{SCRIPTS}/{name}", (_HEAD + "\n".join(lines) + "\n").encode())
    return [*test[:4], *model]


def read_scripts(files: FileView) -> ScriptParameters | None:
    """Return the parameters of the scripts in place, `None` if there are none."""
    names = ("llama_7b.sh", "test_llama.sh", "train_setup.sh")
    found = [files.file(f"{SCRIPTS}/{name}") for name in names]
    if any(one is None for one in found):
        return None
    text = "".join(one.content.decode(errors="replace") for one in found if one is not None)
    default = ScriptParameters()
    return ScriptParameters(
        tokenizer=_value(text, r"TOKENIZER_PATH:?=([^}\s]+)", default.tokenizer),
        dataset=_value(text, r"DATASET_PATH:?=([^}\s]+)", default.dataset),
        learning_rate=float(_value(text, r"optim\.lr=(\S+)", str(default.learning_rate))),
        min_learning_rate=float(_value(text, r"min_lr=(\S+)", str(default.min_learning_rate))),
        warmup_steps=int(_value(text, r"WARMUP_STEPS=(\d+)", str(default.warmup_steps))),
        seq_length=int(_value(text, r"SEQ_LENGTH=(\d+)", str(default.seq_length))),
        tensor_parallel=int(_value(text, r"TP=(\d+)", str(default.tensor_parallel))),
        pipeline_parallel=int(_value(text, r"PP=(\d+)", str(default.pipeline_parallel))),
        precision=_value(text, r'training_precision="?([\w]+)', default.precision),
        checkpoint_seconds=int(_value(text, r"train_time_interval=(\d+)", str(default.checkpoint_seconds))),
        saves_last=_value(text, r"save_last=(\w+)", "False").lower() == "true",
        resumes=_value(text, r"resume_if_exists=(\w+)", "False").lower() == "true",
        has_experiment="${EXPERIMENT:-$POD_UID}" in text,
    )


def _value(text: str, expression: str, otherwise: str) -> str:
    found = re.search(expression, text)
    return found[1] if found and _UNKNOWN.match(found[1]) else otherwise


CACHE = "/shared/neuron_cache"
COMMAND = "python3 -u megatron_gpt_pretraining.py --config-path=conf --config-name=megatron_llama_7b_config"
LOADED = NeuronLoad(0.0, 420, command=COMMAND)
_FIRST_PROCESS = 2101
_LARGEST_MICRO_BATCH = 2
_TIME_LIMIT_SECONDS = 100.0
"""NEURON_RT_EXEC_TIMEOUT."""


class TrainingNode(msgspec.Struct, frozen=True):
    """The part of a run on one node."""

    container: ContainerView
    choices: ScriptParameters
    rank: int
    """The node's rank."""
    nodes: int
    run_id: str
    """The launcher pod's UID."""
    batch: int
    micro_batch: int
    is_compiling: bool

    @property
    def folder(self) -> str:
        """The folder of checkpoints and curves on the shared file system (`EXPLICIT_LOGDIR`)."""
        experiment = self.container.environment.get("EXPERIMENT", "") if self.choices.has_experiment else ""
        return f"{EXPERIMENTS}/{experiment or self.run_id}"

    @property
    def log_folder(self) -> str:
        """The folder of the node's log (`LOG_PATH`), below the launcher pod's UID."""
        return f"{EXPERIMENTS}/{self.run_id}/{self.rank}"


def is_wanted_by(container: ContainerView) -> bool:
    """Return whether a container starts the model's script."""
    return bool(container.argv) and container.argv[0].endswith(("/llama_7b.sh", "/test_llama.sh"))


def node_of(container: ContainerView) -> TrainingNode | None:
    """Return the node's part in the run, `None` where the scripts are missing."""
    choices = read_scripts(container.files)
    if choices is None:
        return None
    known = container.environment
    return TrainingNode(
        container=container,
        choices=choices,
        rank=int(known["OMPI_COMM_WORLD_RANK"]),
        nodes=int(known["OMPI_COMM_WORLD_SIZE"]),
        run_id=known.get("POD_UID", ""),
        batch=int(known.get("GBS") or 256),
        micro_batch=int(known.get("UBS") or 1),
        is_compiling=known.get("COMPILE") == "1",
    )


def start(node: TrainingNode) -> Program:
    """Run all up to the first collective. Return 0, or the code with which the node ends."""
    known, place = node.choices, node.container
    host = place.pod.rpartition("-")[0]
    yield ProgramStep(
        1.0,
        f"--nproc_per_node {PROCESSES_PER_NODE} --nnodes {node.nodes} --node_rank {node.rank} "
        f"--master_addr {host}-0 --master_port 41000\nusing {known.precision}\n",
    )
    if node.is_compiling:
        yield ProgramStep(0.1, "compiling only run\n")
    yield ProgramStep(
        0.1,
        f"SEQ_LEN={known.seq_length}, HS=4096, FFN_HS=11008 TP={known.tensor_parallel} PP={known.pipeline_parallel} "
        f"N_LAYERS=32 N_AH=32 GBS={node.batch} UBS={node.micro_batch}\n",
    )
    yield ProgramStep(3.0, rendezvous=Rendezvous(f"{place.namespace}/{node.run_id}", node.nodes))
    problem = _missing_file(node)
    if problem:
        return (yield from fail(problem))
    yield ProgramStep(2.0, load=LOADED)
    problem = _problem(node, place.started_at + 6.0)
    if problem:
        return (yield from fail(problem))
    return 0


def fail(problem: str, code: int = 1) -> Program:
    """Print the failure of a process and torchrun's report of it; ends the node."""
    yield ProgramStep(0.5, problem)
    yield ProgramStep(
        1.0,
        f"ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: {code}) local_rank: 0 "
        f"(pid: {_FIRST_PROCESS}) of binary: /usr/bin/python3.10\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"megatron_gpt_pretraining.py FAILED\n",
        load=NeuronLoad(),
    )
    return code


def hang(moment: float) -> Program:
    """Wait in a collective for its time limit, as a node of the group is gone."""
    yield ProgramStep(_TIME_LIMIT_SECONDS)
    return (yield from fail(suspected_hang(moment, _FIRST_PROCESS)))


def _missing_file(node: TrainingNode) -> str:
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


def _problem(node: TrainingNode, moment: float) -> str:
    """Return why the runtime cannot start on the node, in its words; empty if it can."""
    cores = len(node.container.neurons) * CORES_OF_A_DEVICE
    if cores < PROCESSES_PER_NODE:
        return cores_taken(moment, _FIRST_PROCESS + cores, cores)
    if node.nodes > 1 and not node.container.efa_interfaces:
        return no_fabric(moment, _FIRST_PROCESS)
    if node.micro_batch > _LARGEST_MICRO_BATCH and not node.is_compiling:
        asked = node.micro_batch * node.choices.seq_length * 4096 * 32
        return out_of_device_memory(moment, _FIRST_PROCESS, 0, 0, asked)
    return ""


def logged(node: TrainingNode, program: Program) -> Program:
    """Run a program and keep what it prints in the node's log file, as `tee -a` does."""
    path = f"{node.log_folder}/log"
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
