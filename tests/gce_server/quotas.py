"""Quotas of regions and of the project: how much is used, and refusals of what would exceed them."""

from . import catalogue, errors
from .errors import OperationFailure

# Instances that are not running count as instances, but their CPUs and ephemeral addresses are given back.
WITHOUT_CPUS = ("TERMINATED", "STOPPED", "SUSPENDED")


def usage(project, region):
    """{metric: usage} of a region; of the whole project for ""."""
    regions = [region] if region else list(catalogue.REGIONS)
    zones = [zone for zone, its in catalogue.ZONES.items() if its in regions]
    instances = [instance for zone in zones for instance in project.instances[zone].values()]
    running = [instance for instance in instances if instance["status"] not in WITHOUT_CPUS]
    disks = [disk for zone in zones for disk in project.disks[zone].values()]
    addresses = [address for name in regions for address in project.addresses[name].values()]
    external = [address for address in addresses if address["addressType"] == "EXTERNAL"]
    preemptible = sum(_cpus(instance) for instance in running if is_spot(instance))
    ephemeral = sum(
        1
        for instance in running
        for interface in instance.get("networkInterfaces", [])
        for access in interface.get("accessConfigs", [])
        if access.get("natIP")
    )
    cpus = sum(_cpus(instance) for instance in running)
    if not region:
        return {
            "CPUS_ALL_REGIONS": cpus,
            "FIREWALLS": len(project.firewalls),
            "NETWORKS": len(project.networks),
            "STATIC_ADDRESSES": 0,
            "IN_USE_ADDRESSES": 0,
        }
    return {
        "CPUS": cpus if not project.limits[region].get("PREEMPTIBLE_CPUS") else cpus - preemptible,
        "PREEMPTIBLE_CPUS": preemptible,
        "INSTANCES": len(instances),
        "IN_USE_ADDRESSES": ephemeral,
        "STATIC_ADDRESSES": len(external),
        "DISKS_TOTAL_GB": _gigabytes(disks, ("pd-standard",)),
        "SSD_TOTAL_GB": _gigabytes(disks, ("pd-balanced", "pd-ssd")),
    }


def figures(project, region):
    """As the documents of a region and of a project show them."""
    used = usage(project, region)
    return [
        {"metric": metric, "limit": float(limit), "usage": float(used.get(metric, 0))}
        for metric, limit in sorted(project.limits[region].items())
    ]


def exceeded(project, region):
    """The first (metric, limit) above its limit, or None."""
    used = usage(project, region)
    for metric, limit in sorted(project.limits[region].items()):
        if used.get(metric, 0) > limit:
            return metric, limit
    return None


def check(project, region):
    """Refuses what has just been added, where it is one too many."""
    over = exceeded(project, region) or (region and exceeded(project, ""))
    if over:
        raise errors.quota_exceeded(*over, _where(project, region, over[0]))


def failure(project, region):
    """The same as the end of an operation, with the figures; None where nothing is exceeded."""
    for scope in (region, ""):
        over = exceeded(project, scope)
        if over:
            metric, limit = over
            return OperationFailure(
                "QUOTA_EXCEEDED",
                f"Quota '{metric}' exceeded.  Limit: {limit:.1f} {_where(project, scope, metric)}.",
                http=403,
                details=[
                    {
                        "quotaInfo": {
                            "metricName": f"compute.googleapis.com/{metric.lower()}",
                            "limitName": f"{metric.replace('_', '-')}-per-project" + ("-region" if scope else ""),
                            "limit": float(limit),
                            "dimensions": {"region": scope} if scope else {},
                        }
                    }
                ],
            )
    return None


def _where(project, region, metric):
    return f"in region {region}" if region and metric in project.limits[region] else "globally"


def is_spot(instance):
    scheduling = instance.get("scheduling", {})
    return scheduling.get("provisioningModel") == "SPOT" or scheduling.get("preemptible", False)


def _cpus(instance):
    return catalogue.MACHINE_TYPES[instance["machineType"].rpartition("/")[2]][0]


def _gigabytes(disks, types):
    return sum(int(disk["sizeGb"]) for disk in disks if disk["type"].rpartition("/")[2] in types)
