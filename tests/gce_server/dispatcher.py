"""From a request to its answer: identity, the document, faults, the method, the document again.

One lock is held while a request is answered; only what waits gives it up. Answers are bytes, so that nothing of the
state leaves the lock.
"""

import json
import sys
import time
import urllib.parse
from typing import NamedTuple

from . import addresses, disks, errors, faults, firewalls, identity, instances, operations, places
from .calls import Call
from .document import Method
from .world import LINKS

METHODS = {}
for module in (addresses, disks, firewalls, instances, operations, places):
    METHODS.update(module.METHODS)

# Headers that tests ask the log for.
SHOWN = ("user-agent", "x-goog-api-client", "x-goog-user-project", "authorization", "metadata-flavor")


class Request:
    def __init__(self, verb, target, headers, body):
        split = urllib.parse.urlsplit(target)
        self.verb = verb
        self.path = urllib.parse.unquote(split.path)
        self.query = urllib.parse.parse_qsl(split.query, keep_blank_values=True)
        self.headers = headers
        self.body = body

    def text(self):
        return self.body.decode("utf-8", "replace")


class Answer(NamedTuple):
    """What goes back; `cut` says where the connection ends instead: before, headers or body."""

    status: int
    headers: dict
    body: bytes
    cut: str | None = None


class Dispatcher:
    def __init__(self, world, document):
        self.world = world
        self.document = document

    def answer(self, request, batched=False):
        """The answer to a request of Compute Engine or of the endpoints for tokens."""
        world = self.world
        entry = {
            "method": None,
            "verb": request.verb,
            "path": request.path,
            "query": dict(request.query),
            "batched": batched,
        }
        entry["headers"] = {name: request.headers[name] for name in SHOWN if name in request.headers}
        delay = [0.0]
        with world.changed:
            world.clock.run_due()
            entry["seq"], entry["time"] = len(world.log) + 1, world.clock.now()
            world.log.append(entry)
            try:
                status, headers, content, cut = self._answered(request, entry, delay)
            except errors.ApiError as error:
                status, headers, content, cut = error.code, error.headers, error.body, None
            except identity.Refused as refused:
                status, headers, content, cut = refused.code, {}, refused.body, None
            except Exception as error:  # the one place where a mistake of ours must become an answer
                self._violation(entry["method"], [f"{type(error).__name__}: {error}"])
                status, headers, content, cut = 500, {}, {"error": {"code": 500, "message": f"bug: {error}"}}, None
            entry["status"] = None if cut == "before" else status
            if isinstance(content, str):
                headers, body = {"Content-Type": "application/text", **headers}, content.encode()
            elif content is None:
                body = b""
            else:
                headers, body = {"Content-Type": "application/json; charset=UTF-8", **headers}, self._written(content)
            if request.path.startswith("/computeMetadata") or request.path == "/":
                headers["Metadata-Flavor"] = "Google"
            world.changed.notify_all()
        if delay[0]:
            time.sleep(delay[0])
        return Answer(status, headers, body, cut)

    def _written(self, content):
        text = json.dumps(content, separators=(",", ":"))
        links = self.world.settings["links"]
        return (text if links == LINKS else text.replace(LINKS, links)).encode()

    def _answered(self, request, entry, delay):
        endpoint = self.world.identity.endpoint(request.verb, request.path)
        if endpoint:
            name, handler = endpoint
            method = Method(name, request.verb, None, {}, None, None)
            call = Call(self.world, method, next(reversed(self.world.projects.values())), {}, None, None)
            entry["method"] = name
            return self._struck(call, lambda: handler(request), delay, check=False)
        caller = self.world.identity.caller(request.headers, request.query)
        if not request.path.startswith(self.document.root):
            raise errors.ApiError(404, "notFound", f"No such path: {request.path}")
        method, path = self.document.find(request.verb, request.path.removeprefix(self.document.root))
        if method is None:
            raise errors.ApiError(404, "notFound", f"The document has no method {request.verb} {request.path}")
        entry["method"] = method.name
        project = self.world.project(path["project"]) if "project" in path else None
        entry["project"] = project.name if project else path.get("project")
        params = self.document.parameters(method, path, request.query)
        body = _read(request, method)
        if body is not None:
            entry["body"] = body
        self.document.check_request(method, body)
        if project is None:
            raise errors.no_such_project(path.get("project", ""))
        self._check_project(project, request)
        call = Call(self.world, method, project, params, body, caller)
        handler = METHODS.get(method.name)
        if handler is None:
            raise errors.not_implemented(method.name)
        # Answers that wait end in a state of their own, so the struck operation is told from the method's.
        return self._struck(call, lambda: handler(call), delay, check=True)

    def _check_project(self, project, request):
        payer = request.headers.get("x-goog-user-project")
        if payer is not None:
            its = self.world.project(payer)
            if its is None or (its.granted is not None and "serviceusage.services.use" not in its.granted):
                raise errors.user_project_denied(payer)
        if not project.api_enabled:
            raise errors.api_disabled(project.number)
        if not project.billing_enabled and request.verb != "GET":
            raise errors.billing_disabled(project.number)

    def _struck(self, call, run, delay, check):
        """Runs a method with the faults that strike it."""
        cut, patches, raw = None, [], False
        for when in ("before", "after"):
            for rule in self.world.faults.struck_by(call, when):
                delay[0] += rule.get("delay", 0)
                if rule.get("error") is not None:
                    raise faults.error(call, rule["error"])
                if rule.get("cut") and when == "before":
                    return 503, {}, None, "before"
                cut = rule.get("cut") or cut
                raw = raw or rule.get("raw", False)
                if "patch" in rule:
                    patches.append(rule["patch"])
            if when == "before":
                content = run()
        for patch in patches:
            content = faults.merged(content, patch)
        problems = self.document.response_problems(call.method, content) if check and not raw else []
        if problems:
            self._violation(call.method.name, problems)
            return (
                500,
                {},
                {"error": {"code": 500, "message": f"not an answer of the document: {'; '.join(problems)}"}},
                cut,
            )
        return (200 if content is not None else 204), {}, content, cut

    def _violation(self, method, problems):
        self.world.violations += [f"{method}: {problem}" for problem in problems]
        print(f"gce_server: {method}: {'; '.join(problems)}", file=sys.stderr, flush=True)


def _read(request, method):
    """The JSON of a request, None where there is none."""
    if not request.body.strip():
        return None
    try:
        body = json.loads(request.body)
    except ValueError as error:
        raise errors.malformed_json(error) from None
    if not isinstance(body, dict):
        raise errors.malformed_json("Root element must be a message.")
    return body
