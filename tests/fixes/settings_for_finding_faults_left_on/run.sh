#!/bin/bash
export NCCL_P2P_DISABLE=1  #: X708
export NCCL_DEBUG=WARN
export CUDA_LAUNCH_BLOCKING=1
#: ^ X708
CUDA_LAUNCH_BLOCKING=1 python train.py  #: X708
