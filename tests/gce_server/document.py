"""Google's discovery document of Compute Engine: which method a request calls, and whether it may.

The document is the one that google-api-python-client ships. Nothing here knows what a method does.
"""

import importlib.util
import json
import pathlib
import re
from typing import NamedTuple

from . import errors, schema

# Parameters that every method takes. `$alt` and `$apiVersion` are how newer clients spell `alt` and choose a
# version; of the version only the form is checked, since Google does not say which ones it still serves.
SYSTEM = re.compile(r"\$?(alt|key|prettyPrint|quotaUser|userIp|access_token|\.?xgafv|apiVersion)")
VERSION = re.compile(r"\d{4}-\d\d-\d\d")

# What older documents declare and Google goes on answering to who names no version; this one has it on no method,
# so a request that names a version must not send it.
LEGACY = "returnPartialSuccess"


class Method(NamedTuple):
    """One method of the document, `name` as in `instances.insert`."""

    name: str
    verb: str
    pattern: re.Pattern
    parameters: dict
    request: str | None
    response: str | None


class Document:
    def __init__(self, path=None):
        content = json.loads(pathlib.Path(path or shipped()).read_text(encoding="utf-8"))
        self.revision = content["revision"]
        self.schemas = schema.Schemas(content["schemas"])
        self.root = "/" + content["servicePath"]
        self._methods = {}
        for slashes, method in _methods(content["resources"]):
            self._methods.setdefault((method.verb, slashes), []).append(method)
        for candidates in self._methods.values():
            # Of two that match, the one with fewer parameters in its path is meant.
            candidates.sort(key=lambda method: method.pattern.groups)

    def find(self, verb, path):
        """The method that this request calls and its parameters from the path, or (None, {})."""
        for method in self._methods.get((verb, path.count("/")), []):
            match = method.pattern.fullmatch(path)
            if match:
                return method, match.groupdict()
        return None, {}

    def parameters(self, method, path, query):
        """The parameters, each of its type. Raises what Google answers to those that it does not know."""
        values = {}
        versioned = any(name == "$apiVersion" for name, _ in query)
        for name, value in [*path.items(), *query]:
            declared = method.parameters.get(name)
            if declared is None and SYSTEM.fullmatch(name):
                if name == "$apiVersion" and not VERSION.fullmatch(value):
                    raise errors.invalid(name, value, "Unknown API version.")
                continue
            if declared is None and name == LEGACY and not versioned and "List" in (method.response or ""):
                declared = {"type": "boolean"}
            if declared is None:
                raise errors.unknown_parameter(name)
            if declared.get("location") == "path" and not re.fullmatch(declared.get("pattern", ".*"), value):
                raise errors.mismatch(name, value, declared["pattern"])
            values[name] = _typed(name, value, declared)
        for name, declared in method.parameters.items():
            if declared.get("required") and name not in values:
                raise errors.required(name)
        return values

    def check_request(self, method, body):
        """Raises what Google answers to a body that the document does not allow."""
        if method.request is None:
            if body not in (None, {}):
                raise errors.unknown_names([schema.Problem("unknown", "", next(iter(body)), None, "")])
            return
        if body is None:
            raise errors.required("resource")
        problems = self.schemas.problems(method.request, body, method=f"compute.{method.name}")
        malformed = [problem for problem in problems if problem.kind in ("unknown", "type", "enum")]
        if malformed:
            raise errors.unknown_names(malformed)
        for problem in problems:
            if problem.kind == "required":
                raise errors.required(f"{problem.path}.{problem.name}")
            raise errors.mismatch(problem.path, problem.value, problem.expected)

    def response_problems(self, method, body):
        """What the document says against an answer of ours."""
        if method.response is None:
            return [] if body is None else ["an answer where the document has none"]
        return [str(problem) for problem in self.schemas.problems(method.response, body)]


def shipped():
    """The document inside of the package google-api-python-client that this Python has."""
    package = importlib.util.find_spec("googleapiclient")
    if package is None:
        raise SystemExit(
            "google-api-python-client is not installed here; scripts/tools/gce-server prints a Python that has it"
        )
    return pathlib.Path(package.origin).parent / "discovery_cache" / "documents" / "compute.v1.json"


def _methods(resources):
    for resource, content in resources.items():
        for name, method in content.get("methods", {}).items():
            if "{+" in method["path"]:
                # A name with slashes inside; only reservations have one.
                continue
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", re.sub(r"\.", r"\\.", method["path"]))
            yield (
                method["path"].count("/"),
                Method(
                    f"{resource}.{name}",
                    method["httpMethod"],
                    re.compile(pattern),
                    method.get("parameters", {}),
                    method.get("request", {}).get("$ref"),
                    method.get("response", {}).get("$ref"),
                ),
            )
        yield from _methods(content.get("resources", {}))


def _typed(name, value, declared):
    if declared["type"] == "boolean":
        if value.lower() not in ("true", "false"):
            raise errors.bad_parameter(name, value, "TYPE_BOOL")
        return value.lower() == "true"
    if declared["type"] == "integer":
        low, high = schema.RANGES[declared.get("format", "int32")]
        if not schema.INTEGER.fullmatch(value) or not low <= int(value) <= high:
            raise errors.bad_parameter(name, value, f"TYPE_{declared.get('format', 'int32').upper()}")
        number = int(value)
        if number < int(declared.get("minimum", low)) or number > int(declared.get("maximum", high)):
            raise errors.invalid(
                name, value, f"Must be between {declared.get('minimum')} and {declared.get('maximum')}."
            )
        return number
    return value
