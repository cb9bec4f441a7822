"""What Google has: regions, zones, machine types, disk types, public images. Fixed facts, no state."""

import zlib

REGIONS = {
    "europe-west1": "bcd",
    "us-central1": "abcf",
    "us-east1": "bcd",
}
ZONES = {f"{region}-{letter}": region for region, letters in REGIONS.items() for letter in letters}

# name: CPUs, memory in MB, whether the CPU is shared
MACHINE_TYPES = {
    "e2-micro": (2, 1024, True),
    "e2-small": (2, 2048, True),
    "e2-medium": (2, 4096, True),
    "e2-standard-2": (2, 8192, False),
    "f1-micro": (1, 614, True),
    "n1-standard-1": (1, 3840, False),
    "n2-standard-2": (2, 8192, False),
    "n2-standard-8": (8, 32768, False),
    "t2a-standard-1": (1, 4096, False),
}
ARM = ("t2a-",)
DISK_TYPES = ("pd-standard", "pd-balanced", "pd-ssd")

# project: family: (image, size in GB, architecture)
IMAGES = {
    "debian-cloud": {
        "debian-11": ("debian-11-bullseye-v20261110", 10, "X86_64"),
        "debian-12": ("debian-12-bookworm-v20261110", 10, "X86_64"),
        "debian-12-arm64": ("debian-12-bookworm-arm64-v20261110", 10, "ARM64"),
    },
    "ubuntu-os-cloud": {
        "ubuntu-2404-lts-amd64": ("ubuntu-2404-noble-amd64-v20261105", 10, "X86_64"),
    },
}
NUMBERS = {"debian-cloud": 11111111111, "ubuntu-os-cloud": 22222222222}
SINCE = "2026-11-10T05:00:00.000-08:00"


def _identifier(*parts):
    """A number that stays the same from run to run."""
    return str(1000000000000000000 + zlib.crc32("/".join(parts).encode()))


def zone(world, project, name, status="UP"):
    region = ZONES[name]
    return {
        "kind": "compute#zone",
        "id": _identifier("zone", name),
        "creationTimestamp": SINCE,
        "name": name,
        "description": name,
        "status": status,
        "region": world.link(f"projects/{project}/regions/{region}"),
        "selfLink": world.link(f"projects/{project}/zones/{name}"),
        "availableCpuPlatforms": ["Intel Broadwell", "Intel Ice Lake"],
        "supportsPzs": False,
    }


def region(world, project, name, quotas):
    return {
        "kind": "compute#region",
        "id": _identifier("region", name),
        "creationTimestamp": SINCE,
        "name": name,
        "description": name,
        "status": "UP",
        "zones": [world.link(f"projects/{project}/zones/{name}-{letter}") for letter in REGIONS[name]],
        "quotas": quotas,
        "selfLink": world.link(f"projects/{project}/regions/{name}"),
        "supportsPzs": False,
    }


def machine_type(world, project, zone_name, name):
    cpus, memory, shared = MACHINE_TYPES[name]
    return {
        "kind": "compute#machineType",
        "id": _identifier("machineType", name),
        "creationTimestamp": SINCE,
        "name": name,
        "description": f"{cpus} vCPUs, {memory / 1024:g} GB RAM",
        "guestCpus": cpus,
        "memoryMb": memory,
        "imageSpaceGb": 0,
        "maximumPersistentDisks": 16,
        "maximumPersistentDisksSizeGb": "3072" if shared else "263168",
        "zone": zone_name,
        "selfLink": world.link(f"projects/{project}/zones/{zone_name}/machineTypes/{name}"),
        "isSharedCpu": shared,
        "architecture": "ARM64" if name.startswith(ARM) else "X86_64",
    }


def disk_type(world, project, zone_name, name):
    return {
        "kind": "compute#diskType",
        "creationTimestamp": SINCE,
        "name": name,
        "description": name,
        "validDiskSize": "10GB-65536GB",
        "zone": world.link(f"projects/{project}/zones/{zone_name}"),
        "selfLink": world.link(f"projects/{project}/zones/{zone_name}/diskTypes/{name}"),
        "defaultDiskSizeGb": "500",
    }


def images(world, project):
    """The public images of a project, by name."""
    found = {}
    for family, (name, size, architecture) in IMAGES.get(project, {}).items():
        found[name] = {
            "kind": "compute#image",
            "id": _identifier("image", name),
            "creationTimestamp": SINCE,
            "name": name,
            "description": f"{family}, built on 20261110",
            "sourceType": "RAW",
            "status": "READY",
            "archiveSizeBytes": "1073741824",
            "diskSizeGb": str(size),
            "family": family,
            "architecture": architecture,
            "guestOsFeatures": [{"type": "UEFI_COMPATIBLE"}, {"type": "VIRTIO_SCSI_MULTIQUEUE"}],
            "labelFingerprint": world.fingerprint({}),
            "licenses": [world.link(f"projects/{project}/global/licenses/{family}")],
            "storageLocations": ["eu", "us"],
            "selfLink": world.link(f"projects/{project}/global/images/{name}"),
        }
    return found
