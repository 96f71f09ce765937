"""What a command line of `ray_train_llama2.py` asks for.

Source: `docs/facts/llama2-ray.md#arguments`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actions.sandbox.workloads.neuron_cache import Graph, graphs_of

CORES_OF_A_NODE = 32
_GRAPHS = 7
_SEQUENCES_PER_SECOND_AND_NODE = 4.6
_LAYERS = 32
_SHAPES = (
    "num_nodes", "tensor_parallel_size", "batch_size", "seq_len", "num_layers", "use_mix_precision", "use_zero_1",
    "sequence_parallel_enabled", "selective_checkpoint_enabled", "qkv_linear", "kv_replicator",
)  # fmt: skip
_DEFAULTS = {
    "num_nodes": "2", "tensor_parallel_size": "8", "batch_size": "1", "grad_accum_usteps": "32", "max_steps": "10000",
    "steps_this_run": "10000", "lr": "3e-4", "warmup_steps": "100", "seed": "12349", "seq_len": "4096",
    "logging_interval": "10", "num_layers": "-1", "kv_replicator": "1", "sequence_parallel_enabled": "True",
    "selective_checkpoint_enabled": "True", "data_dir": "/shared/wikicorpus_llama2_7B_tokenized_4k",
    "output_dir": "/shared/llama2_output", "metrics_file": "results.json",
}  # fmt: skip


class Settings(msgspec.Struct, frozen=True):
    """What the arguments ask for."""

    given: dict[str, str]

    def number(self, name: str) -> int:
        """An integer argument."""
        return int(self.given[name])

    def has(self, switch: str) -> bool:
        """Whether a switch was given."""
        return switch in self.given

    @property
    def workers(self) -> int:
        """Train workers, one for each core."""
        return CORES_OF_A_NODE * self.number("num_nodes")

    @property
    def steps(self) -> int:
        """Until which step this run goes."""
        limits = [self.number(name) for name in ("max_steps", "steps_this_run") if self.number(name) >= 0]
        return min(limits, default=0)

    @property
    def global_batch(self) -> int:
        """Sequences a step."""
        replicas = self.workers // self.number("tensor_parallel_size")
        return self.number("batch_size") * self.number("grad_accum_usteps") * replicas

    @property
    def layers(self) -> int:
        """Of the model."""
        return _LAYERS if self.number("num_layers") < 0 else self.number("num_layers")

    @property
    def throughput(self) -> float:
        """Sequences a second, in life."""
        return _SEQUENCES_PER_SECOND_AND_NODE * self.number("num_nodes") * _LAYERS / max(1, self.layers)

    def graphs(self) -> list[Graph]:
        """The graphs of this run."""
        return graphs_of({name: self.given.get(name, "") for name in _SHAPES}, _GRAPHS)


def settings_of(words: Sequence[str]) -> Settings:
    """Read the arguments behind the script's name."""
    given, index = dict(_DEFAULTS), 0
    while index < len(words):
        name, has_value, value = words[index].removeprefix("--").partition("=")
        following = words[index + 1] if index + 1 < len(words) else "--"
        if words[index].startswith("--"):
            is_switch = not has_value and following.startswith("--")
            given[name] = value if has_value else "True" if is_switch else following
        index += 1
    return Settings(given)
