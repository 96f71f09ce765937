#!/usr/bin/env bash
# In small what neuronx-nemo-megatron's script of this name does: the group, the folders of log and checkpoints.
training_precision="bf16SR"

if [ -z "${OMPI_COMM_WORLD_RANK:-}" ]; then
    echo "Error: This script should be run via mpirun on EKS" >&2
    exit 1
fi
if [ -n "${OMPI_COMM_WORLD_RANK:-}" ]; then
    export NODEID=$OMPI_COMM_WORLD_RANK NNODES=$OMPI_COMM_WORLD_SIZE
    # The first of the job's workers: test-mpi-train-worker-3.test-mpi-train… has it as …-worker-0….
    MASTER_ADDR=$(hostname -f | sed -E 's/-[0-9]+(\.|$)/-0\1/')
    export EXPLICIT_LOGDIR=/shared/nemo_experiments/$POD_UID
    LOG_PATH=$EXPLICIT_LOGDIR/$NODEID/
    mkdir -p "$LOG_PATH"
fi
# A process for each of a node's 32 cores would be too many for a CPU: one stands for all of them.
PROCESSES_PER_NODE=${PROCESSES_PER_NODE:-1}
DISTRIBUTED_ARGS="--nproc_per_node $PROCESSES_PER_NODE --nnodes $NNODES --node_rank $NODEID --master_addr $MASTER_ADDR --master_port 41000"
echo "$DISTRIBUTED_ARGS"
echo "using $training_precision"
