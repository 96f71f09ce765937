#!/usr/bin/env bash
export SEQ_LENGTH=4096
export TP=8
export PP=1
export WARMUP_STEPS=2000
export TRAIN_ITERS=20000
export GBS=256
export UBS=1
./test_llama.sh
