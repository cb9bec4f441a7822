"""Persistent disks: made with an instance, and gone with it where they are to be deleted automatically."""

from . import catalogue, errors, labels, operations, pages, permissions


def attach(call, zone, index, wanted, name):
    """What an instance shows of a disk, which is made first where it is described and not named."""
    world, project = call.world, call.project
    field = f"resource.disks[{index}]"
    if wanted.get("type", "PERSISTENT") != "PERSISTENT":
        raise errors.not_implemented("disks that are not persistent")
    parameters = wanted.get("initializeParams")
    if parameters is not None:
        disk = _make(
            call,
            zone,
            field,
            wanted,
            parameters,
            parameters.get("diskName") or (name if index == 0 else f"{name}-{index}"),
        )
    elif wanted.get("source"):
        disk = _existing(call, zone, wanted["source"], field)
    else:
        raise errors.invalid(field, "", "Must specify either source or initializeParams.")
    project.disks[zone][disk["name"]] = disk
    attached = {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": wanted.get("mode", "READ_WRITE"),
        "source": disk["selfLink"],
        "deviceName": wanted.get("deviceName", f"persistent-disk-{index}"),
        "index": index,
        "boot": wanted.get("boot", False),
        "autoDelete": wanted.get("autoDelete", False),
        "interface": wanted.get("interface", "SCSI"),
        "diskSizeGb": disk["sizeGb"],
    }
    for key in ("licenses", "guestOsFeatures", "architecture"):
        if disk.get(key):
            attached[key] = disk[key]
    disk["users"] = [world.link(project.path(f"zones/{zone}/instances/{name}"))]
    return attached


def _make(call, zone, field, wanted, parameters, name):
    world, project = call.world, call.project
    permissions.require(call, "compute.disks.create", project.path(f"zones/{zone}/disks/{name}"))
    path = project.path(f"zones/{zone}/disks/{name}")
    if name in project.disks[zone]:
        raise errors.already_exists(path)
    if not labels.NAME.fullmatch(name):
        raise errors.mismatch(f"{field}.initializeParams.diskName", name, labels.NAME.pattern)
    labels.check_labels(parameters.get("labels", {}), f"{field}.initializeParams.labels")
    kind = (parameters.get("diskType") or "pd-standard").rpartition("/")[2]
    if kind not in catalogue.DISK_TYPES:
        raise errors.invalid(
            f"{field}.initializeParams.diskType", kind, "The referenced diskType resource cannot be found."
        )
    disk = {
        "kind": "compute#disk",
        "id": world.number(),
        "creationTimestamp": world.clock.stamp(),
        "name": name,
        "zone": world.link(project.path(f"zones/{zone}")),
        "status": "READY",
        "type": world.link(project.path(f"zones/{zone}/diskTypes/{kind}")),
        "selfLink": world.link(path),
        "labelFingerprint": labels.label_fingerprint(world, parameters.get("labels", {})),
        "physicalBlockSizeBytes": "4096",
    }
    if parameters.get("labels"):
        disk["labels"] = parameters["labels"]
    smallest = 10
    if parameters.get("sourceImage"):
        image = find_image(call, parameters["sourceImage"], f"{field}.initializeParams.sourceImage")
        smallest = int(image["diskSizeGb"])
        disk |= {
            "sourceImage": image["selfLink"],
            "sourceImageId": image["id"],
            "licenses": image.get("licenses", []),
            "guestOsFeatures": image.get("guestOsFeatures", []),
            "architecture": image["architecture"],
        }
    size = parameters.get("diskSizeGb") or wanted.get("diskSizeGb") or smallest
    if int(size) < smallest:
        raise errors.invalid(
            f"{field}.initializeParams.diskSizeGb",
            size,
            f"Requested disk size cannot be smaller than the image size ({smallest} GB)",
        )
    return disk | {"sizeGb": str(size)}


def _existing(call, zone, link, field):
    path = call.world.path(link, f"{field}.source")
    disk = call.project.disks[zone].get(path.rpartition("/")[2])
    if disk is None:
        raise errors.not_found(path if path.startswith("projects/") else call.project.path(path))
    if disk.get("users"):
        raise errors.in_use("disk", call.project.path(f"zones/{zone}/disks/{disk['name']}"), disk["users"][0])
    return disk


def find_image(call, link, field):
    """An image by its URL or by its family's, in this project or another."""
    path = call.world.path(link, field).split("/")
    if path[0] != "projects":
        path = ["projects", call.project.name, *path]
    project = call.world.project(path[1])
    if path[4:5] == ["imageFamilyViews"]:
        # A zone's view of a family, which is how gcloud asks for one; any zone sees the same.
        path = [*path[:2], "global", "images", "family", *path[5:]]
    if project is not None and path[2:4] == ["global", "images"] and len(path) in (5, 6):
        if project.name not in catalogue.IMAGES:
            # Google's public images are for everybody.
            permissions.require(call, "compute.images.useReadOnly", "/".join(path), project)
        if len(path) == 5 and path[4] in project.images:
            return project.images[path[4]]
        if len(path) == 6 and path[4] == "family":
            image = newest(project, path[5])
            if image:
                return image
    raise errors.not_found("/".join(path))


def newest(project, family):
    found = [image for image in project.images.values() if image.get("family") == family and "deprecated" not in image]
    return max(found, key=lambda image: image["creationTimestamp"], default=None)


def release(project, zone, attached, *, delete):
    """Lets a disk go; it is deleted with its instance where that was wanted."""
    name = attached["source"].rpartition("/")[2]
    disk = project.disks[zone].get(name)
    if disk is not None:
        disk.pop("users", None)
        if delete:
            del project.disks[zone][name]


def _find(call):
    call.world.check_zone(call.params["zone"])
    disk = call.project.disks[call.params["zone"]].get(call.name())
    if disk is None:
        raise errors.not_found(call.target())
    return disk


def get(call):
    permissions.require(call, "compute.disks.get")
    return _find(call)


def list_(call):
    zone = call.params["zone"]
    call.world.check_zone(zone)
    permissions.require(call, "compute.disks.list")
    return pages.page(
        call, "diskList", list(call.project.disks[zone].values()), call.project.path(f"zones/{zone}/disks")
    )


def aggregated_list(call):
    permissions.require(call, "compute.disks.list")
    scopes = {f"zones/{zone}": list(found.values()) for zone, found in call.project.disks.items()}
    return pages.aggregated(call, "diskAggregatedList", "disks", scopes, call.project.path("aggregated/disks"))


@operations.changing("compute.disks.delete")
def delete(call):
    disk, zone = _find(call), call.params["zone"]
    if disk.get("users"):
        raise errors.in_use("disk", call.target(), call.world.path(disk["users"][0], "users"))
    return operations.begin(
        call, f"zones/{zone}", call.target(), disk["id"], done=lambda: call.project.disks[zone].pop(disk["name"], None)
    )


METHODS = {"disks.get": get, "disks.list": list_, "disks.aggregatedList": aggregated_list, "disks.delete": delete}
