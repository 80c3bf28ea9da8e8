"""The host probe (LD_PRELOAD) in a process of its own: which calls it writes down, and that it
changes none.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

BINARY = os.environ["LOCKSTEP_BINARY"]
PROBE = os.path.join(
    os.path.dirname(os.path.dirname(BINARY)), "lib", "lockstep", "liblockstep_host_probe.so"
)

if not os.path.exists(PROBE):
    print(
        "skipped: no host probe in this build; one that is loaded before a sanitizer's runtime would end the program"
    )
    sys.exit(77)

HEADER_BYTES = RECORD_BYTES = 256
DATA_WAIT, SYNC, LOGGING, CHECKPOINT, OTHER = 0, 7, 8, 9, 12
WAITS_FOR_GPU = os.path.join(os.environ["LOCKSTEP_TEST_TOOLS"], "cudart", "libwaits_for_gpu.so")

# The probe is silent in processes without torch: a library with its name stands in for it.
AS_IF_TORCH = """
import ctypes, os, sys, time
ctypes.CDLL("./libc10.so")
libc = ctypes.CDLL(None, use_errno=True)
time.sleep(0.6)  # it looks for torch five times a second, later where cores are taken


def later(seconds, do):
    if os.fork() == 0:
        time.sleep(seconds)
        do()
        os._exit(0)
"""


class Span:
    def __init__(self, payload):
        self.begin, self.end, self.busy, self.bytes, _, self.count, self.part = struct.unpack_from(
            "<5Q2I", payload
        )
        self.what = payload[64:96].split(b"\0")[0].decode()
        self.file = payload[96:240].split(b"\0")[0].decode()
        self.ms = (self.end - self.begin) / 1e6


class HostProbe(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.rings = os.path.join(self.folder.name, "rings")
        os.mkdir(self.rings, 0o700)
        with open("/proc/self/maps", encoding="utf-8") as maps:
            library = next(
                path
                for line in maps
                if (path := line.split()[-1]).startswith("/") and ".so" in path
            )
        shutil.copy(library, os.path.join(self.folder.name, "libc10.so"))

    def tearDown(self):
        self.folder.cleanup()

    def run_python(self, code, probe="host", torch=True, rings=None, **environment):
        given = dict(
            os.environ,
            LD_PRELOAD=PROBE,
            LOCKSTEP_PROBE=probe,
            LOCKSTEP_PROBE_FOLDER=rings or self.rings,
            **environment,
        )
        return subprocess.run(
            [sys.executable, "-S", "-c", (AS_IF_TORCH if torch else "import os, time\n") + code],
            env=given,
            cwd=self.folder.name,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def spans(self):
        spans = []
        for name in os.listdir(self.rings):
            self.assertEqual(os.stat(os.path.join(self.rings, name)).st_mode & 0o777, 0o600)
            with open(os.path.join(self.rings, name), "rb") as file:
                content = file.read()
            for at in range(HEADER_BYTES, len(content), RECORD_BYTES):
                sequence, kind = struct.unpack_from("<QI", content, at)
                if sequence and kind == 2:
                    spans.append(Span(content[at + 16 : at + RECORD_BYTES]))
        return spans

    def named(self, what):
        return [span for span in self.spans() if span.what == what]

    def test_a_read_that_waits_is_written_with_its_length_and_not_taken_for_data(self):
        run = self.run_python(
            "r, w = os.pipe()\nlater(0.05, lambda: os.write(w, b'x'))\nprint(os.read(r, 10))\n"
        )
        self.assertEqual(run.stdout, "b'x'\n")
        reads = [span for span in self.named("read") if span.file.startswith("pipe:")]
        self.assertEqual(len(reads), 1)
        self.assertTrue(40 < reads[0].ms < 500, reads[0].ms)
        self.assertEqual((reads[0].part, reads[0].bytes), (OTHER, 1))

    def test_a_log_that_is_flushed_to_the_disk_is_logging_and_weights_are_a_checkpoint(self):
        self.run_python(
            "for name in ('run.log', 'weights.pt'):\n    for _ in range(30):\n        f = os.open(name, os.O_WRONLY | os.O_CREAT)\n        os.write(f, b'x' * 3_000_000 if name == 'weights.pt' else b'x')\n        os.fsync(f)\n        os.close(f)\n"
        )
        flushed = self.named("fsync")
        if not flushed:
            self.skipTest("fsync takes less than 50 microseconds on this disk")
        for span in flushed:
            self.assertEqual(
                span.part, CHECKPOINT if span.file.endswith("weights.pt") else LOGGING, span.file
            )
        self.assertTrue(
            any(span.part == CHECKPOINT and span.bytes == 3_000_000 for span in self.named("write"))
        )

    def test_stdio_passes_no_symbol_inside_and_is_seen_at_its_own_calls(self):
        code = (
            "libc.fopen.restype = ctypes.c_void_p\nf = libc.fopen(b'big.bin', b'w')\ndata = ctypes.create_string_buffer(20_000_000)\n"
            "n = libc.fwrite(data, 1, 20_000_000, ctypes.c_void_p(f))\nlibc.fclose(ctypes.c_void_p(f))\nprint(n, os.path.getsize('big.bin'))\n"
        )
        run = self.run_python(code)
        self.assertEqual(run.stdout, "20000000 20000000\n")
        writes = self.named("fwrite")
        self.assertEqual([(span.part, span.bytes) for span in writes], [(CHECKPOINT, 20_000_000)])

    def test_waits_for_sockets_and_semaphores_are_written(self):
        self.run_python(
            "import select\np = select.poll()\nr, w = os.pipe()\np.register(r)\np.poll(30)\ne = select.epoll()\ne.register(r)\ne.poll(0.03)\n"
            "s = ctypes.create_string_buffer(64)\nlibc.sem_init(s, 1, 0)\nclass T(ctypes.Structure): _fields_ = [('s', ctypes.c_long), ('n', ctypes.c_long)]\n"
            "libc.sem_timedwait(s, ctypes.byref(T(int(time.time()) + 1, 0)))\n"
        )
        names = {span.what for span in self.spans() if span.ms > 20}
        self.assertLessEqual({"poll", "epoll_wait", "sem_timedwait"}, names)

    def test_waits_for_a_gpu_are_written_of_any_thread(self):
        """CUDA's runtime arrives with torch, where the loader's RTLD_NEXT does not see it."""
        wait = f"w = ctypes.CDLL({WAITS_FOR_GPU!r}).waits_for_gpu\nprint(w(40))\n"
        run = self.run_python(
            wait
            + "import threading\nt = threading.Thread(target=w, args=(50,))\nt.start()\nt.join()\n"
        )
        self.assertEqual(run.stdout, "0\n", run.stderr)
        waits = [span for span in self.spans() if span.part == SYNC]
        self.assertEqual(
            sorted(span.what for span in waits),
            ["cudaDeviceSynchronize"] * 2
            + ["cudaEventSynchronize"] * 2
            + ["cudaStreamSynchronize"] * 2,
        )
        self.assertGreater(max(span.ms for span in waits), 45)

    def test_errors_and_results_are_as_ever(self):
        run = self.run_python(
            "import errno\ntry:\n    os.open('missing/file', os.O_RDONLY)\nexcept OSError as e:\n    print(errno.errorcode[e.errno])\n"
            "r, w = os.pipe()\nos.set_blocking(r, False)\ntry:\n    os.read(r, 1)\nexcept BlockingIOError:\n    print('again')\n"
            "os.close(os.open('made', os.O_WRONLY | os.O_CREAT, 0o640))\nprint(oct(os.stat('made').st_mode & 0o777))\n"
        )
        self.assertEqual(run.stdout.split(), ["ENOENT", "again", "0o640"])

    def test_other_threads_forked_children_and_programs_without_torch_are_left_alone(self):
        wait = "r, w = os.pipe()\n"
        self.run_python(
            wait
            + "import threading\nt = threading.Thread(target=lambda: (time.sleep(0.05), os.write(w, b'x')))\nu = threading.Thread(target=lambda: os.read(r, 1))\nt.start(); u.start()\nwhile u.is_alive(): pass\n"
        )
        self.assertEqual([span for span in self.named("read") if span.file.startswith("pipe:")], [])
        self.run_python(
            wait
            + "if os.fork() == 0:\n    os.read(r, 1)\n    os._exit(0)\nend = time.time() + 0.1\nwhile time.time() < end: pass\nos.write(w, b'x')\nos.wait()\n"
        )
        self.assertEqual([span for span in self.named("read") if span.file.startswith("pipe:")], [])
        for name in os.listdir(self.rings):
            os.unlink(os.path.join(self.rings, name))
        self.run_python(
            "time.sleep(0.3)\nr, w = os.pipe()\nif os.fork() == 0:\n    time.sleep(0.05)\n    os.write(w, b'x')\n    os._exit(0)\nos.read(r, 1)\n",
            torch=False,
        )
        self.assertEqual(os.listdir(self.rings), [])

    def test_where_it_is_not_asked_for_or_has_no_folder_the_program_runs_as_if_it_were_not_there(
        self,
    ):
        code = "r, w = os.pipe()\nlater(0.05, lambda: os.write(w, b'x'))\nprint(os.read(r, 10))\n"
        run = self.run_python(code, probe="python")
        self.assertEqual((run.stdout, run.stderr, os.listdir(self.rings)), ("b'x'\n", "", []))
        run = self.run_python(code, rings=os.path.join(self.folder.name, "missing"))
        self.assertEqual((run.returncode, run.stdout), (0, "b'x'\n"))
        self.assertEqual(run.stderr.count("the host probe stops: its folder is missing"), 1)


if __name__ == "__main__":
    second_try.main()
