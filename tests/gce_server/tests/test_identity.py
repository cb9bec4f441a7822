"""Tokens: which are good, where they come from, when they end; by Google's own library where it has the flow."""

import json
import unittest

import google.auth.transport.requests
import google.oauth2.credentials
import google.oauth2.service_account

from .running import Running


class Identity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Running("--project", "p")
        cls.addClassCleanup(cls.server.stop)
        cls.key = cls.server.control("credentials/service_account", {})

    def setUp(self):
        self.server.control("identity", {"valid": [], "anonymous": False, "expires_in": 3600, "refresh_tokens": None})

    def status(self, token):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.server.raw("GET", "/compute/v1/projects/p", None, headers)[0]

    def test_no_token_and_a_wrong_one_are_refused_with_a_challenge(self):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
            status, answered, content = self.server.raw("GET", "/compute/v1/projects/p", None, headers)
            self.assertEqual((status, json.loads(content)["error"]["status"]), (401, "UNAUTHENTICATED"))
            self.assertTrue(answered["WWW-Authenticate"].startswith("Bearer realm="))
        self.server.control("identity", {"valid": ["good"]})
        self.assertEqual((self.status("good"), self.status("bad")), (200, 401))
        self.server.control("identity", {"valid": None})
        self.assertEqual((self.status("any"), self.status(None)), (200, 401))
        self.server.control("identity", {"anonymous": True})
        self.assertEqual(self.status(None), 200)

    def test_a_service_account_exchanges_its_jwt(self):
        credentials = google.oauth2.service_account.Credentials.from_service_account_info(
            self.key, scopes=["https://www.googleapis.com/auth/cloud-platform"]
        )
        credentials.refresh(google.auth.transport.requests.Request())
        self.assertEqual(self.status(credentials.token), 200)
        self.server.control("identity", {"revoke": [credentials.token]})
        self.assertEqual(self.status(credentials.token), 401)

    def test_a_jwt_that_the_account_signed_itself_is_a_token_and_a_changed_one_is_not(self):
        credentials = google.oauth2.service_account.Credentials.from_service_account_info(self.key)
        credentials = credentials.with_always_use_jwt_access(True)
        credentials._create_self_signed_jwt("https://compute.googleapis.com/")
        credentials.refresh(google.auth.transport.requests.Request())
        token = credentials.token.decode() if isinstance(credentials.token, bytes) else credentials.token
        self.assertEqual(token.count("."), 2)
        self.assertEqual(self.status(token), 200)
        head, claims, signature = token.split(".")
        self.assertEqual(self.status(f"{head}.{claims}.{signature[:-8]}AAAAAAAA"), 401)

    def test_a_refresh_token_brings_tokens_that_expire(self):
        file = self.server.control("credentials/authorized_user", {})
        user = google.oauth2.credentials.Credentials(
            None, **{key: file[key] for key in ("refresh_token", "token_uri", "client_id", "client_secret")}
        )
        user.refresh(google.auth.transport.requests.Request())
        self.assertEqual(self.status(user.token), 200)
        self.server.advance(3601)
        self.assertEqual(self.status(user.token), 401)
        self.server.control("identity", {"refresh_tokens": []})
        with self.assertRaisesRegex(Exception, "invalid_grant"):
            user.refresh(google.auth.transport.requests.Request())

    def test_impersonation(self):
        content = self.server.control(
            "credentials/impersonated_service_account", {"email": "robot@p.iam.gserviceaccount.com"}
        )
        path = content["service_account_impersonation_url"].removeprefix(self.server.url)
        self.server.control("identity", {"valid": ["source"]})
        body = {"scope": ["https://www.googleapis.com/auth/cloud-platform"], "lifetime": "3600s"}
        self.assertEqual(self.server.raw("POST", path, body)[0], 401)
        status, _, answer = self.server.raw("POST", path, body, {"Authorization": "Bearer source"})
        answer = json.loads(answer)
        self.assertEqual((status, set(answer)), (200, {"accessToken", "expireTime"}))
        self.assertEqual(self.status(answer["accessToken"]), 200)

    def test_a_federated_token_is_exchanged(self):
        form = b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=t&audience=a"
        status, _, answer = self.server.raw("POST", "/v1/token", form)
        self.assertEqual((status, self.status(json.loads(answer)["access_token"])), (200, 200))
        self.assertEqual(self.server.raw("POST", "/v1/token", b"grant_type=x")[0], 400)

    def test_the_metadata_server_wants_its_header_and_no_proxy(self):
        path, flavor = "/computeMetadata/v1/instance/service-accounts/default/token", {"Metadata-Flavor": "Google"}
        self.assertEqual(self.server.raw("GET", path)[0], 403)
        self.assertEqual(self.server.raw("GET", path, None, {**flavor, "X-Forwarded-For": "10.0.0.1"})[0], 403)
        status, headers, answer = self.server.raw("GET", path, None, flavor)
        self.assertEqual((status, headers["Metadata-Flavor"]), (200, "Google"))
        self.assertEqual(self.status(json.loads(answer)["access_token"]), 200)
        self.assertEqual(self.server.raw("GET", "/computeMetadata/v1/project/project-id", None, flavor)[2], b"p")
        self.server.control("identity", {"metadata_account": None})
        self.assertEqual(self.server.raw("GET", path, None, flavor)[0], 404)
        self.server.control("identity", {"metadata_account": "tester@example.com"})
        self.server.control("faults", {"match": {"method": "metadata.get"}, "error": "backendError"})
        self.assertEqual(self.server.raw("GET", path, None, flavor)[0], 503)

    def test_a_quota_project_must_be_usable(self):
        self.server.control("identity", {"valid": None})
        self.assertEqual(self.server.call("GET", "p", headers={"x-goog-user-project": "p"})[0], 200)
        status, answer = self.server.call("GET", "p", headers={"x-goog-user-project": "nobody"})
        self.assertEqual((status, answer["error"]["details"][0]["reason"]), (403, "USER_PROJECT_DENIED"))
        shown = self.server.control("requests")["requests"][-1]
        self.assertEqual(
            (shown["headers"]["x-goog-user-project"], shown["headers"]["authorization"]), ("nobody", "Bearer token")
        )


if __name__ == "__main__":
    unittest.main()
