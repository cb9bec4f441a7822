"""Faults that tests ask for: which calls they strike, how often, and what then happens.

A fault is JSON, see README.md. It strikes calls to a method before or after the method ran, or the operation that
the method began. Knows no method by name.
"""

import itertools

from . import presets
from .errors import ApiError, OperationFailure


class Unreadable(ValueError):
    """What was asked for is no fault."""


KEYS = {"match", "skip", "times", "when", "error", "operation", "cut", "delay", "patch", "raw"}


class Faults:
    def __init__(self):
        self._rules = {}
        self._ids = itertools.count(1)

    def add(self, rule):
        unknown = set(rule) - KEYS
        if unknown or not isinstance(rule.get("match", {}), dict):
            raise Unreadable(f"unknown keys: {', '.join(sorted(unknown))}; known are {', '.join(sorted(KEYS))}")
        for key, table in (("error", presets.ERRORS), ("operation", presets.FAILURES)):
            if isinstance(rule.get(key), str) and rule[key] not in table:
                raise Unreadable(f"{key} {rule[key]!r} is none of {', '.join(sorted(table))}")
        if rule.get("cut") not in (None, "before", "headers", "body"):
            raise Unreadable("cut is before, headers or body")
        if rule.get("when", "before") not in ("before", "after"):
            raise Unreadable("when is before or after")
        identifier = str(next(self._ids))
        self._rules[identifier] = {
            **rule,
            "match": rule.get("match", {}),
            "left": rule.get("times", 1),
            "to_skip": rule.get("skip", 0),
            "struck": 0,
        }
        return identifier

    def all(self):
        return self._rules

    def remove(self, identifier=None):
        if identifier is None:
            self._rules.clear()
        else:
            self._rules.pop(identifier, None)

    def struck_by(self, call, when):
        """The faults that strike this call now, without those that strike its operation."""
        return [
            rule
            for rule in self._rules.values()
            if "operation" not in rule and rule.get("when", "before") == when and self._strikes(rule, call)
        ]

    def operation(self, call):
        """How the operation that this call begins will fail; None when it will not."""
        for rule in self._rules.values():
            if "operation" in rule and self._strikes(rule, call):
                return failure(call, rule["operation"])
        return None

    def _strikes(self, rule, call):
        if rule["left"] == 0:
            return False
        for key, wanted in rule["match"].items():
            if key == "method":
                value = call.method.name
            elif key == "name":
                value = call.name()
            else:
                value = call.params.get(key)
            if value != wanted and not (isinstance(wanted, list) and value in wanted):
                return False
        if rule["to_skip"]:
            rule["to_skip"] -= 1
            return False
        if rule["left"] is not None:
            rule["left"] -= 1
        rule["struck"] += 1
        return True


def error(call, wanted):
    """The answer that a fault asks for: by name, or {code, reason, message, …}."""
    if isinstance(wanted, str):
        return presets.ERRORS[wanted](call)
    wanted = dict(wanted)
    body = wanted.pop("body", None)
    made = ApiError(
        wanted.pop("code", 500), wanted.pop("reason", "backendError"), wanted.pop("message", "A fault."), **wanted
    )
    if body is not None:
        made.body = body
    return made


def failure(call, wanted):
    """The end of an operation that a fault asks for: by name, or {errors: […], http: 400}."""
    if isinstance(wanted, str):
        return presets.FAILURES[wanted](call)
    made = OperationFailure("", "", http=wanted.get("http", 400))
    made.errors = wanted["errors"]
    return made


def merged(value, patch):
    """RFC 7396: a patch over a JSON value."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, inner in patch.items():
        if inner is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), inner)
    return result
