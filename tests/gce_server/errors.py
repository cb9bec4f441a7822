"""What Google answers when it refuses: the envelope, and one function for each refusal.

Texts and reasons are those seen in the field or in the API's documents; where neither shows one, README.md says so.
Nothing here knows the state of a project.
"""


class ApiError(Exception):
    """An answer other than 2xx. `headers` go out with it."""

    def __init__(self, code, reason, message, *, domain="global", status=None, details=None, headers=None, **extra):
        super().__init__(message)
        self.code = code
        self.headers = headers or {}
        error = {"code": code, "message": message}
        error["errors"] = [{"message": message, "domain": domain, "reason": reason, **extra}]
        if status:
            error["status"] = status
        if details:
            error["details"] = details
        self.body = {"error": error}


class OperationFailure(Exception):
    """What ends an operation with an error: `code` and the HTTP status that goes with it."""

    def __init__(self, code, message, *, http=400, details=None, location=None):
        super().__init__(message)
        error = {"code": code, "message": message}
        if details:
            error["errorDetails"] = details
        if location:
            error["location"] = location
        self.errors = [error]
        self.http = http


HTTP_MESSAGES = {
    400: "BAD REQUEST",
    403: "FORBIDDEN",
    404: "NOT FOUND",
    409: "CONFLICT",
    412: "PRECONDITION FAILED",
    429: "TOO MANY REQUESTS",
    500: "INTERNAL SERVER ERROR",
    503: "SERVICE UNAVAILABLE",
}


def error_info(reason, metadata=None, domain="googleapis.com"):
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": domain,
        "metadata": metadata or {"service": "compute.googleapis.com"},
    }


# Requests that the document does not allow.


def unknown_names(problems):
    """Google lists every field that it cannot read, in one answer."""
    violations = []
    for problem in problems:
        if problem.kind == "unknown":
            at = f" at '{problem.path}'" if problem.path else ""
            text = f'Invalid JSON payload received. Unknown name "{problem.name}"{at}: Cannot find field.'
        else:
            text = f"Invalid value at '{problem.path}' ({problem.expected}), {_json(problem.value)}"
        violations.append({"field": problem.path, "description": text})
    message = "\n".join(violation["description"] for violation in violations)
    return ApiError(400, "badRequest", message, status="INVALID_ARGUMENT", details=[_bad_request(violations)])


def unknown_parameter(name):
    text = (
        f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
    )
    details = [_bad_request([{"description": text}])]
    return ApiError(400, "badRequest", text, status="INVALID_ARGUMENT", details=details)


def bad_parameter(name, value, expected):
    text = f"Invalid value at '{name}' ({expected}), \"{value}\""
    details = [_bad_request([{"field": name, "description": text}])]
    return ApiError(400, "badRequest", text, status="INVALID_ARGUMENT", details=details)


def malformed_json(error):
    return ApiError(400, "parseError", f"Invalid JSON payload received. {error}", status="INVALID_ARGUMENT")


def _bad_request(violations):
    return {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}


def _json(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


def required(field):
    return ApiError(400, "required", f"Required field '{field}' not specified")


def invalid(field, value, why):
    return ApiError(400, "invalid", f"Invalid value for field '{field}': '{value}'. {why}")


def mismatch(field, value, pattern):
    return invalid(field, value, f"Must be a match of regex '{pattern}'")


# Refusals by what there is.


def not_found(resource):
    return ApiError(404, "notFound", f"The resource '{resource}' was not found")


def already_exists(resource):
    return ApiError(409, "alreadyExists", f"The resource '{resource}' already exists")


def not_ready(resource):
    return ApiError(400, "resourceNotReady", f"The resource '{resource}' is not ready")


def in_use(kind, resource, user):
    text = f"The {kind} resource '{resource}' is already being used by '{user}'"
    return ApiError(400, "resourceInUseByAnotherResource", text)


def condition_not_met(text):
    return ApiError(412, "conditionNotMet", text, location="If-Match", locationType="header")


def quota_exceeded(metric, limit, where):
    text = f"Quota '{metric}' exceeded.  Limit: {limit:.1f} {where}."
    return ApiError(403, "quotaExceeded", text, domain="usageLimits")


def not_implemented(what):
    """Not Google's: what this server does not model is refused rather than made up."""
    return ApiError(501, "notImplemented", f"The test server does not model {what}")


# Refusals of the caller, of the project, of the service.


def unauthenticated(reason="invalid_token"):
    return ApiError(
        401,
        "authError" if reason == "invalid_token" else "required",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
        status="UNAUTHENTICATED",
        headers={"WWW-Authenticate": f'Bearer realm="https://accounts.google.com/", error="{reason}"'},
        location="Authorization",
        locationType="header",
    )


def forbidden(permission, resource):
    return ApiError(
        403, "forbidden", f"Required '{permission}' permission for '{resource}'", status="PERMISSION_DENIED"
    )


def api_disabled(number):
    url = f"https://console.developers.google.com/apis/api/compute.googleapis.com/overview?project={number}"
    text = (
        f"Compute Engine API has not been used in project {number} before or it is disabled. Enable it by visiting {url} "
        "then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems "
        "and retry."
    )
    details = [
        {
            "@type": "type.googleapis.com/google.rpc.Help",
            "links": [{"description": "Google developers console API activation", "url": url}],
        },
        error_info("SERVICE_DISABLED", {"service": "compute.googleapis.com", "consumer": f"projects/{number}"}),
    ]
    return ApiError(
        403,
        "accessNotConfigured",
        text,
        domain="usageLimits",
        status="PERMISSION_DENIED",
        details=details,
        extendedHelp="https://console.developers.google.com",
    )


def billing_disabled(number):
    url = f"https://console.developers.google.com/billing/enable?project={number}"
    text = (
        f"This API method requires billing to be enabled. Please enable billing on project #{number} by visiting {url} "
        "then retry. If you enabled billing for this project recently, wait a few minutes for the action to propagate "
        "to our systems and retry."
    )
    details = [error_info("BILLING_DISABLED", {"service": "compute.googleapis.com", "consumer": f"projects/{number}"})]
    return ApiError(403, "forbidden", text, status="PERMISSION_DENIED", details=details)


def user_project_denied(project):
    text = f"Caller does not have required permission to use project {project}. Grant the caller the roles/serviceusage.serviceUsageConsumer role."
    details = [
        error_info("USER_PROJECT_DENIED", {"service": "compute.googleapis.com", "consumer": f"projects/{project}"})
    ]
    return ApiError(403, "forbidden", text, status="PERMISSION_DENIED", details=details)


def no_such_project(name):
    return ApiError(404, "notFound", f"Failed to find project {name}")


def unavailable(scope=None):
    text = (
        f"The scope '{scope}' cannot be reached."
        if scope
        else "Internal error. Please try again or contact Google Support."
    )
    return ApiError(503, "backendError", text, status="UNAVAILABLE")
