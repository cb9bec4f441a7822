"""A server in a process of its own, as the provider's tests start it, and a client that hides nothing."""

import http.client
import json
import pathlib
import subprocess
import sys
import urllib.parse

FOLDER = pathlib.Path(__file__).resolve().parent.parent


class Running:
    """A server with time that stands still unless `clock` says otherwise. Its end is an assertion, see `stop`."""

    def __init__(self, *arguments, manual=True):
        options = [*(["--manual-clock"] if manual else []), *arguments]
        self._process = subprocess.Popen(
            [sys.executable, str(FOLDER), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        first = self._process.stdout.readline()
        if not first:
            raise RuntimeError(self._process.stderr.read())
        self.first = json.loads(first)
        self.url = self.first["url"]
        self.compute = f"{self.url}/compute/v1"
        self._connection = http.client.HTTPConnection(self.first["address"], timeout=60)

    def stop(self, expected=0):
        """Ends the server by closing its input. It has to say by its exit code that it broke no rule."""
        self._connection.close()
        self._process.stdin.close()
        code = self._process.wait(timeout=60)
        stderr = self._process.stderr.read()
        self._process.stdout.close()
        self._process.stderr.close()
        if code != expected:
            raise AssertionError(f"the server ended with {code} instead of {expected}: {stderr}")
        return stderr

    def raw(self, verb, path, body=None, headers=None):
        """(status, headers, bytes) of one request on the kept connection."""
        content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        self._connection.request(verb, path, content, headers or {})
        response = self._connection.getresponse()
        return response.status, response.headers, response.read()

    def call(self, verb, path, body=None, headers=None, **query):
        """(status, JSON) of a method of Compute Engine, with some token."""
        text = f"/compute/v1/projects/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        status, _, content = self.raw(verb, text, body, {"Authorization": "Bearer token", **(headers or {})})
        return status, json.loads(content) if content else None

    def get(self, path, **query):
        status, content = self.call("GET", path, **query)
        if status != 200:
            raise AssertionError(f"GET {path}: {status} {content}")
        return content

    def control(self, path, body=None, verb=None):
        status, _, content = self.raw(verb or ("GET" if body is None else "POST"), f"/_control/{path}", body)
        if status != 200:
            raise AssertionError(f"{path}: {status} {content}")
        return json.loads(content)

    def advance(self, seconds=10):
        self.control("clock", {"advance": seconds})

    def done(self, answer):
        """The finished operation that an accepted request began."""
        status, operation = answer
        if status != 200:
            raise AssertionError(f"not accepted: {status} {operation}")
        self.advance()
        finished = self.get(operation["selfLink"].partition("/projects/")[2])
        if finished["status"] != "DONE":
            raise AssertionError(f"still {finished}")
        return finished


def instance(name="a", zone="us-central1-a", **changes):
    """A body of instances.insert that is accepted."""
    return {
        "name": name,
        "machineType": f"zones/{zone}/machineTypes/e2-micro",
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
            }
        ],
        "networkInterfaces": [{"accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}],
        **changes,
    }


INSTANCES = "p/zones/us-central1-a/instances"
