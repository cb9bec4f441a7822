"""Faults that tests ask for, and what the server tells of requests."""

import http.client
import unittest

from .running import INSTANCES, Running, instance


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Running("--project", "p", "--project", "q")
        cls.addClassCleanup(cls.server.stop)

    def tearDown(self):
        self.server.control("faults", verb="DELETE")
        self.server.control("requests", verb="DELETE")

    def fault(self, **rule):
        return self.server.control("faults", rule)["id"]

    def test_every_named_error_and_failure_can_be_had(self):
        known = self.server.control("faults")
        for name in known["errors"]:
            self.fault(match={"method": "projects.get"}, error=name)
            status, answer = self.server.call("GET", "p")
            with self.subTest(name):
                self.assertGreaterEqual(status, 400)
                self.assertEqual(answer["error"]["code"], status)
                self.assertTrue(answer["error"]["errors"][0]["reason"])
            self.assertEqual(self.server.call("GET", "p")[0], 200)
        for name in known["failures"]:
            self.fault(match={"method": "instances.insert"}, operation=name)
            done = self.server.done(self.server.call("POST", INSTANCES, instance()))
            with self.subTest(name):
                self.assertTrue(done["error"]["errors"][0]["code"].startswith(name))
                self.assertGreaterEqual(done["httpErrorStatusCode"], 400)

    def test_the_details_that_clients_tell_errors_by(self):
        for name, status, reason, detail in (
            ("accessNotConfigured", 403, "accessNotConfigured", "SERVICE_DISABLED"),
            ("billingDisabled", 403, "forbidden", "BILLING_DISABLED"),
            ("rateLimitExceeded", 403, "rateLimitExceeded", "RATE_LIMIT_EXCEEDED"),
            ("concurrentOperations", 403, "rateLimitExceeded", "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED"),
        ):
            self.fault(match={"method": "projects.get"}, error=name)
            code, answer = self.server.call("GET", "p")
            infos = [entry["reason"] for entry in answer["error"]["details"] if entry["@type"].endswith("ErrorInfo")]
            self.assertEqual((code, answer["error"]["errors"][0]["reason"], infos), (status, reason, [detail]))
        self.fault(match={"method": "projects.get"}, error="tooManyRequests")
        status, headers, _ = self.server.raw("GET", "/compute/v1/projects/p", None, {"Authorization": "Bearer t"})
        self.assertEqual((status, headers["Retry-After"]), (429, "1"))

    def test_what_a_fault_strikes_and_how_often(self):
        self.fault(
            match={"method": "instances.get", "name": "x", "zone": ["us-east1-b", "us-east1-c"]},
            skip=1,
            times=2,
            error="backendError",
        )
        seen = [self.server.call("GET", "p/zones/us-east1-b/instances/x")[0] for _ in range(5)]
        self.assertEqual(seen, [404, 503, 503, 404, 404])
        self.assertEqual(self.server.call("GET", "p/zones/us-central1-a/instances/x")[0], 404)
        forever = self.fault(
            match={"project": "q"}, times=None, error={"code": 418, "reason": "teapot", "message": "short"}
        )
        self.assertEqual([self.server.call("GET", "q")[0] for _ in range(3)], [418] * 3)
        self.assertEqual(self.server.call("GET", "p")[0], 200)
        self.assertEqual(self.server.control("faults")["faults"][forever]["struck"], 3)
        self.server.control(f"faults/{forever}", verb="DELETE")
        self.assertEqual(self.server.call("GET", "q")[0], 200)

    def test_an_answer_can_be_lost_after_the_work_was_done(self):
        self.fault(match={"method": "instances.insert"}, when="after", error="badGateway")
        self.assertEqual(self.server.call("POST", INSTANCES, instance("lost"))[0], 502)
        self.server.advance()
        self.assertEqual(self.server.get(f"{INSTANCES}/lost")["status"], "RUNNING")

    def test_connections_are_cut_before_and_within_an_answer(self):
        for cut, when in (("before", "before"), ("headers", "after"), ("body", "after")):
            self.fault(match={"method": "projects.get"}, cut=cut, when=when)
            connection = http.client.HTTPConnection(self.server.first["address"], timeout=30)
            connection.request("GET", "/compute/v1/projects/p", headers={"Authorization": "Bearer t"})
            with self.subTest(cut), self.assertRaises((ConnectionError, http.client.HTTPException)):
                connection.getresponse().read()
            connection.close()
        self.assertEqual(self.server.call("GET", "p")[0], 200)

    def test_a_fault_that_makes_no_sense_is_refused(self):
        for rule in (
            {"erorr": "x"},
            {"error": "none"},
            {"operation": "none"},
            {"cut": "later"},
            {"when": "never"},
            {"match": 1},
        ):
            with self.subTest(rule=rule), self.assertRaises(AssertionError):
                self.server.control("faults", rule)
        with self.assertRaises(AssertionError):
            self.server.control("nothing", {})

    def test_a_project_whose_api_or_billing_is_off(self):
        self.server.control("projects/q", {"api_enabled": False})
        self.assertEqual(self.server.call("GET", "q")[1]["error"]["errors"][0]["reason"], "accessNotConfigured")
        self.server.control("projects/q", {"api_enabled": True, "billing_enabled": False})
        self.assertEqual(self.server.call("POST", INSTANCES.replace("p/", "q/"), instance())[0], 403)
        self.server.control("projects/q", {"billing_enabled": True})

    def test_requests_are_counted_and_shown(self):
        self.server.call("GET", "p")
        self.server.call("GET", "q")
        self.server.call("POST", INSTANCES, instance("A"))
        self.assertEqual(self.server.control("counts"), {"projects.get": 2, "instances.insert": 1})
        self.assertEqual(self.server.control("counts?project=q"), {"projects.get": 1})
        shown = self.server.control("requests?method=instances.insert")["requests"]
        self.assertEqual(
            [(entry["status"], entry["body"]["name"], entry["project"]) for entry in shown], [(400, "A", "p")]
        )


if __name__ == "__main__":
    unittest.main()
