"""One client, two servers: where gcplocal has a method too, both must give the client the same.

gcplocal is simpler than Compute Engine: it knows no asynchronous operation, keeps what it is given as it is, and
reports no reason that Google documents. Each difference that this test looks past is written down where it does.
"""

import json
import os
import pathlib
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from .running import Running, instance

TOOL = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "tools" / "gcplocal"


def available():
    """The path of gcplocal, None where it can't be had."""
    done = subprocess.run([str(TOOL)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def call(base, verb, path, body=None):
    """(status, JSON)."""
    request = urllib.request.Request(
        f"{base}/compute/v1/projects/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": "Bearer token", "Content-Type": "application/json"},
        method=verb,
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def finished(base, path, operation):
    """The operation when it is done. gcplocal's are done at once; ours are asked for again."""
    for _ in range(600):
        if operation["status"] == "DONE":
            return operation
        operation = call(base, "GET", f"{path}/operations/{operation['name']}")[1]
        time.sleep(0.05)
    raise AssertionError(f"not done: {operation}")


def short(link):
    return link.rpartition("/")[2]


def script(base):
    """What a client does with an instance, and the facts it would go on with."""
    zone = "p/zones/us-central1-a"
    facts = []
    status, operation = call(base, "POST", f"{zone}/instances", instance("a", labels={"team": "x"}))
    facts.append(("insert", status, operation["kind"], short(operation["targetLink"])))
    facts.append(("inserted", finished(base, zone, operation)["progress"]))
    status, seen = call(base, "GET", f"{zone}/instances/a")
    # gcplocal names zone and machine type by paths without a host, ours by URLs as Google: the last part is the same.
    facts.append(
        (
            "get",
            status,
            seen["kind"],
            seen["name"],
            seen["status"],
            seen["labels"],
            short(seen["zone"]),
            short(seen["machineType"]),
        )
    )
    facts.append(
        ("scheduling", seen["scheduling"].get("preemptible", False), seen["canIpForward"], seen["deletionProtection"])
    )
    status, listed = call(base, "GET", f"{zone}/instances")
    facts.append(("list", status, listed["kind"], [it["name"] for it in listed["items"]]))
    status, operation = call(base, "DELETE", f"{zone}/instances/a")
    facts.append(("delete", status, operation["operationType"]))
    finished(base, zone, operation)
    # The texts differ: gcplocal has its own. The code is what both say.
    for verb in ("GET", "DELETE"):
        status, answer = call(base, verb, f"{zone}/instances/a")
        facts.append((f"{verb} of nothing", status, answer["error"]["code"]))
    return facts


class Gcplocal(unittest.TestCase):
    def test_both_give_a_client_the_same(self):
        program = available()
        if program is None:
            self.skipTest("needs gcplocal, which could not be fetched")
        ours = Running("--project", "p", manual=False)
        self.addCleanup(ours.stop)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        theirs = subprocess.Popen(
            [program, "start", "--host", "127.0.0.1", "--port", str(port)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(theirs.wait)
        self.addCleanup(theirs.kill)
        base = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                call(base, "GET", "p")
                break
            except (urllib.error.URLError, ConnectionError):
                self.assertIsNone(theirs.poll(), "gcplocal has ended")
                time.sleep(0.05)
        self.maxDiff = None
        self.assertEqual(script(ours.url), script(base))


if __name__ == "__main__":
    unittest.main()
