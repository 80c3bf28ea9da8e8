"""What `lockstep plan` predicts against what is measured: on the CPU nets of four sizes on one
virtual GPU and two, on a GPU GPT-2 in PyTorch and in lockstep-train.
"""

import json
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# layers, heads, width, length, vocabulary, batch
CPU_NETS = {
    "0.8M": (4, 4, 128, 128, 256, 16),
    "6.6M": (8, 8, 256, 128, 1024, 8),
    "8.5M": (2, 8, 512, 128, 4096, 4),
    "10.8M": (6, 6, 384, 256, 256, 2),
}
GPU_RUNS = {
    "gpt2": (2, 8, 24, 48),
    "gpt2-medium": (4, 16),
    "gpt2-large": (4, 12),
    "gpt2-xl": (2, 6, 8),
}


def planned(lockstep, *words):
    done = subprocess.run(
        [lockstep, "plan", *words, "--json", "--quiet"], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def off(predicted, measured):
    return f"{100 * (predicted / measured - 1):+5.1f} %"


def trained(lockstep, ranks, words):
    trainer = os.path.join(os.path.dirname(lockstep), "lockstep-train")
    line = [
        trainer,
        "--steps",
        "15",
        "--log-every",
        "3",
        "--log-format",
        "json",
        "--resume",
        "never",
        "--no-step-marks",
        *words,
    ]
    if ranks > 1:
        line = [
            lockstep,
            "launch",
            "--standalone",
            "--no-checks",
            "--quiet",
            f"--nproc-per-node={ranks}",
            "--no-python",
            *line,
        ]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    rows = [
        json.loads(text)
        for text in done.stdout.splitlines()
        if text.startswith("{") and "done" not in text
    ][1:]
    return min(row["step_ms"] for row in rows), rows[-1]["memory"][0]["peak_bytes"]


def bench_plan_on_cpu(lockstep, rounds):
    print(
        f"\npredicted by `lockstep plan --calibrate` against measured, a core each (the fastest of {rounds} rounds, for others on the machine only slow it down; a round calibrates once and trains on one rank and on two)"
    )
    for name, (layers, heads, width, length, vocabulary, batch) in CPU_NETS.items():
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "config.json")
            json.dump(
                {
                    "model_type": "gpt2",
                    "n_layer": layers,
                    "n_head": heads,
                    "n_embd": width,
                    "n_positions": length,
                    "vocab_size": vocabulary,
                },
                open(config, "w"),
            )
            times, memory = {1: [], 2: []}, {}
            for _ in range(rounds):
                scaling = planned(
                    lockstep,
                    "--model",
                    config,
                    "--gpus",
                    "2xvirtual",
                    "--sequence-length",
                    str(length),
                    "--micro-batch",
                    str(batch),
                    "--calibrate",
                )["scaling"]
                for ranks in (1, 2):
                    way = next(scale["way"] for scale in scaling if scale["gpus"] == ranks)
                    step, peak = trained(
                        lockstep,
                        ranks,
                        [
                            "--device",
                            "cpu",
                            "--model",
                            "small",
                            "--layers",
                            str(layers),
                            "--heads",
                            str(heads),
                            "--width",
                            str(width),
                            "--sequence-length",
                            str(length),
                            "--vocabulary",
                            str(vocabulary),
                            "--batch-size",
                            str(batch),
                            "--dataset-size",
                            str(15 * batch * ranks),
                            "--workers",
                            "1",
                        ],
                    )
                    times[ranks].append((way["step"]["total_ms"], step))
                    memory[ranks] = (way["memory"]["peak_allocated_bytes"], peak)
        for ranks, pairs in times.items():
            predicted, measured = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
            print(
                f"  {name:6} {ranks} {'rank ' if ranks == 1 else 'ranks'} step {predicted:6.1f} ms predicted, {measured:6.1f} measured, {off(predicted, measured)} (goal 15)   "
                f"memory {memory[ranks][0] / 1e6:6.1f} MB, {memory[ranks][1] / 1e6:6.1f}, {off(*memory[ranks])} (goal 10)",
                flush=True,
            )


def bench_plan_on_gpu(lockstep, torch_bin):
    name = (
        subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        if shutil.which("nvidia-smi")
        else []
    )
    if not name:
        print("\nGPU: left out, nvidia-smi shows none")
        return
    print(
        f"\npredicted by `lockstep plan`, without calibration, against measured on one {name[0].strip()}: 1024 tokens a sample, bf16; peak memory as the allocator counts it"
    )
    runs = ",".join(f"{model}:{batch}" for model, batches in GPU_RUNS.items() for batch in batches)
    done = subprocess.run(
        [os.path.join(torch_bin, "python3"), os.path.join(HERE, "gpt_memory.py"), runs],
        capture_output=True,
        text=True,
        check=True,
    )
    measured = {
        ("pytorch", row["model"], row["batch"]): (row["ms"], row["peak"])
        for row in map(json.loads, done.stdout.splitlines())
    }
    for model, batches in GPU_RUNS.items():
        for batch in batches:
            words = [
                "--device",
                "cuda",
                "--model",
                "gpt2-124M" if model == "gpt2" else model,
                "--sequence-length",
                "1024",
                "--precision",
                "bf16",
                "--batch-size",
                str(batch),
                "--dataset-size",
                str(15 * batch),
                "--workers",
                "4",
            ]
            measured["lockstep", model, batch] = trained(lockstep, 1, words)
    for (program, model, batch), (step, peak) in measured.items():
        way = planned(
            lockstep,
            "--gpus",
            "1xH200-141GB",
            "--model",
            model,
            "--program",
            program,
            "--micro-batch",
            str(batch),
            "--sequence-length",
            "1024",
            "--activation-checkpointing",
            "off",
        )["choice"]
        print(
            f"  {program:8} {model:11} batch {batch:2}  step {way['step']['total_ms']:6.1f} ms predicted, {step:6.1f} measured, {off(way['step']['total_ms'], step)} (goal 20)   "
            f"memory {way['memory']['peak_allocated_bytes'] / 1e9:5.2f} GB, {peak / 1e9:5.2f}, {off(way['memory']['peak_allocated_bytes'], peak)} (goal 10)",
            flush=True,
        )


def bench_plan(lockstep, torch_bin, plan_speed, rounds):
    speeds = sorted(
        (
            subprocess.run([plan_speed], capture_output=True, text=True, check=True).stdout.strip()
            for _ in range(max(3, rounds))
        ),
        key=lambda text: float(text.split()[0]),
    )
    print(f"\n4 nodes of 8 GPUs, llama-8b: {speeds[len(speeds) // 2]} (goals 1,000 and 10 ms)")
    if os.path.exists("/dev/nvidiactl"):  # there --calibrate measures on the GPU
        bench_plan_on_gpu(lockstep, torch_bin)
    else:
        bench_plan_on_cpu(lockstep, max(3, rounds))
