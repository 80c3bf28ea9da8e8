"""lockstep demo tells its story on real load: turns before, in step after, both on one page. Speed
is scripts/bench's matter.
"""

import json
import os
import subprocess
import sys
import tempfile

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
TRAIN = os.path.join(os.path.dirname(LOCKSTEP), "lockstep-train")


def demo_tells_its_story(folder):
    page = os.path.join(folder, "page.html")
    done = subprocess.run(
        [LOCKSTEP, "demo", "--duration", "6s", "--json", "-o", page],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
    )
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    story = json.loads(done.stdout)
    before, after = story["before"]["report"], story["after"]["report"]
    assert (
        before["verdict"]["pattern"] == "taking-turns" and before["source"]["kind"] == "virtual"
    ), before["verdict"]
    assert "P101" in [finding["code"] for finding in before["findings"]]
    assert before["steps"]["count"] > 5 and after["steps"]["count"] > 5, (
        "the trainer's step marks are in the report"
    )
    assert after["verdict"]["pattern"] == "in-step", after["verdict"]
    assert [rank["rank"] for rank in after["steps"]["ranks"]] == [0, 1]
    assert (
        abs(story["speedup"] - story["after"]["tokens_per_s"] / story["before"]["tokens_per_s"])
        < 1e-3
    ), story["speedup"]
    assert done.returncode == (1 if after["findings"] else 0), (done.returncode, after["findings"])
    html = open(page).read()
    assert (
        f"speedup: {story['speedup']:.2f}x" in html
        and "taking-turns" in html
        and "in-step" in html
        and "virtual" in html
    )
    for word in ("1/3", "2/3", "3/3"):
        assert word in done.stderr, done.stderr
    print(
        f"  speedup {story['speedup']:.2f}x, findings after: {[finding['code'] for finding in after['findings']]}"
    )


def steps_are_recorded(folder):
    file = os.path.join(folder, "run.jsonl")
    command = [
        TRAIN,
        "--device",
        "cpu",
        "--layers",
        "2",
        "--heads",
        "2",
        "--width",
        "64",
        "--sequence-length",
        "64",
        "--steps",
        "100000",
        "--accumulation",
        "2",
        "--workers",
        "0",
        "--preload",
    ]
    environment = dict(os.environ, LOCKSTEP_VIRTUAL_SCOPE=f"steps-{os.getpid()}")
    # 500 steps are six seconds on a fast machine: processes are looked for every two.
    done = subprocess.run(
        [
            LOCKSTEP,
            "record",
            "-o",
            file,
            "--duration",
            "5s",
            "virtual:1",
            "--",
            *command,
            "--steps",
            "500",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode in (0, 4), done.stderr
    steps = [json.loads(line)["step"] for line in open(file) if '"step":' in line]
    assert len(steps) > 10, done.stderr
    indices = [step["index"] for step in steps]
    assert indices == sorted(set(indices)), "in order, none twice"
    for step in steps:
        parts = {
            name: value for name, value in step["spans_ms"].items() if name != "collective_hidden"
        }
        assert abs(sum(parts.values()) - step["duration_ms"]) < 0.01 * step["duration_ms"] + 0.01, (
            step
        )
    updates = [step["spans_ms"]["optimizer"] > 0 for step in steps]
    assert 0.4 < sum(updates) / len(updates) < 0.6, "every other pass ends an update"
    report = json.loads(
        subprocess.run(
            [LOCKSTEP, "diagnose", file, "--json"], capture_output=True, text=True, timeout=60
        ).stdout
    )
    assert report["steps"]["count"] == len(steps), (report["steps"]["count"], len(steps))
    print(f"  {len(steps)} steps recorded and read back")


if not os.path.exists(TRAIN):
    print("skipped: this build has no lockstep-train (no libtorch)")
    sys.exit(77)
for part in (demo_tells_its_story, steps_are_recorded):
    print(part.__name__.replace("_", " "))
    with tempfile.TemporaryDirectory() as folder:
        part(folder)
