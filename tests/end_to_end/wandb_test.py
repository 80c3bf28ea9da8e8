"""Run files written by Weights & Biases' own classes are read: whole, cut at any byte, and in
pieces over blocks.
"""

import json
import os
import subprocess
import sys
import tempfile

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
PEERS_PYTHON = os.path.join(os.environ["LOCKSTEP_PEERS"], "bin/python")

WRITER = """
import json, sys
from wandb.sdk.internal import datastore
from wandb.proto import wandb_internal_pb2 as pb

store = datastore.DataStore()
store.open_for_write(sys.argv[1])
record = pb.Record()
item = record.run.config.update.add()
item.key, item.value_json = "logging_steps", "1"
store.write(record)
for row in range(200):
    record = pb.Record()
    record.stats.timestamp.FromJsonString("2025-01-31T12:%02d:%02dZ" % (row * 15 // 60, row * 15 % 60))
    values = {"cpu": 12.5}
    for gpu, busy in enumerate((71, 10, 10, 9)):
        values |= {f"gpu.{gpu}.gpu": busy, f"gpu.{gpu}.memoryAllocated": 90.0, f"gpu.{gpu}.memoryAllocatedBytes": 15e9,
                   f"gpu.{gpu}.temp": 50, f"gpu.{gpu}.powerWatts": 40.0, f"gpu.{gpu}.enforcedPowerLimitWatts": 70.0,
                   f"gpu.process.{gpu}.gpu": busy}
    values["note"] = "x" * (40000 if row == 100 else 10)  # longer than a block of 32 KiB
    for key, value in values.items():
        item = record.stats.item.add()
        item.key, item.value_json = key, json.dumps(value)
    store.write(record)
store.close()
"""


def diagnose(path):
    end = subprocess.run(
        [LOCKSTEP, "diagnose", path, "--json", "--quiet"], capture_output=True, text=True
    )
    return end.returncode, json.loads(end.stdout) if end.stdout else None, end.stderr


def main():
    if (
        not os.path.exists(PEERS_PYTHON)
        or subprocess.run(
            [PEERS_PYTHON, "-c", "import wandb.sdk.internal.datastore"], capture_output=True
        ).returncode
        != 0
    ):
        print(
            "skipped: wandb is not installed in the peers' virtual environment (scripts/setup --tests)"
        )
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run-abc.wandb")
        subprocess.run([PEERS_PYTHON, "-c", WRITER, path], check=True)
        code, report, errors = diagnose(path)
        assert code == 1, (code, errors)
        assert report["source"]["kind"] == "wandb", report["source"]
        assert report["verdict"]["pattern"] == "taking-turns", report["verdict"]
        assert "P101" in [finding["code"] for finding in report["findings"]]
        assert "S302" in [suspicion["code"] for suspicion in report["suspicions"]], (
            "logging_steps=1 stands in the run's config"
        )
        assert len(report["gpus"]) == 4 and abs(report["gpus"][0]["busy"] - 0.71) < 0.01, report[
            "gpus"
        ]
        assert abs(report["duration_s"] - 199 * 15) < 1, report["duration_s"]

        whole = open(path, "rb").read()
        for cut in range(7, len(whole), len(whole) // 40):
            with open(path, "wb") as file:
                file.write(whole[:cut])
            code, _, errors = diagnose(path)
            assert code in (0, 1, 3), (cut, code, errors)
    print("a run file of W&B's own classes is read, whole and cut")


main()
