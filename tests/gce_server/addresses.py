"""Regional addresses that are reserved: external ones from a pool, internal ones of a subnetwork."""

import ipaddress

from . import errors, labels, operations, pages, permissions, quotas


def _find(call):
    call.world.check_region(call.params["region"])
    address = call.project.addresses[call.params["region"]].get(call.name())
    if address is None:
        raise errors.not_found(call.target())
    return address


def get(call):
    permissions.require(call, "compute.addresses.get")
    return _find(call)


def list_(call):
    region = call.params["region"]
    call.world.check_region(region)
    permissions.require(call, "compute.addresses.list")
    found = list(call.project.addresses[region].values())
    return pages.page(call, "addressList", found, call.project.path(f"regions/{region}/addresses"))


def aggregated_list(call):
    permissions.require(call, "compute.addresses.list")
    scopes = {f"regions/{region}": list(found.values()) for region, found in call.project.addresses.items()}
    scopes["global"] = []
    return pages.aggregated(
        call, "addressAggregatedList", "addresses", scopes, call.project.path("aggregated/addresses")
    )


@operations.changing("compute.addresses.create")
def insert(call):
    world, project, region, body = call.world, call.project, call.params["region"], call.body
    world.check_region(region)
    found = project.addresses[region]
    if body["name"] in found:
        raise errors.already_exists(call.target())
    labels.check_labels(body.get("labels", {}), "resource.labels")
    kind = body.get("addressType", "EXTERNAL")
    address = {
        "kind": "compute#address",
        "id": world.number(),
        "creationTimestamp": world.clock.stamp(),
        "name": body["name"],
        "description": body.get("description", ""),
        "addressType": kind,
        "status": "RESERVING",
        "region": world.link(project.path(f"regions/{region}")),
        "selfLink": world.link(call.target()),
        "labelFingerprint": labels.label_fingerprint(world, body.get("labels", {})),
        "networkTier": body.get("networkTier", "PREMIUM"),
    }
    if body.get("labels"):
        address["labels"] = body["labels"]
    if kind == "INTERNAL":
        address |= _internal(call, region)
        chosen = address["address"]
    elif body.get("address"):
        raise errors.invalid("resource.address", body["address"], "A specific external address cannot be asked for.")
    else:
        chosen = world.external_address()
    found[body["name"]] = address
    try:
        quotas.check(project, region)
    except errors.ApiError:
        del found[body["name"]]
        raise

    def done():
        address["address"] = chosen
        address["status"] = "RESERVED"

    return operations.begin(
        call, f"regions/{region}", call.target(), address["id"], done=done, undo=lambda: found.pop(body["name"], None)
    )


def _internal(call, region):
    project, body = call.project, call.body
    link = body.get("subnetwork") or f"regions/{region}/subnetworks/default"
    name = call.world.path(link, "resource.subnetwork").rpartition("/")[2]
    subnetwork = project.subnetworks[region].get(name)
    if subnetwork is None:
        raise errors.invalid("resource.subnetwork", link, "The referenced subnetwork resource cannot be found.")
    permissions.require(call, "compute.addresses.createInternal")
    permissions.require(call, "compute.subnetworks.use", call.world.path(subnetwork["selfLink"], ""))
    cidr = ipaddress.ip_network(subnetwork["ipCidrRange"])
    taken = {address.get("address") for address in project.addresses[region].values()}
    wanted = body.get("address") or next(
        str(cidr[number]) for number in range(cidr.num_addresses - 3, 1, -1) if str(cidr[number]) not in taken
    )
    try:
        inside = ipaddress.ip_address(wanted) in cidr
    except ValueError:
        inside = False
    if not inside:
        raise errors.invalid(
            "resource.address", wanted, "Requested internal IP address is outside the subnetwork range."
        )
    if wanted in taken:
        raise errors.already_exists(call.target())
    return {"address": wanted, "subnetwork": subnetwork["selfLink"], "purpose": "GCE_ENDPOINT"}


@operations.changing("compute.addresses.delete")
def delete(call):
    address, region = _find(call), call.params["region"]
    if address.get("users"):
        raise errors.in_use("address", call.target(), call.world.path(address["users"][0], "users"))
    return operations.begin(
        call,
        f"regions/{region}",
        call.target(),
        address["id"],
        done=lambda: call.project.addresses[region].pop(address["name"], None),
    )


@operations.changing("compute.addresses.setLabels")
def set_labels(call):
    address = _find(call)
    labels.set_labels(call.world, address, call.body)
    return operations.begin(call, f"regions/{call.params['region']}", call.target(), address["id"])


METHODS = {
    "addresses.get": get,
    "addresses.list": list_,
    "addresses.aggregatedList": aggregated_list,
    "addresses.insert": insert,
    "addresses.delete": delete,
    "addresses.setLabels": set_labels,
}
