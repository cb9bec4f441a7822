"""The methods that only read: projects, regions, zones, machine types, disk types, images, networks."""

from . import catalogue, disks, errors, pages, permissions, quotas


def _one(noun, find):
    """A get method: `find` returns the resource or None."""

    def method(call):
        permissions.require(call, f"compute.{noun}.get")
        found = find(call)
        if found is None:
            raise errors.not_found(call.target())
        return found

    return method


def _all(noun, kind, find):
    """A list method."""

    def method(call):
        permissions.require(call, f"compute.{noun}.list")
        return pages.page(call, kind, find(call), call.target())

    return method


def _aggregated(noun, kind, scopes):
    def method(call):
        permissions.require(call, f"compute.{noun}.list")
        return pages.aggregated(call, kind, noun, scopes(call), call.project.path(f"aggregated/{noun}"))

    return method


def project(call):
    permissions.require(call, "compute.projects.get")
    its = call.project
    return {
        "kind": "compute#project",
        "id": str(its.number),
        "creationTimestamp": catalogue.SINCE,
        "name": its.name,
        "selfLink": call.world.link(f"projects/{its.name}"),
        "commonInstanceMetadata": its.metadata,
        "quotas": quotas.figures(its, ""),
        "defaultServiceAccount": f"{its.number}-compute@developer.gserviceaccount.com",
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
        "defaultNetworkTier": "PREMIUM",
        "vmDnsSetting": "ZONAL_ONLY",
    }


def _region(call, name=None):
    name = name or call.params["region"]
    if name not in catalogue.REGIONS:
        return None
    return catalogue.region(call.world, call.project.name, name, quotas.figures(call.project, name))


def _zone(call, name=None):
    name = name or call.params["zone"]
    if name not in catalogue.ZONES:
        return None
    trouble = call.world.scope_trouble(f"zones/{name}")
    return catalogue.zone(call.world, call.project.name, name, "DOWN" if trouble else "UP")


def _machine_types(call, zone=None):
    zone = zone or call.params["zone"]
    call.world.check_zone(zone)
    return {name: catalogue.machine_type(call.world, call.project.name, zone, name) for name in catalogue.MACHINE_TYPES}


def _disk_types(call):
    zone = call.params["zone"]
    call.world.check_zone(zone)
    return {name: catalogue.disk_type(call.world, call.project.name, zone, name) for name in catalogue.DISK_TYPES}


def _family_view(call):
    image = disks.newest(call.project, call.params["family"])
    return image and {"image": image}


def _subnetworks(call):
    call.world.check_region(call.params["region"])
    return call.project.subnetworks[call.params["region"]]


def _every_subnetwork(call):
    return {f"regions/{region}": list(found.values()) for region, found in call.project.subnetworks.items()}


def _every_machine_type(call):
    return {
        f"zones/{zone}": list(_machine_types(call, zone).values())
        for zone in catalogue.ZONES
        if not call.world.scope_trouble(f"zones/{zone}")
    }


METHODS = {
    "projects.get": project,
    "regions.get": _one("regions", _region),
    "regions.list": _all("regions", "regionList", lambda call: [_region(call, name) for name in catalogue.REGIONS]),
    "zones.get": _one("zones", _zone),
    "zones.list": _all("zones", "zoneList", lambda call: [_zone(call, name) for name in catalogue.ZONES]),
    "machineTypes.get": _one("machineTypes", lambda call: _machine_types(call).get(call.params["machineType"])),
    "machineTypes.list": _all("machineTypes", "machineTypeList", lambda call: list(_machine_types(call).values())),
    "machineTypes.aggregatedList": _aggregated("machineTypes", "machineTypeAggregatedList", _every_machine_type),
    "diskTypes.get": _one("diskTypes", lambda call: _disk_types(call).get(call.params["diskType"])),
    "diskTypes.list": _all("diskTypes", "diskTypeList", lambda call: list(_disk_types(call).values())),
    "images.get": _one("images", lambda call: call.project.images.get(call.params["image"])),
    "images.getFromFamily": _one("images", lambda call: disks.newest(call.project, call.params["family"])),
    "imageFamilyViews.get": _one("images", _family_view),
    "images.list": _all("images", "imageList", lambda call: list(call.project.images.values())),
    "networks.get": _one("networks", lambda call: call.project.networks.get(call.params["network"])),
    "networks.list": _all("networks", "networkList", lambda call: list(call.project.networks.values())),
    "subnetworks.get": _one("subnetworks", lambda call: _subnetworks(call).get(call.params["subnetwork"])),
    "subnetworks.list": _all("subnetworks", "subnetworkList", lambda call: list(_subnetworks(call).values())),
    "subnetworks.aggregatedList": _aggregated("subnetworks", "subnetworkAggregatedList", _every_subnetwork),
}
