"""RoBERTa review classifier with the Hugging Face Trainer and a small dashboard."""

import json
import os
import shutil
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import (
    PrinterCallback,
    RobertaConfig,
    RobertaForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

OUT = f"reviews_{os.getpid()}"


class Reviews(Dataset):
    def __init__(self, n=6000, length=256, vocab=50265):
        g = torch.Generator().manual_seed(0)
        self.ids = torch.randint(5, vocab, (n, length), generator=g)
        self.mask = torch.ones(length, dtype=torch.long)
        self.stars = torch.randint(0, 5, (n,), generator=g)

    def __len__(self):
        return 900_000

    def __getitem__(self, i):
        j = i % len(self.ids)
        return {"input_ids": self.ids[j], "attention_mask": self.mask, "labels": self.stars[j]}


def smooth(values, width):
    out = []
    for i in range(len(values)):
        window = sorted(values[max(0, i - width) : i + 1])
        out.append(window[len(window) // 2])
    return out


def polyline(values, height=300.0):
    low, high = min(values), max(values)
    scale = height / ((high - low) or 1.0)
    return " ".join(f"{i},{height - (v - low) * scale:.2f}" for i, v in enumerate(values))


class Dashboard(TrainerCallback):
    """Redraws the curves of the last 1500 points whenever something is logged."""

    def __init__(self):
        self.live = False
        gen = torch.Generator().manual_seed(7)
        self.curves = {k: torch.rand(1500, generator=gen).tolist() for k in ("loss", "grad_norm")}

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not self.live or not logs:
            return
        page = {"step": state.global_step, "curves": {}}
        for name, points in self.curves.items():
            if name in logs:
                points.append(float(logs[name]))
                del points[:-1500]
            lines = [points] + [smooth(points, w) for w in (40, 100, 200)]
            page["curves"][name] = [polyline(line) for line in lines]
        part = os.path.join(OUT, "dashboard.json.part")
        with open(part, "w") as f:
            json.dump(page, f, indent=1)
        os.replace(part, os.path.join(OUT, "dashboard.json"))


class Clock(TrainerCallback):
    def __init__(self, without_s, with_s, dashboard):
        self.plan = [("without_ms", without_s, 12), ("with_ms", with_s, 4)]
        self.dashboard, self.times = dashboard, {}
        self.base, self.start = 0, None

    def on_step_end(self, args, state, control, **kwargs):
        key, seconds, skip = self.plan[0]
        n = state.global_step - self.base
        if self.start is None:
            if n >= skip:
                torch.cuda.synchronize()
                self.base, self.start = state.global_step, time.perf_counter()
            return
        if time.perf_counter() - self.start < seconds:
            return
        torch.cuda.synchronize()
        self.times[key] = 1e3 * (time.perf_counter() - self.start) / n
        self.plan.pop(0)
        self.base, self.start = state.global_step, None
        if self.plan:
            print(json.dumps({"phase": "with"}), flush=True)
            self.dashboard.live = True
            state.logging_steps = 1
        else:
            self.dashboard.live = False
            self.plan = [("over", 1e9, 10**9)]
            control.should_training_stop = True
            return control


def main():
    without_s, with_s = float(sys.argv[1]), float(sys.argv[2])
    os.makedirs(OUT, exist_ok=True)
    args = TrainingArguments(
        output_dir=OUT,
        max_steps=1_000_000,
        per_device_train_batch_size=128,
        learning_rate=2e-5,
        bf16=True,
        optim="adamw_torch_fused",
        logging_steps=100,
        save_strategy="no",
        report_to="none",
        dataloader_num_workers=4,
        dataloader_drop_last=True,
        remove_unused_columns=False,
        disable_tqdm=True,
    )
    dashboard = Dashboard()
    clock = Clock(without_s, with_s, dashboard)
    model = RobertaForSequenceClassification(RobertaConfig(num_labels=5))
    trainer = Trainer(model=model, args=args, train_dataset=Reviews(), callbacks=[dashboard, clock])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    print(json.dumps(clock.times), flush=True)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(OUT, ignore_errors=True)
