"""Two recordings of one GPU become one of two GPUs that never were: the second's readings are GPU 1's, shifted in time.

usage: merge.py FIRST.jsonl SECOND.jsonl SHIFT_MS one-process|two-processes > MERGED.jsonl

one-process: one program on both, as device_map="auto" has it. two-processes: ranks 0 and 1 of a world of two. The header's host says
what it is.
"""

import json
import sys


def lines(path):
    with open(path) as stream:
        return [json.loads(line) for line in stream]


def moved(line, shift, index):
    line = json.loads(json.dumps(line))
    line["t_ms"] = round(line["t_ms"] - shift, 3)
    for gpu in line.get("gpus", []):
        gpu["index"] = index
        if gpu.get("power_first_ms") is not None:
            gpu["power_first_ms"] = round(gpu["power_first_ms"] - shift, 3)
    for process in line.get("processes", []):
        for use in process["gpus"]:
            use["index"] = index
    return line


def processes_of(own, other, how):
    """Both GPUs' processes at one moment, as one program's or as two ranks'."""
    if how == "one-process":
        for mine in own["processes"]:
            mine["gpus"] += [{**use, "index": 1} for use in mine["gpus"]]
        return [own]
    for rank, line in enumerate((own, other)):
        for process in line["processes"]:
            process.update(
                pid=process["pid"] + rank * 100_000, rank=rank, local_rank=rank, world_size=2
            )
            process["environment"] = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29500",
            }
    return [{"t_ms": own["t_ms"], "processes": own["processes"] + other["processes"]}]


def main(first, second, shift, how):
    a, b = lines(first), lines(second)
    header = a[0]
    header["host"] = "two recordings of one GPU, merged"
    header["gpus"].append(
        {**b[0]["gpus"][0], "index": 1, "uuid": header["gpus"][0]["uuid"][:-1] + "x"}
    )
    print(json.dumps(header, separators=(",", ":")))
    theirs = [moved(line, float(shift), 1) for line in b[1:]]
    their_processes = next((line for line in theirs if "processes" in line), None)
    merged = [line for line in theirs if "gpus" in line]
    for line in a[1:]:
        if "processes" not in line:
            merged.append(line)
        elif their_processes is not None:
            merged += processes_of(line, json.loads(json.dumps(their_processes)), how)
    end = min(a[-1]["t_ms"], theirs[-1]["t_ms"])
    for line in sorted(merged, key=lambda line: line["t_ms"]):
        if 0 <= line["t_ms"] <= end:
            print(json.dumps(line, separators=(",", ":")))


main(*sys.argv[1:])
