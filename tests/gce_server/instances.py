"""The methods of `instances`: what is checked, what is stored, what is shown."""

from . import catalogue, disks, errors, interfaces, labels, lifecycle, operations, pages, permissions, quotas

# What a caller may send and Google keeps as it is.
KEPT = (
    "description",
    "canIpForward",
    "deletionProtection",
    "hostname",
    "minCpuPlatform",
    "guestAccelerators",
    "reservationAffinity",
    "confidentialInstanceConfig",
    "advancedMachineFeatures",
    "displayDevice",
    "resourcePolicies",
    "privateIpv6GoogleAccess",
    "networkPerformanceConfig",
    "keyRevocationActionType",
)


def _zone(call):
    call.world.check_zone(call.params["zone"])
    return call.params["zone"]


def _find(call):
    """The instance by name or by number."""
    found = call.project.instances[_zone(call)]
    name = call.name()
    instance = found.get(name) or next((it for it in found.values() if it["id"] == name), None)
    if instance is None:
        raise errors.not_found(call.target())
    return instance


def get(call):
    permissions.require(call, "compute.instances.get")
    return _find(call)


def list_(call):
    zone = _zone(call)
    permissions.require(call, "compute.instances.list", call.project.path(f"zones/{zone}"))
    found = list(call.project.instances[zone].values())
    return pages.page(call, "instanceList", found, call.project.path(f"zones/{zone}/instances"))


def aggregated_list(call):
    permissions.require(call, "compute.instances.list", f"projects/{call.project.name}")
    scopes = {f"zones/{zone}": list(found.values()) for zone, found in call.project.instances.items()}
    return pages.aggregated(
        call, "instanceAggregatedList", "instances", scopes, call.project.path("aggregated/instances")
    )


@operations.changing("compute.instances.create")
def insert(call):
    zone = _zone(call)
    for parameter in ("sourceInstanceTemplate", "sourceMachineImage"):
        if parameter in call.params:
            raise errors.not_implemented(parameter)
    world, project, name = call.world, call.project, call.body["name"]
    if name in project.instances[zone]:
        raise errors.already_exists(call.target())
    instance, made = _described(call, zone, name), []
    try:
        _attached(call, zone, instance, made)
        project.instances[zone][name] = instance
        failure = quotas.failure(project, catalogue.ZONES[zone])
        if failure and world.settings["quota_errors"] == "sync":
            quotas.check(project, catalogue.ZONES[zone])
    except errors.ApiError:
        project.instances[zone][name] = instance
        _undo(project, zone, instance, made)
        raise
    return operations.begin(
        call,
        f"zones/{zone}",
        call.target(),
        instance["id"],
        failure=failure,
        running=lambda: lifecycle.staging(world, project, zone, instance),
        done=lambda: lifecycle.booted(world, project, zone, instance),
        undo=lambda: _undo(project, zone, instance, made),
    )


def _undo(project, zone, instance, made):
    """A failed insert leaves nothing, disks that would have been kept neither."""
    lifecycle.remove(project, zone, instance)
    for attached in made:
        disks.release(project, zone, attached, delete=True)


def _described(call, zone, name):
    """The instance without what it is attached to."""
    world, project, body = call.world, call.project, call.body
    kind = _machine_type(call, zone)
    its_labels = body.get("labels", {})
    labels.check_labels(its_labels, "resource.labels")
    its_tags = body.get("tags", {}).get("items", [])
    labels.check_tags(its_tags, "resource.tags")
    items = body.get("metadata", {}).get("items", [])
    labels.check_metadata(items, "resource.metadata")
    given = {item["key"] for item in items}
    items = items + [item for item in world.settings["added_metadata"] if item["key"] not in given]
    for needed, permission in ((its_labels, "setLabels"), (its_tags, "setTags"), (given, "setMetadata")):
        if needed:
            permissions.require(call, f"compute.instances.{permission}")
    path = project.path(f"zones/{zone}/instances/{name}")
    instance = {
        "kind": "compute#instance",
        "id": world.number(),
        "creationTimestamp": world.clock.stamp(),
        "name": name,
        "zone": world.link(project.path(f"zones/{zone}")),
        "machineType": world.link(project.path(f"zones/{zone}/machineTypes/{kind}")),
        "status": "PROVISIONING",
        "selfLink": world.link(path),
        "canIpForward": False,
        "deletionProtection": False,
        "startRestricted": False,
        "fingerprint": world.fingerprint(path),
        "tags": labels.tags(world, its_tags),
        "metadata": labels.metadata(world, items),
        "labelFingerprint": labels.label_fingerprint(world, its_labels),
        "scheduling": _scheduling(body.get("scheduling", {})),
        "shieldedInstanceConfig": {
            "enableSecureBoot": False,
            "enableVtpm": True,
            "enableIntegrityMonitoring": True,
            **body.get("shieldedInstanceConfig", {}),
        },
        "shieldedInstanceIntegrityPolicy": {"updateAutoLearnPolicy": True},
        "networkInterfaces": [],
        "disks": [],
    }
    if its_labels:
        instance["labels"] = its_labels
    for key in KEPT:
        if body.get(key) is not None:
            instance[key] = body[key]
    accounts = body.get("serviceAccounts") or []
    if accounts:
        permissions.require(call, "iam.serviceAccounts.actAs")
        default = f"{project.number}-compute@developer.gserviceaccount.com"
        instance["serviceAccounts"] = [
            {
                "email": account["email"] if account.get("email", "default") != "default" else default,
                "scopes": account.get("scopes", []),
            }
            for account in accounts
        ]
    return instance


def _machine_type(call, zone):
    link = call.body.get("machineType")
    if not link:
        raise errors.invalid("resource.machineType", "", "The URL is malformed.")
    parts = call.world.path(link, "resource.machineType").split("/")
    kind = parts[-1]
    if "/".join(parts[-4:-1]) != f"zones/{zone}/machineTypes" or kind not in catalogue.MACHINE_TYPES:
        raise errors.invalid(
            "resource.machineType", link, f"Machine type with name '{kind}' does not exist in zone '{zone}'."
        )
    return kind


def _scheduling(wanted):
    spot = quotas.is_spot({"scheduling": wanted})
    if spot and wanted.get("automaticRestart"):
        raise errors.invalid(
            "resource.scheduling", "", "Scheduling must have preemptible be false when AutomaticRestart is true."
        )
    if spot and wanted.get("onHostMaintenance", "TERMINATE") != "TERMINATE":
        raise errors.invalid(
            "resource.scheduling.onHostMaintenance",
            wanted["onHostMaintenance"],
            "Scheduling must have OnHostMaintenance be TERMINATE when the instance is preemptible.",
        )
    if wanted.get("instanceTerminationAction") and not spot and "maxRunDuration" not in wanted:
        raise errors.invalid(
            "resource.scheduling.instanceTerminationAction",
            wanted["instanceTerminationAction"],
            "You cannot specify a termination action for a VM instance that has the standard provisioning model (default). "
            "To use instance termination action, the VM instance must use the Spot provisioning model.",
        )
    made = {
        "onHostMaintenance": "TERMINATE" if spot else "MIGRATE",
        "automaticRestart": not spot,
        "preemptible": spot,
        "provisioningModel": "SPOT" if spot else "STANDARD",
        **wanted,
    }
    if made["provisioningModel"] == "SPOT":
        made["preemptible"] = True
    return made


def _attached(call, zone, instance, made):
    """Interfaces and disks. What was taken and `made` when one of them is refused is given back by the caller."""
    path = call.project.path(f"zones/{zone}/instances/{instance['name']}")
    wanted = call.body.get("networkInterfaces") or []
    if not wanted:
        raise errors.invalid("resource.networkInterfaces", "", "At least one network interface is required.")
    for index, interface in enumerate(wanted):
        instance["networkInterfaces"].append(interfaces.make(call, zone, index, interface, path))
    wanted = call.body.get("disks") or []
    if not wanted:
        raise errors.invalid("resource.disks", "", "No disks are specified.")
    if not wanted[0].get("boot"):
        raise errors.invalid("resource.disks[0].boot", "", "Boot disk must be the first disk attached to the instance.")
    for index, disk in enumerate(wanted):
        attached = disks.attach(call, zone, index, disk, instance["name"])
        instance["disks"].append(attached)
        if disk.get("initializeParams") is not None:
            made.append(attached)
    kind = instance["machineType"].rpartition("/")[2]
    needed = "ARM64" if kind.startswith(catalogue.ARM) else "X86_64"
    if instance["disks"][0].get("architecture", needed) != needed:
        raise errors.invalid(
            "resource.machineType",
            call.body["machineType"],
            f"The machine type {kind} is not compatible with the architecture of the boot disk, {instance['disks'][0]['architecture']}.",
        )


def _change(permission, change):
    """A method that changes an instance at once and whose operation only reports it."""

    @operations.changing(f"compute.instances.{permission}")
    def method(call):
        instance = _find(call)
        change(call, instance)
        return operations.begin(call, f"zones/{_zone(call)}", call.target(), instance["id"])

    return method


def _move(permission, move):
    """A method that takes an instance from one state to another."""

    @operations.changing(f"compute.instances.{permission}")
    def method(call):
        return move(call, _zone(call), _find(call))

    return method


def _delete(call, zone, instance):
    if instance["deletionProtection"]:
        raise errors.ApiError(
            412,
            "conditionNotMet",
            "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion. Modify the "
            "instance's protected status via setDeletionProtection.'.",
        )
    return lifecycle.delete(call, zone, instance)


def _interface(call, instance):
    name = call.params["networkInterface"]
    for interface in instance["networkInterfaces"]:
        if interface["name"] == name:
            return interface
    raise errors.invalid("networkInterface", name, "The specified network interface does not exist.")


def _add_access_config(call, instance):
    interface, zone = _interface(call, instance), call.params["zone"]
    if interface.get("accessConfigs"):
        raise errors.invalid("networkInterface", interface["name"], "At most one access config currently supported.")
    path = call.project.path(f"zones/{zone}/instances/{instance['name']}")
    interface["accessConfigs"] = [interfaces.access_config(call, catalogue.ZONES[zone], call.body, "resource", path)]
    if instance["status"] == "RUNNING":
        interfaces.start(call.world, call.project, zone, instance)


def _delete_access_config(call, instance):
    interface = _interface(call, instance)
    for access in interface.get("accessConfigs", []):
        if access["name"] == call.params["accessConfig"]:
            interfaces.give_back(call.project, call.params["zone"], access.get("natIP"))
            del interface["accessConfigs"]
            return
    raise errors.invalid("accessConfig", call.params["accessConfig"], "The specified access config does not exist.")


def _set_auto_delete(call, instance):
    for attached in instance["disks"]:
        if attached["deviceName"] == call.params["deviceName"]:
            attached["autoDelete"] = call.params["autoDelete"]
            return
    raise errors.invalid("deviceName", call.params["deviceName"], "No attached disk found with this device name.")


def _set_protection(call, instance):
    instance["deletionProtection"] = call.params.get("deletionProtection", True)


def _set_scheduling(call, instance):
    instance["scheduling"] = _scheduling(call.body)


def get_serial_port_output(call):
    permissions.require(call, "compute.instances.getSerialPortOutput")
    instance = _find(call)
    written = call.project.serial_port(call.params["zone"], instance["name"], call.params.get("port", 1)).encode()
    start = int(call.params.get("start", 0))
    if start < 0:
        start = max(0, len(written) + start)
    # Google keeps the last megabyte.
    start = max(start, len(written) - 2**20)
    return {
        "kind": "compute#serialPortOutput",
        "contents": written[start:].decode(errors="replace"),
        "start": str(start),
        "next": str(max(start, len(written))),
        "selfLink": call.world.link(f"{call.target()}/serialPort"),
    }


METHODS = {
    "instances.get": get,
    "instances.list": list_,
    "instances.aggregatedList": aggregated_list,
    "instances.insert": insert,
    "instances.getSerialPortOutput": get_serial_port_output,
    "instances.delete": _move("delete", _delete),
    "instances.start": _move("start", lifecycle.start),
    "instances.resume": _move(
        "resume", lambda call, zone, instance: lifecycle.start(call, zone, instance, lifecycle.STOPPED, ("SUSPENDED",))
    ),
    "instances.stop": _move("stop", lifecycle.stop),
    "instances.suspend": _move("suspend", lifecycle.suspend),
    "instances.reset": _change("reset", lambda call, instance: None),
    "instances.setLabels": _change("setLabels", lambda call, it: labels.set_labels(call.world, it, call.body)),
    "instances.setMetadata": _change("setMetadata", lambda call, it: labels.set_metadata(call.world, it, call.body)),
    "instances.setTags": _change("setTags", lambda call, it: labels.set_tags(call.world, it, call.body)),
    "instances.setScheduling": _change("setScheduling", _set_scheduling),
    "instances.setDiskAutoDelete": _change("setDiskAutoDelete", _set_auto_delete),
    "instances.setDeletionProtection": _change("setDeletionProtection", _set_protection),
    "instances.addAccessConfig": _change("addAccessConfig", _add_access_config),
    "instances.deleteAccessConfig": _change("deleteAccessConfig", _delete_access_config),
}
