"""Debian's own Slurm for tests: munge, a controller, and daemons on machines of
tests/support/machines.py.
"""

import os
import pathlib
import shutil
import stat
import subprocess
import time

GPUS_A_NODE = 8


def why_not(*programs):
    """Why there is no Slurm here, in words; empty where there is."""
    missing = [
        name
        for name in ("munged", "slurmctld", "sbatch", "scontrol", *programs)
        if not shutil.which(name)
    ]
    return (
        f"{', '.join(missing)}: not installed; scripts/setup --tests does that" if missing else ""
    )


def until(what, seconds, words):
    """Waits for `what()` to be true, and says in `words()` what was there instead."""
    end = time.monotonic() + seconds
    while not (value := what()):
        if time.monotonic() > end:
            raise AssertionError(words())
        time.sleep(0.1)
    return value


class Slurm:
    """A cluster in a folder of its own. Without machines its nodes are not there: as nodes of a cloud they count as ready to start.

    With machines the first is the controller's, where sbatch and the like are run, and the others are the nodes."""

    def __init__(self, folder, machines=(), cpus=96, gpus=GPUS_A_NODE):
        self.folder = pathlib.Path(folder)
        self.head, self.nodes = (machines[0], list(machines[1:])) if machines else (None, [])
        self.cpus = cpus
        self.gpus = gpus
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        self.environment.pop("SLURM_JOB_ID", None)
        self._started = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _place(self, name):
        return str(self.folder / name)

    def _start(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.folder.chmod(0o755)  # munge wants everybody to come to its socket
        socket_file = self._place("munge.socket")
        self._begin(
            None,
            "munged",
            "--foreground",
            "--force",
            f"--socket={socket_file}",
            f"--key-file={key}",
            f"--pid-file={self._place('munged.pid')}",
            f"--log-file={self._place('munged.log')}",
            f"--seed-file={self._place('munged.seed')}",
        )
        until(lambda: os.path.exists(socket_file), 30, lambda: "munged does not come up")
        self._write_conf(socket_file)
        controller = self._begin(self.head, "slurmctld", "-D", "-c")
        until(
            lambda: "UP" in self.run("scontrol", "ping").stdout or controller.poll() is not None,
            30,
            lambda: self.log("slurmctld.log"),
        )
        for node in self.nodes:
            self.start_daemon(node)
        if self.nodes:
            until(
                lambda: all(self.state(node.name) == "IDLE" for node in self.nodes),
                30,
                lambda: self.log("slurmctld.log"),
            )

    def _write_conf(self, socket_file):
        os.mkdir(self._place("state"))
        if self.nodes:
            names = ",".join(node.name for node in self.nodes)
            lines = [
                f"NodeName={node.name} NodeAddr={node.address} CPUs={self.cpus} RealMemory=1000 Gres=gpu:{self.gpus} State=UNKNOWN"
                for node in self.nodes
            ]
            # A node that is gone is found out within ten seconds, and one that comes back is taken
            # as it is.
            lines += [
                "SlurmdParameters=config_overrides",
                "SlurmdTimeout=10",
                "ReturnToService=2",
                "KillWait=10",
                "JobRequeue=1",
                "MessageTimeout=5",
                f"SlurmdSpoolDir={self._place('spool-%n')}",
                f"SlurmdPidFile={self._place('slurmd-%n.pid')}",
                f"SlurmdLogFile={self._place('slurmd-%n.log')}",
            ]
        else:
            names = "node[1-4]"
            lines = [
                f"NodeName={names} NodeAddr=127.0.0.1 CPUs={self.cpus} RealMemory=100000 Gres=gpu:{self.gpus} State=CLOUD",
                "SuspendProgram=/bin/true",
                "ResumeProgram=/bin/true",
                "SuspendTime=60",
            ]
        for number in range(self.gpus if self.nodes else 0):
            # a daemon counts devices that it sees
            os.mknod(self.folder / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        files = f" File={self.folder}/gpu[0-{self.gpus - 1}]" if self.nodes else ""
        (self.folder / "gres.conf").write_text(
            f"NodeName={names} Name=gpu Count={self.gpus}{files}\n"
        )
        me = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
        head = (
            f"{self.head.name}({self.head.address})"
            if self.head
            else f"{os.uname().nodename}(127.0.0.1)"
        )
        (self.folder / "slurm.conf").write_text(
            "\n".join(
                [
                    "ClusterName=test",
                    f"SlurmctldHost={head}",
                    f"SlurmctldPort={6817 if self.head else free_port()}",
                    f"SlurmUser={me}",
                    "AuthType=auth/munge",
                    f"AuthInfo=socket={socket_file}",
                    f"StateSaveLocation={self._place('state')}",
                    f"SlurmctldPidFile={self._place('slurmctld.pid')}",
                    f"SlurmctldLogFile={self._place('slurmctld.log')}",
                    "SelectType=select/cons_tres",
                    "SelectTypeParameters=CR_Core",
                    "GresTypes=gpu",
                    "ProctrackType=proctrack/linuxproc",
                    "TaskPlugin=task/none",
                    "MpiDefault=none",
                    *lines,
                    "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
                    "",
                ]
            )
        )

    def _begin(self, machine, *words):
        start = (
            machine.popen
            if machine
            else lambda *command, **options: subprocess.Popen(command, **options)
        )
        self._started.append(
            start(
                *words,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        return self._started[-1]

    def start_daemon(self, node):
        return self._begin(node, "slurmd", "-D", "-N", node.name)

    def run(self, *words, **options):
        """A command of Slurm's where its users are: on the controller's machine."""
        if self.head:
            return self.head.run(*words, env=self.environment, capture_output=True, **options)
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, **options
        )

    def state(self, node):
        return (
            self.run("sinfo", "--noheader", "--nodes", node, "--format", "%T")
            .stdout.strip()
            .upper()
        )

    def submit(self, *words, **options):
        done = self.run("sbatch", "--parsable", *words, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def job(self, number):
        """What the controller knows of a job, by name."""
        words = self.run("scontrol", "--oneliner", "show", "job", number).stdout.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def log(self, name, most=4000):
        path = self.folder / name
        return (
            path.read_text(errors="replace")[-most:] if path.exists() else f"{name} was not written"
        )


def free_port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
