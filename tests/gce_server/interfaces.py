"""Network interfaces of instances: their networks, internal and external addresses, ephemeral and reserved."""

import ipaddress

from . import catalogue, errors, permissions

ANY_NAME = "external-nat"


def make(call, zone, index, wanted, path):
    """What an instance shows of an interface. Reserved addresses are taken, ephemeral ones come when it starts."""
    world = call.world
    field = f"resource.networkInterfaces[{index}]"
    region = catalogue.ZONES[zone]
    network, subnetwork, owner = _networks(call, region, wanted, field)
    permissions.require(call, "compute.subnetworks.use", world.path(subnetwork["selfLink"], field), owner)
    made = {
        "kind": "compute#networkInterface",
        "name": f"nic{index}",
        "network": network["selfLink"],
        "subnetwork": subnetwork["selfLink"],
        "networkIP": _internal(call, region, subnetwork, wanted.get("networkIP"), f"{field}.networkIP", path),
        "stackType": wanted.get("stackType", "IPV4_ONLY"),
        "fingerprint": world.fingerprint([path, index]),
    }
    for key in ("nicType", "queueCount", "aliasIpRanges"):
        if key in wanted:
            made[key] = wanted[key]
    configs = wanted.get("accessConfigs", [])
    if len(configs) > 1:
        raise errors.invalid(f"{field}.accessConfigs", "", "At most one access config currently supported.")
    if configs:
        permissions.require(call, "compute.subnetworks.useExternalIp", world.path(subnetwork["selfLink"], field), owner)
        made["accessConfigs"] = [access_config(call, region, configs[0], f"{field}.accessConfigs[0]", path)]
    return made


def _networks(call, region, wanted, field):
    """The network, the subnetwork and the project that has both."""
    world = call.world
    if wanted.get("subnetwork"):
        where, link = f"{field}.subnetwork", wanted["subnetwork"]
        parts = world.path(link, where).split("/")
        parts = parts if parts[0] == "projects" else ["projects", call.project.name, *parts]
        owner = world.project(parts[1])
        found = (
            owner
            and parts[2] == "regions"
            and parts[4:5] == ["subnetworks"]
            and owner.subnetworks.get(parts[3], {}).get(parts[-1])
        )
        if not found:
            raise errors.invalid(where, link, "The referenced subnetwork resource cannot be found.")
        if parts[3] != region:
            raise errors.invalid(where, link, f"The subnetwork must be in the region of the instance, {region}.")
        network = owner.networks[found["network"].rpartition("/")[2]]
        asked = wanted.get("network")
        if asked and asked.rpartition("/")[2] != network["name"]:
            raise errors.invalid(f"{field}.network", asked, "The network does not match the subnetwork's network.")
        return network, found, owner
    link = wanted.get("network") or "global/networks/default"
    parts = world.path(link, f"{field}.network").split("/")
    parts = parts if parts[0] == "projects" else ["projects", call.project.name, *parts]
    owner = world.project(parts[1])
    network = owner and parts[2:4] == ["global", "networks"] and owner.networks.get(parts[-1])
    if not network:
        raise errors.invalid(f"{field}.network", link, "The referenced network resource cannot be found.")
    subnetwork = owner.subnetworks[region].get(network["name"])
    if subnetwork is None or not network["autoCreateSubnetworks"]:
        raise errors.invalid(field, "", "A custom subnet mode network needs a subnetwork, which was not specified.")
    return network, subnetwork, owner


def _internal(call, region, subnetwork, wanted, field, path):
    taken = {
        interface["networkIP"]
        for project in call.world.projects.values()
        for zone, its in catalogue.ZONES.items()
        if its == region
        for instance in project.instances[zone].values()
        for interface in instance["networkInterfaces"]
        if interface["subnetwork"] == subnetwork["selfLink"]
    }
    cidr = ipaddress.ip_network(subnetwork["ipCidrRange"])
    reserved = {
        address["address"]: address
        for address in call.project.addresses[region].values()
        if address["addressType"] == "INTERNAL"
    }
    if wanted:
        try:
            inside = ipaddress.ip_address(wanted) in cidr
        except ValueError:
            raise errors.invalid(field, wanted, "Must be a valid IPv4 address.") from None
        if not inside:
            raise errors.invalid(field, wanted, "Requested internal IP address is outside the subnetwork range.")
        if wanted in taken:
            raise errors.invalid(field, wanted, "Requested internal IP address is already in use.")
        if wanted in reserved:
            _take(call, reserved[wanted], path)
        return wanted
    # The first addresses of a range are the network's and the gateway's.
    for number in range(2, cidr.num_addresses - 2):
        candidate = str(cidr[number])
        if candidate not in taken and candidate not in reserved:
            return candidate
    raise errors.ApiError(
        400, "IP_SPACE_EXHAUSTED", f"IP space of '{call.world.path(subnetwork['selfLink'], field)}' is exhausted."
    )


def access_config(call, region, wanted, field, path):
    made = {
        "kind": "compute#accessConfig",
        "type": "ONE_TO_ONE_NAT",
        "name": wanted.get("name") or ANY_NAME,
        "networkTier": wanted.get("networkTier", "PREMIUM"),
    }
    address = wanted.get("natIP")
    if address:
        found = next((it for it in call.project.addresses[region].values() if it.get("address") == address), None)
        if found is None or found["addressType"] != "EXTERNAL":
            raise errors.invalid(
                f"{field}.natIP",
                address,
                f"The specified external IP address '{address}' was not found in region '{region}'.",
            )
        permissions.require(call, "compute.addresses.use", call.world.path(found["selfLink"], field))
        _take(call, found, path)
        made["natIP"] = address
    return made


def _take(call, address, path):
    if address["status"] == "IN_USE":
        raise errors.ApiError(
            400,
            "invalid",
            f"External IP address: {address['address']} is already in-use."
            if address["addressType"] == "EXTERNAL"
            else f"IP '{address['address']}' is already being used by another resource.",
        )
    address["status"] = "IN_USE"
    address["users"] = [call.world.link(path)]


def _reserved(project, zone, ip):
    for address in project.addresses[catalogue.ZONES[zone]].values():
        if address.get("address") == ip:
            return address
    return None


def start(world, project, zone, instance):
    """Gives ephemeral addresses to the access configurations that have none."""
    for interface in instance["networkInterfaces"]:
        for access in interface.get("accessConfigs", []):
            if "natIP" not in access:
                access["natIP"] = world.external_address()


def stop(project, zone, instance):
    """Takes the ephemeral addresses back; reserved ones stay."""
    for interface in instance["networkInterfaces"]:
        for access in interface.get("accessConfigs", []):
            if "natIP" in access and _reserved(project, zone, access["natIP"]) is None:
                del access["natIP"]


def release(project, zone, instance):
    """Gives reserved addresses back when the instance goes, or was refused after it took them."""
    for address in project.addresses[catalogue.ZONES[zone]].values():
        if address.get("users") == [instance["selfLink"]]:
            address["status"] = "RESERVED"
            del address["users"]


def give_back(project, zone, ip):
    address = _reserved(project, zone, ip) if ip else None
    if address is not None:
        address["status"] = "RESERVED"
        address.pop("users", None)
