"""Addresses, firewall rules, disks, fingerprints, serial ports, quotas, permissions, shared networks."""

import unittest

from .running import INSTANCES, Running, instance

ADDRESSES = "p/regions/us-central1/addresses"
FIREWALLS = "p/global/firewalls"


def with_address(name, address):
    return instance(name, networkInterfaces=[{"accessConfigs": [{"type": "ONE_TO_ONE_NAT", "natIP": address}]}])


def rule(name="f", **changes):
    return {
        "name": name,
        "allowed": [{"IPProtocol": "tcp", "ports": ["3128"]}],
        "sourceRanges": ["10.0.0.0/8"],
        "targetTags": ["t"],
        **changes,
    }


class Resources(unittest.TestCase):
    def setUp(self):
        self.server = Running("--project", "p")
        self.addCleanup(self.server.stop)

    def post(self, path, body, **query):
        return self.server.call("POST", path, body, **query)

    def test_a_reserved_address_is_used_by_one_and_stays(self):
        done = self.server.done(self.post(ADDRESSES, {"name": "ip"}))
        self.assertIn("/regions/us-central1", done["region"])
        address = self.server.get(f"{ADDRESSES}/ip")
        self.assertEqual(address["status"], "RESERVED")
        self.server.done(self.post(INSTANCES, with_address("a", address["address"])))
        used = self.server.get(f"{ADDRESSES}/ip")
        self.assertEqual((used["status"], [user.rpartition("/")[2] for user in used["users"]]), ("IN_USE", ["a"]))
        self.assertEqual(self.post(INSTANCES, with_address("b", address["address"]))[0], 400)
        self.assertEqual(self.server.get(f"{ADDRESSES}/ip")["users"], used["users"], "a refusal gives nothing back")
        code, refused = self.server.call("DELETE", f"{ADDRESSES}/ip")
        self.assertEqual((code, refused["error"]["errors"][0]["reason"]), (400, "resourceInUseByAnotherResource"))
        self.server.done(self.server.call("POST", f"{INSTANCES}/a/stop"))
        stopped = self.server.get(f"{INSTANCES}/a")["networkInterfaces"][0]["accessConfigs"][0]
        self.assertEqual(stopped["natIP"], address["address"])
        self.server.done(self.server.call("DELETE", f"{INSTANCES}/a"))
        self.assertEqual(self.server.get(f"{ADDRESSES}/ip")["status"], "RESERVED")
        self.server.done(self.server.call("DELETE", f"{ADDRESSES}/ip"))
        self.assertEqual(self.server.call("GET", f"{ADDRESSES}/ip")[0], 404)

    def test_a_failed_insert_gives_its_address_back(self):
        self.server.done(self.post(ADDRESSES, {"name": "ip"}))
        address = self.server.get(f"{ADDRESSES}/ip")["address"]
        self.server.control("faults", {"match": {"method": "instances.insert"}, "operation": "QUOTA_EXCEEDED"})
        self.assertIn("error", self.server.done(self.post(INSTANCES, with_address("a", address))))
        self.assertEqual(self.server.get(f"{ADDRESSES}/ip")["status"], "RESERVED")

    def test_an_internal_address_is_of_its_subnetwork(self):
        self.server.done(
            self.post(
                ADDRESSES,
                {"name": "in", "addressType": "INTERNAL", "subnetwork": "regions/us-central1/subnetworks/default"},
            )
        )
        address = self.server.get(f"{ADDRESSES}/in")["address"]
        body = instance("a", networkInterfaces=[{"networkIP": address}])
        self.server.done(self.post(INSTANCES, body))
        seen = self.server.get(f"{INSTANCES}/a")["networkInterfaces"][0]
        self.assertEqual((seen["networkIP"], seen.get("accessConfigs")), (address, None))
        self.assertEqual(self.post(INSTANCES, instance("b", networkInterfaces=[{"networkIP": "192.168.0.1"}]))[0], 400)

    def test_access_configs_come_and_go(self):
        self.server.done(self.post(INSTANCES, instance("a", networkInterfaces=[{}])))
        self.server.done(
            self.post(f"{INSTANCES}/a/addAccessConfig", {"type": "ONE_TO_ONE_NAT"}, networkInterface="nic0")
        )
        interface = self.server.get(f"{INSTANCES}/a")["networkInterfaces"][0]
        self.assertIn("natIP", interface["accessConfigs"][0])
        self.server.done(
            self.server.call(
                "POST", f"{INSTANCES}/a/deleteAccessConfig", networkInterface="nic0", accessConfig="external-nat"
            )
        )
        self.assertNotIn("accessConfigs", self.server.get(f"{INSTANCES}/a")["networkInterfaces"][0])

    def test_firewall_rules_are_checked_and_decide(self):
        for wrong in (
            rule(allowed=[]),
            rule(priority=70000),
            rule(sourceRanges=["10.0.0.1/8"]),
            rule(targetTags=["T"]),
            rule(allowed=[{"IPProtocol": "tpc"}]),
            rule(allowed=[{"IPProtocol": "tcp", "ports": ["9-1"]}]),
            rule(network="global/networks/none"),
            rule("F"),
        ):
            with self.subTest(wrong=wrong):
                self.assertEqual(self.post(FIREWALLS, wrong)[0], 400)
        self.server.done(self.post(FIREWALLS, rule()))
        self.assertEqual(self.post(FIREWALLS, rule())[0], 409)
        self.server.done(self.post(INSTANCES, instance("a", tags={"items": ["t"]})))
        self.server.done(self.post(INSTANCES, instance("b")))

        def admitted(name, source, port=3128):
            path = f"admits/p/us-central1-a/{name}?source={source}&port={port}"
            return self.server.control(path)["admitted"]

        self.assertTrue(admitted("a", "10.1.2.3"))
        self.assertFalse(admitted("a", "11.1.2.3"))
        self.assertFalse(admitted("a", "10.1.2.3", 22))
        self.assertFalse(admitted("b", "10.1.2.3"))
        self.server.done(self.server.call("PATCH", f"{FIREWALLS}/f", {"name": "f", "sourceRanges": ["11.0.0.0/8"]}))
        self.assertTrue(admitted("a", "11.1.2.3"))
        self.assertFalse(admitted("a", "10.1.2.3"))
        self.server.done(
            self.post(FIREWALLS, rule("no", allowed=[], denied=[{"IPProtocol": "all"}], sourceRanges=["11.0.0.0/8"]))
        )
        self.assertFalse(admitted("a", "11.1.2.3"), "denying goes first among equals")
        self.server.done(self.server.call("DELETE", f"{FIREWALLS}/f"))
        self.assertEqual(self.server.call("GET", f"{FIREWALLS}/f")[0], 404)

    def test_changes_need_the_current_fingerprint(self):
        self.server.done(
            self.post(INSTANCES, instance(labels={"a": "b"}, metadata={"items": [{"key": "k", "value": "v"}]}))
        )
        first = self.server.get(f"{INSTANCES}/a")
        for method, body, current in (
            ("setLabels", lambda print: {"labels": {"c": "d"}, "labelFingerprint": print}, first["labelFingerprint"]),
            ("setMetadata", lambda print: {"items": [], "fingerprint": print}, first["metadata"]["fingerprint"]),
            ("setTags", lambda print: {"items": ["x"], "fingerprint": print}, first["tags"]["fingerprint"]),
        ):
            with self.subTest(method):
                self.server.done(self.post(f"{INSTANCES}/a/{method}", body(current)))
                code, refused = self.post(f"{INSTANCES}/a/{method}", body(current))
                self.assertEqual((code, refused["error"]["errors"][0]["reason"]), (412, "conditionNotMet"))
        seen = self.server.get(f"{INSTANCES}/a")
        self.assertEqual(
            (seen["labels"], seen["tags"]["items"], seen["metadata"].get("items")), ({"c": "d"}, ["x"], None)
        )

    def test_metadata_that_google_adds_and_that_it_refuses(self):
        self.server.control("settings", {"added_metadata": [{"key": "ssh-keys", "value": "u:k"}]})
        self.server.done(self.post(INSTANCES, instance(metadata={"items": [{"key": "user-data", "value": "#!"}]})))
        keys = [item["key"] for item in self.server.get(f"{INSTANCES}/a")["metadata"]["items"]]
        self.assertEqual(keys, ["user-data", "ssh-keys"])
        self.server.control("instances/p/us-central1-a/a", {"metadata": [{"key": "late", "value": "x"}]})
        self.assertEqual(len(self.server.get(f"{INSTANCES}/a")["metadata"]["items"]), 3)
        for items in (
            [{"key": "a b", "value": ""}],
            [{"key": "a", "value": ""}] * 2,
            [{"key": "a", "value": "x" * (256 * 1024 + 1)}],
        ):
            self.assertEqual(self.post(INSTANCES, instance("b", metadata={"items": items}))[0], 400)

    def test_the_serial_port_is_read_in_pieces(self):
        self.server.done(self.post(INSTANCES, instance()))
        first = self.server.get(f"{INSTANCES}/a/serialPort")
        self.assertIn("Linux version", first["contents"])
        self.server.control("instances/p/us-central1-a/a", {"serial": "egress: ready\n"})
        second = self.server.get(f"{INSTANCES}/a/serialPort", start=first["next"])
        self.assertEqual((second["contents"], second["start"]), ("egress: ready\n", first["next"]))
        self.assertEqual(self.server.get(f"{INSTANCES}/a/serialPort", start="-6")["contents"], "ready\n")
        self.assertEqual(self.server.get(f"{INSTANCES}/a/serialPort", port=2)["contents"], "")
        self.assertEqual(self.server.call("GET", f"{INSTANCES}/a/serialPort", port=5)[0], 400)

    def quota(self, metric, path="p/regions/us-central1"):
        found = {entry["metric"]: entry for entry in self.server.get(path)["quotas"]}
        return found[metric]["usage"], found[metric]["limit"]

    def test_quotas_are_used_and_exceeded_at_once_or_later(self):
        self.server.control(
            "projects/p", {"limits": {"us-central1": {"CPUS": 3, "STATIC_ADDRESSES": 1}, "": {"FIREWALLS": 1}}}
        )
        self.server.done(self.post(INSTANCES, instance("a")))
        self.assertEqual(
            (self.quota("CPUS"), self.quota("IN_USE_ADDRESSES")[0], self.quota("INSTANCES")[0]), ((2, 3), 1, 1)
        )
        done = self.server.done(self.post(INSTANCES, instance("b")))
        error = done["error"]["errors"][0]
        self.assertEqual(
            (error["code"], error["message"], done["httpErrorStatusCode"]),
            ("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.  Limit: 3.0 in region us-central1.", 403),
        )
        self.assertEqual(error["errorDetails"][0]["quotaInfo"]["dimensions"], {"region": "us-central1"})
        self.assertEqual(self.server.call("GET", f"{INSTANCES}/b")[0], 404)
        self.server.control("settings", {"quota_errors": "sync"})
        code, refused = self.post(INSTANCES, instance("b"))
        self.assertEqual((code, refused["error"]["errors"][0]["reason"]), (403, "quotaExceeded"))
        self.server.done(self.server.call("POST", f"{INSTANCES}/a/stop"))
        self.assertEqual((self.quota("CPUS")[0], self.quota("IN_USE_ADDRESSES")[0]), (0, 0))
        self.server.done(self.post(ADDRESSES, {"name": "one"}))
        self.assertEqual(self.post(ADDRESSES, {"name": "two"})[1]["error"]["errors"][0]["reason"], "quotaExceeded")
        self.assertEqual(self.server.call("GET", f"{ADDRESSES}/two")[0], 404)
        self.server.done(self.post(FIREWALLS, rule("one")))
        self.assertEqual(self.post(FIREWALLS, rule("two"))[0], 403)
        self.assertEqual(self.quota("FIREWALLS", "p"), (1, 1))

    def test_permissions_are_asked_for_and_recorded(self):
        granted = [
            "compute.instances.create",
            "compute.disks.create",
            "compute.subnetworks.use",
            "compute.zoneOperations.get",
        ]
        self.server.control("projects/p", {"granted": granted})
        code, refused = self.post(INSTANCES, instance())
        self.assertEqual((code, refused["error"]["errors"][0]["reason"]), (403, "forbidden"))
        self.assertEqual(
            refused["error"]["message"],
            "Required 'compute.subnetworks.useExternalIp' permission for 'projects/p/regions/us-central1/subnetworks/default'",
        )
        self.server.control("projects/p", {"granted": [*granted, "compute.subnetworks.useExternalIp"]})
        self.server.done(self.post(INSTANCES, instance()))
        self.assertEqual(self.server.call("DELETE", f"{INSTANCES}/a")[0], 403)
        used = self.server.control("projects/p")["used_permissions"]
        self.assertEqual(used, sorted([*granted, "compute.subnetworks.useExternalIp", "compute.instances.delete"]))

    def test_a_network_of_another_project_is_shared(self):
        self.server.control("projects/host", {"networks": {"vpc": {"us-central1": "10.9.0.0/24"}}})
        link = "projects/host/regions/us-central1/subnetworks/vpc"
        self.server.done(self.post(INSTANCES, instance(networkInterfaces=[{"subnetwork": link}])))
        seen = self.server.get(f"{INSTANCES}/a")["networkInterfaces"][0]
        self.assertTrue(seen["subnetwork"].endswith(link))
        self.assertEqual(seen["networkIP"], "10.9.0.2")
        self.server.control("projects/host", {"granted": []})
        self.assertEqual(self.post(INSTANCES, instance("b", networkInterfaces=[{"subnetwork": link}]))[0], 403)
        self.assertEqual(
            self.post(INSTANCES, instance("c", networkInterfaces=[{"network": "projects/host/global/networks/vpc"}]))[
                0
            ],
            400,
        )

    def test_protection_from_deletion(self):
        self.server.done(self.post(INSTANCES, instance(deletionProtection=True)))
        self.assertEqual(self.server.call("DELETE", f"{INSTANCES}/a")[0], 412)
        self.server.done(self.server.call("POST", f"{INSTANCES}/a/setDeletionProtection", deletionProtection="false"))
        self.server.done(self.server.call("DELETE", f"{INSTANCES}/a"))


if __name__ == "__main__":
    unittest.main()
