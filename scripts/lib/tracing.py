"""scripts/bench traces: a profiler's trace read and broken down, against HolisticTraceAnalysis on
the same file in the same run.
"""

import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HTA = "HolisticTraceAnalysis==0.5.0"

# Its four reports, as a user would ask for them.
HTA_PROGRAM = """
import logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
print(analysis.get_temporal_breakdown(visualize=False).to_json(orient="records"))
analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
"""

KERNELS = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct, float const*)",
    "void layer_norm_grad_input_kernel<float>(float const*, float*)",
]
OPERATORS = ["aten::linear", "aten::add_", "aten::native_layer_norm", "aten::gelu"]


def write_trace(path, rows, seed=1):
    """Steps of 400 launches: an operator, its inner one, the call and the kernel, with the flows
    that Kineto draws between them.
    """
    rng = random.Random(seed)
    events = []
    base = 1_690_000_000_000_000
    host, gpu, correlation, step, made = 0, 0, 0, 0, 0
    while made < rows:
        step += 1
        begin = host
        for launch in range(400):
            correlation += 1
            which = rng.randrange(len(KERNELS))
            length = rng.randrange(4, 60)
            start = max(host + 12, gpu + 1)
            external = {
                "External id": correlation,
                "Ev Idx": correlation,
                "Fwd thread id": 0,
                "Sequence number": launch,
            }
            events.append(
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": OPERATORS[which],
                    "pid": 77,
                    "tid": 77,
                    "ts": base + host,
                    "dur": 24,
                    "args": external,
                }
            )
            events.append(
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": "aten::empty",
                    "pid": 77,
                    "tid": 77,
                    "ts": base + host + 1,
                    "dur": 3,
                    "args": external,
                }
            )
            events.append(
                {
                    "ph": "X",
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernel",
                    "pid": 77,
                    "tid": 77,
                    "ts": base + host + 6,
                    "dur": 5,
                    "args": {"External id": correlation, "cbid": 211, "correlation": correlation},
                }
            )
            events.append(
                {
                    "ph": "s",
                    "id": correlation,
                    "pid": 77,
                    "tid": 77,
                    "ts": base + host + 6,
                    "cat": "ac2g",
                    "name": "ac2g",
                }
            )
            kernel = (
                KERNELS[which]
                if launch % 40
                else "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            )
            stream = 7 if launch % 40 else 20
            events.append(
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": kernel,
                    "pid": 0,
                    "tid": stream,
                    "ts": base + start,
                    "dur": length,
                    "args": {
                        "External id": correlation,
                        "queued": 0,
                        "device": 0,
                        "context": 1,
                        "stream": stream,
                        "correlation": correlation,
                        "registers per thread": 32,
                        "shared memory": 0,
                        "blocks per SM": 12.5,
                        "warps per SM": 50.0,
                        "grid": [1024, 1, 1],
                        "block": [128, 1, 1],
                        "est. achieved occupancy %": 78,
                    },
                }
            )
            events.append(
                {
                    "ph": "f",
                    "id": correlation,
                    "pid": 0,
                    "tid": stream,
                    "ts": base + start,
                    "cat": "ac2g",
                    "name": "ac2g",
                    "bp": "e",
                }
            )
            made += 4
            gpu = start + length
            host += 26
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 77,
                "tid": 77,
                "ts": base + begin,
                "dur": host - begin,
                "args": {"External id": 0},
            }
        )
        host += 40
    with gzip.open(path, "wt", compresslevel=4) as out:
        out.write(
            '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 85899345920, "computeMajor": 8}],\n"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},\n"traceEvents": [\n'
        )
        out.write(",\n".join(json.dumps(event) for event in events))
        out.write("\n]}\n")


def measured(command):
    """Seconds of wall time and MiB at the peak."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"bench: {command[0]} ended with {process.returncode}")
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def hta_python(cache):
    folder = os.path.join(cache, "hta")
    python = os.path.join(folder, "bin", "python")
    if (
        subprocess.run(
            [python, "-c", "import hta.trace_analysis"], capture_output=True, check=False
        ).returncode
        if os.path.exists(python)
        else True
    ):
        print(f"installing {HTA} into {folder}")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", HTA], check=True)
    return python


def bench_traces(lockstep, cache, rounds):
    python = hta_python(cache)
    with tempfile.TemporaryDirectory() as folder:
        for rows, times in ((100_000, rounds), (1_200_000, 1)):
            trace = os.path.join(folder, f"rank0_{rows}.json.gz")
            # In a process of its own: a child's peak counts what its parent held when it was
            # forked.
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    "import sys; sys.path.insert(0, sys.argv[1]); import tracing; tracing.write_trace(sys.argv[2], int(sys.argv[3]))",
                    os.path.dirname(os.path.abspath(__file__)),
                    trace,
                    str(rows),
                ],
                check=True,
            )
            ours, theirs = [], []
            for _ in range(times):
                ours.append(measured([lockstep, "diagnose", trace, "--json"]))
                theirs.append(measured([python, "-c", HTA_PROGRAM, trace]))
            if times < rounds:
                ours += [
                    measured([lockstep, "diagnose", trace, "--json"]) for _ in range(rounds - times)
                ]
            own_s, own_mib = (statistics.median(column) for column in zip(*ours))
            hta_s, hta_mib = (statistics.median(column) for column in zip(*theirs))
            print(
                f"{rows:>9} rows, {os.path.getsize(trace) / 1e6:.1f} MB gzip: lockstep {own_s:.3f} s, {own_mib:.0f} MiB; HTA {hta_s:.2f} s, {hta_mib:.0f} MiB: {hta_s / own_s:.0f} x faster, {hta_mib / own_mib:.1f} x less memory"
            )
