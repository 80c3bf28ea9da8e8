#!/usr/bin/env python3
"""Prometheus in and out: the exporter scraped by a real Prometheus, fleets read from made-up and
real servers.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

BINARY = os.environ["LOCKSTEP_BINARY"]
SOURCE = os.environ["LOCKSTEP_SOURCE_DIR"]
PEERS = os.environ["LOCKSTEP_PEERS"]
sys.path.insert(0, os.path.join(SOURCE, "tests/support"))
from fake_prometheus import FakePrometheus, dcgm_fleet  # noqa: E402

VIRTUAL = os.path.join(os.path.dirname(os.path.dirname(BINARY)), "lib/lockstep/virtual")
has_prometheus = shutil.which("prometheus") and shutil.which("promtool")
needs_prometheus = unittest.skipUnless(
    has_prometheus, "prometheus and promtool are not installed; scripts/setup --tests installs them"
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, timeout=10):
    try:
        with urllib.request.urlopen(url, timeout=timeout) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read().decode()


def wait_for(true, seconds=30, every=0.1):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := true():
            return value
        time.sleep(every)
    return None


def diagnose(url, *options, code=None):
    run = subprocess.run(
        [BINARY, "diagnose", url, "--format", "json", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if code is not None and run.returncode != code:
        raise AssertionError(f"ended with {run.returncode}, not {code}: {run.stderr}")
    return json.loads(run.stdout) if run.stdout else None, run.stderr


def codes(report):
    return [finding["code"] for finding in report["findings"]]


class Exporter:
    def __init__(self, *arguments, environment=None):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [BINARY, "export", *arguments, "--listen", f"127.0.0.1:{self.port}"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self):
        def answers():
            if self.process.poll() is not None:
                raise AssertionError("the exporter ended: " + self.process.stderr.read())
            try:
                return get(self.url + "/-/healthy")[0] == 200
            except OSError:
                return False

        assert wait_for(answers), "the exporter does not answer"
        return self

    def __exit__(self, *problem):
        self.process.send_signal(signal.SIGTERM)
        self.code = self.process.wait(20)
        self.process.stderr.close()


class Prometheus:
    """The real one, scraping the targets every second."""

    def __init__(self, targets):
        self.folder = tempfile.TemporaryDirectory()
        config = os.path.join(self.folder.name, "prometheus.yml")
        with open(config, "w") as file:
            # YAML is a superset
            json.dump(
                {
                    "global": {"scrape_interval": "1s"},
                    "scrape_configs": [
                        {"job_name": "gpus", "static_configs": [{"targets": targets}]}
                    ],
                },
                file,
            )
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={self.folder.name}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self):
        def ready():
            try:
                return get(self.url + "/-/ready")[0] == 200
            except OSError:
                return False

        assert wait_for(ready, 60), "prometheus is not ready"
        return self

    def query(self, text):
        return json.loads(
            get(self.url + "/api/v1/query?" + urllib.parse.urlencode({"query": text}))[1]
        )["data"]["result"]

    def __exit__(self, *problem):
        self.process.terminate()
        self.process.wait(30)
        self.folder.cleanup()


def recorded(folder, name, lines, gpus=2, spare_ms=None):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        header = {
            "lockstep_recording": 1,
            "started_unix_ns": 0,
            "host": "h",
            "driver": "1",
            "process_coverage": "all",
            "gpus": [
                {
                    "index": i,
                    "uuid": f"GPU-{i}",
                    "name": "NVIDIA H200",
                    "memory_total_bytes": 10**11,
                    "power_limit_mw": 700000,
                    "busy_window_ms": 100,
                }
                for i in range(gpus)
            ],
        }
        for line in [header, *lines]:
            file.write(json.dumps(line) + "\n")
    return path


def turns(seconds, one_process=True):
    """Two GPUs that take turns of a second, held by one process."""
    lines = [
        {
            "t_ms": 0.0,
            "processes": [
                {
                    "pid": 4242,
                    "gpus": [
                        {"index": 0, "memory_bytes": 10**10},
                        {"index": 1, "memory_bytes": 10**10},
                    ],
                    "command": ["python", "train.py"],
                    "rank": None,
                    "local_rank": None,
                    "world_size": None,
                    "launcher": "python",
                    "environment": {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"},
                }
            ],
        }
    ]
    for tick in range(seconds * 10):
        first = tick // 10 % 2 == 0
        lines.append(
            {
                "t_ms": tick * 100.0,
                "gpus": [
                    {
                        "index": 0,
                        "busy": 1.0 if first else 0.0,
                        "power_mw": 600000 if first else 90000,
                        "memory_used_bytes": 10**10,
                    },
                    {
                        "index": 1,
                        "busy": 0.0 if first else 1.0,
                        "power_mw": 90000 if first else 600000,
                        "memory_used_bytes": 10**10,
                    },
                ],
            }
        )
    return lines


class Exported(unittest.TestCase):
    def test_speaks_prometheus_with_help_type_and_one_set_of_labels_a_metric(self):
        with Exporter("virtual:2") as exporter:
            self.assertTrue(
                wait_for(
                    lambda: (
                        "lockstep_job_pattern" in get(exporter.url + "/metrics")[1]
                        or "lockstep_gpu_state" in get(exporter.url + "/metrics")[1]
                    )
                )
            )
            self.assertEqual(get(exporter.url + "/-/ready")[0], 200)
            status, text = get(exporter.url + "/metrics")
            self.assertEqual(get(exporter.url + "/other")[0], 404)
        self.assertEqual(status, 200)
        self.assertEqual(exporter.code, 0, "SIGTERM is how a service is stopped")
        helped, typed, labels = set(), set(), {}
        for line in text.splitlines():
            if line.startswith("# HELP "):
                helped.add(line.split()[2])
            elif line.startswith("# TYPE "):
                typed.add(line.split()[2])
            else:
                name = re.match(r"\w+", line).group(0)
                self.assertTrue(name.startswith("lockstep_"), line)
                keys = tuple(re.findall(r'(\w+)="', line))
                self.assertEqual(labels.setdefault(name, keys), keys, f"{name} changes its labels")
                self.assertNotIn("job", keys, "Prometheus has a label of its own of that name")
        self.assertEqual(set(labels), helped)
        self.assertEqual(set(labels), typed)
        self.assertIn("lockstep_gpu_busy_ratio", labels)
        if has_prometheus:
            check = subprocess.run(
                ["promtool", "check", "metrics"], input=text, capture_output=True, text=True
            )
            self.assertEqual((check.returncode, check.stdout + check.stderr), (0, ""))

    def test_a_port_in_use_and_an_address_that_is_none_are_errors_with_a_next_step(self):
        with Exporter("virtual:1") as exporter:
            for where, words in (
                (f"127.0.0.1:{exporter.port}", "in use"),
                ("here", "cannot listen"),
                ("127.0.0.1:99999", "cannot listen"),
            ):
                run = subprocess.run(
                    [BINARY, "export", "virtual:1", "--listen", where],
                    capture_output=True,
                    text=True,
                    timeout=30,
                )
                self.assertIn(run.returncode, (2, 3))
                self.assertIn(words, run.stderr)
                self.assertIn("next:", run.stderr)

    def test_listens_on_loopback_alone(self):
        with Exporter("virtual:1") as exporter:
            with open("/proc/net/tcp") as file:
                listening = [
                    line.split()[1]
                    for line in file
                    if line.split()[3] == "0A" and line.split()[1].endswith(f":{exporter.port:04X}")
                ]
            self.assertEqual(listening, [f"0100007F:{exporter.port:04X}"])

    def test_a_scrape_does_not_wait_for_a_driver_that_hangs(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = turns(60)
            lines.insert(21, {"t_ms": 2000.0, "event": {"kind": "hang", "gpu": 0, "detail": ""}})
            path = recorded(folder, "hang.jsonl", lines)
            with Exporter(f"virtual:{path}") as exporter:
                self.assertTrue(
                    wait_for(
                        lambda: "\nlockstep_driver_up 0" in get(exporter.url + "/metrics")[1], 20
                    ),
                    "the hang is not told",
                )
                begun = time.monotonic()
                for _ in range(10):
                    get(exporter.url + "/metrics")
                self.assertLess(time.monotonic() - begun, 2)
                status, why = get(exporter.url + "/-/ready")
                self.assertEqual(status, 503)
                self.assertIn("has not answered", why)

    def test_an_input_that_cannot_be_read_is_told_before_anything_is_served(self):
        run = subprocess.run(
            [BINARY, "export", "/nowhere/at/all.jsonl"], capture_output=True, text=True, timeout=30
        )
        self.assertEqual(run.returncode, 3)
        self.assertIn("next:", run.stderr)

    @needs_prometheus
    def test_rules_for_alerts_are_sound_and_do_what_they_say(self):
        for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
            run = subprocess.run(
                ["promtool", *arguments],
                cwd=os.path.join(SOURCE, "docs/fleet"),
                capture_output=True,
                text=True,
            )
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    @needs_prometheus
    def test_dashboard_asks_only_for_metrics_that_there_are(self):
        with open(os.path.join(SOURCE, "docs/fleet/dashboard.json")) as file:
            dashboard = json.load(file)
        with open(os.path.join(SOURCE, "src/export/metric_families.cpp")) as file:
            known = set(re.findall(r'"(lockstep_\w+)"', file.read()))
        asked = set()
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                asked |= set(re.findall(r"lockstep_\w+", target["expr"]))
        with open(os.path.join(SOURCE, "docs/fleet/alerts.yml")) as file:
            asked |= set(re.findall(r"lockstep_\w+", file.read()))
        self.assertGreater(len(asked), 8)
        self.assertEqual(asked - known, set())


class ThroughPrometheus(unittest.TestCase):
    @needs_prometheus
    def test_what_a_machine_finds_by_itself_reaches_who_asks_prometheus(self):
        with tempfile.TemporaryDirectory() as folder:
            path = recorded(folder, "turns.jsonl", turns(120))
            with (
                Exporter(f"virtual:{path}") as exporter,
                Prometheus([f"127.0.0.1:{exporter.port}"]) as prometheus,
            ):
                found = wait_for(
                    lambda: (
                        prometheus.query('lockstep_finding_active{code="P101"} == 1')
                        and len(prometheus.query("lockstep_gpu_busy_ratio")) == 2
                    ),
                    60,
                    1,
                )
                self.assertTrue(found, "P101 is not told")
                pattern = prometheus.query('lockstep_job_pattern{pattern="taking-turns"} == 1')
                self.assertEqual(pattern[0]["metric"]["gpus"], "0,1")
                self.assertTrue(prometheus.query('lockstep_process_info{rendezvous="node1:29500"}'))
                time.sleep(6)
                report, words = diagnose(prometheus.url, "--window", "1m", code=1)
        self.assertEqual(report["source"]["kind"], "prometheus")
        self.assertIn("lockstep export", report["source"]["detail"])
        self.assertEqual(len(report["gpus"]), 2)
        self.assertEqual(report["gpus"][1]["host_index"], 1)
        self.assertEqual(report["jobs"][0]["name"], "node1:29500")
        self.assertIn("P101", codes(report))

    @needs_prometheus
    def test_nvitop_exporter_is_understood(self):
        program = os.path.join(PEERS, "bin/nvitop-exporter")
        if not os.path.exists(program):
            self.skipTest(f"no {program}; scripts/setup --tests makes it")
        port = free_port()
        environment = {
            **os.environ,
            "LOCKSTEP_VIRTUAL": "2",
            "LD_LIBRARY_PATH": VIRTUAL,
            "LOCKSTEP_VIRTUAL_SCOPE": f"fleet-{os.getpid()}",  # other tests run beside this one
        }
        peer = subprocess.Popen(
            [
                program,
                "--bind-address",
                "127.0.0.1",
                "--port",
                str(port),
                "--hostname",
                "node7",
                "--interval",
                "1",
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            with Prometheus([f"127.0.0.1:{port}"]) as prometheus:
                self.assertTrue(
                    wait_for(
                        lambda: len(prometheus.query("gpu_utilization_Percentage")) == 2, 60, 1
                    ),
                    "nvitop-exporter tells nothing",
                )
                time.sleep(6)
                report, words = diagnose(prometheus.url, "--window", "1m", code=0)
        finally:
            peer.terminate()
            peer.wait(20)
            peer.stderr.close()
        self.assertIn("nvitop-exporter", report["source"]["detail"])
        self.assertEqual([gpu["host"] for gpu in report["gpus"]], ["node7", "node7"])
        self.assertGreater(report["gpus"][0]["memory_total_bytes"], 1 << 30)
        self.assertEqual(report["verdict"]["pattern"], "idle")


class Fleets(unittest.TestCase):
    def report(self, case, code, *options, **shape):
        with FakePrometheus(dcgm_fleet(case, **shape)) as server:
            return diagnose(server.url, *options, code=code)[0]

    def test_a_healthy_job_over_four_hosts_has_no_finding(self):
        report = self.report("healthy", 0)
        self.assertEqual(report["verdict"]["pattern"], "in-step")
        self.assertEqual((report["findings"], report["suspicions"]), ([], []))
        self.assertEqual(report["jobs"][0]["name"], "ml/llama")
        self.assertEqual(len(report["jobs"][0]["hosts"]), 4)
        self.assertTrue(
            any("15 s apart" in entry["reason"] for entry in report["not_measured"]),
            "it says what a scrape cannot show",
        )

    def test_the_host_with_a_slow_clock_is_named(self):
        finding = self.report("slow clock", 1)["findings"][0]
        self.assertEqual(
            (finding["code"], finding["hosts"]),
            ("C401", [{"host": "node3", "gpus": list(range(8))}]),
        )
        self.assertAlmostEqual(finding["lost_throughput"], 1 - 1200 / 1755, delta=0.03)

    def test_the_host_that_feeds_its_gpus_late_is_named(self):
        finding = self.report("late host", 1)["findings"][0]
        self.assertEqual((finding["code"], finding["hosts"][0]["host"]), ("C401", "node2"))

    def test_the_host_that_works_while_the_others_wait_is_named(self):
        finding = self.report("waiting for one", 1)["findings"][0]
        self.assertEqual((finding["code"], finding["hosts"][0]["host"]), ("C401", "node4"))

    def test_hosts_that_all_differ_have_no_slow_one(self):
        self.assertNotIn("C401", codes(self.report("uneven hosts", 0)))

    def test_a_job_that_holds_idle_gpus_is_named(self):
        report = self.report("idle job", 1)
        self.assertEqual(codes(report), ["P103"])
        self.assertEqual(
            report["findings"][0]["hosts"], [{"host": "node4", "gpus": list(range(8))}]
        )
        self.assertEqual(
            report["verdict"]["pattern"], "in-step", "the verdict is about the job that works"
        )

    def test_a_host_that_its_job_never_uses_is_idle_and_not_slow(self):
        self.assertEqual(codes(self.report("idle host", 1)), ["P103"])

    def test_a_fleet_at_rest_is_no_finding(self):
        report = self.report("all idle", 0)
        self.assertEqual((report["verdict"]["pattern"], report["findings"]), ("idle", []))

    def test_a_job_that_alternates_over_hosts_is_found(self):
        report = self.report("turns", 1)
        self.assertEqual((report["verdict"]["pattern"], codes(report)), ("taking-turns", ["P101"]))
        self.assertAlmostEqual(report["findings"][0]["lost_throughput"], 0.75, delta=0.1)

    def test_turns_faster_than_a_scrape_are_unclear_and_it_says_why(self):
        report = self.report("fast turns", 0)
        self.assertEqual(report["verdict"]["pattern"], "unclear")
        self.assertIn("15 s apart", report["verdict"]["sentence"])

    def test_an_xid_counts_when_it_is_new(self):
        self.assertEqual(codes(self.report("old xid", 0)), [])
        finding = next(
            finding
            for finding in self.report("new xid", 1)["findings"]
            if finding["code"] == "H604"
        )
        self.assertEqual(finding["hosts"], [{"host": "node1", "gpus": [3]}])

    def test_without_labels_for_jobs_hosts_are_not_joined(self):
        report = self.report("no job labels", 0)
        self.assertEqual(len(report["jobs"]), 4)
        self.assertTrue(any(entry["signal"] == "jobs" for entry in report["not_measured"]))

    def test_dcgms_blank_values_are_left_out(self):
        report = self.report("blank values", 0)
        self.assertIsNone(report["gpus"][0]["power_mw"])
        self.assertGreater(report["gpus"][1]["power_mw"], 1e5)

    def test_a_job_label_of_ones_own_is_used(self):
        report = self.report("healthy", 0, "--job-label", "Hostname")
        self.assertEqual(
            sorted(job["name"] for job in report["jobs"]), ["node1", "node2", "node3", "node4"]
        )

    def test_the_screen_for_people_names_jobs_and_hosts(self):
        with FakePrometheus(dcgm_fleet("late host")) as server:
            text = subprocess.run(
                [BINARY, "diagnose", server.url], capture_output=True, text=True, timeout=60
            ).stdout
        self.assertIn("node2 GPU 0 to 7", text)
        self.assertRegex(text, r"ml/llama +in-step +32 +4 +\d+ % +C401")


class Servers(unittest.TestCase):
    def fails(self, server_url, words, *options, code=3):
        run = subprocess.run(
            [BINARY, "diagnose", server_url, *options], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        self.assertIn(words, run.stderr)
        self.assertIn("next:", run.stderr)
        return run.stderr

    def test_selector_and_window_are_asked_for(self):
        with FakePrometheus(dcgm_fleet("healthy", hosts=1, gpus=2)) as server:
            diagnose(
                server.url + "/prometheus/graph?g0.expr=up",
                "--selector",
                '{cluster="a"}',
                "--window",
                "20m",
                code=0,
            )
            self.assertEqual({path for path, _, _ in server.seen}, {"/prometheus/api/v1/query"})
            self.assertIn(
                'DCGM_FI_DEV_GPU_UTIL{cluster="a"}[1200000ms]',
                [query for _, query, _ in server.seen],
            )

    def test_a_recording_has_the_servers_window_and_follows_it(self):
        with (
            FakePrometheus(dcgm_fleet("healthy", hosts=1, gpus=2)) as server,
            tempfile.TemporaryDirectory() as folder,
        ):
            began = time.monotonic()
            file = os.path.join(folder, "run.jsonl")
            run = subprocess.run(
                [BINARY, "record", "--duration", "3s", "-o", file, server.url],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertGreater(time.monotonic() - began, 2.5, "it is watched for as long as asked")
            with open(file, encoding="utf-8") as lines:
                ticks = sum('"gpus":[{"index"' in line for line in lines) - 1  # the header's
            self.assertGreater(ticks, 5, run.stderr)

    def test_the_token_is_sent_and_never_printed(self):
        def guarded(handler, query):
            if handler.headers.get("Authorization") == "Bearer s3cr3t-word":
                return False
            handler.reply(401, b"no", "text/plain")
            return True

        with (
            tempfile.TemporaryDirectory() as folder,
            FakePrometheus(dcgm_fleet("healthy", hosts=1, gpus=2), guarded) as server,
        ):
            token = os.path.join(folder, "token")
            with open(token, "w") as file:
                file.write("s3cr3t-word\n")
            self.assertIn("--token-file", self.fails(server.url, "refuses"))
            run = subprocess.run(
                [BINARY, "diagnose", server.url, "--token-file", token, "--json"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertNotIn("s3cr3t", run.stdout + run.stderr)

    def test_a_password_in_the_address_is_never_printed(self):
        with FakePrometheus(dcgm_fleet("healthy", hosts=1, gpus=2)) as server:
            run = subprocess.run(
                [BINARY, "diagnose", server.url.replace("http://", "http://me:hunter2@"), "--json"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertTrue(server.seen[0][2].startswith("Basic "))
            self.assertNotIn("hunter2", run.stdout + run.stderr)
        self.assertNotIn("hunter2", self.fails("http://me:hunter2@localhost:1", "cannot reach"))

    def test_a_certificate_must_be_trusted(self):
        if not shutil.which("openssl"):
            self.skipTest("no openssl program to make a certificate with")
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
            subprocess.run(
                [
                    "openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "rsa:2048",
                    "-nodes",
                    "-keyout",
                    key,
                    "-out",
                    certificate,
                    "-days",
                    "2",
                    "-subj",
                    "/CN=localhost",
                    "-addext",
                    "subjectAltName=DNS:localhost",
                ],
                check=True,
                capture_output=True,
            )
            with FakePrometheus(
                dcgm_fleet("healthy", hosts=1, gpus=2), certificate=(certificate, key)
            ) as server:
                self.assertIn("--ca-file", self.fails(server.url, "certificate is not trusted"))
                diagnose(server.url, "--ca-file", certificate, code=0)
                self.fails(
                    server.url.replace("localhost", "127.0.0.1"),
                    "no safe connection",
                    "--ca-file",
                    certificate,
                )

    def test_a_redirect_is_not_followed(self):
        def elsewhere(handler, query):
            handler.reply(302, b"", headers=[("Location", "http://elsewhere.example/")])
            return True

        with FakePrometheus({}, elsewhere) as server:
            self.fails(server.url, "sends elsewhere")

    def test_a_server_that_does_not_answer_costs_the_timeout(self):
        def sleeps(handler, query):
            time.sleep(20)
            return True

        with FakePrometheus({}, sleeps) as server:
            begun = time.monotonic()
            self.fails(server.url, "did not answer within 1.0 s", "--timeout", "1s")
            self.assertLess(time.monotonic() - begun, 10)

    def test_an_answer_without_end_is_cut(self):
        def endless(handler, query):
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.end_headers()
            block = b" " * (1 << 20)
            try:
                for _ in range(400):
                    handler.wfile.write(block)
            except OSError:
                pass
            handler.close_connection = True
            return True

        with FakePrometheus({}, endless) as server:
            self.fails(server.url, "larger than 256 MiB")

    def test_what_is_no_prometheus_is_told_so(self):
        def page(handler, query):
            handler.reply(200, b"<html>hello</html>", "text/html")
            return True

        def missing(handler, query):
            handler.reply(404, b"not here", "text/plain")
            return True

        def complains(handler, query):
            handler.reply(
                400,
                json.dumps(
                    {
                        "status": "error",
                        "errorType": "bad_data",
                        "error": "parse error: unexpected character",
                    }
                ).encode(),
            )
            return True

        with FakePrometheus({}, page) as server:
            self.fails(server.url, "not that of a Prometheus server")
        with FakePrometheus({}, missing) as server:
            self.fails(server.url, "HTTP 404")
        with FakePrometheus({}, complains) as server:
            self.fails(server.url, "parse error: unexpected character", code=2)
        with FakePrometheus({}) as server:
            self.fails(server.url, "knows no GPU metrics")
        self.fails("http://", "no host", code=2)
        self.fails("http://x:99999999", "port", code=2)

    def test_its_options_need_a_server(self):
        self.fails(
            "virtual:2", "--selector is for a Prometheus server", "--selector", "a=1", code=2
        )


if __name__ == "__main__":
    second_try.main()
