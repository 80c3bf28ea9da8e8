#!/usr/bin/env python3
"""Makes the recordings that the golden screens are drawn from. Run again only to change them: the screens change too.

usage: tests/screens/make_recordings.py LOCKSTEP      (a built lockstep, which compresses them)
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../scripts/lib"))
from gpu_model import recording  # noqa: E402
from situations import make  # noqa: E402

# name: situation, seed, seconds kept
RECORDINGS = {
    "turns": ("turns_long", 3, 9),
    "straggler": ("straggler_gpu", 3, 9),
    "lost": ("lost_gpu", 3, 13),
    "starved": ("ddp_starved", 3, 9),
    "steps": ("ddp_healthy", 3, 9),
    "hot": ("thermal_throttle", 3, 9),
}
PARTS = {
    "data_wait": 0.3,
    "copy": 1.2,
    "forward": 30,
    "backward": 52,
    "collective_exposed": 9,
    "collective_hidden": 20,
    "optimizer": 4,
    "sync": 0.5,
    "logging": 2,
    "other": 1,
}


def lines_of(situation, seed, seconds):
    scene, _ = make(situation, "full", seed)
    lines = recording(scene).splitlines()
    return [lines[0]] + [line for line in lines[1:] if json.loads(line)["t_ms"] <= seconds * 1000]


def with_steps(lines):
    """Four ranks that mark a step every 100 ms, the third of them with a slow loader."""
    steps = []
    for index in range(85):
        for rank in range(4):
            spans = dict(PARTS)
            if rank == 2:
                spans["data_wait"], spans["collective_exposed"] = 9.3, 0
            duration = sum(value for name, value in spans.items() if name != "collective_hidden")
            steps.append(
                {
                    "t_ms": 400 + index * 100 + rank,
                    "step": {
                        "rank": rank,
                        "index": index,
                        "duration_ms": round(duration, 3),
                        "spans_ms": spans,
                    },
                }
            )
    merged = [json.loads(line) for line in lines[1:]] + steps
    merged.sort(key=lambda record: record["t_ms"])
    return lines[:1] + [json.dumps(record, separators=(",", ":")) for record in merged]


def main(lockstep):
    for name, (situation, seed, seconds) in RECORDINGS.items():
        lines = lines_of(situation, seed, seconds)
        if name == "steps":
            lines = with_steps(lines)
        target = os.path.join(HERE, f"{name}.jsonl.zst")
        if os.path.exists(target):
            os.remove(target)
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as plain:
            plain.write("\n".join(lines) + "\n")
            plain.flush()
            subprocess.run([lockstep, "record", "--quiet", plain.name, "-o", target], check=True)


main(*sys.argv[1:])
