"""Small Llama pre-training run that keeps a restart point."""

import json
import os
import shutil
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM

BATCH, SEQ, VOCAB = 24, 1024, 12000
FOLDER = f"restart_{os.getpid()}"


class Tokens(Dataset):
    def __init__(self):
        self.rows = torch.randint(0, VOCAB, (3000, SEQ), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return 500_000

    def __getitem__(self, i):
        return self.rows[i % len(self.rows)]


def build():
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=10,
        num_attention_heads=12,
        num_key_value_heads=12,
        max_position_embeddings=SEQ,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = LlamaForCausalLM(config).cuda().train()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    return model, torch.optim.AdamW(groups, lr=4e-4, betas=(0.9, 0.95), fused=True)


def store(model, opt, step):
    """Write a restart point, then drop the one before it."""
    os.makedirs(FOLDER, exist_ok=True)
    old = os.listdir(FOLDER)
    target = os.path.join(FOLDER, f"step_{step:07d}.pt")
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": opt.state_dict(),
        "rng": torch.get_rng_state(),
    }
    torch.save(state, target + ".part")
    os.replace(target + ".part", target)
    for name in old:
        if name != os.path.basename(target):
            os.remove(os.path.join(FOLDER, name))


class Run:
    def __init__(self):
        self.model, self.opt = build()
        loader = DataLoader(
            Tokens(), BATCH, shuffle=True, num_workers=4, pin_memory=True, drop_last=True
        )
        self.batches = iter(loader)
        self.step = 0
        self.every = 0

    def checkpoint_if_due(self):
        if self.every and self.step % self.every == 0:
            store(self.model, self.opt, self.step)

    def advance(self):
        ids = next(self.batches).cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.step += 1
        self.checkpoint_if_due()

    def measure(self, seconds):
        torch.cuda.synchronize()
        start, first = time.perf_counter(), self.step
        while time.perf_counter() - start < seconds:
            self.advance()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / (self.step - first)


def choose_interval(run, step_s):
    """As often as possible, with about half of the time left for training."""
    torch.cuda.synchronize()
    t = time.perf_counter()
    store(run.model, run.opt, run.step)
    return min(150, max(2, round((time.perf_counter() - t) / (1.1 * step_s))))


def main():
    run = Run()
    for _ in range(12):
        run.advance()
    a = run.measure(float(sys.argv[1]))
    print(json.dumps({"phase": "with"}), flush=True)
    run.every = choose_interval(run, a)
    for _ in range(3):
        run.advance()
    b = run.measure(float(sys.argv[2]))
    print(json.dumps({"without_ms": a * 1e3, "with_ms": b * 1e3}), flush=True)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
