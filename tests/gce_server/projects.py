"""One project: what it holds, what it may use, who may do what in it."""

from . import catalogue


class Project:
    def __init__(self, world, name, number):
        self.world = world
        self.name = name
        self.number = number
        # None: everything. Otherwise the permissions that callers have in this project.
        self.granted = None
        # What calls asked for, for the custom role that a user needs.
        self.used_permissions = set()
        self.api_enabled = True
        self.billing_enabled = True
        # zone: name: resource, each guarded by the world's lock
        self.instances = {zone: {} for zone in catalogue.ZONES}
        self.disks = {zone: {} for zone in catalogue.ZONES}
        self.addresses = {region: {} for region in catalogue.REGIONS}
        self.subnetworks = {region: {} for region in catalogue.REGIONS}
        self.networks = {}
        self.firewalls = {}
        self.images = catalogue.images(world, name)
        self.metadata = {"kind": "compute#metadata", "fingerprint": world.fingerprint([])}
        # scope, "zones/z", "regions/r" or "global": name: operation
        self.operations = {}
        self.requests = {}
        # (zone, name): port: what was written
        self.serial = {}
        self.limits = {"": dict(PROJECT_LIMITS), **{region: dict(REGION_LIMITS) for region in catalogue.REGIONS}}
        self.add_network("default")

    def path(self, rest):
        return f"projects/{self.name}/{rest}"

    def add_network(self, name, ranges=None):
        """A network with a subnetwork of its name in every region, or in those of `ranges`: {region: range}."""
        auto = ranges is None
        link = self.world.link(self.path(f"global/networks/{name}"))
        network = {
            "kind": "compute#network",
            "id": self.world.number(),
            "creationTimestamp": self.world.clock.stamp(),
            "name": name,
            "selfLink": link,
            "autoCreateSubnetworks": auto,
            "routingConfig": {"routingMode": "REGIONAL"},
            "subnetworks": [],
            "mtu": 1460,
        }
        if ranges is None:
            ranges = {region: f"10.{128 + 2 * index}.0.0/20" for index, region in enumerate(catalogue.REGIONS)}
        for region, cidr in ranges.items():
            path = self.path(f"regions/{region}/subnetworks/{name}")
            base = cidr.rpartition(".")[0]
            self.subnetworks[region][name] = {
                "kind": "compute#subnetwork",
                "id": self.world.number(),
                "creationTimestamp": self.world.clock.stamp(),
                "name": name,
                "network": link,
                "ipCidrRange": cidr,
                "gatewayAddress": f"{base}.1",
                "region": self.world.link(self.path(f"regions/{region}")),
                "selfLink": self.world.link(path),
                "privateIpGoogleAccess": False,
                "fingerprint": self.world.fingerprint(path),
                "purpose": "PRIVATE",
                "stackType": "IPV4_ONLY",
            }
            network["subnetworks"].append(self.world.link(path))
        self.networks[name] = network

    def serial_port(self, zone, name, port=1):
        return self.serial.setdefault((zone, name), {}).setdefault(port, "")

    def write_serial(self, zone, name, text, port=1):
        self.serial_port(zone, name, port)
        self.serial[(zone, name)][port] += text


PROJECT_LIMITS = {
    "CPUS_ALL_REGIONS": 2000,
    "FIREWALLS": 1000,
    "NETWORKS": 15,
    "STATIC_ADDRESSES": 500,
    "IN_USE_ADDRESSES": 1500,
}
REGION_LIMITS = {
    "CPUS": 1500,
    "PREEMPTIBLE_CPUS": 500,
    "INSTANCES": 1000,
    "IN_USE_ADDRESSES": 1000,
    "STATIC_ADDRESSES": 500,
    "DISKS_TOTAL_GB": 40960,
    "SSD_TOTAL_GB": 20480,
}
