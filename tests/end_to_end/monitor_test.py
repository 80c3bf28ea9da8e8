#!/usr/bin/env python3
"""The live screen as a user meets it: the real binary in a terminal of its own, which pyte
emulates.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

SOURCE = os.environ["LOCKSTEP_SOURCE_DIR"]
LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
PEERS = os.environ["LOCKSTEP_PEERS"]
sys.path.insert(0, os.path.join(SOURCE, "scripts/lib"))
try:
    sys.path[1:1] = [
        os.path.join(PEERS, "lib", name, "site-packages")
        for name in os.listdir(os.path.join(PEERS, "lib"))
    ]
    import pyte
except (ImportError, FileNotFoundError):
    print("skipped: pyte, the terminal emulator, is not there; scripts/setup --tests installs it")
    sys.exit(77)
from terminals import InTerminal  # noqa: E402

TURNS = os.path.join(SOURCE, "tests/screens/turns.jsonl.zst")
STRAGGLER = os.path.join(SOURCE, "tests/screens/straggler.jsonl.zst")
PATIENCE_S = 30  # reached by failures only
LEFT_BY = "\x1b[?1049l"


class Terminal:
    """lockstep in a terminal, with what the user would see."""

    def __init__(
        self, *arguments, columns=100, rows=30, environment=None, folder=None, shell=False
    ):
        self.folder = tempfile.mkdtemp(prefix="lockstep-test-") if folder is None else folder
        variables = {
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "XDG_CONFIG_HOME": self.folder,
            "LOCKSTEP_VIRTUAL_SCOPE": f"screen-{os.getpid()}",
        }
        env = {
            name: value
            for name, value in (os.environ | variables | (environment or {})).items()
            if value is not None
        }
        here = os.getcwd()
        os.chdir(self.folder)
        command = [LOCKSTEP, "monitor", *arguments]
        if shell:  # with a shell's job control around it
            command = [
                "bash",
                "--norc",
                "--noprofile",
                "-i",
                "-c",
                "set -m; " + shlex.join(command) + "; read -r line; $line; true",
            ]
        self.program = InTerminal(command, env, columns, rows)
        os.chdir(here)
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.seen = 0
        self.status = None

    def read(self, seconds=0.05):
        self.program.run_for(seconds)
        self.stream.feed(self.program.output[self.seen :])
        self.seen = len(self.program.output)

    def text(self):
        return "\n".join(self.screen.display)

    def until(self, *words, absent=(), patience=PATIENCE_S):
        """Reads until all words are on the screen."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            self.read()
            text = self.text()
            if all(word in text for word in words) and not any(word in text for word in absent):
                return text
        raise AssertionError(f"never saw {words} without {absent}; the screen:\n{self.text()}")

    def press(self, keys):
        self.program.send(keys)

    def resize(self, columns, rows):
        self.program.resize(columns, rows)
        self.screen.resize(rows, columns)

    def wait(self, patience=PATIENCE_S):
        """Its exit code, 128+n for a signal, and how long it took."""
        begin = time.monotonic()
        while time.monotonic() - begin < patience:
            done, status = os.waitpid(self.program.pid, os.WNOHANG)
            if done:
                took = time.monotonic() - begin
                self.read(0.02)
                self.status = os.waitstatus_to_exitcode(status)
                return (self.status if self.status >= 0 else 128 - self.status), took
            self.program.run_for(0.002)
        raise AssertionError("it did not end; the screen:\n" + self.text())

    def close(self):
        if self.status is None:
            try:
                self.program.stop()
            except (ProcessLookupError, ChildProcessError):
                pass
        else:
            os.close(self.program.terminal)


class LiveScreen(unittest.TestCase):
    def open(self, *arguments, **options):
        terminal = Terminal(*arguments, **options)
        self.addCleanup(terminal.close)
        return terminal

    def assertGivenBack(self, terminal):
        """The terminal is as it was: its page, its cursor, its echo."""
        output = terminal.program.output.decode(errors="replace")
        self.assertIn(LEFT_BY, output)
        self.assertGreater(output.rindex("\x1b[?25h"), output.rindex("\x1b[?25l"))
        flags = termios.tcgetattr(terminal.program.terminal)[3]
        self.assertTrue(flags & termios.ECHO and flags & termios.ICANON)

    def open_judged(self, **options):
        """A replay that was watched for long enough to be judged: eight seconds, in one."""
        terminal = self.open(TURNS, **options)
        terminal.until("GPU 0")
        terminal.press("+++")
        terminal.until("P101 taking-turns")
        return terminal

    def test_virtual_gpus_are_shown_and_called_virtual(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0", "GPU 1", "virtual", "live", "q quit")
        terminal.press("q")
        code, took = terminal.wait()
        self.assertEqual(code, 0)
        self.assertLess(took, 0.2 if not os.environ.get("LOCKSTEP_SANITIZED") else 2)
        self.assertGivenBack(terminal)

    def test_a_recording_is_played_judged_and_its_fix_shown(self):
        terminal = self.open(TURNS)
        text = terminal.until(
            "taking-turns", "P101 taking-turns", "torchrun --standalone --nproc_per_node=2"
        )
        self.assertIn("GPU 0", text)
        self.assertIn("replay", text)

    def test_help_is_drawn_from_the_keys_and_esc_closes_it(self):
        terminal = self.open(TURNS, rows=60)
        terminal.until("GPU 0")
        terminal.press("?")
        text = terminal.until("quit", "this help", "zoom in")
        self.assertIn("go to a time", text)
        terminal.press("\x1b")
        terminal.until("GPU 0", absent=["this help"])
        for _ in range(5):
            terminal.press("\x1b")
        terminal.read(0.5)
        self.assertIn("GPU 0", terminal.text())

    def test_pause_stops_a_replay_and_seek_moves_it(self):
        terminal = self.open(STRAGGLER)
        terminal.until("GPU 7", "replay")
        terminal.press(" ")
        terminal.until("paused")
        terminal.press("t")
        terminal.until("go to time")
        terminal.press("0:08\r")
        terminal.until("paused 0:08")
        terminal.press("[")
        terminal.until("paused 0:00")
        terminal.press("]")
        terminal.until("0:0", "straggler")

    def test_speed_and_loop(self):
        terminal = self.open(TURNS)
        terminal.until("replay")
        terminal.press("+++L")
        terminal.until("8x loop")

    def test_the_whole_way_into_a_finding_and_back(self):
        terminal = self.open_judged()
        terminal.press("\t\t\r")
        terminal.until("confidence", "evidence", "lockstep explain P101")
        terminal.press("\x1b[6~")
        terminal.until("Esc closes")
        terminal.press("\x1b")
        terminal.until("GPU 0", absent=["confidence"])

    def test_resizing_storms_end_in_a_right_screen(self):
        terminal = self.open(TURNS)
        terminal.until("GPU 1")
        for i in range(60):
            terminal.resize(20 + i * 7 % 150, 5 + i * 3 % 50)
        terminal.resize(30, 8)
        terminal.until("lockstep needs")
        terminal.resize(80, 24)
        text = terminal.until("GPU 0", "GPU 1", "findings", "q quit")
        self.assertEqual(len(text.splitlines()), 24)

    def test_sizes_from_sixteen_gpus_to_forty_columns(self):
        terminal = self.open("virtual:16", columns=120, rows=40)
        terminal.until("GPU 0", "GPU15", "ranks", "findings")
        terminal.resize(40, 12)
        terminal.until("GPU 0", "findings", "q quit")
        terminal.resize(80, 24)
        terminal.until("GPU 0", "GPU 7", "findings")

    def test_ctrl_c_quits(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0")
        terminal.press("\x03")
        code, _ = terminal.wait()
        self.assertEqual(code, 130)
        self.assertGivenBack(terminal)

    def test_termination_gives_the_terminal_back(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0")
        os.kill(terminal.program.pid, signal.SIGTERM)
        code, _ = terminal.wait()
        self.assertEqual(code, 130)
        self.assertGivenBack(terminal)

    def test_a_crash_gives_the_terminal_back_and_is_still_a_crash(self):
        if os.environ.get("LOCKSTEP_SANITIZED"):
            self.skipTest("the sanitizer has the signal")
        for sent in (signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT):
            terminal = self.open("virtual:2")
            terminal.until("GPU 0")
            os.kill(terminal.program.pid, sent)
            code, _ = terminal.wait()
            self.assertEqual(code, 128 + sent)
            self.assertGivenBack(terminal)

    def raw(self, terminal):
        return not termios.tcgetattr(terminal.program.terminal)[3] & termios.ICANON

    def test_a_stop_gives_the_terminal_back_and_going_on_takes_it_again(self):
        """As a shell does it: a stop by the terminal, then the foreground again."""
        terminal = self.open("virtual:2", shell=True)
        terminal.until("GPU 0", "q quit")
        self.assertTrue(self.raw(terminal))
        terminal.press("\x1a")
        end = time.monotonic() + PATIENCE_S
        while (
            LEFT_BY not in terminal.program.output.decode(errors="replace")
            and time.monotonic() < end
        ):
            terminal.read(0.05)
        self.assertGivenBack(terminal)
        terminal.read(0.5)
        before = len(terminal.program.output)
        terminal.press("fg\r")
        terminal.until("GPU 0", "q quit")
        self.assertIn(b"\x1b[?1049h", terminal.program.output[before:])
        self.assertTrue(self.raw(terminal))
        terminal.press("q")
        end = time.monotonic() + PATIENCE_S
        while self.raw(terminal) and time.monotonic() < end:
            terminal.read(0.05)
        self.assertFalse(self.raw(terminal))

    def test_after_a_halt_from_outside_the_terminal_is_taken_again(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0", "q quit")
        os.kill(terminal.program.pid, signal.SIGSTOP)
        os.waitpid(terminal.program.pid, os.WUNTRACED)
        cooked = termios.tcgetattr(terminal.program.terminal)
        cooked[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(terminal.program.terminal, termios.TCSANOW, cooked)
        before = len(terminal.program.output)
        os.kill(terminal.program.pid, signal.SIGCONT)
        end = time.monotonic() + PATIENCE_S
        while not self.raw(terminal) and time.monotonic() < end:
            terminal.read(0.05)
        self.assertTrue(self.raw(terminal))
        terminal.read(0.5)
        self.assertIn(b"\x1b[?1049h", terminal.program.output[before:])
        terminal.press("q")
        self.assertEqual(terminal.wait()[0], 0)

    def test_a_driver_that_never_answers_leaves_the_keys_alive(self):
        path = self.scripted({"kind": "hang", "gpu": None, "detail": ""})
        terminal = self.open(f"virtual:{path}")
        terminal.until("driver not answering for")
        terminal.press("?")
        terminal.until("this help")
        terminal.press("\x1b")
        terminal.until("driver not answering for", absent=["this help"])
        terminal.press("q")
        code, took = terminal.wait()
        self.assertEqual(code, 0)
        self.assertLess(took, 0.2 if not os.environ.get("LOCKSTEP_SANITIZED") else 2)
        self.assertGivenBack(terminal)

    def test_a_lost_gpu_and_a_restarted_driver_are_told_and_the_rest_goes_on(self):
        terminal = self.open(f"virtual:{self.scripted({'kind': 'lost', 'gpu': 1, 'detail': ''})}")
        terminal.until("GPU 1 lost")
        terminal = self.open(
            f"virtual:{self.scripted({'kind': 'restart', 'gpu': None, 'detail': ''})}"
        )
        terminal.until("GPU 0", "live")
        terminal.until("driver is back")
        terminal.press("\x1b\x1b")
        terminal.until("GPU 0", "live", absent=["the driver is gone", "lost"])

    def scripted(self, event):
        """A recording of two busy GPUs in which something happens after a second."""
        handle, path = tempfile.mkstemp(suffix=".jsonl")
        self.addCleanup(os.remove, path)
        with os.fdopen(handle, "w") as file:
            gpus = [
                {
                    "index": i,
                    "name": "NVIDIA H200",
                    "memory_total_bytes": 1 << 37,
                    "power_limit_mw": 700000,
                    "busy_window_ms": 200,
                }
                for i in (0, 1)
            ]
            file.write(
                json.dumps({"lockstep_recording": 1, "started_unix_ns": 0, "gpus": gpus}) + "\n"
            )
            for tick in range(300):
                if tick == 10:
                    file.write(json.dumps({"t_ms": tick * 100.0, "event": event}) + "\n")
                file.write(
                    json.dumps(
                        {
                            "t_ms": tick * 100.0,
                            "gpus": [
                                {
                                    "index": i,
                                    "busy": 0.9,
                                    "power_mw": 500000,
                                    "memory_used_bytes": 1 << 36,
                                }
                                for i in (0, 1)
                            ],
                        }
                    )
                    + "\n"
                )
        return path

    def test_no_driver_is_an_error_with_a_next_step_and_no_screen(self):
        terminal = self.open(environment={"LD_LIBRARY_PATH": None})
        terminal.read(2)
        if b"\x1b[?1049h" in terminal.program.output:
            self.skipTest("this machine has a driver")
        code, _ = terminal.wait()
        self.assertEqual(code, 3)
        text = terminal.program.output.decode()
        self.assertIn("lockstep: error:", text)
        self.assertIn("next:", text)
        self.assertNotIn("\x1b[?1049h", text)

    def test_without_a_terminal_it_prints_once_and_says_so(self):
        done = subprocess.run(
            [LOCKSTEP, "monitor", TURNS],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        self.assertEqual(done.returncode, 0)
        self.assertIn("printing once: standard output is not a terminal", done.stderr)
        self.assertIn("GPU 0", done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    def test_a_dumb_terminal_gets_no_escape_sequences(self):
        terminal = self.open(TURNS, environment={"TERM": "dumb"})
        code, _ = terminal.wait()
        self.assertEqual(code, 0)
        text = terminal.program.output.decode()
        self.assertIn("printing once: TERM is dumb", text)
        self.assertNotIn("\x1b", text)

    def test_without_utf8_everything_is_ascii(self):
        terminal = self.open_judged(environment={"LC_ALL": "C", "LANG": "C"})
        self.assertTrue(all(byte < 0x80 for byte in terminal.program.output))
        self.assertIn("####", terminal.text())

    def test_no_color_is_honoured(self):
        terminal = self.open_judged(environment={"NO_COLOR": "1"})
        import re

        colours = [
            code
            for sequence in re.findall(rb"\x1b\[([0-9;]*)m", terminal.program.output)
            for code in sequence.split(b";")
            if code and 30 <= int(code) <= 107
        ]
        self.assertEqual(colours, [])

    def test_recording_from_a_key_has_the_past_in_it(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0")
        terminal.read(2)
        terminal.press("r")
        terminal.until("REC", "recording to lockstep-")
        terminal.read(1)
        terminal.press("r")
        terminal.until("recorded to", absent=["REC"])
        terminal.press("q")
        terminal.wait()
        name = next(name for name in os.listdir(terminal.folder) if name.startswith("lockstep-2"))
        done = subprocess.run(
            [LOCKSTEP, "diagnose", "--json", os.path.join(terminal.folder, name)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertGreater(json.loads(done.stdout)["duration_s"], 2.5)
        self.assertNotIn("breaks off", done.stderr)

    def test_quitting_closes_the_recording_and_says_where_it_is(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0")
        terminal.press("r")
        terminal.until("REC")
        terminal.read(1)
        terminal.press("q")
        code, _ = terminal.wait()
        self.assertEqual(code, 0)
        self.assertIn(
            "lockstep: recorded to lockstep-", terminal.program.output.decode(errors="replace")
        )
        name = next(name for name in os.listdir(terminal.folder) if name.startswith("lockstep-2"))
        done = subprocess.run(
            [LOCKSTEP, "diagnose", os.path.join(terminal.folder, name)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertNotIn("breaks off", done.stderr)

    def test_an_arrow_in_two_pieces_is_still_an_arrow(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0", "q quit")
        terminal.press("?")
        terminal.until("this help")
        for _ in range(5):  # a tick comes every 100 ms: some fall in between
            terminal.press("\x1b")
            terminal.read(0.02)
            terminal.press("[B")
            terminal.read(0.06)
        self.assertIn("Esc closes", terminal.text())

    def test_setup_is_saved_and_read_again(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0", "busy,")
        terminal.press("\x1bOQ")
        terminal.until("setup", "lanes show")
        terminal.press(" ")
        terminal.until("lanes show       SM")
        terminal.press("\x1b")
        terminal.until("setup saved to")
        terminal.press("q")
        terminal.wait()
        with open(os.path.join(terminal.folder, "lockstep/config.json")) as file:
            self.assertEqual(json.load(file)["monitor"]["lanes"], "sm")
        again = self.open("virtual:2", folder=terminal.folder)
        again.until("SM,")

    def test_a_mistake_in_the_setup_is_named(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0")
        terminal.press("q")
        terminal.wait()
        os.makedirs(os.path.join(terminal.folder, "lockstep"), exist_ok=True)
        with open(os.path.join(terminal.folder, "lockstep/config.json"), "w") as file:
            file.write('{"monitor": {"lnes": "power"}}')
        again = self.open("virtual:2", folder=terminal.folder)
        code, _ = again.wait()
        self.assertEqual(code, 2)
        self.assertIn("did you mean 'lanes'?", again.program.output.decode())

    def test_a_signal_is_sent_after_a_yes(self):
        scope = {"LOCKSTEP_VIRTUAL_SCOPE": f"signal-{os.getpid()}"}
        load = subprocess.Popen(
            [sys.executable, os.path.join(SOURCE, "scripts/lib/flicker"), "1"],
            env=dict(os.environ, **scope),
        )
        self.addCleanup(load.kill)
        terminal = self.open("virtual:1", environment=scope, columns=160)
        terminal.until(str(load.pid), "flicker 1")
        terminal.press("\t\x1b[20~")
        terminal.until("send a signal", "SIGTERM", str(load.pid))
        terminal.press("\r")
        terminal.until("are you sure?")
        self.assertIsNone(load.poll())
        terminal.press("y")
        terminal.until(f"sent SIGTERM to {load.pid}")
        self.assertEqual(load.wait(10), -signal.SIGTERM)
        terminal.until("no process on a GPU")

    def test_read_only_sends_none(self):
        terminal = self.open("--read-only", "virtual:1")
        terminal.until("GPU 0")
        terminal.press("\x1b[20~")
        terminal.until("signals are off")

    def test_the_mouse_reads_a_moment(self):
        terminal = self.open_judged()
        terminal.press("\x1b[<0;30;6M")
        terminal.until("at 0:0")

    def test_it_ends_by_itself_after_its_duration(self):
        terminal = self.open("--duration", "1s", "virtual:2")
        code, _ = terminal.wait()
        self.assertEqual(code, 0)
        self.assertGivenBack(terminal)

    def test_a_terminal_that_goes_away_ends_it(self):
        terminal = self.open("virtual:2")
        terminal.until("GPU 0")
        os.close(terminal.program.terminal)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            done, status = os.waitpid(terminal.program.pid, os.WNOHANG)
            if done:
                terminal.status = 0
                terminal.program.terminal = os.open(os.devnull, os.O_RDONLY)
                return
            time.sleep(0.01)
        self.fail("it went on without a terminal")

    def test_it_writes_little_and_at_most_ten_frames_a_second(self):
        terminal = self.open(STRAGGLER, columns=200, rows=60)
        terminal.until("straggler-rank")
        begin, frames = len(terminal.program.output), len(terminal.program.arrivals)
        terminal.read(2.0)
        self.assertLess(len(terminal.program.output) - begin, 200_000)
        self.assertLess(len(terminal.program.arrivals) - frames, 2.0 * 10 + 6)


if __name__ == "__main__":
    second_try.main()
