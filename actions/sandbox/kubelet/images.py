"""The choice of a container's program by its command and its image, as an image's entry point would."""

from __future__ import annotations

from collections.abc import Callable

from actions.sandbox.programs import checkpoints, exporters, mpirun, tensorboard
from actions.sandbox.programs.bionemo import esm1nv, uniref50
from actions.sandbox.programs.nccl import nccl_tests
from actions.sandbox.programs.nccl.fabric import is_fi_info, list_adapters
from actions.sandbox.programs.nemo import gpt as nemo_gpt
from actions.sandbox.programs.nemo.data import fetch_vocabulary, prepare_pile, wants_pile, wants_vocabulary
from actions.sandbox.programs.neuronx_nemo import data as neuronx_nemo_data
from actions.sandbox.programs.neuronx_nemo import node as neuronx_nemo
from actions.sandbox.programs.neuronx_nemo import train as neuronx_nemo_train
from actions.sandbox.programs.program import ContainerView, ProcessContext, Program, ProgramStep
from actions.sandbox.programs.ray import dataset as ray_dataset
from actions.sandbox.programs.ray import node as ray_node
from actions.sandbox.programs.ray import submit as ray_submit
from actions.sandbox.programs.shell import shell
from actions.sandbox.programs.shell.commands import NOT_FOUND, command_named

_WHOLE_DAY = 86_400.0

_IMAGES: tuple[tuple[Callable[[ContainerView], bool], Callable[[ContainerView], Program]], ...] = (
    (uniref50.is_wanted_by, uniref50.prepare),
    (uniref50.makes_sample, uniref50.make_sample),
    (esm1nv.is_wanted_by, esm1nv.train),
    (wants_vocabulary, fetch_vocabulary),
    (wants_pile, prepare_pile),
    (nemo_gpt.is_wanted_by, nemo_gpt.train),
    (ray_submit.is_wanted_by, ray_submit.submit),
    (ray_dataset.is_sample, ray_dataset.make_up),
    (ray_node.is_waiting, ray_node.wait),
    (ray_node.is_head, ray_node.lead),
    (ray_node.is_worker, ray_node.work),
    (neuronx_nemo_data.configures, neuronx_nemo_data.configure),
    (neuronx_nemo_data.takes_tokenizer, neuronx_nemo_data.take_tokenizer),
    (neuronx_nemo_data.takes_dataset, neuronx_nemo_data.take_dataset),
    (neuronx_nemo_data.makes_sample, neuronx_nemo_data.make_sample),
    (neuronx_nemo_data.tokenises, neuronx_nemo_data.tokenise),
    (neuronx_nemo.is_wanted_by, neuronx_nemo_train.train),
    (checkpoints.is_wanted_by, checkpoints.compare),
    (tensorboard.is_wanted_by, tensorboard.serve),
    (exporters.is_dcgm_exporter, exporters.export_gpus),
    (exporters.is_neuron_monitor, exporters.export_neuron),
    (is_fi_info, list_adapters),
    (nccl_tests.is_wanted_by, nccl_tests.run),
    (mpirun.is_mpirun, mpirun.launch),
    (mpirun.is_sshd, mpirun.sshd),
)
"""The test of a container, and the program for it; the first that matches is run."""


def program_of(context: ProcessContext) -> Program:
    """The main program of a container."""
    container = context.container
    for is_wanted_by, program in _IMAGES:
        if is_wanted_by(container):
            return program(container)
    if "nslookup" in container.command_line:
        return _wait_for_name()
    if shell.is_shell(container.argv) or (container.argv and command_named(context, container.argv[0])):
        return shell.run_argv(context, container.argv)
    return _service(container) if container.stays else _one_line(container)


def exec_program(context: ProcessContext, argv: list[str], given: str = "") -> Program:
    """The program behind `kubectl exec`, without a shell in between; `given` is its standard input."""
    if argv[0] == "ray" and ray_node.is_head(context.container):
        return ray_submit.stop(context.container, argv)
    if shell.is_shell(argv) or command_named(context, argv[0]):
        return shell.run_argv(context, argv, given)
    return _missing(argv[0])


def _missing(name: str) -> Program:
    yield ProgramStep(
        text=f'OCI runtime exec failed: exec failed: unable to start container process: exec: "{name}": '
        "executable file not found in $PATH: unknown\n",
        is_error=True,
    )
    return NOT_FOUND


def _wait_for_name() -> Program:
    """Run the loop by which operators' init containers wait for a Service; names always resolve here."""
    yield ProgramStep(1.0, "Name:   resolved by the sandbox\n")
    return 0


def _one_line(container: ContainerView) -> Program:
    yield ProgramStep(
        0.5,
        f"{container.name}: the sandbox has no program for {container.image}, nothing was computed; "
        "with `rehearsal: {log: FILE}` a stage prints a recorded log\n",
    )
    yield ProgramStep(0.5)
    return 0


def _service(container: ContainerView) -> Program:
    yield ProgramStep(0.2, f"{container.name}: {container.image} is up\n")
    while True:
        yield ProgramStep(_WHOLE_DAY)
