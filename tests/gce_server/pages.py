"""Answers to the list and aggregatedList methods: filter, order, pages, and scopes that cannot be reached.

Given the items of each scope; knows nothing of what they are.
"""

import base64
import json
import zlib

from . import errors, filters

MOST = 500


def _selected(call, items):
    text = call.params.get("filter")
    if text:
        try:
            selects = filters.parse(text)
        except filters.Malformed:
            raise errors.invalid("filter", text, "Invalid list filter expression.") from None
        items = [item for item in items if selects(item)]
    order = call.params.get("orderBy", "name")
    if order == "creationTimestamp desc":
        # Operations have an insertTime, and nothing else has one.
        return sorted(items, key=lambda item: item.get("creationTimestamp") or item["insertTime"], reverse=True)
    if order not in ("name", "name asc"):
        raise errors.invalid("orderBy", order, "Invalid field.")
    return sorted(items, key=lambda item: item["name"])


def _window(call, count):
    """The first and the last index of the page, and the token of the next one."""
    most = call.params.get("maxResults", MOST) or MOST
    if most > MOST:
        raise errors.invalid("maxResults", most, f"Must be less than or equal to {MOST}.")
    # A token is good for the same question only.
    question = zlib.crc32(repr((call.method.name, call.params.get("filter"), call.params.get("orderBy"))).encode())
    start = 0
    token = call.params.get("pageToken")
    if token:
        try:
            start, asked = json.loads(base64.urlsafe_b64decode(token))
        except ValueError:
            raise errors.invalid("pageToken", token, "Invalid pageToken.") from None
        if asked != question:
            raise errors.invalid("pageToken", token, "The page token does not belong to this request.")
    end = start + most
    following = base64.urlsafe_b64encode(json.dumps([end, question]).encode()).decode() if end < count else None
    return start, end, following


def page(call, kind, items, path):
    """The answer of a list method."""
    items = _selected(call, items)
    start, end, following = _window(call, len(items))
    answer = {"kind": f"compute#{kind}", "id": path, "selfLink": call.world.link(path)}
    if items[start:end]:
        answer["items"] = items[start:end]
    else:
        answer["warning"] = {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for this page."}
    if following:
        answer["nextPageToken"] = following
    return answer


def aggregated(call, kind, noun, scopes, path):
    """The answer of an aggregatedList method over {scope: items}, with every scope named on every page."""
    partial = call.params.get("returnPartialSuccess", False)
    unreachable = []
    for scope in sorted(scopes):
        trouble = call.world.scope_trouble(scope)
        if trouble is None:
            continue
        if trouble["listing"] == "fails" and not partial:
            raise trouble["error"]
        unreachable.append(scope)
    found = []
    for scope in sorted(scopes):
        if scope not in unreachable:
            found += [(scope, item) for item in _selected(call, scopes[scope])]
    start, end, following = _window(call, len(found))
    items = {}
    for scope in sorted(scopes):
        if scope in unreachable:
            items[scope] = {"warning": _warning("UNREACHABLE", f"The scope '{scope}' cannot be reached.", scope)}
        else:
            items[scope] = {
                "warning": _warning(
                    "NO_RESULTS_ON_PAGE", f"There are no results for scope '{scope}' on this page.", scope
                )
            }
    for scope, item in found[start:end]:
        items[scope].pop("warning", None)
        items[scope].setdefault(noun, []).append(item)
    answer = {"kind": f"compute#{kind}", "id": path, "items": items, "selfLink": call.world.link(path)}
    if unreachable:
        answer["unreachables"] = unreachable
        answer["warning"] = {
            "code": "UNREACHABLE",
            "message": "Some scopes cannot be reached.",
            "data": [{"key": "scope", "value": scope} for scope in unreachable],
        }
    if following:
        answer["nextPageToken"] = following
    return answer


def _warning(code, message, scope):
    return {"code": code, "message": message, "data": [{"key": "scope", "value": scope}]}
