"""Checks of JSON values against schemas of a discovery document.

Knows nothing of HTTP or of Compute Engine. A schema is compiled once into a function that appends what is wrong
to a list; requests may spell integers in both ways that Google accepts, responses must spell them as Google does.
"""

import base64
import binascii
import re
from typing import NamedTuple

RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
DATETIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
INTEGER = re.compile(r"-?\d+")


class Problem(NamedTuple):
    """One thing that is wrong: `kind` is unknown, type, enum, pattern or required."""

    kind: str
    path: str
    name: str
    value: object
    expected: str

    def __str__(self):
        where = self.path or "the top level"
        if self.kind == "unknown":
            return f"unknown name {self.name!r} at {where}"
        if self.kind == "required":
            return f"{where} lacks {self.name}"
        return f"{where} is {self.value!r}, expected {self.expected}"


class Schemas:
    """The schemas of one document, compiled when first used."""

    def __init__(self, definitions):
        self._definitions = definitions
        self._compiled = {}

    def problems(self, name, value, *, method=None):
        """What is wrong with a value of the schema `name`; `method` is given for a request's body."""
        found = []
        self._check(name, method)(value, "resource" if method else "", found)
        return found

    def _check(self, name, method):
        key = (name, method)
        if key not in self._compiled:
            # A schema may contain itself: what is inside looks the finished check up when it runs.
            self._compiled[key] = lambda *arguments: self._compiled[key](*arguments)
            self._compiled[key] = self._compile(self._definitions[name], method)
        return self._compiled[key]

    def _compile(self, schema, method):
        if "$ref" in schema:
            name = schema["$ref"]
            return lambda *arguments: self._check(name, method)(*arguments)
        kind = schema.get("type", "any")
        if kind == "object":
            return self._object(schema, method)
        if kind == "array":
            return _array(self._compile(schema["items"], method))
        return {
            "string": _string,
            "integer": _integer,
            "number": _number,
            "boolean": _boolean,
            "any": lambda *_: lambda *__: None,
        }[kind](schema, method is not None)

    def _object(self, schema, method):
        if schema.get("format") == "google.protobuf.Any":
            return lambda *_: None
        properties = {name: self._compile(inner, method) for name, inner in schema.get("properties", {}).items()}
        required = [
            name
            for name, inner in schema.get("properties", {}).items()
            if method and method in inner.get("annotations", {}).get("required", [])
        ]
        rest = self._compile(schema["additionalProperties"], method) if "additionalProperties" in schema else None

        def check(value, path, found):
            if not isinstance(value, dict):
                found.append(Problem("type", path, "", value, "an object"))
                return
            for name in required:
                if value.get(name) is None:
                    found.append(Problem("required", path, name, None, "a value"))
            for name, inner in value.items():
                test = properties.get(name, rest)
                if test is None:
                    found.append(Problem("unknown", path, name, inner, ""))
                elif inner is not None:
                    test(inner, f"{path}.{name}" if path else name, found)
                elif method is None:
                    found.append(Problem("type", f"{path}.{name}", "", None, "no null in a response"))

        return check


def _array(item):
    def check(value, path, found):
        if not isinstance(value, list):
            found.append(Problem("type", path, "", value, "an array"))
            return
        for index, inner in enumerate(value):
            item(inner, f"{path}[{index}]", found)

    return check


def _string(schema, lenient):
    kind, words = schema.get("format"), schema.get("enum")
    pattern = re.compile(schema["pattern"]) if "pattern" in schema else None

    def check(value, path, found):
        if kind in RANGES and lenient and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            found.append(Problem("type", path, "", value, "a string"))
        elif words and value not in words:
            found.append(Problem("enum", path, "", value, f"one of {', '.join(words)}"))
        elif kind in RANGES and not _within(value, kind):
            found.append(Problem("type", path, "", value, f"an {kind} in a string"))
        elif kind == "byte" and not _is_base64(value):
            found.append(Problem("type", path, "", value, "base64"))
        elif kind == "google-datetime" and not DATETIME.fullmatch(value):
            found.append(Problem("type", path, "", value, "an RFC 3339 timestamp"))
        elif pattern and not pattern.fullmatch(value):
            found.append(Problem("pattern", path, "", value, pattern.pattern))

    return check


def _within(text, kind):
    low, high = RANGES[kind]
    return bool(INTEGER.fullmatch(text)) and low <= int(text) <= high


def _is_base64(text):
    try:
        base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _integer(schema, lenient):
    low, high = RANGES[schema.get("format", "int32")]

    def check(value, path, found):
        if lenient and isinstance(value, str) and INTEGER.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            found.append(Problem("type", path, "", value, schema.get("format", "an integer")))

    return check


def _number(_schema, _lenient):
    def check(value, path, found):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            found.append(Problem("type", path, "", value, "a number"))

    return check


def _boolean(_schema, _lenient):
    def check(value, path, found):
        if not isinstance(value, bool):
            found.append(Problem("type", path, "", value, "a boolean"))

    return check
