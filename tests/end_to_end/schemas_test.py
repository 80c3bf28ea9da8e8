"""Reports and recordings follow the JSON Schemas in docs/formats."""

import json
import os
import subprocess
import sys
import tempfile

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
SOURCE = os.environ["LOCKSTEP_SOURCE_DIR"]
PYTHON = os.path.join(os.environ["LOCKSTEP_PEERS"], "bin", "python")

try:
    import jsonschema
except ImportError:
    if os.path.exists(PYTHON) and os.path.realpath(sys.prefix) != os.path.realpath(
        os.environ["LOCKSTEP_PEERS"]
    ):
        os.execv(PYTHON, [PYTHON, *sys.argv])
    print(
        "skipped: the Python package jsonschema is not installed; scripts/setup --tests does that"
    )
    sys.exit(77)


def schema(name):
    with open(os.path.join(SOURCE, "docs", "formats", name)) as file:
        loaded = json.load(file)
    jsonschema.Draft202012Validator.check_schema(loaded)
    return jsonschema.Draft202012Validator(loaded)


def complaints(validator, instance):
    return [
        f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(instance)
    ]


def lockstep(*arguments):
    environment = dict(os.environ, LOCKSTEP_VIRTUAL_SCOPE=f"schemas-{os.getpid()}")
    return subprocess.run(
        [LOCKSTEP, *arguments], capture_output=True, text=True, check=True, env=environment
    ).stdout


report = schema("report.schema.json")
line = schema("recording.schema.json")
plan = schema("plan.schema.json")

for words in (
    ["--gpus", "8xH100-80GB", "--nodes", "4", "--model", "llama-8b", "--tokens", "50B"],
    ["--params", "1M"],
    ["--gpus", "2xA100-80GB", "--model", "gpt2", "--method", "lora"],
):
    seen = complaints(plan, json.loads(lockstep("plan", *words, "--json")))
    assert not seen, seen
print("ok: plans follow their schema")

seen = complaints(report, json.loads(lockstep("monitor", "--once", "--json", "virtual:2")))
assert not seen, seen
broken = json.loads(lockstep("monitor", "--once", "--json", "virtual:2"))
broken["gpus"][0]["busy"] = "75%"
assert complaints(report, broken), "the schema lets a percentage in a string pass"
print("ok: the report follows its schema, and the schema refuses a string where a number belongs")


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "train.py"), "w") as file:
        file.write(
            'from transformers import AutoModel, Trainer\nmodel = AutoModel.from_pretrained("x", device_map="auto")\n'
            "trainer = Trainer(model=model)\ntrainer.train()\n"
        )
    with open(os.path.join(folder, "run.sh"), "w") as file:  # a map goes with its launch line
        file.write("torchrun --nproc_per_node=2 train.py\n")
    os.mkdir(os.path.join(folder, "vendor"))  # found there, and not edited
    with open(os.path.join(folder, "vendor", "other.py"), "w") as file:
        file.write(
            "from transformers import AutoModel, Trainer, TrainingArguments\n"
            "Trainer(AutoModel.from_pretrained('x'), TrainingArguments('out', logging_steps=1)).train()\n"
        )
    patches = json.loads(lockstep("fix", "--json", folder))
    proof = subprocess.run(
        [LOCKSTEP, "fix", ".", "--verify", "--unsafe", "--rounds", "2", "--json", "--", "true"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert proof.returncode in (0, 1), proof.stderr
    verified = json.loads(proof.stdout)
assert patches["findings"] and patches["not_measured"], patches
seen = complaints(report, patches)
assert not seen, seen
seen = complaints(report, verified)
assert not seen, seen
assert len(verified["verification"]["variants"]) == 2, verified["verification"]
print("ok: patches and their proof follow the report's schema")


with tempfile.TemporaryDirectory() as folder:
    sys.path.insert(0, os.path.join(SOURCE, "scripts", "lib"))
    import tracing  # noqa: E402  (a trace as the profiler writes it)

    for name in ("before", "after"):
        tracing.write_trace(os.path.join(folder, name + ".json.gz"), 4000)
    traced = subprocess.run(
        [
            LOCKSTEP,
            "diagnose",
            os.path.join(folder, "before.json.gz"),
            "--against",
            os.path.join(folder, "after.json.gz"),
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    traced = json.loads(traced.stdout)
assert traced["trace"]["ranks"] and traced["comparison"]["changes"], traced
seen = complaints(report, traced)
assert not seen, seen
print("ok: what a trace comes to follows the report's schema")


def diagnosis(situation, *arguments):
    """The report of a generated run; diagnose ends with 1 when it finds something."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.jsonl")
        with open(path, "w") as file:
            subprocess.run(
                [
                    sys.executable,
                    "-B",
                    f"{SOURCE}/scripts/lib/situations.py",
                    situation,
                    "full",
                    "1",
                ],
                stdout=file,
                check=True,
            )
            for step in range(30):
                for rank in range(2):
                    file.write(
                        json.dumps(
                            {
                                "t_ms": 1e6 + step,
                                "step": {
                                    "rank": rank,
                                    "index": step,
                                    "duration_ms": 80.0,
                                    "spans_ms": {"data_wait": 20, "forward": 30, "backward": 30},
                                },
                            }
                        )
                        + "\n"
                    )
        end = subprocess.run(
            [
                LOCKSTEP,
                "diagnose",
                path,
                "--json",
                "--quiet",
                *[word.replace("RUN", path) for word in arguments],
            ],
            capture_output=True,
            text=True,
        )
        assert end.returncode in (0, 1), end.stderr
        return json.loads(end.stdout)


for situation in (
    "turns_long",
    "ddp_healthy",
    "data_parallel",
    "straggler_gpu",
    "xid_event",
    "all_idle",
):
    seen = complaints(report, diagnosis(situation, "--against", "RUN"))
    assert not seen, (situation, seen)
whole = diagnosis("ddp_healthy", "--against", "RUN")
assert {"steps", "comparison", "checklist"} <= whole.keys(), whole.keys()
print("ok: diagnoses follow the schema, with steps, comparison and checklist")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "run.jsonl")
    lockstep("record", "--quiet", "-o", path, "virtual:2", "--duration", "2500ms")
    lines = [json.loads(text) for text in open(path)]
for number, entry in enumerate(lines, 1):
    assert not complaints(line, entry), (number, complaints(line, entry))
kinds = {key for entry in lines for key in entry}
assert {"lockstep_recording", "gpus", "processes"} <= kinds, kinds
assert complaints(line, {"t_ms": 1.0, "gpus": [{"index": 0, "busy": 97}]}), (
    "the schema lets 97 pass for a fraction"
)
print(
    f"ok: {len(lines)} lines of a recording follow their schema, and the schema refuses a percentage"
)

# What the second rung adds, from a real GPU: lines of recordings, and the report of them.
for name in ("records-launch-bound", "records-one-rank-of-nccl"):
    path = f"{SOURCE}/tests/recordings/h200/{name}.jsonl.zst"
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "run.jsonl")
        lockstep("record", path, "--quiet", "-o", plain)
        for number, text in enumerate(open(plain), 1):
            assert not complaints(line, json.loads(text)), (
                name,
                number,
                complaints(line, json.loads(text)),
            )
    end = subprocess.run(
        [LOCKSTEP, "diagnose", path, "--json", "--quiet"], capture_output=True, text=True
    )
    found = json.loads(end.stdout)
    assert not complaints(report, found), (name, complaints(report, found))
    assert "on_gpus" in found["steps"], name
assert found["communicators"]["nccl_version"] == "2.28.9", found["communicators"]
print("ok: what GPUs and NCCL said themselves follows the schemas")
