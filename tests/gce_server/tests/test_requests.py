"""What the document does not allow is answered as Google answers it; what we answer is held against the document."""

import json
import unittest

from .running import INSTANCES, Running, instance


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Running("--project", "p")
        cls.addClassCleanup(cls.server.stop)

    def refused(self, body, code=400, **query):
        status, answer = self.server.call("POST", INSTANCES, body, **query)
        self.assertEqual(status, code, answer)
        return answer["error"]

    def test_unknown_fields_are_named_with_their_place(self):
        body = instance()
        body["networkInterfaces"][0]["netwrok"] = "default"
        error = self.refused(body)
        self.assertEqual(
            error["message"],
            "Invalid JSON payload received. Unknown name \"netwrok\" at 'resource.networkInterfaces[0]': Cannot find field.",
        )
        self.assertEqual((error["status"], error["errors"][0]["reason"]), ("INVALID_ARGUMENT", "badRequest"))
        self.assertEqual(error["details"][0]["fieldViolations"][0]["field"], "resource.networkInterfaces[0]")

    def test_wrong_types_and_words_are_refused(self):
        for change in (
            {"canIpForward": "yes"},
            {"labels": {"a": 1}},
            {"disks": {}},
            {"scheduling": {"provisioningModel": "CHEAP"}},
            {"shieldedInstanceConfig": {"enableVtpm": 1}},
            {"metadata": {"fingerprint": "not base64"}},
        ):
            with self.subTest(change=change):
                self.assertEqual(self.refused(instance(**change))["status"], "INVALID_ARGUMENT")

    def test_what_is_required_is_asked_for(self):
        body = instance()
        del body["name"]
        self.assertEqual(self.refused(body)["errors"][0]["reason"], "required")
        self.assertEqual(self.refused(instance(metadata={"items": [{"key": "a"}]}))["errors"][0]["reason"], "required")
        self.assertEqual(
            self.server.call("POST", INSTANCES)[1]["error"]["message"], "Required field 'resource' not specified"
        )

    def test_names_follow_the_grammar(self):
        for name in ("nfs_server", "A", "a-", "1a", "a" * 64, ""):
            with self.subTest(name=name):
                error = self.refused(instance(name))
                self.assertEqual(error["errors"][0]["reason"], "invalid")
                self.assertIn(
                    f"Invalid value for field 'resource.name': '{name}'. Must be a match of regex", error["message"]
                )
        self.assertEqual(self.server.call("GET", f"{INSTANCES}/A")[0], 400)

    def test_query_parameters_are_those_of_the_method(self):
        error = self.refused(instance(), flavour="x")
        self.assertEqual(
            error["message"],
            'Invalid JSON payload received. Unknown name "flavour": Cannot bind query parameter. '
            "Field 'flavour' could not be found in request message.",
        )
        self.assertEqual(self.server.call("GET", INSTANCES, maxResults="many")[0], 400)
        self.assertEqual(self.server.call("GET", INSTANCES, maxResults="501")[0], 400)
        self.assertEqual(
            self.server.call("POST", f"{INSTANCES}/a/addAccessConfig", {})[1]["error"]["errors"][0]["reason"],
            "required",
        )

    def test_a_client_that_names_a_version_may_not_send_what_that_version_lacks(self):
        modern = {"$alt": "json", "$apiVersion": "2026-09-01"}
        self.assertEqual(self.server.call("GET", "p/aggregated/instances", **modern)[0], 200)
        self.assertEqual(self.server.call("GET", "p/aggregated/instances", returnPartialSuccess="True")[0], 200)
        self.assertEqual(
            self.server.call("GET", "p/aggregated/instances", returnPartialSuccess="true", **modern)[0], 400
        )
        self.assertEqual(self.server.call("GET", "p", returnPartialSuccess="true")[0], 400)

    def test_labels_keep_googles_rules(self):
        for labels in (
            {"Helm": "x"},
            {"a": "head.default"},
            {"a": "bot[bot]"},
            {"a": "x" * 64},
            {"iAmVm": "x"},
            {"1a": "x"},
            {"": "x"},
            {f"k{number}": "x" for number in range(65)},
        ):
            with self.subTest(labels=labels):
                self.assertEqual(self.refused(instance(labels=labels))["errors"][0]["reason"], "invalid")
        error = self.refused(instance(labels={"a": "A"}))
        self.assertEqual(
            (error["details"][0]["reason"], error["details"][0]["metadata"]["value"]), ("INVALID_FIELD_VALUE", "A")
        )
        fine = {"a": "", "b_-": "x_-1", "größe": "ü", **{f"k{number}": "x" for number in range(61)}}
        self.assertEqual(
            self.server.done(self.server.call("POST", INSTANCES, instance("labelled", labels=fine)))["progress"], 100
        )

    def test_missing_references_are_named(self):
        for change, text in (
            (
                {"machineType": "zones/us-central1-a/machineTypes/e9"},
                "Machine type with name 'e9' does not exist in zone 'us-central1-a'.",
            ),
            ({"machineType": "zones/us-east1-b/machineTypes/e2-micro"}, "does not exist in zone 'us-central1-a'"),
            ({"machineType": "e2-micro"}, "The URL is malformed."),
            (
                {"networkInterfaces": [{"network": "global/networks/none"}]},
                "The referenced network resource cannot be found.",
            ),
            (
                {"networkInterfaces": [{"subnetwork": "regions/us-central1/subnetworks/none"}]},
                "The referenced subnetwork resource cannot be found.",
            ),
            (
                {"networkInterfaces": [{"accessConfigs": [{"natIP": "192.0.2.1"}]}]},
                "was not found in region 'us-central1'",
            ),
            ({"networkInterfaces": []}, "At least one network interface is required."),
            ({"disks": []}, "No disks are specified."),
        ):
            with self.subTest(change=change):
                self.assertIn(text, self.refused(instance(**change))["message"])
        body = instance()
        body["disks"][0]["initializeParams"]["sourceImage"] = "projects/debian-cloud/global/images/family/debian-99"
        self.assertEqual(
            self.refused(body, 404)["message"],
            "The resource 'projects/debian-cloud/global/images/family/debian-99' was not found",
        )
        self.assertEqual(
            self.server.call("GET", "p/zones/moon-a/instances")[1]["error"]["message"],
            "Invalid value for field 'zone': 'moon-a'. Unknown zone.",
        )
        self.assertEqual(self.server.call("GET", "nobody/zones/us-central1-a/instances")[0], 404)
        # What was refused has left nothing behind.
        self.assertEqual(self.server.call("GET", f"{INSTANCES}/a")[0], 404)
        self.assertEqual(self.server.call("GET", "p/zones/us-central1-a/disks/a")[0], 404)

    def test_full_partial_and_other_hosts_urls_mean_the_same(self):
        for number, prefix in enumerate(
            (
                "",
                "projects/p/",
                "/projects/p/",
                "https://www.googleapis.com/compute/v1/projects/p/",
                "https://compute.googleapis.com/compute/v1/projects/p/",
                f"{self.server.compute}/projects/p/",
            )
        ):
            body = instance(f"url{number}", machineType=f"{prefix}zones/us-central1-a/machineTypes/e2-micro")
            self.server.done(self.server.call("POST", INSTANCES, body))
            self.assertEqual(
                self.server.get(f"{INSTANCES}/url{number}")["machineType"],
                "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a/machineTypes/e2-micro",
            )

    def test_answers_link_as_the_setting_says(self):
        links = "https://compute.googleapis.com/compute/v1/"
        self.server.control("settings", {"links": links})
        try:
            self.assertTrue(self.server.get("p")["selfLink"].startswith(links))
        finally:
            self.server.control("settings", {"links": "https://www.googleapis.com/compute/v1/"})

    def test_a_method_that_is_not_modelled_is_refused_and_not_made_up(self):
        self.assertEqual(self.server.call("POST", f"{INSTANCES}/a/setMachineType", {"machineType": "x"})[0], 501)
        self.assertEqual(self.server.call("GET", "p/nothing")[0], 404)

    def test_broken_json_is_refused(self):
        for body in (b"{", b"[]", b"null x"):
            status, _, content = self.server.raw(
                "POST", f"/compute/v1/projects/{INSTANCES}", body, {"Authorization": "Bearer t"}
            )
            self.assertEqual((status, json.loads(content)["error"]["errors"][0]["reason"]), (400, "parseError"))

    def test_spot_instances_follow_its_rules(self):
        for scheduling in (
            {"provisioningModel": "SPOT", "automaticRestart": True},
            {"provisioningModel": "SPOT", "onHostMaintenance": "MIGRATE"},
            {"instanceTerminationAction": "DELETE"},
        ):
            with self.subTest(scheduling=scheduling):
                self.assertEqual(self.refused(instance(scheduling=scheduling))["code"], 400)


class Generated(unittest.TestCase):
    """What Google's generated clients send: a version with everything, and an empty object where there is no body."""

    def test_the_life_of_an_instance(self):
        server = Running("--project", "p")
        self.addCleanup(server.stop)
        headers = {"x-goog-api-client": "gl-rust/1.95.0 gccl/4.1.0", "Content-Type": "application/json"}

        def call(verb, path, body=None, **query):
            query |= {"$alt": "json", "$apiVersion": "2026-09-01"}
            status, answer = server.call(verb, path, {} if body is None and verb == "POST" else body, headers, **query)
            self.assertEqual(status, 200, answer)
            return answer

        def finished(operation):
            server.advance()
            done = call("POST", f"p/zones/us-central1-a/operations/{operation['name']}/wait")
            self.assertEqual((done["status"], done.get("error")), ("DONE", None))

        body = instance(
            labels={"egress-proxy-managed": "yes"}, metadata={"items": [{"key": "user-data", "value": "#!/bin/sh"}]}
        )
        body["disks"][0]["initializeParams"]["diskSizeGb"] = "20"
        finished(call("POST", INSTANCES, body, requestId="6f3f1f3e-5d0a-4f3a-9c3e-0b0a5f3c2d1e"))
        listed = call("GET", "p/aggregated/instances", filter="labels.egress-proxy-managed=yes", maxResults=100)
        seen = listed["items"]["zones/us-central1-a"]["instances"][0]
        self.assertEqual(seen["disks"][0]["diskSizeGb"], "20")
        labels = {
            "labels": {**seen["labels"], "egress-proxy-pending": "no"},
            "labelFingerprint": seen["labelFingerprint"],
        }
        finished(call("POST", f"{INSTANCES}/a/setLabels", labels))
        metadata = {"items": seen["metadata"]["items"], "fingerprint": seen["metadata"]["fingerprint"]}
        finished(call("POST", f"{INSTANCES}/a/setMetadata", metadata))
        for verb, status in (
            ("stop", "TERMINATED"),
            ("start", "RUNNING"),
            ("suspend", "SUSPENDED"),
            ("resume", "RUNNING"),
        ):
            finished(call("POST", f"{INSTANCES}/a/{verb}"))
            self.assertEqual(call("GET", f"{INSTANCES}/a")["status"], status)
        self.assertIn("Linux", call("GET", f"{INSTANCES}/a/serialPort", port=1, start=0)["contents"])
        finished(call("DELETE", f"{INSTANCES}/a", requestId="6f3f1f3e-5d0a-4f3a-9c3e-0b0a5f3c2d1f"))
        shown = server.control("requests?method=instances.insert")["requests"][0]
        self.assertEqual(shown["headers"]["x-goog-api-client"], headers["x-goog-api-client"])


class Honesty(unittest.TestCase):
    def test_an_answer_that_breaks_the_document_is_a_loud_failure(self):
        server = Running("--project", "p")
        server.control("faults", {"match": {"method": "projects.get"}, "patch": {"id": 5, "colour": "red"}})
        status, answer = server.call("GET", "p")
        self.assertEqual(status, 500)
        self.assertIn("unknown name 'colour'", answer["error"]["message"])
        self.assertEqual(len(server.control("state")["violations"]), 2)
        self.assertIn("projects.get", server.stop(expected=1))

    def test_a_patch_within_the_document_and_a_raw_one_are_no_violation(self):
        server = Running("--project", "p")
        server.control("faults", {"match": {"method": "projects.get"}, "patch": {"description": "x"}})
        self.assertEqual(server.get("p")["description"], "x")
        server.control("faults", {"match": {"method": "projects.get"}, "patch": {"colour": "red"}, "raw": True})
        self.assertEqual(server.get("p")["colour"], "red")
        server.stop()


if __name__ == "__main__":
    unittest.main()
