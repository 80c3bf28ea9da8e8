"""Forward and backward by module as `lockstep profile` tells them, beside what the program itself measures with torch's
own hooks of one module, on a GPU. usage: modules_on_a_gpu.py LOCKSTEP [STEPS]

Trains GPT-2 124M under the profile, first STEPS as ever, then twenty more with events around c_fc, the model and the
backward pass. Prints both.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

STEPS_OF_ITS_OWN = 20


def train(steps):
    import torch

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(here, "..", "..", "scripts", "lib"))
    from gpt_in_pytorch import GPT

    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = GPT(12, 12, 768, 1024, 50304)
        tokens = torch.randint(0, 50304, (16, 1025))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def mark():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            begin = mark()
            loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
            middle = mark()
        loss.backward()
        end = mark()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return begin, middle, end

    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    passes = []
    for block in model.transformer["h"]:
        part = block.mlp["c_fc"]
        part.register_forward_pre_hook(lambda *_: passes.append(mark()))
        part.register_forward_hook(lambda *_: passes.append(mark()))
        part.register_full_backward_pre_hook(lambda *_: passes.append(mark()))
        part.register_full_backward_hook(lambda *_: passes.append(mark()))
    rows, marks = [], []
    for _ in range(STEPS_OF_ITS_OWN):
        whole = step()
        marks.append((*whole, list(passes)))
        passes.clear()
    torch.cuda.synchronize()
    for begin, middle, end, noted in marks:
        pairs = [a.elapsed_time(b) for a, b in zip(noted[::2], noted[1::2])]
        half = len(pairs) // 2
        rows.append(
            (
                begin.elapsed_time(middle),
                middle.elapsed_time(end),
                sum(pairs[:half]),
                sum(pairs[half:]),
            )
        )
    print(json.dumps([statistics.median(column) for column in zip(*rows)]))


def compare(lockstep, steps):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [sys.executable, os.path.abspath(__file__), "--train", steps]
        done = subprocess.run(
            [lockstep, "profile", "--steps", steps, "--json", "-o", report, "--", *command],
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
        )
        true = json.loads(done.stdout.splitlines()[-1])
        with open(report, encoding="utf-8") as file:
            modules = {each["name"]: each for each in json.load(file)["steps"]["modules"]}
    for name, forward, backward in (
        ("all", true[0], true[1]),
        ("transformer.h.*.mlp.c_fc", true[2], true[3]),
    ):
        said = modules[name]
        print(
            f"{name}: forward {said['forward_ms']:.2f} ms said, {forward:.2f} measured; "
            f"backward {said['backward_ms']:.2f} said, {backward:.2f} measured"
        )
    parts = [each for name, each in modules.items() if name != "all"]
    for part in parts:
        print(
            f"  {part['name']} {part['count']} x {part['class']}: "
            f"{part['forward_ms']:.2f} + {part['backward_ms']:.2f} ms"
        )
    print(
        f"parts together {sum(each['forward_ms'] for each in parts):.2f} + "
        f"{sum(each['backward_ms'] for each in parts):.2f} ms"
    )


if sys.argv[1] == "--train":
    train(int(sys.argv[2]))
else:
    compare(os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "240")
