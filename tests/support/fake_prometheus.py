"""A Prometheus server that answers range selectors from made-up fleets, for what a real one cannot be had for: hundreds of GPUs, an hour of the past,
certificates, tokens, and servers that misbehave."""

import http.server
import json
import random
import re
import ssl
import threading
import time
import urllib.parse

START = 1760000000.0


def dcgm_fleet(case, hosts=4, gpus=8, minutes=20, step=15, seed=1):
    """Series of dcgm-exporter by metric name: one job ml/llama over all hosts, and what the case
    says.
    """
    random_number = random.Random(seed)
    count = int(minutes * 60 / step)
    metrics = {}
    for host in range(hosts):
        offset = random_number.random() * step  # each exporter is scraped at its own moment
        for gpu in range(gpus):
            labels = {
                "gpu": str(gpu),
                "UUID": f"GPU-{host:04d}-{gpu}",
                "device": f"nvidia{gpu}",
                "modelName": "NVIDIA H100 80GB HBM3",
                "Hostname": f"node{host + 1}",
                "instance": f"node{host + 1}:9400",
                "job": "dcgm",
                "pod": f"llama-worker-{host}",
                "namespace": "ml",
            }

            def around(value, noise, count=count):
                return [value + random_number.uniform(-noise, noise) for _ in range(count)]

            busy, sm, clock, power = (
                around(97, 2),
                around(0.8, 0.03),
                around(1755, 15),
                around(620, 15),
            )
            memory, xid = [60000] * count, [0] * count
            if case == "slow clock" and host == 2:
                clock, power = [1200] * count, around(420, 10)
            if case == "late host" and host == 1:
                busy = around(62, 25)
            if case == "waiting for one" and host != 3:
                sm = around(0.55, 0.03)
            if case == "uneven hosts":  # a pipeline: every host does something else
                busy, sm = around(97 - 12 * host, 2), around(0.8 - 0.1 * host, 0.02)
            if case == "idle job" and host == hosts - 1:
                labels["pod"] = "notebook-0"
                busy, sm, power, memory = [0] * count, [0] * count, [70] * count, [40000] * count
            if case == "idle host" and host == hosts - 1:
                busy, sm, power, memory = [0] * count, [0] * count, [70] * count, [500] * count
            if case == "turns":
                works = [
                    int((START + i * step + offset) // 90) % hosts == host for i in range(count)
                ]
                busy = [95 if on else 0 for on in works]
                sm, power = [0.8 if on else 0 for on in works], [600 if on else 90 for on in works]
            if case == "fast turns":
                busy, sm, power = around(100 / hosts, 5), [0.8 / hosts] * count, around(300, 20)
            if case == "all idle":
                busy, sm, power, memory = [0] * count, [0] * count, [70] * count, [500] * count
            if case == "old xid":
                xid = [31] * count
            if case == "new xid" and host == 0 and gpu == 3:
                xid = [31] * (count // 2) + [79] * (count - count // 2)
            if case == "no job labels":
                labels.pop("pod")
            if case == "blank values" and gpu == 0:
                power = [9223372036854775794 / 1000] * count
            table = {
                "DCGM_FI_DEV_GPU_UTIL": [min(100, max(0, round(value))) for value in busy],
                "DCGM_FI_PROF_SM_ACTIVE": [round(value, 4) for value in sm],
                "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": [round(value * 0.6, 4) for value in sm],
                "DCGM_FI_DEV_SM_CLOCK": [round(value) for value in clock],
                "DCGM_FI_DEV_POWER_USAGE": [round(value, 2) for value in power],
                "DCGM_FI_DEV_FB_USED": memory,
                "DCGM_FI_DEV_FB_FREE": [81000 - value for value in memory],
                "DCGM_FI_DEV_GPU_TEMP": [60] * count,
                "DCGM_FI_DEV_XID_ERRORS": xid,
            }
            for name, values in table.items():
                samples = [
                    [round(START + i * step + offset, 3), str(value)]
                    for i, value in enumerate(values)
                ]
                metrics.setdefault(name, []).append(
                    {"metric": {"__name__": name, **labels}, "values": samples}
                )
    return metrics


def answer(result):
    return json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": result}}
    ).encode()


class FakePrometheus:
    """behaviour: None, or a function of (handler, query) that answers by itself and returns
    True.
    """

    def __init__(self, metrics, behaviour=None, certificate=None):
        bodies = {name: answer(series) for name, series in metrics.items()}
        seen = self.seen = []
        empty = answer([])

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get(
                    "query", [""]
                )[0]
                seen.append((self.path.split("?")[0], query, self.headers.get("Authorization")))
                if behaviour and behaviour(self, query):
                    return
                name = re.match(r"\w*", query).group(0)
                self.reply(200, bodies.get(name, empty))

            def reply(self, status, body, content_type="application/json", headers=()):
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                for header, value in headers:
                    self.send_header(header, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a client that hangs up is part of the test

        self.server = Server(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if certificate else 'http'}://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":  # for a look by hand: fake_prometheus.py "late host" 4 8
    import sys

    with FakePrometheus(dcgm_fleet(sys.argv[1], *map(int, sys.argv[2:]))) as server:
        print(server.url, flush=True)
        time.sleep(3600)
