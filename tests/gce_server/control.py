"""What tests tell the server and ask it: `/_control/…`, JSON in, JSON out. README.md lists it with examples."""

import json
import urllib.parse

from . import faults, firewalls, labels, lifecycle, presets
from .calls import Call
from .dispatcher import Answer
from .document import Method


class Misused(ValueError):
    """A request to the control API that makes no sense: the test's mistake."""


def answer(server, request):
    """`server` has world, document and url; the lock is taken here."""
    parts = [part for part in request.path.split("/") if part][1:]
    query = dict(request.query)
    world = server.world
    try:
        body = json.loads(request.body) if request.body else {}
        handler = HANDLERS.get((request.verb, parts[0] if parts else ""))
        if handler is None:
            raise Misused(f"no such control: {request.verb} {request.path}")
        with world.changed:
            world.clock.run_due()
            content = handler(server, parts[1:], query, body)
            world.clock.run_due()
            world.changed.notify_all()
            return Answer(200, {"Content-Type": "application/json"}, json.dumps(content).encode())
    except (ValueError, KeyError, TypeError) as error:
        text = f"missing: {error}" if isinstance(error, KeyError) else str(error)
        return Answer(400, {"Content-Type": "application/json"}, json.dumps({"error": text}).encode())


def _only(body, *known):
    unknown = set(body) - set(known)
    if unknown:
        raise Misused(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")


def _selected(world, query):
    since = int(query.get("since", 0))
    return [
        entry
        for entry in world.log
        if entry["seq"] > since and all(entry.get(key) == query[key] for key in ("method", "project") if key in query)
    ]


def requests(server, _parts, query, _body):
    return {"requests": _selected(server.world, query), "last": len(server.world.log)}


def counts(server, _parts, query, _body):
    """How often each method was called, what was in batches included."""
    found = {}
    for entry in _selected(server.world, query):
        found[entry["method"] or "unknown"] = found.get(entry["method"] or "unknown", 0) + 1
    return found


def forget(server, _parts, _query, _body):
    server.world.log.clear()
    return {}


def clock(server, _parts, _query, body):
    _only(body, "manual", "advance")
    world = server.world
    if "manual" in body:
        world.clock.set_manual(body["manual"])
    left = body.get("advance", 0)
    # In small steps, so that what becomes due and what that begins happen in their order.
    while left > 0:
        step = min(left, 0.5 if left < 60 else left / 100)
        world.clock.advance(step)
        world.clock.run_due()
        left -= step
    return {"manual": world.clock.manual, "now": world.clock.stamp()}


def add_fault(server, _parts, _query, body):
    try:
        return {"id": server.world.faults.add(body)}
    except faults.Unreadable as error:
        raise Misused(str(error)) from error


def show_faults(server, _parts, _query, _body):
    return {"faults": server.world.faults.all(), "errors": sorted(presets.ERRORS), "failures": sorted(presets.FAILURES)}


def remove_faults(server, parts, _query, _body):
    server.world.faults.remove(parts[0] if parts else None)
    return {}


def project(server, parts, _query, body):
    """Makes a project where there is none of that name, and changes it."""
    _only(body, "limits", "granted", "api_enabled", "billing_enabled", "networks")
    world, name = server.world, parts[0]
    its = world.project(name)
    if its is None:
        world.add_project(name)
        its = world.project(name)
    for scope, limits in body.get("limits", {}).items():
        its.limits[scope].update(limits)
    if "granted" in body:
        its.granted = None if body["granted"] is None else set(body["granted"])
    its.api_enabled = body.get("api_enabled", its.api_enabled)
    its.billing_enabled = body.get("billing_enabled", its.billing_enabled)
    for network, ranges in body.get("networks", {}).items():
        its.add_network(network, ranges)
    return show_project(server, parts, _query, body)


def show_project(server, parts, _query, _body):
    its = server.world.project(parts[0])
    if its is None:
        raise Misused(f"no project {parts[0]}")
    return {
        "name": its.name,
        "number": its.number,
        "limits": its.limits,
        "granted": None if its.granted is None else sorted(its.granted),
        "used_permissions": sorted(its.used_permissions),
    }


def scope(server, parts, _query, body):
    """What listings make of a zone or region: /_control/scopes/zones/us-east1-b."""
    _only(body, "listing", "error")
    name = "/".join(parts)
    if body.get("listing") not in (None, "fails", "omitted"):
        raise Misused("listing is fails, omitted or null")
    error = None
    if body.get("error") is not None:
        method = Method("instances.aggregatedList", "GET", None, {}, None, None)
        call = Call(server.world, method, next(reversed(server.world.projects.values())), {}, None, None)
        error = faults.error(call, body["error"])
    server.world.set_scope_trouble(name, body.get("listing"), error)
    return {}


def settings(server, _parts, _query, body):
    _only(body, *server.world.settings)
    server.world.settings.update(body)
    return server.world.settings


def identity(server, _parts, _query, body):
    _only(body, "valid", "anonymous", "expires_in", "revoke", "revoke_all", "refresh_tokens", "metadata_account")
    its = server.world.identity
    for key in ("anonymous", "expires_in", "metadata_account"):
        if key in body:
            setattr(its, key, body[key])
    for key in ("valid", "refresh_tokens"):
        if key in body:
            setattr(its, key, None if body[key] is None else set(body[key]))
    its.revoked |= set(body.get("revoke", []))
    if body.get("revoke_all"):
        its.revoked |= set(its.issued)
    return {"issued": sorted(its.issued), "revoked": sorted(its.revoked)}


def credentials(server, parts, _query, body):
    """The content of a credentials file of the kind asked for, all of whose URLs are this server's."""
    _only(body, "project", "email")
    its = server.world.identity
    name = body.get("project") or next(reversed(server.world.projects))
    email = body.get("email", f"robot@{name}.iam.gserviceaccount.com")
    user = {
        "type": "authorized_user",
        "client_id": "client.apps.example.com",
        "client_secret": "secret",
        "refresh_token": "refresh-token",
        "token_uri": f"{server.url}/token",
        "universe_domain": "googleapis.com",
    }
    if parts[0] == "service_account":
        return its.service_account_key(server.url, name, email)
    if parts[0] == "authorized_user":
        return user
    if parts[0] == "impersonated_service_account":
        return {
            "type": "impersonated_service_account",
            "source_credentials": user,
            "delegates": [],
            "service_account_impersonation_url": f"{server.url}/v1/projects/-/serviceAccounts/{urllib.parse.quote(email)}:generateAccessToken",
        }
    raise Misused("credentials are service_account, authorized_user or impersonated_service_account")


def instance(server, parts, _query, body):
    """Something happens to an instance that no caller asked for: /_control/instances/PROJECT/ZONE/NAME."""
    _only(body, "status", "patch", "metadata", "serial", "port", "preempt", "remove")
    world, its, zone, found = _instance(server, parts)
    if "serial" in body:
        its.write_serial(zone, found["name"], body["serial"], body.get("port", 1))
    if "status" in body:
        found["status"] = body["status"]
        if body["status"] in lifecycle.STOPPED or body["status"] == "SUSPENDED":
            lifecycle.halted(world, its, zone, found, body["status"])
    if "metadata" in body:
        items = {item["key"]: item for item in found["metadata"].get("items", []) + body["metadata"]}
        found["metadata"] = labels.metadata(world, list(items.values()))
    if "patch" in body:
        changed = faults.merged(found, body["patch"])
        problems = server.document.schemas.problems("Instance", changed)
        if problems:
            raise Misused("; ".join(map(str, problems)))
        found.clear()
        found.update(changed)
    if body.get("preempt"):
        lifecycle.preempt(world, its, zone, found)
    if body.get("remove"):
        lifecycle.remove(its, zone, found)
    return found


def _instance(server, parts):
    name, zone, of = parts
    its = server.world.project(name)
    found = its.instances.get(zone, {}).get(of) if its else None
    if found is None:
        raise Misused(f"no instance {'/'.join(parts)}")
    return server.world, its, zone, found


def admits(server, parts, query, _body):
    _, its, _, found = _instance(server, parts)
    return {"admitted": firewalls.admits(its, found, query["source"], int(query["port"]))}


def state(server, _parts, _query, _body):
    world = server.world
    return {
        "revision": server.document.revision,
        "violations": world.violations,
        "now": world.clock.stamp(),
        "projects": list(world.projects),
    }


HANDLERS = {
    ("GET", "requests"): requests,
    ("DELETE", "requests"): forget,
    ("GET", "counts"): counts,
    ("GET", "clock"): clock,
    ("POST", "clock"): clock,
    ("GET", "faults"): show_faults,
    ("POST", "faults"): add_fault,
    ("DELETE", "faults"): remove_faults,
    ("GET", "projects"): show_project,
    ("POST", "projects"): project,
    ("POST", "scopes"): scope,
    ("GET", "settings"): settings,
    ("POST", "settings"): settings,
    ("GET", "identity"): identity,
    ("POST", "identity"): identity,
    ("POST", "credentials"): credentials,
    ("GET", "instances"): lambda server, parts, _query, _body: _instance(server, parts)[3],
    ("POST", "instances"): instance,
    ("GET", "admits"): admits,
    ("GET", "state"): state,
}
