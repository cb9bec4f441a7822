"""Refusals and failures by name, for faults: what tests ask for without spelling Google's envelope.

Each of `ERRORS` makes an answer, each of `FAILURES` the end of an operation; both are given the call that they strike.
"""

from . import errors
from .errors import ApiError, OperationFailure

HELP = {
    "help": {
        "links": [
            {
                "description": "Troubleshooting documentation",
                "url": "https://cloud.google.com/compute/docs/resource-error",
            }
        ]
    }
}


def _rate(text, reason="RATE_LIMIT_EXCEEDED", code=403, headers=None):
    return ApiError(
        code,
        "rateLimitExceeded",
        text,
        domain="usageLimits",
        headers=headers,
        status="PERMISSION_DENIED" if code == 403 else "RESOURCE_EXHAUSTED",
        details=[errors.error_info(reason)],
    )


def _quota(call, window):
    return (
        f"Quota exceeded for quota metric 'Read requests' and limit 'Read requests per {window} per region' of service "
        f"'compute.googleapis.com' for consumer 'project_number:{call.project.number}'."
    )


def _old_quota(call):
    text = (
        "Quota exceeded for quota group 'ReadGroup' and limit 'Read requests per user per 100 seconds' of service "
        f"'compute.googleapis.com' for consumer 'project_number:{call.project.number}'."
    )
    return ApiError(403, "rateLimitExceeded", text, domain="usageLimits")


def _stockout_text(call):
    zone = f"projects/{call.project.name}/zones/{call.params.get('zone', 'us-central1-a')}"
    return (
        f"The zone '{zone}' does not have enough resources available to fulfill the request.  "
        "Try a different zone, or try again later."
    )


def _stockout_details(call):
    zone = call.params.get("zone", "us-central1-a")
    others = [name for name in call.world.zones if name[:-2] == zone[:-2] and name != zone]
    machine = str((call.body or {}).get("machineType", "e2-micro")).rpartition("/")[2]
    return [
        HELP,
        {
            "localizedMessage": {
                "locale": "en-US",
                "message": (
                    f"A {machine} VM instance is currently unavailable in the {zone} zone. Alternatively, you can try your request "
                    f"again with a different VM hardware configuration or at a later time. Consider trying your request in the "
                    f"{', '.join(others)} zone(s), which currently have capacity to accommodate your request."
                ),
            }
        },
        {
            "errorInfo": {
                "reason": "resource_availability",
                "domain": "compute.googleapis.com",
                "metadatas": {"vmType": machine, "zone": zone, "zonesAvailable": ",".join(others), "attachment": ""},
            }
        },
    ]


def _quota_failure(call):
    zone = call.params.get("zone", "us-central1-a")
    region = zone[:-2]
    return OperationFailure(
        "QUOTA_EXCEEDED",
        f"Quota 'CPUS' exceeded.  Limit: 24.0 in region {region}.",
        http=403,
        details=[
            {
                "quotaInfo": {
                    "metricName": "compute.googleapis.com/cpus",
                    "limitName": "CPUS-per-project-region",
                    "limit": 24.0,
                    "dimensions": {"region": region},
                }
            }
        ],
    )


ERRORS = {
    "unauthenticated": lambda call: errors.unauthenticated(),
    "forbidden": lambda call: errors.forbidden(f"compute.{call.method.name}", f"projects/{call.project.name}"),
    "accessNotConfigured": lambda call: errors.api_disabled(call.project.number),
    "billingDisabled": lambda call: errors.billing_disabled(call.project.number),
    "rateLimitExceeded": lambda call: _rate(_quota(call, "minute")),
    "rateLimitExceededOld": _old_quota,
    "dailyLimitExceeded": lambda call: _rate(_quota(call, "day")),
    "concurrentOperations": lambda call: _rate(
        "Quota exceeded for quota metric 'Concurrent regional operations per project'.",
        "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED",
    ),
    "tooManyRequests": lambda call: _rate("Too many requests.", code=429, headers={"Retry-After": "1"}),
    "quotaExceeded": lambda call: errors.quota_exceeded("CPUS", 24, "in region us-central1"),
    "resourceNotReady": lambda call: errors.not_ready(call.target()),
    "insufficientCapacity": lambda call: ApiError(503, "insufficientCapacity", _stockout_text(call)),
    "stockout": lambda call: ApiError(503, "ZONE_RESOURCE_POOL_EXHAUSTED", _stockout_text(call)),
    "notFound": lambda call: errors.not_found(call.target()),
    "conditionNotMet": lambda call: errors.condition_not_met("The precondition of the request is not met."),
    "internalError": lambda call: ApiError(
        500, "internalError", "Internal error. Please try again or contact Google Support.", status="INTERNAL"
    ),
    "badGateway": lambda call: ApiError(502, "backendError", "Error 502 (Server Error)!!1"),
    "backendError": lambda call: errors.unavailable(),
}

FAILURES = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": lambda call: OperationFailure(
        "ZONE_RESOURCE_POOL_EXHAUSTED", _stockout_text(call), http=503, details=[HELP, {"localizedMessage": {}}]
    ),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": lambda call: OperationFailure(
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", _stockout_text(call), http=503, details=_stockout_details(call)
    ),
    "IP_SPACE_EXHAUSTED": lambda call: OperationFailure(
        "IP_SPACE_EXHAUSTED",
        f"IP space of 'projects/{call.project.name}/regions/us-central1/subnetworks/default' is exhausted.",
    ),
    "QUOTA_EXCEEDED": _quota_failure,
    "RESOURCE_NOT_READY": lambda call: OperationFailure(
        "RESOURCE_NOT_READY", f"The resource '{call.target()}' is not ready"
    ),
    "RESOURCE_ALREADY_EXISTS": lambda call: OperationFailure(
        "RESOURCE_ALREADY_EXISTS", f"The resource '{call.target()}' already exists", http=409
    ),
    "INTERNAL_ERROR": lambda call: OperationFailure(
        "INTERNAL_ERROR", "Internal error. Please try again or contact Google Support. (Code: '-1')", http=500
    ),
}
