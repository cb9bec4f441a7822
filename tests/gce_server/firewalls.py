"""Firewall rules of networks, and whether they let somebody in."""

import ipaddress

from . import errors, labels, operations, pages, permissions, quotas

PROTOCOLS = ("tcp", "udp", "icmp", "esp", "ah", "ipip", "sctp", "all")


def _find(call):
    rule = call.project.firewalls.get(call.name())
    if rule is None:
        raise errors.not_found(call.target())
    return rule


def get(call):
    permissions.require(call, "compute.firewalls.get")
    return _find(call)


def list_(call):
    permissions.require(call, "compute.firewalls.list", f"projects/{call.project.name}")
    return pages.page(
        call, "firewallList", list(call.project.firewalls.values()), call.project.path("global/firewalls")
    )


@operations.changing("compute.firewalls.create")
def insert(call):
    found, name = call.project.firewalls, call.body["name"]
    if name in found:
        raise errors.already_exists(call.target())
    found[name] = rule = {
        "kind": "compute#firewall",
        "id": call.world.number(),
        "creationTimestamp": call.world.clock.stamp(),
        "selfLink": call.world.link(call.target()),
        **_rule(call, call.body),
    }
    try:
        quotas.check(call.project, "")
    except errors.ApiError:
        del found[name]
        raise
    return operations.begin(call, "global", call.target(), rule["id"], undo=lambda: found.pop(name, None))


def _rule(call, body):
    """The rule that a body describes, or why it is none."""
    link = body.get("network") or "global/networks/default"
    parts = call.world.path(link, "resource.network").split("/")
    network = call.project.networks.get(parts[-1])
    if network is None or (parts[0] == "projects" and call.world.project(parts[1]) is not call.project):
        raise errors.invalid("resource.network", link, "The referenced network resource cannot be found.")
    permissions.require(call, "compute.networks.updatePolicy", call.world.path(network["selfLink"], ""))
    if bool(body.get("allowed")) == bool(body.get("denied")):
        raise errors.invalid("resource.allowed", "", "Must specify either allowed or denied, and not both.")
    for kind in ("allowed", "denied"):
        for index, entry in enumerate(body.get(kind, [])):
            _check_entry(f"resource.{kind}[{index}]", entry)
    priority = body.get("priority", 1000)
    if not 0 <= priority <= 65535:
        raise errors.invalid("resource.priority", priority, "Must be between 0 and 65535, inclusive.")
    direction = body.get("direction", "INGRESS")
    for field in ("sourceRanges", "destinationRanges"):
        for index, text in enumerate(body.get(field, [])):
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise errors.invalid(
                    f"resource.{field}[{index}]", text, "Must be a valid IPV4 or IPV6 CIDR address range."
                ) from None
    if direction == "EGRESS" and (body.get("sourceRanges") or body.get("sourceTags")):
        raise errors.invalid("resource.sourceRanges", "", "Sources cannot be specified for EGRESS rules.")
    for field in ("targetTags", "sourceTags"):
        for index, tag in enumerate(body.get(field, [])):
            if not labels.NAME.fullmatch(tag):
                raise errors.mismatch(f"resource.{field}[{index}]", tag, f"(?:{labels.NAME.pattern})")
    rule = {
        "name": body["name"],
        "description": body.get("description", ""),
        "network": network["selfLink"],
        "priority": priority,
        "direction": direction,
        "disabled": body.get("disabled", False),
        "logConfig": body.get("logConfig", {"enable": False}),
    }
    for field in ("allowed", "denied", "sourceRanges", "destinationRanges", "sourceTags", "targetTags"):
        if body.get(field):
            rule[field] = body[field]
    if direction == "INGRESS" and not (rule.get("sourceRanges") or rule.get("sourceTags")):
        rule["sourceRanges"] = ["0.0.0.0/0"]
    if direction == "EGRESS" and not rule.get("destinationRanges"):
        rule["destinationRanges"] = ["0.0.0.0/0"]
    return rule


def _check_entry(field, entry):
    protocol = entry.get("IPProtocol", "")
    if protocol not in PROTOCOLS and not (protocol.isdigit() and int(protocol) < 256):
        raise errors.invalid(f"{field}.IPProtocol", protocol, "Invalid IP protocol specification.")
    for index, ports in enumerate(entry.get("ports", [])):
        first, _, last = ports.partition("-")
        if not (first.isdigit() and (last or first).isdigit() and int(first) <= int(last or first) <= 65535):
            raise errors.invalid(
                f"{field}.ports[{index}]", ports, "Ports may only be an integer or a range in 0-65535."
            )


@operations.changing("compute.firewalls.update")
def patch(call):
    return _changed(call, lambda rule: {**rule, **call.body})


@operations.changing("compute.firewalls.update")
def update(call):
    return _changed(call, lambda rule: call.body)


def _changed(call, wanted):
    rule = _find(call)
    made = _rule(call, wanted(rule))
    if made["name"] != rule["name"] or made["network"] != rule["network"] or made["direction"] != rule["direction"]:
        raise errors.invalid(
            "resource", made["name"], "Name, network and direction of a firewall rule cannot be changed."
        )
    kept = {key: rule[key] for key in ("kind", "id", "creationTimestamp", "selfLink")}
    rule.clear()
    rule.update(kept | made)
    return operations.begin(call, "global", call.target(), rule["id"])


@operations.changing("compute.firewalls.delete")
def delete(call):
    rule = _find(call)
    permissions.require(call, "compute.networks.updatePolicy", call.world.path(rule["network"], ""))
    return operations.begin(
        call, "global", call.target(), rule["id"], done=lambda: call.project.firewalls.pop(rule["name"], None)
    )


def admits(project, instance, source, port):
    """Whether the rules let TCP from `source` to a port of the instance in: the first by priority decides."""
    tags = instance["tags"].get("items", [])
    networks = [interface["network"] for interface in instance["networkInterfaces"]]
    # Among rules of one priority, those that deny go first.
    ordered = sorted(project.firewalls.values(), key=lambda rule: (rule["priority"], "allowed" in rule))
    for rule in ordered:
        if rule["direction"] != "INGRESS" or rule["disabled"] or rule["network"] not in networks:
            continue
        if rule.get("targetTags") and not set(rule["targetTags"]) & set(tags):
            continue
        if not any(ipaddress.ip_address(source) in ipaddress.ip_network(text) for text in rule.get("sourceRanges", [])):
            continue
        if any(_covers(entry, port) for entry in rule.get("allowed", rule.get("denied"))):
            return "allowed" in rule
    return False


def _covers(entry, port):
    if entry["IPProtocol"] not in ("tcp", "all", "6"):
        return False
    for ports in entry.get("ports", ["0-65535"]):
        first, _, last = ports.partition("-")
        if int(first) <= port <= int(last or first):
            return True
    return False


METHODS = {
    "firewalls.get": get,
    "firewalls.list": list_,
    "firewalls.insert": insert,
    "firewalls.patch": patch,
    "firewalls.update": update,
    "firewalls.delete": delete,
}
