"""The real gcloud runs against the server. It decodes strictly: a field of a wrong type ends it with an error."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from .running import Running

ZONE = ("--zone", "us-central1-a")


@unittest.skipUnless(shutil.which("gcloud"), "needs gcloud, which is not installed here")
class Gcloud(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Running("--project", "p", manual=False)
        cls.addClassCleanup(cls.server.stop)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        token = pathlib.Path(folder.name, "token")
        token.write_text("any-token", encoding="utf-8")
        cls.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CLOUDSDK_", "PYTHON"))
        } | {
            "CLOUDSDK_CONFIG": folder.name,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{cls.server.compute}/",
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
            "CLOUDSDK_CORE_PROJECT": "p",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
        }

    def gcloud(self, *arguments, fails=False):
        """What a command printed: as JSON, or the error where it has to fail."""
        done = subprocess.run(
            ["gcloud", "compute", *arguments, "--format=json"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(done.returncode != 0, fails, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stderr if fails else json.loads(done.stdout or "null")

    def test_instances(self):
        made = self.gcloud("instances", "create", "a", *ZONE, "--machine-type=e2-micro", "--labels=team=x", "--tags=t")
        self.assertEqual([(it["name"], it["status"]) for it in made], [("a", "RUNNING")])
        listed = self.gcloud("instances", "list", "--filter=labels.team=x")
        self.assertEqual([it["name"] for it in listed], ["a"])
        seen = self.gcloud("instances", "describe", "a", *ZONE)
        self.assertEqual((seen["labels"], seen["tags"]["items"]), ({"team": "x"}, ["t"]))
        self.gcloud("instances", "stop", "a", *ZONE)
        self.assertEqual(self.gcloud("instances", "describe", "a", *ZONE)["status"], "TERMINATED")
        self.gcloud("instances", "start", "a", *ZONE)
        self.gcloud("instances", "add-labels", "a", *ZONE, "--labels=more=y")
        self.assertEqual(self.gcloud("instances", "describe", "a", *ZONE)["labels"], {"team": "x", "more": "y"})
        self.gcloud("instances", "delete", "a", *ZONE)
        self.assertIn("was not found", self.gcloud("instances", "describe", "a", *ZONE, fails=True))

    def test_the_failure_of_an_operation_is_shown(self):
        self.server.control(
            "faults",
            {"match": {"method": "instances.insert", "name": "full"}, "operation": "ZONE_RESOURCE_POOL_EXHAUSTED"},
        )
        error = self.gcloud("instances", "create", "full", *ZONE, "--machine-type=e2-micro", fails=True)
        self.assertIn("does not have enough resources available to fulfill the request", " ".join(error.split()))

    def test_firewall_rules(self):
        self.gcloud(
            "firewall-rules", "create", "f", "--allow=tcp:3128", "--source-ranges=10.0.0.0/8", "--target-tags=t"
        )
        seen = self.gcloud("firewall-rules", "describe", "f")
        self.assertEqual((seen["sourceRanges"], seen["targetTags"]), (["10.0.0.0/8"], ["t"]))
        self.gcloud("firewall-rules", "update", "f", "--source-ranges=10.1.0.0/16")
        self.assertEqual([it["sourceRanges"] for it in self.gcloud("firewall-rules", "list")], [["10.1.0.0/16"]])
        self.gcloud("firewall-rules", "delete", "f")

    def test_addresses(self):
        self.gcloud("addresses", "create", "ip", "--region=us-central1")
        self.assertEqual([it["status"] for it in self.gcloud("addresses", "list")], ["RESERVED"])
        self.gcloud("addresses", "delete", "ip", "--region=us-central1")


if __name__ == "__main__":
    unittest.main()
