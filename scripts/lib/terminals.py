"""A program in a terminal of its own, and what it costs: for benchmarks and for tests of the live
screen.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time


def cpu_seconds(pid, only=None):
    """CPU time of all threads, or of those of one name, in nanosecond steps (schedstat), not clock
    ticks.
    """
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            if only and open(f"/proc/{pid}/task/{task}/comm").read().strip() != only:
                continue
            total += int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / 1e9


def resident_mib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class InTerminal:
    """A program in a terminal, 200x60 unless told otherwise, whose output is read and kept."""

    def __init__(self, command, environment, columns=200, rows=60):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.pid = os.fork()
        if self.pid == 0:
            os.close(master)
            os.login_tty(slave) if hasattr(os, "login_tty") else self._take(slave)
            os.execvpe(command[0], command, environment)
        os.close(slave)
        self.terminal = master
        self.output = b""
        self.arrivals = []  # (when, bytes)

    @staticmethod
    def _take(slave):
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in (0, 1, 2):
            os.dup2(slave, number)

    def resize(self, columns, rows):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys):
        os.write(self.terminal, keys.encode())

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.terminal], [], [], left)[0]:
                try:
                    piece = os.read(self.terminal, 65536)
                except OSError:
                    return
                self.output += piece
                self.arrivals.append((time.monotonic(), piece))

    def stop(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)
