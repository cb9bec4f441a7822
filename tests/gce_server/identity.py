"""Who calls: bearer tokens, and the endpoints that hand them out (OAuth, STS, impersonation, metadata server).

Any token is good until a test says which ones are. What was issued here expires, and can be revoked.
"""

import base64
import datetime
import json
import secrets
import time
import urllib.parse
import uuid

from . import errors, keys

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCOUNT = "tester@example.com"
METADATA = "/computeMetadata/v1"


class Refused(Exception):
    """An endpoint's own kind of error: status and JSON, or text for the metadata server."""

    def __init__(self, code, body):
        super().__init__(str(body))
        self.code = code
        self.body = body


class Identity:
    def __init__(self, world):
        self._world = world
        # None: any token.
        self.valid = None
        self.anonymous = False
        self.expires_in = 3600
        self.revoked = set()
        self.issued = {}
        self.refresh_tokens = None
        # Whether this is a machine of Google's: without, the metadata server answers 404 to everything.
        self.metadata_account = ACCOUNT
        self._accounts = {}

    def caller(self, headers, query):
        """The account that a request comes from. Raises the 401 that it gets otherwise."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        token = token or dict(query).get("access_token", "")
        if not token or (scheme and scheme.lower() != "bearer"):
            if self.anonymous:
                return "anonymous"
            raise errors.unauthenticated("missing_token" if not token else "invalid_token")
        if token in self.revoked:
            raise errors.unauthenticated()
        if token in self.issued:
            account, until = self.issued[token]
            if self._world.clock.now() >= until:
                raise errors.unauthenticated()
            return account
        if token.count(".") == 2:
            account = self._signer(token)
            if account:
                return account
        if self.valid is not None and token not in self.valid:
            raise errors.unauthenticated()
        return ACCOUNT

    def _signer(self, token):
        """The account that signed a JWT; None when no key of ours is meant, 401 when the signature is wrong."""
        try:
            header, claims = (json.loads(_decoded(part)) for part in token.split(".")[:2])
            account = self._accounts.get(claims.get("iss"))
        except (ValueError, AttributeError):
            return None
        if account is None:
            return None
        identifier, key = account
        signed, _, signature = token.rpartition(".")
        fresh = claims.get("iat", 0) <= time.time() + 300 and time.time() < claims.get("exp", 0)
        if header.get("kid") != identifier or not fresh or not key.verifies(signed.encode(), _decoded(signature)):
            raise errors.unauthenticated()
        return claims["iss"]

    def issue(self, account=ACCOUNT):
        token = f"ya29.{secrets.token_urlsafe(24)}"
        self.issued[token] = (account, self._world.clock.now() + self.expires_in)
        return token

    def service_account_key(self, url, project, email):
        """The content of a new key file."""
        identifier, key = uuid.uuid4().hex, keys.Key()
        self._accounts[email] = (identifier, key)
        return {
            "type": "service_account",
            "project_id": project,
            "private_key_id": identifier,
            "private_key": key.pem(),
            "client_email": email,
            "client_id": str(uuid.uuid4().int % 10**21),
            "auth_uri": f"{url}/auth",
            "token_uri": f"{url}/token",
            "universe_domain": "googleapis.com",
        }

    # The endpoints: each returns the JSON of its answer, or text.

    def endpoint(self, verb, path):
        """The name of the endpoint that a request means, and what answers it; None when it is none of these."""
        if verb == "POST" and path in ("/token", "/oauth2/token"):
            return "oauth2.token", self._token
        if verb == "POST" and path in ("/v1/token", "/sts/v1/token"):
            return "sts.token", self._exchange
        if verb == "POST" and path.endswith(":generateAccessToken"):
            return "iamcredentials.generateAccessToken", self._impersonate
        if verb == "GET" and (path == "/" or path.startswith("/computeMetadata")):
            return "metadata.get", self._metadata
        return None

    def _token(self, request):
        form = dict(urllib.parse.parse_qsl(request.text()))
        kind = form.get("grant_type")
        if kind == JWT_BEARER:
            try:
                account = self._signer(form.get("assertion", ""))
            except errors.ApiError:
                account = None
            if account is None:
                raise Refused(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
        elif kind == "refresh_token":
            if not form.get("client_id") or not form.get("client_secret"):
                raise Refused(401, {"error": "invalid_client", "error_description": "The OAuth client was not found."})
            if self.refresh_tokens is not None and form.get("refresh_token") not in self.refresh_tokens:
                raise Refused(
                    400, {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
                )
            account = ACCOUNT
        else:
            raise Refused(400, {"error": "unsupported_grant_type", "error_description": f"Invalid grant_type: {kind}"})
        return {
            "access_token": self.issue(account),
            "expires_in": self.expires_in,
            "token_type": "Bearer",
            "scope": form.get("scope", ""),
        }

    def _exchange(self, request):
        form = dict(urllib.parse.parse_qsl(request.text()))
        if form.get("grant_type") != TOKEN_EXCHANGE or not form.get("subject_token") or not form.get("audience"):
            raise Refused(400, {"error": "invalid_request", "error_description": "Missing required parameters."})
        return {
            "access_token": self.issue("federated@example.com"),
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": self.expires_in,
        }

    def _impersonate(self, request):
        self.caller(request.headers, request.query)
        try:
            asked = json.loads(request.body or b"{}")
        except ValueError as error:
            raise errors.malformed_json(error) from None
        if not asked.get("scope"):
            raise errors.ApiError(400, "invalid", "scope is required", status="INVALID_ARGUMENT")
        account = request.path.rpartition("/")[2].partition(":")[0]
        until = datetime.datetime.fromtimestamp(time.time() + self.expires_in, datetime.UTC)
        return {
            "accessToken": self.issue(urllib.parse.unquote(account)),
            "expireTime": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def _metadata(self, request):
        if request.headers.get("metadata-flavor") != "Google" or "x-forwarded-for" in request.headers:
            raise Refused(403, "Missing required header: Metadata-Flavor")
        path = request.path.removeprefix(METADATA).rstrip("/")
        project = next(reversed(self._world.projects.values()))
        account = self.metadata_account
        if account is None and "service-accounts" in path:
            raise Refused(404, "Not Found")
        base = "/instance/service-accounts/default"
        simple = {
            "": "instance/\nproject/\n",
            "/project/project-id": project.name,
            "/project/numeric-project-id": str(project.number),
            "/universe/universe-domain": "googleapis.com",
            "/universe/universe_domain": "googleapis.com",
            f"{base}/email": account,
            f"{base}/scopes": "https://www.googleapis.com/auth/cloud-platform\n",
        }
        if path == f"{base}/token":
            return {"access_token": self.issue(account), "expires_in": self.expires_in, "token_type": "Bearer"}
        if path == base:
            return {
                "aliases": ["default"],
                "email": account,
                "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
            }
        if path in simple:
            return simple[path]
        raise Refused(404, "Not Found")


def _decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
