"""Instances from insert to delete, and operations on the way, on a clock that the test moves."""

import unittest

from .running import INSTANCES, Running, instance

UUID = "6f3f1f3e-5d0a-4f3a-9c3e-0b0a5f3c2d1e"


class Lifecycle(unittest.TestCase):
    def setUp(self):
        self.server = Running("--project", "p")
        self.addCleanup(self.server.stop)
        self.server.control("settings", {"timing": {"default": {"pending": 1, "running": 4}}})

    def insert(self, name="a", **changes):
        return self.server.call("POST", INSTANCES, instance(name, **changes))

    def status(self, name="a"):
        return self.server.get(f"{INSTANCES}/{name}")["status"]

    def test_an_insert_goes_through_its_states_and_so_does_its_operation(self):
        code, operation = self.insert()
        self.assertEqual((code, operation["status"], operation["progress"]), (200, "PENDING", 0))
        path = operation["selfLink"].partition("/projects/")[2]
        self.assertEqual(self.status(), "PROVISIONING")
        self.assertNotIn("natIP", self.server.get(f"{INSTANCES}/a")["networkInterfaces"][0]["accessConfigs"][0])
        self.server.advance(2)
        self.assertEqual((self.status(), self.server.get(path)["status"]), ("STAGING", "RUNNING"))
        self.server.advance(4)
        done = self.server.get(path)
        self.assertEqual((self.status(), done["status"], done["progress"]), ("RUNNING", "DONE", 100))
        self.assertNotIn("error", done)
        seen = self.server.get(f"{INSTANCES}/a")
        self.assertEqual(done["targetId"], seen["id"])
        self.assertEqual(done["targetLink"], seen["selfLink"])
        self.assertTrue(seen["networkInterfaces"][0]["accessConfigs"][0]["natIP"].startswith("198.18."))

    def test_stop_gives_the_ephemeral_address_back_and_start_brings_another(self):
        self.server.done(self.insert())
        before = self.server.get(f"{INSTANCES}/a")["networkInterfaces"][0]["accessConfigs"][0]["natIP"]
        code, _ = self.server.call("POST", f"{INSTANCES}/a/stop")
        self.assertEqual((code, self.status()), (200, "STOPPING"))
        self.assertEqual(
            self.server.call("POST", f"{INSTANCES}/a/start")[1]["error"]["errors"][0]["reason"], "resourceNotReady"
        )
        self.server.advance()
        stopped = self.server.get(f"{INSTANCES}/a")
        self.assertEqual(stopped["status"], "TERMINATED")
        self.assertNotIn("natIP", stopped["networkInterfaces"][0]["accessConfigs"][0])
        self.server.done(self.server.call("POST", f"{INSTANCES}/a/start"))
        after = self.server.get(f"{INSTANCES}/a")
        self.assertEqual(after["status"], "RUNNING")
        self.assertNotEqual(after["networkInterfaces"][0]["accessConfigs"][0]["natIP"], before)

    def test_a_graceful_stop_is_pending_first_unless_it_must_not_be(self):
        self.server.done(self.insert(scheduling={"gracefulShutdown": {"enabled": True}}))
        self.server.call("POST", f"{INSTANCES}/a/stop")
        self.assertEqual(self.status(), "PENDING_STOP")
        self.server.advance(2)
        self.assertEqual(self.status(), "STOPPING")
        self.server.advance()
        self.server.done(self.server.call("POST", f"{INSTANCES}/a/start"))
        self.server.call("POST", f"{INSTANCES}/a/stop", noGracefulShutdown="true")
        self.assertEqual(self.status(), "STOPPING")

    def test_suspended_is_resumed_and_not_started(self):
        self.server.done(self.insert())
        self.server.call("POST", f"{INSTANCES}/a/suspend")
        self.assertEqual(self.status(), "SUSPENDING")
        self.server.advance()
        self.assertEqual(self.status(), "SUSPENDED")
        self.assertEqual(self.server.call("POST", f"{INSTANCES}/a/start")[0], 400)
        self.server.done(self.server.call("POST", f"{INSTANCES}/a/resume"))
        self.assertEqual(self.status(), "RUNNING")

    def test_delete_keeps_the_name_until_it_is_done_and_takes_the_disk_along(self):
        self.server.done(self.insert())
        self.assertEqual([disk["name"] for disk in self.server.get("p/zones/us-central1-a/disks")["items"]], ["a"])
        code, operation = self.server.call("DELETE", f"{INSTANCES}/a")
        self.assertEqual((code, self.status()), (200, "STOPPING"))
        code, conflict = self.insert()
        self.assertEqual((code, conflict["error"]["errors"][0]["reason"]), (409, "alreadyExists"))
        self.server.done((200, operation))
        code, gone = self.server.call("GET", f"{INSTANCES}/a")
        self.assertEqual(code, 404)
        self.assertEqual(gone["error"]["message"], f"The resource 'projects/{INSTANCES}/a' was not found")
        self.assertNotIn("status", gone["error"])
        self.assertNotIn("items", self.server.get("p/zones/us-central1-a/disks"))
        self.server.done(self.insert())

    def test_a_disk_without_auto_delete_stays_and_is_in_the_way(self):
        body = instance()
        body["disks"][0]["autoDelete"] = False
        self.server.done(self.server.call("POST", INSTANCES, body))
        self.server.done(self.server.call("DELETE", f"{INSTANCES}/a"))
        self.assertNotIn("users", self.server.get("p/zones/us-central1-a/disks/a"))
        code, conflict = self.insert()
        self.assertEqual(
            (code, conflict["error"]["message"]),
            (409, "The resource 'projects/p/zones/us-central1-a/disks/a' already exists"),
        )
        self.assertEqual(self.server.call("GET", f"{INSTANCES}/a")[0], 404)

    def test_a_request_id_returns_the_first_operation(self):
        code, first = self.server.call("POST", INSTANCES, instance(), requestId=UUID)
        self.assertEqual(code, 200)
        code, second = self.server.call("POST", INSTANCES, instance(), requestId=UUID.upper())
        self.assertEqual((code, second["name"]), (200, first["name"]))
        self.server.done((200, first))
        self.assertEqual(self.server.call("POST", INSTANCES, instance(), requestId=UUID)[1]["status"], "DONE")
        self.assertEqual(self.server.call("POST", INSTANCES, instance())[0], 409)
        for wrong in ("1", "00000000-0000-0000-0000-000000000000"):
            code, refused = self.server.call("POST", INSTANCES, instance("b"), requestId=wrong)
            self.assertEqual((code, refused["error"]["errors"][0]["reason"]), (400, "invalid"))

    def test_an_insert_overtaken_by_a_delete_ends_with_a_conflict(self):
        _, insert = self.insert()
        self.server.advance(2)
        self.server.call("DELETE", f"{INSTANCES}/a")
        done = self.server.done((200, insert))
        self.assertEqual(done["httpErrorStatusCode"], 409)
        self.assertEqual(self.server.call("GET", f"{INSTANCES}/a")[0], 404)

    def test_a_failed_insert_is_an_error_of_the_operation_and_leaves_nothing(self):
        self.server.control(
            "faults",
            {"match": {"method": "instances.insert"}, "operation": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"},
        )
        done = self.server.done(self.insert())
        error = done["error"]["errors"][0]
        self.assertEqual(
            (done["status"], error["code"], done["httpErrorStatusCode"]),
            ("DONE", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503),
        )
        details = {key: value for entry in error["errorDetails"] for key, value in entry.items()}
        self.assertEqual(set(details), {"help", "localizedMessage", "errorInfo"})
        self.assertEqual(
            details["errorInfo"]["metadatas"]["zonesAvailable"], "us-central1-b,us-central1-c,us-central1-f"
        )
        self.assertEqual(self.server.call("GET", f"{INSTANCES}/a")[0], 404)
        self.assertNotIn("items", self.server.get("p/zones/us-central1-a/disks"))
        listed = self.server.get("p/zones/us-central1-a/operations", filter=f'targetLink = "{done["targetLink"]}"')
        self.assertEqual([operation["name"] for operation in listed["items"]], [done["name"]])

    def test_preemption_stops_or_deletes_and_leaves_an_operation_of_nobody(self):
        for name, action in (("a", "STOP"), ("b", "DELETE")):
            spot = {"provisioningModel": "SPOT", "instanceTerminationAction": action}
            self.server.done(self.insert(name, scheduling=spot))
            self.server.control(
                f"instances/{INSTANCES.replace('/zones', '').replace('/instances', '')}/{name}", {"preempt": True}
            )
            self.assertEqual(self.status(name), "STOPPING")
        self.server.advance()
        self.assertEqual(self.status("a"), "TERMINATED")
        self.assertEqual(self.server.call("GET", f"{INSTANCES}/b")[0], 404)
        events = self.server.get("p/zones/us-central1-a/operations", filter="operationType=compute.instances.preempted")
        self.assertEqual({event["user"] for event in events["items"]}, {"system"})

    def test_every_status_of_the_document_can_be_had(self):
        self.server.done(self.insert())
        for status in (
            "DEPROVISIONING",
            "PENDING",
            "PENDING_STOP",
            "PROVISIONING",
            "REPAIRING",
            "RUNNING",
            "STAGING",
            "STOPPED",
            "STOPPING",
            "SUSPENDED",
            "SUSPENDING",
            "TERMINATED",
        ):
            self.server.control("instances/p/us-central1-a/a", {"status": status})
            self.assertEqual(self.status(), status)

    def test_wait_returns_when_the_operation_is_done_and_at_its_limit(self):
        self.server.control("settings", {"wait_limit": 0})
        _, operation = self.insert()
        path = operation["selfLink"].partition("/projects/")[2]
        self.assertEqual(self.server.call("POST", f"{path}/wait")[1]["status"], "PENDING")
        self.server.control("settings", {"wait_limit": 60})
        self.server.control("clock", {"manual": False})
        self.server.control("settings", {"timing": {"default": {"pending": 0.01, "running": 0.01}}})
        self.assertEqual(self.server.call("POST", f"{path}/wait")[1]["status"], "DONE")


if __name__ == "__main__":
    unittest.main()
