"""GPT-2 small from scratch, with a watcher that notes how every layer is doing."""

import json
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel

BATCH, SEQ = 16, 1024


class Windows(Dataset):
    def __init__(self, n=2048, vocab=50257):
        g = torch.Generator().manual_seed(0)
        self.rows = torch.randint(0, vocab, (n, SEQ), generator=g)

    def __len__(self):
        return 400_000

    def __getitem__(self, i):
        return self.rows[i % len(self.rows)]


class LayerWatch:
    """Spread of the activations and size of the gradients, layer by layer."""

    def __init__(self, model):
        self.model = model
        self.on = False
        self.acts, self.grads, self.history = {}, {}, []
        for name, module in model.named_modules():
            if name.endswith(("c_attn", "c_fc", "c_proj")):
                module.register_forward_hook(self.listener(name))

    def listener(self, name):
        def hear(module, args, out):
            if self.on:
                seen = out.detach()
                self.acts[name] = (seen.float().std().item(), seen.abs().amax().item())

        return hear

    @torch.no_grad()
    def collect_stats(self):
        for name, p in self.model.named_parameters():
            g = p.grad
            flat = g.reshape(-1)
            sample = flat[:: max(1, flat.numel() // 256)].cpu()
            self.grads[name] = {
                "norm": g.norm().item(),
                "peak": g.abs().max().item(),
                "ratio": (g.norm() / (p.norm() + 1e-12)).item(),
                "dead": (g == 0).float().mean().item(),
                "sample": sample,
            }
        self.history = (self.history + [(dict(self.acts), dict(self.grads))])[-20:]


def lr_at(step, peak=3e-4, warm=100):
    return peak * min(1.0, (step + 1) / warm)


def train_step(model, opt, ids, watch, step):
    for group in opt.param_groups:
        group["lr"] = lr_at(step)
    ids = ids.to("cuda", non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    if watch.on:
        watch.collect_stats()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad(set_to_none=True)


def main():
    without_s, with_s = float(sys.argv[1]), float(sys.argv[2])
    torch.manual_seed(0)
    loader = DataLoader(
        Windows(),
        BATCH,
        shuffle=True,
        num_workers=4,
        pin_memory=True,
        drop_last=True,
        persistent_workers=True,
    )
    batches = iter(loader)
    model = GPT2LMHeadModel(GPT2Config()).cuda().train()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
    watch = LayerWatch(model)

    step, result = 0, {}
    for key, seconds, skip in (("without_ms", without_s, 12), ("with_ms", with_s, 5)):
        if key == "with_ms":
            print(json.dumps({"phase": "with"}), flush=True)
            watch.on = True
        for _ in range(skip):
            train_step(model, opt, next(batches), watch, step)
            step += 1
        torch.cuda.synchronize()
        start, first = time.perf_counter(), step
        while time.perf_counter() - start < seconds:
            train_step(model, opt, next(batches), watch, step)
            step += 1
        torch.cuda.synchronize()
        result[key] = 1e3 * (time.perf_counter() - start) / (step - first)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
