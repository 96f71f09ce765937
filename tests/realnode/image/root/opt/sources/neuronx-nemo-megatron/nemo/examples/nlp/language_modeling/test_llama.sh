#!/usr/bin/env bash
set -o pipefail
source ./train_setup.sh
: ${TOKENIZER_PATH=/root/llamav2_weights/7b-hf}
: ${DATASET_PATH=/root/examples_datasets/llama_7b/book.jsonl-processed_text_document}
: ${GBS=256} ${UBS=1} ${TRAIN_ITERS=20000}
echo "SEQ_LEN=$SEQ_LENGTH, HS=4096, FFN_HS=11008 TP=$TP PP=$PP N_LAYERS=32 N_AH=32 GBS=$GBS UBS=$UBS"
MAYBE_COMPILE=""
if [ "${COMPILE:-0}" = 1 ]; then
    echo "compiling only run"
    MAYBE_COMPILE="neuron_parallel_compile"
    TRAIN_ITERS=4
fi
$MAYBE_COMPILE torchrun $DISTRIBUTED_ARGS megatron_gpt_pretraining.py \
    --config-path=conf \
    --config-name=megatron_llama_7b_config \
    trainer.num_nodes=$NNODES \
    trainer.max_steps=$TRAIN_ITERS \
    model.tokenizer.type=$TOKENIZER_PATH \
    model.micro_batch_size=$UBS \
    model.global_batch_size=$GBS \
    model.tensor_model_parallel_size=$TP \
    model.pipeline_model_parallel_size=$PP \
    model.encoder_seq_length=$SEQ_LENGTH \
    model.data.data_prefix=[1.0,$DATASET_PATH] \
    model.optim.sched.warmup_steps=$WARMUP_STEPS \
    model.optim.lr=3e-4 \
    model.optim.sched.min_lr=3e-5 \
    exp_manager.explicit_log_dir=$EXPLICIT_LOGDIR \
    +exp_manager.checkpoint_callback_params.train_time_interval=36000 \
    exp_manager.resume_if_exists=False \
    exp_manager.resume_ignore_no_checkpoint=False 2>&1 | tee -a "$LOG_PATH/log"
