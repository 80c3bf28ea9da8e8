"""GPT-2 124M in plain PyTorch on one GPU, well or with one cause of lost time. usage: train_with_pytorch.py CAUSE SECONDS

causes: healthy, starved (the loader is slower than the GPU), sync (every gradient's length is read back in each step), launch-bound
(one short sample a step), checkpoint (weights and optimizer are saved every five seconds), fp32 (no tensor cores)
"""

import os
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/lib"))
from gpt_in_pytorch import GPT, parameter_groups  # noqa: E402

LENGTH, VOCABULARY = 1024, 50304


class Samples(torch.utils.data.Dataset):
    def __init__(self, pause):
        self.pause = pause

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        time.sleep(self.pause)
        return torch.randint(0, VOCABULARY, (LENGTH + 1,))


def main(cause, seconds):
    tiny = cause == "launch-bound"
    precise = cause == "fp32"
    torch.set_float32_matmul_precision("highest" if precise else "high")
    with torch.device("cuda"):
        model = GPT(12, 12, 768, LENGTH, VOCABULARY)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=1e-4, fused=True)
    loader = torch.utils.data.DataLoader(
        Samples(0.06 if cause == "starved" else 0),
        batch_size=1 if tiny else 16,
        num_workers=4,
        pin_memory=True,
    )
    until = time.monotonic() + seconds
    saved = time.monotonic()
    for tokens in loader:
        tokens = tokens.to("cuda", non_blocking=True)
        if tiny:
            tokens = tokens[:, :65]
        with torch.autocast("cuda", torch.bfloat16, enabled=not precise):
            loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        if cause == "sync":
            lengths = [parameter.grad.norm().item() for parameter in model.parameters()]
            assert len(lengths) > 0
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if cause == "checkpoint" and time.monotonic() - saved > 5:
            with tempfile.TemporaryDirectory() as folder:
                torch.save(
                    {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                    os.path.join(folder, "checkpoint.pt"),
                )
            saved = time.monotonic()
        if time.monotonic() > until:
            break
    torch.cuda.synchronize()


main(sys.argv[1], float(sys.argv[2]))
