"""Google's own client for Python drives the server, in pages, batches and errors."""

import unittest

import google.oauth2.credentials
import googleapiclient.discovery
import googleapiclient.errors

from .running import Running, instance

HERE = {"project": "p", "zone": "us-central1-a"}


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Running("--project", "p", manual=False)
        cls.addClassCleanup(cls.server.stop)
        cls.compute = googleapiclient.discovery.build(
            "compute",
            "v1",
            credentials=google.oauth2.credentials.Credentials("token"),
            static_discovery=True,
            client_options={"api_endpoint": f"{cls.server.compute}/"},
        )
        cls.addClassCleanup(cls.compute.close)

    def wait(self, operation):
        return self.compute.zoneOperations().wait(operation=operation["name"], **HERE).execute()

    def test_the_life_of_an_instance(self):
        instances = self.compute.instances()
        self.assertEqual(
            self.wait(instances.insert(body=instance("life", labels={"x": "y"}), **HERE).execute())["status"], "DONE"
        )
        self.assertEqual(instances.get(instance="life", **HERE).execute()["status"], "RUNNING")
        self.wait(instances.stop(instance="life", **HERE).execute())
        self.assertEqual(instances.get(instance="life", **HERE).execute()["status"], "TERMINATED")
        self.wait(instances.start(instance="life", **HERE).execute())
        self.wait(instances.delete(instance="life", **HERE).execute())
        with self.assertRaises(googleapiclient.errors.HttpError) as caught:
            instances.get(instance="life", **HERE).execute()
        self.assertEqual((caught.exception.status_code, caught.exception.error_details[0]["reason"]), (404, "notFound"))

    def test_pages(self):
        for number in range(5):
            self.wait(self.compute.instances().insert(body=instance(f"page{number}"), **HERE).execute())
        found, request = [], self.compute.instances().aggregatedList(project="p", maxResults=2, filter="name=page*")
        while request is not None:
            answer = request.execute()
            found += [item["name"] for scope in answer["items"].values() for item in scope.get("instances", [])]
            request = self.compute.instances().aggregatedList_next(request, answer)
        self.assertEqual(found, [f"page{number}" for number in range(5)])

    def test_a_batch_is_answered_part_by_part(self):
        answers = {}
        batch = self.compute.new_batch_http_request(
            callback=lambda identifier, answer, error: answers.update({identifier: answer or error})
        )
        # The client has Google's host for batches in its copy of the document.
        batch._batch_uri = f"{self.server.url}/batch/compute/v1"
        batch.add(self.compute.regions().get(project="p", region="us-east1"), request_id="region")
        batch.add(self.compute.instances().get(instance="none", **HERE), request_id="none")
        batch.execute()
        self.assertEqual(answers["region"]["name"], "us-east1")
        self.assertEqual(answers["none"].status_code, 404)


if __name__ == "__main__":
    unittest.main()
