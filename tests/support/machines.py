"""Machines for tests that need several. Each is a network, host name and process namespace of its own, and all hang on one switch, as
`ip netns` would make them. They share the files, as nodes of a cluster do, but for /run and /dev/shm. Needs root; nothing outside of the
namespaces is changed."""

import contextlib
import os
import signal
import subprocess
import tempfile

NETWORK = "10.77.0."


class CannotMake(Exception):
    pass


def why_not():
    """Why machines cannot be made here, in words; empty where they can."""
    if os.geteuid() != 0:
        return "several machines are made of namespaces, which need root"
    try:
        with Machines("trial"):
            return ""
    except CannotMake as problem:
        return f"several machines are made of namespaces, which this machine refuses: {problem}"


def _ip(*words):
    done = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotMake(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")


def _namespaces(script, flags):
    """The first process of new namespaces; when it dies, the kernel kills all others of its process
    namespace.
    """
    try:
        outer = subprocess.Popen(
            [
                "unshare",
                *flags,
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                script + " && echo ready && exec sleep infinity",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    except FileNotFoundError as problem:
        raise CannotMake(str(problem))
    if outer.stdout.readline().strip() != "ready":
        raise CannotMake(outer.stderr.read().strip())
    with open(f"/proc/{outer.pid}/task/{outer.pid}/children") as children:
        return outer, int(children.read().split()[0])


class Machine:
    """What runs on it sees its host name, its address and its processes alone. Names of the others
    are in its /etc/hosts.
    """

    def __init__(self, network, name, number):
        self.network = network
        self.name = name
        self.number = number
        self.address = f"{NETWORK}{number}"
        self.start()

    def start(self):
        self._outer, self.pid = _namespaces(
            f"mount --bind {self.network.hosts} /etc/hosts && mount -t tmpfs none /run && mount -t tmpfs none /dev/shm && hostname {self.name} && ip link set lo up",
            ["--net", "--uts", "--mount", "--pid", "--mount-proc"],
        )
        port = f"port{self.number}"
        _ip(
            "link",
            "add",
            "eth0",
            "netns",
            self.pid,
            "type",
            "veth",
            "peer",
            "name",
            port,
            "netns",
            self.network.switch_pid,
        )
        subprocess.run(
            self.command("ip", "addr", "add", f"{self.address}/24", "dev", "eth0"), check=True
        )
        subprocess.run(self.command("ip", "link", "set", "eth0", "up"), check=True)
        self.network.plug_in(port)

    def command(self, *words, cwd=None):
        return [
            "nsenter",
            "--target",
            str(self.pid),
            "--net",
            "--uts",
            "--mount",
            "--pid",
            f"--wdns={cwd or os.getcwd()}",
            *map(str, words),
        ]

    def run(self, *words, cwd=None, **options):
        return subprocess.run(self.command(*words, cwd=cwd), text=True, **options)

    def popen(self, *words, cwd=None, **options):
        return subprocess.Popen(self.command(*words, cwd=cwd), text=True, **options)

    def processes(self):
        """Command lines of everything that runs here, but for what holds the machine up."""
        inside = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if int(name) != self.pid and os.readlink(f"/proc/{name}/ns/pid") == inside:
                    with open(f"/proc/{name}/cmdline") as words:
                        found[int(name)] = words.read().replace("\0", " ").strip()
        return {pid: words for pid, words in found.items() if words}  # a zombie has none

    def pull_cable(self):
        """Nothing leaves and nothing comes any more, and nobody is told."""
        subprocess.run(self.command("ip", "link", "set", "eth0", "down"), check=True)

    def lose_power(self):
        self.pull_cable()
        self.switch_off()

    def switch_off(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._outer.wait()
        self._outer.stdout.close()
        self._outer.stderr.close()
        self.network.unplug(f"port{self.number}")  # the kernel would do it, some time later


class Machines:
    """`with Machines("a", "b") as (a, b):`"""

    def __init__(self, *names):
        self.names = names

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        try:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory())
            self.hosts = os.path.join(folder, "hosts")
            with open(self.hosts, "w") as hosts:
                hosts.write("127.0.0.1 localhost\n::1 localhost\n")
                for number, name in enumerate(self.names, 1):
                    hosts.write(f"{NETWORK}{number} {name}\n")
            switch, self.switch_pid = _namespaces(
                "ip link add switch type bridge && ip link set switch up", ["--net", "--pid"]
            )
            self._stack.callback(self._close_switch, switch)
            machines = []
            for number, name in enumerate(self.names, 1):
                machines.append(Machine(self, name, number))
                self._stack.callback(machines[-1].switch_off)
            return machines
        except BaseException:
            self._stack.close()
            raise

    def __exit__(self, *_):
        self._stack.close()

    def _close_switch(self, outer):
        os.kill(self.switch_pid, signal.SIGKILL)
        outer.wait()
        outer.stdout.close()
        outer.stderr.close()

    def _at_switch(self, *words):
        return subprocess.run(
            ["nsenter", "--target", str(self.switch_pid), "--net", "ip", "link", *words],
            capture_output=True,
            text=True,
        )

    def plug_in(self, port):
        for words in (("set", port, "master", "switch"), ("set", port, "up")):
            done = self._at_switch(*words)
            if done.returncode != 0:
                raise CannotMake(done.stderr.strip())

    def unplug(self, port):
        self._at_switch("del", port)
