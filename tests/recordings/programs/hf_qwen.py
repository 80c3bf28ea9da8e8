"""A small Qwen2-style model trained from scratch with the Hugging Face Trainer."""

import json
import os
import shutil
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import (
    PrinterCallback,
    Qwen2Config,
    Qwen2ForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

SEQ, VOCAB = 1024, 32000
OUT = f"qwen_{os.getpid()}"


class Packed(Dataset):
    def __init__(self, rows=4096):
        self.rows = torch.randint(0, VOCAB, (rows, SEQ), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return 300_000

    def __getitem__(self, i):
        row = self.rows[i % len(self.rows)]
        return {"input_ids": row, "labels": row}


class Stopwatch(TrainerCallback):
    def __init__(self, without_s, with_s):
        self.limits = {"without_ms": without_s, "with_ms": with_s}
        self.phase, self.times = "without_ms", {}
        self.since, self.began = 0, None

    def on_step_end(self, args, state, control, **kwargs):
        if self.phase is None:
            return
        steps = state.global_step - self.since
        if self.began is None:
            if steps >= (12 if self.phase == "without_ms" else 4):
                torch.cuda.synchronize()
                self.since, self.began = state.global_step, time.perf_counter()
            return
        if time.perf_counter() - self.began < self.limits[self.phase]:
            return
        torch.cuda.synchronize()
        self.times[self.phase] = (time.perf_counter() - self.began) * 1e3 / steps
        self.since, self.began = state.global_step, None
        if self.phase == "without_ms":
            self.phase = "with_ms"
            print(json.dumps({"phase": "with"}), flush=True)
        else:
            self.phase = None
            control.should_training_stop = True
            return control


def build_model():
    config = Qwen2Config(
        vocab_size=VOCAB,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=2048,
    )
    return Qwen2ForCausalLM(config)


def main():
    args = TrainingArguments(
        output_dir=OUT,
        max_steps=500_000,
        per_device_train_batch_size=24,
        learning_rate=3e-4,
        weight_decay=0.1,
        warmup_steps=200,
        lr_scheduler_type="cosine",
        bf16=True,
        optim="adamw_torch_fused",
        logging_steps=25,
        save_strategy="no",
        report_to="none",
        dataloader_num_workers=4,
        dataloader_drop_last=True,
        remove_unused_columns=False,
        disable_tqdm=True,
    )
    watch = Stopwatch(float(sys.argv[1]), float(sys.argv[2]))
    trainer = Trainer(model=build_model(), args=args, train_dataset=Packed(), callbacks=[watch])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    print(json.dumps(watch.times), flush=True)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(OUT, ignore_errors=True)
