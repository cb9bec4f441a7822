"""Operations: begun by what changes something, done after a while, with or without an error."""

import re

from . import errors, pages, permissions
from .errors import HTTP_MESSAGES, OperationFailure

ZERO = "00000000-0000-0000-0000-000000000000"
UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def begin(call, scope, target, target_id, *, running=None, done=None, undo=None, failure=None, warnings=None):
    """Starts an operation on `target` and returns it.

    `running` is called when it runs, `done` when it is done; `undo` instead of `done` where it fails: by `failure`,
    by a fault that the call met, or by what `done` raises.
    """
    world, project = call.world, call.project
    name = world.operation_name()
    path = project.path(f"{scope}/operations/{name}")
    operation = {
        "kind": "compute#operation",
        "id": world.number(),
        "name": name,
        "operationType": call.operation_type,
        "targetLink": world.link(target),
        "targetId": target_id,
        "status": "PENDING",
        "user": call.caller,
        "progress": 0,
        "insertTime": world.clock.stamp(),
        "selfLink": world.link(path),
    }
    if scope != "global":
        kind, _, where = scope.partition("/")
        operation[kind[:-1]] = world.link(project.path(f"{kind}/{where}"))
    if warnings:
        operation["warnings"] = warnings
    project.operations.setdefault(scope, {})[name] = operation
    if call.params.get("requestId"):
        project.requests[_request_key(call)] = operation
    struck = world.faults.operation(call) or failure
    timing = world.settings["timing"]
    timing = {**timing["default"], **timing.get(call.method.name, {})}

    def start():
        operation["status"] = "RUNNING"
        operation["startTime"] = world.clock.stamp()
        if running:
            running()
        world.clock.after(timing["running"], finish)

    def finish():
        trouble = struck
        if trouble is None and done:
            try:
                done()
            except OperationFailure as failed:
                trouble = failed
        if trouble is not None:
            if undo:
                undo()
            operation["error"] = {"errors": trouble.errors}
            operation["httpErrorStatusCode"] = trouble.http
            operation["httpErrorMessage"] = HTTP_MESSAGES[trouble.http]
        operation["status"] = "DONE"
        operation["progress"] = 100
        operation["endTime"] = world.clock.stamp()

    world.clock.after(timing["pending"], start)
    return operation


def changing(permission):
    """A method that changes something: it takes the permission, and answers a repeated request with its first operation."""

    def decorated(method):
        def handler(call):
            permissions.require(call, permission)
            return repeated(call) or method(call)

        return handler

    return decorated


def repeated(call):
    """The operation that an earlier request with the same requestId began. Refuses an id that is none."""
    identifier = call.params.get("requestId")
    if identifier is None:
        return None
    if not UUID.fullmatch(identifier) or identifier == ZERO:
        raise errors.invalid("requestId", identifier, "Must be a valid UUID that is not zero.")
    return call.project.requests.get(_request_key(call))


def _request_key(call):
    return call.method.name, call.target(), call.params["requestId"].lower()


def event(world, project, scope, kind, target, target_id):
    """What Google does by itself, a preemption for example: done at once, and nobody's."""
    name = world.operation_name().replace("operation-", "systemevent-")
    kind_of, _, where = scope.partition("/")
    stamp = world.clock.stamp()
    project.operations.setdefault(scope, {})[name] = {
        "kind": "compute#operation",
        "id": world.number(),
        "name": name,
        "operationType": kind,
        "targetLink": world.link(target),
        "targetId": target_id,
        "status": "DONE",
        "statusMessage": kind,
        "user": "system",
        "progress": 100,
        "insertTime": stamp,
        "startTime": stamp,
        "endTime": stamp,
        kind_of[:-1]: world.link(project.path(f"{kind_of}/{where}")),
        "selfLink": world.link(project.path(f"{scope}/operations/{name}")),
    }


def _scope(call):
    if "zone" in call.params:
        call.world.check_zone(call.params["zone"])
        return f"zones/{call.params['zone']}"
    if "region" in call.params:
        call.world.check_region(call.params["region"])
        return f"regions/{call.params['region']}"
    return "global"


def get(call):
    scope = _scope(call)
    permissions.require(call, f"compute.{call.method.name.partition('.')[0]}.get")
    name = call.params["operation"]
    for operation in call.project.operations.get(scope, {}).values():
        if name in (operation["name"], operation["id"]):
            return operation
    raise errors.not_found(call.project.path(f"{scope}/operations/{name}"))


def wait(call):
    """Returns when the operation is done, or after the longest wait; the lock is free meanwhile."""
    operation = get(call)
    call.world_wait(lambda: operation["status"] == "DONE")
    return operation


def list_(call):
    scope = _scope(call)
    permissions.require(call, f"compute.{call.method.name.partition('.')[0]}.list")
    found = call.project.operations.get(scope, {}).values()
    return pages.page(call, "operationList", list(found), call.project.path(f"{scope}/operations"))


def aggregated_list(call):
    permissions.require(call, "compute.globalOperations.list")
    scopes = {scope: list(found.values()) for scope, found in call.project.operations.items()}
    scopes.setdefault("global", [])
    return pages.aggregated(
        call, "operationAggregatedList", "operations", scopes, call.project.path("aggregated/operations")
    )


def delete(call):
    operation = get(call)
    permissions.require(call, f"compute.{call.method.name.partition('.')[0]}.delete")
    del call.project.operations[_scope(call)][operation["name"]]


METHODS = {
    f"{noun}.{verb}": handler
    for noun in ("zoneOperations", "regionOperations", "globalOperations")
    for verb, handler in (("get", get), ("wait", wait), ("list", list_), ("delete", delete))
}
METHODS["globalOperations.aggregatedList"] = aggregated_list
