"""The process: its first line, its end, TLS, many clients at once."""

import concurrent.futures
import datetime
import http.client
import ipaddress
import json
import pathlib
import signal
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from .running import FOLDER, Running, instance


def certificate(folder):
    """The files of a certificate for 127.0.0.1 that signs itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gce_server")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = pathlib.Path(folder, "certificate.pem"), pathlib.Path(folder, "key.pem")
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


class Process(unittest.TestCase):
    def test_it_speaks_tls_to_those_who_trust_it(self):
        with tempfile.TemporaryDirectory() as folder:
            public, private = certificate(folder)
            server = Running("--certificate", str(public), "--key", str(private))
            self.assertTrue(server.url.startswith("https://"))
            request = urllib.request.Request(f"{server.compute}/projects/p", headers={"Authorization": "Bearer t"})
            trusting = ssl.create_default_context(cafile=public)
            with urllib.request.urlopen(request, timeout=60, context=trusting) as response:
                self.assertEqual(json.loads(response.read())["name"], "p")
            with self.assertRaises(OSError):
                urllib.request.urlopen(request, timeout=60).close()
            server.stop()

    def test_it_ends_when_it_is_told_to(self):
        process = subprocess.Popen(
            [sys.executable, str(FOLDER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        first = json.loads(process.stdout.readline())
        self.assertEqual(set(first), {"url", "address", "revision"})
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, rest), (0, b""))

    def test_many_clients_at_once_get_what_is_theirs(self):
        server = Running("--project", "p", manual=False)
        self.addCleanup(server.stop)

        def life(number):
            connection = http.client.HTTPConnection(server.first["address"], timeout=60)

            def call(verb, path, body=None):
                text = None if body is None else json.dumps(body)
                connection.request(verb, f"/compute/v1/projects/p/{path}", text, {"Authorization": "Bearer t"})
                return json.loads(connection.getresponse().read())

            zone, name = "zones/us-central1-a", f"i{number}"
            for verb, path, body in (
                ("POST", f"{zone}/instances", instance(name)),
                ("POST", f"{zone}/instances/{name}/stop", None),
                ("DELETE", f"{zone}/instances/{name}", None),
            ):
                operation = call(verb, path, body)
                done = call("POST", f"{zone}/operations/{operation['name']}/wait")
                if done["status"] != "DONE" or "error" in done or not done["targetLink"].endswith(f"/{name}"):
                    return done
            connection.close()
            return None

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.assertEqual([found for found in pool.map(life, range(64)) if found], [])
        self.assertNotIn("items", server.get("p/zones/us-central1-a/instances"))
        self.assertEqual(server.control("counts")["instances.insert"], 64)


if __name__ == "__main__":
    unittest.main()
