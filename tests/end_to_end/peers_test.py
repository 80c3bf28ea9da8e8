"""nvitop and gpustat, unchanged, on virtual GPUs: they must print the figures that lockstep prints.

Exactly on a played recording with plateaus and a common start; within 10 points under a constant CPU load.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
PEERS = os.environ["LOCKSTEP_PEERS"]
LOAD = os.path.join(os.environ["LOCKSTEP_TEST_TOOLS"], "vgpu_load")
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(LOCKSTEP)), "lib", "lockstep", "virtual")

if not os.path.exists(os.path.join(PEERS, "bin", "nvitop")):
    print(
        f"skipped: nvitop and gpustat are not installed in {PEERS}; scripts/setup --tests does that"
    )
    sys.exit(77)


def environment(virtual, **more):
    result = dict(
        os.environ, LOCKSTEP_VIRTUAL=virtual, LD_LIBRARY_PATH=LIBRARY, TERM="xterm", COLUMNS="120"
    )
    result.update(more)
    return result


def run(command, env):
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    assert "Traceback" not in done.stderr and "ERROR" not in done.stderr, done.stderr
    return done.stdout


def lockstep_figures(virtual, env):
    report = json.loads(run([LOCKSTEP, "monitor", "--once", "--json", f"virtual:{virtual}"], env))
    return [
        {
            "busy": round(gpu["busy"] * 100),
            "power_w": round(gpu["power_mw"] / 1000),
            "memory_mib": gpu["memory_used_bytes"] >> 20,
            "temperature": round(gpu["temperature_c"]),
        }
        for gpu in report["gpus"]
    ]


def gpustat_figures(env):
    report = json.loads(run([f"{PEERS}/bin/gpustat", "--json"], env))
    return [
        {
            "busy": gpu["utilization.gpu"],
            "power_w": gpu["power.draw"],
            "memory_mib": gpu["memory.used"],
            "temperature": gpu["temperature.gpu"],
        }
        for gpu in report["gpus"]
    ]


def nvitop_figures(env):
    """Reads nvitop's one-shot screen: a line of temperature, power, memory and utilization a
    GPU.
    """
    units = {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
    figures = []
    for line in run([f"{PEERS}/bin/nvitop", "-1", "--ascii"], env).splitlines():
        found = re.search(r"(\d+)C .*?(\d+)W / \d+W.*?([\d.]+)([KMG]iB) / .*?(\d+)%", line)
        if found:
            temperature, power, memory, unit, busy = found.groups()
            figures.append(
                {
                    "busy": int(busy),
                    "power_w": int(power),
                    "memory_mib": round(float(memory) * units[unit]),
                    "temperature": int(temperature),
                }
            )
    return figures


def check(name, seen, expected, points):
    assert len(seen) == len(expected), f"{name} shows {len(seen)} GPUs of {len(expected)}: {seen}"
    for gpu, (theirs, ours) in enumerate(zip(seen, expected)):
        for key, value in ours.items():
            assert abs(theirs[key] - value) <= points.get(key, 0), (
                f"{name}, GPU {gpu}, {key}: {theirs[key]} and not {value}"
            )
    print(f"{name}: {seen}")


def played_recording():
    plateaus = [
        (0.25, 200_000, 3 << 30, 41),
        (1.0, 650_000, 70 << 30, 66),
        (0.0, 70_000, 1 << 30, 30),
    ]
    header = {
        "lockstep_recording": 1,
        "started_unix_ns": 0,
        "host": "h",
        "driver": "580.1",
        "gpus": [
            {
                "index": i,
                "uuid": f"GPU-{i}",
                "name": "NVIDIA H200",
                "memory_total_bytes": 150 << 30,
                "power_limit_mw": 700_000,
                "busy_window_ms": 200,
            }
            for i in range(len(plateaus))
        ],
    }
    lines = [json.dumps(header)]
    for tick in range(600):
        gpus = [
            {
                "index": i,
                "busy": busy,
                "power_mw": power,
                "memory_used_bytes": memory,
                "temperature_c": temperature,
                "sm_clock_mhz": 1980,
            }
            for i, (busy, power, memory, temperature) in enumerate(plateaus)
        ]
        lines.append(json.dumps({"t_ms": tick * 100.0, "gpus": gpus}))
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as file:
        file.write("\n".join(lines) + "\n")
    return file.name, [
        {
            "busy": round(busy * 100),
            "power_w": power // 1000,
            "memory_mib": memory >> 20,
            "temperature": temperature,
        }
        for busy, power, memory, temperature in plateaus
    ]


def test_on_a_played_recording_all_print_the_recorded_figures():
    file, expected = played_recording()
    try:
        env = environment(file, LOCKSTEP_VIRTUAL_START_NS=str(time.monotonic_ns()))
        check("lockstep on a recording", lockstep_figures(file, env), expected, {})
        check("gpustat on a recording", gpustat_figures(env), expected, {})
        # nvitop prints memory with four figures.
        check("nvitop on a recording", nvitop_figures(env), expected, {"memory_mib": 8})
    finally:
        os.unlink(file)


def test_under_a_constant_load_all_agree_within_ten_points():
    scope = f"peers-{os.getpid()}"
    env = environment("2", LOCKSTEP_VIRTUAL_SCOPE=scope)
    # Half loads in short periods: what the monitors themselves compute does not push them aside.
    load = subprocess.Popen([LOAD, "60", "0:0.45:10", "1:0.20:10"], env=env)
    try:
        time.sleep(0.5)
        expected = lockstep_figures("2", env)
        for name, figures in (("gpustat", gpustat_figures), ("nvitop", nvitop_figures)):
            check(
                f"{name} under load",
                figures(env),
                expected,
                # 10 points of busy are 24 W
                {"busy": 10, "power_w": 27, "memory_mib": 1, "temperature": 5},
            )
        # On a machine that does something else it is less than 45 and 20; how much of a load is
        # seen is VirtualLoad's to test.
        assert expected[0]["busy"] > expected[1]["busy"] > 0, expected
    finally:
        load.send_signal(signal.SIGKILL)
        load.wait()


for test in (
    test_on_a_played_recording_all_print_the_recorded_figures,
    test_under_a_constant_load_all_agree_within_ten_points,
):
    test()
    print(f"ok: {test.__name__}")
