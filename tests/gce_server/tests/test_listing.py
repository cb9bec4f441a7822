"""Listings: filters, pages, scopes that cannot be reached."""

import unittest

from .running import INSTANCES, Running, instance

ZONES = ("us-central1-a", "us-central1-b", "us-east1-b")


class Listing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Running("--project", "p", "--project", "q")
        cls.addClassCleanup(cls.server.stop)
        for zone in ZONES:
            for number in range(3):
                body = instance(f"i{number}", zone, labels={"n": str(number), "zone": zone})
                cls.server.call("POST", f"p/zones/{zone}/instances", body)
        cls.server.advance()

    def tearDown(self):
        for zone in ZONES:
            self.server.control(f"scopes/zones/{zone}", {"listing": None})
        self.server.control("faults", verb="DELETE")

    def names(self, answer):
        return [
            (scope, item["name"]) for scope, content in answer["items"].items() for item in content.get("instances", [])
        ]

    def pages(self, path, **query):
        """Every page of a listing."""
        pages = [self.server.get(path, **query)]
        while "nextPageToken" in pages[-1]:
            pages.append(self.server.get(path, pageToken=pages[-1]["nextPageToken"], **query))
        return pages

    def test_all_pages_together_are_the_listing_and_none_repeats(self):
        whole = self.names(self.server.get("p/aggregated/instances"))
        self.assertEqual(len(whole), 9)
        for size in (1, 2, 4, 9, 500):
            pages = self.pages("p/aggregated/instances", maxResults=size)
            self.assertEqual(len(pages), -(-9 // size))
            self.assertEqual([name for page in pages for name in self.names(page)], whole)
            for page in pages:
                self.assertEqual(len(page["items"]), 10, "every page names every zone")
        self.assertEqual([len(page.get("items", [])) for page in self.pages(INSTANCES, maxResults=2)], [2, 1])

    def test_a_token_is_good_for_its_own_question_only(self):
        token = self.server.get("p/aggregated/instances", maxResults=1)["nextPageToken"]
        for query in ({"pageToken": "nonsense"}, {"pageToken": token, "filter": "labels.n=1"}):
            status, answer = self.server.call("GET", "p/aggregated/instances", **query)
            self.assertEqual((status, answer["error"]["errors"][0]["reason"]), (400, "invalid"))

    def test_filters_select_at_the_server(self):
        answer = self.server.get("p/aggregated/instances", filter="labels.n=1 AND labels.zone:*")
        self.assertEqual(self.names(answer), [(f"zones/{zone}", "i1") for zone in ZONES])
        empty = answer["items"]["zones/europe-west1-b"]["warning"]
        self.assertEqual(
            (empty["code"], empty["data"]), ("NO_RESULTS_ON_PAGE", [{"key": "scope", "value": "zones/europe-west1-b"}])
        )
        status, refused = self.server.call("GET", "p/aggregated/instances", filter="labels.n")
        self.assertEqual(
            (status, refused["error"]["message"]),
            (400, "Invalid value for field 'filter': 'labels.n'. Invalid list filter expression."),
        )

    def test_projects_do_not_see_each_other(self):
        self.assertEqual(self.names(self.server.get("q/aggregated/instances")), [])

    def test_one_zone_fails_the_whole_listing_unless_partial_success_is_wanted(self):
        self.server.control("scopes/zones/us-east1-b", {"listing": "fails"})
        status, answer = self.server.call("GET", "p/aggregated/instances")
        self.assertEqual((status, answer["error"]["errors"][0]["reason"]), (503, "backendError"))
        self.assertEqual(self.server.call("GET", "p/zones/us-east1-b/instances")[0], 503)
        self.assertEqual(self.server.call("GET", "p/zones/us-central1-a/instances")[0], 200)
        answer = self.server.get("p/aggregated/instances", returnPartialSuccess="true")
        self.assertEqual(answer["unreachables"], ["zones/us-east1-b"])
        self.assertEqual((answer["warning"]["code"], len(self.names(answer))), ("UNREACHABLE", 6))
        self.assertEqual(answer["items"]["zones/us-east1-b"]["warning"]["code"], "UNREACHABLE")
        self.assertEqual(self.server.get("p/zones/us-east1-b")["status"], "DOWN")

    def test_a_zone_may_be_left_out_of_an_answer_that_succeeds(self):
        self.server.control("scopes/zones/us-east1-b", {"listing": "omitted", "error": "rateLimitExceeded"})
        answer = self.server.get("p/aggregated/instances")
        self.assertEqual((answer["unreachables"], len(self.names(answer))), (["zones/us-east1-b"], 6))
        self.assertEqual(self.server.call("GET", "p/zones/us-east1-b/instances")[0], 403)

    def test_newest_first_and_no_other_order(self):
        listed = self.server.get("p/zones/us-central1-a/operations", orderBy="creationTimestamp desc")["items"]
        stamps = [operation["insertTime"] for operation in listed]
        self.assertEqual(stamps, sorted(stamps, reverse=True))
        self.assertEqual(self.server.call("GET", INSTANCES, orderBy="status")[0], 400)

    def test_a_page_token_can_be_made_to_repeat(self):
        self.server.control(
            "faults",
            {"match": {"method": "instances.aggregatedList"}, "times": None, "patch": {"nextPageToken": "again"}},
        )
        self.assertEqual(self.server.get("p/aggregated/instances")["nextPageToken"], "again")


if __name__ == "__main__":
    unittest.main()
