"""What becomes of an instance: from PROVISIONING to gone, by what callers ask for and by what Google does."""

from . import catalogue, disks, errors, interfaces, operations, quotas
from .errors import OperationFailure

STOPPED = ("TERMINATED", "STOPPED")
MOVING = ("PENDING", "PROVISIONING", "STAGING", "STOPPING", "PENDING_STOP", "SUSPENDING", "DEPROVISIONING")


def present(project, zone, instance):
    """Whether it is still there: the same one, not another of its name."""
    return project.instances[zone].get(instance["name"]) is instance


def remove(project, zone, instance):
    """Instance, addresses and the disks that go with it."""
    if present(project, zone, instance):
        del project.instances[zone][instance["name"]]
        interfaces.release(project, zone, instance)
        for attached in instance["disks"]:
            disks.release(project, zone, attached, delete=attached["autoDelete"])
        project.serial.pop((zone, instance["name"]), None)


def staging(world, project, zone, instance):
    if present(project, zone, instance) and instance["status"] == "PROVISIONING":
        instance["status"] = "STAGING"
        interfaces.start(world, project, zone, instance)


def booted(world, project, zone, instance):
    """The end of a start; an instance that was deleted meanwhile ends it with a conflict."""
    if not present(project, zone, instance) or instance["status"] not in ("PROVISIONING", "STAGING"):
        raise OperationFailure("OPERATION_CANCELED_BY_USER", "Operation was canceled by user ''.", http=409)
    interfaces.start(world, project, zone, instance)
    instance["status"] = "RUNNING"
    instance["cpuPlatform"] = "Intel Broadwell"
    instance["lastStartTimestamp"] = world.clock.stamp()
    project.write_serial(zone, instance["name"], world.settings["boot_log"])


def halted(world, project, zone, instance, status):
    if present(project, zone, instance):
        instance["status"] = status
        instance[{"SUSPENDED": "lastSuspendedTimestamp"}.get(status, "lastStopTimestamp")] = world.clock.stamp()
        instance.pop("cpuPlatform", None)
        interfaces.stop(project, zone, instance)


def start(call, zone, instance, wrong=("SUSPENDED",), right=STOPPED):
    """start of what is stopped, and resume of what is suspended."""
    if instance["status"] in MOVING:
        raise errors.not_ready(call.target())
    if instance["status"] in wrong:
        raise errors.invalid(
            "resource.status", instance["status"], f"An instance in this state cannot {call.operation_type}."
        )
    if instance["status"] not in right:
        return _begin(call, zone, instance)
    before = instance["status"]
    world, project = call.world, call.project
    instance["status"] = "PROVISIONING"
    failure = quotas.failure(project, catalogue.ZONES[zone])

    def undo():
        if present(project, zone, instance):
            instance["status"] = before
            interfaces.stop(project, zone, instance)

    return _begin(
        call,
        zone,
        instance,
        failure=failure,
        undo=undo,
        running=lambda: staging(world, project, zone, instance),
        done=lambda: booted(world, project, zone, instance),
    )


def stop(call, zone, instance):
    if instance["status"] in STOPPED:
        return _begin(call, zone, instance)
    if instance["status"] in ("STOPPING", "DEPROVISIONING"):
        raise errors.not_ready(call.target())
    graceful = instance["scheduling"].get("gracefulShutdown", {}).get("enabled", False)
    return _halt(
        call,
        zone,
        instance,
        "TERMINATED",
        "PENDING_STOP" if graceful and not call.params.get("noGracefulShutdown") else "STOPPING",
        "STOPPING",
    )


def suspend(call, zone, instance):
    if instance["status"] != "RUNNING":
        raise errors.not_ready(call.target())
    return _halt(call, zone, instance, "SUSPENDED", "SUSPENDING", "SUSPENDING")


def _halt(call, zone, instance, end, first, then):
    world, project, before = call.world, call.project, instance["status"]
    instance["status"] = first

    def running():
        if present(project, zone, instance):
            instance["status"] = then

    def undo():
        if present(project, zone, instance):
            instance["status"] = before

    return _begin(
        call, zone, instance, running=running, undo=undo, done=lambda: halted(world, project, zone, instance, end)
    )


def delete(call, zone, instance):
    before, project = instance["status"], call.project
    instance["status"] = "STOPPING"

    def undo():
        if present(project, zone, instance):
            instance["status"] = before

    return _begin(call, zone, instance, undo=undo, done=lambda: remove(project, zone, instance))


def _begin(call, zone, instance, **steps):
    return operations.begin(
        call, f"zones/{zone}", call.project.path(f"zones/{zone}/instances/{instance['name']}"), instance["id"], **steps
    )


def preempt(world, project, zone, instance):
    """What happens to a spot instance when Google wants its machine back."""
    path = project.path(f"zones/{zone}/instances/{instance['name']}")
    operations.event(world, project, f"zones/{zone}", "compute.instances.preempted", path, instance["id"])
    instance["status"] = "STOPPING"
    timing = world.settings["timing"]["default"]

    def end():
        if instance["scheduling"].get("instanceTerminationAction") == "DELETE":
            remove(project, zone, instance)
        else:
            halted(world, project, zone, instance, "TERMINATED")

    world.clock.after(timing["pending"] + timing["running"], end)
