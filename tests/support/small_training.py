"""A training of a second or two with lockstep-train, the same alone and on several machines."""

import json
import os
import subprocess

FLAGS = [
    "--device",
    "cpu",
    "--layers",
    "2",
    "--heads",
    "2",
    "--width",
    "32",
    "--sequence-length",
    "16",
    "--dataset-size",
    "4096",
    "--log-every",
    "1",
    "--log-format",
    "json",
    "--workers",
    "1",
    "--batch-size",
    "4",
]


def steps_in(text):
    return [json.loads(line)["step"] for line in text.splitlines() if line.startswith("{")]


def losses_in(text):
    """By step; of a step that was made twice the last."""
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {line["step"]: line["loss"] for line in found if "done" not in line}


def alone(folder, *flags):
    """In one process, with the batch of two ranks: what they must come to."""
    done = subprocess.run(
        [os.path.join(folder, "lockstep-train"), *FLAGS, *flags, "--batch-size", "8"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return losses_in(done.stdout)


class SameLosses:
    """For test cases: floats are added in another order, so the last digit may differ."""

    def near(self, one, other):
        self.assertEqual(one.keys(), other.keys())
        self.assertLess(max(abs(one[step] - other[step]) for step in one), 2e-6)
