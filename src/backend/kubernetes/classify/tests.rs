//! What an API server of Kubernetes 1.36 answers, and what it means.

use super::*;

fn status(json: &str) -> kube::Error {
    let status: Status = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    kube::Error::Api(Box::new(status))
}

fn answer(code: u16, reason: &str, message: &str, details: &str) -> kube::Error {
    let message = serde_json::Value::from(message);
    status(&format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":{message},"reason":"{reason}","details":{details},"code":{code}}}"#
    ))
}

const POD: &str = r#"{"name":"p","kind":"pods"}"#;

#[test]
fn a_policys_words_are_told_as_a_policys() {
    let said = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: nothing goes before Monday";
    let details = format!(
        r#"{{"causes":[{{"message":{}}}],"kind":"pods","name":"a"}}"#,
        serde_json::Value::from(said)
    );
    let failure = classify(&answer(
        422,
        "Invalid",
        &format!("pods \"a\" is forbidden: {said}"),
        &details,
    ));
    assert_eq!(failure.kind, ErrorKind::Permanent);
    assert!(
        failure.text.starts_with("a policy of the cluster refuses it: ") && failure.text.contains(said),
        "{}",
        failure.text
    );
}

#[test]
fn every_refusal_has_its_meaning() {
    use ErrorKind::{NotFound, Permanent, QuotaExceeded, Transient};
    use HealthReason::{ApiError, Forbidden, Unauthorized};
    for (code, reason, message, details, kind, health, says) in [
        // Quota, authorisation and admission are all 403 Forbidden.
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5"#,
            POD,
            QuotaExceeded,
            Forbidden,
            "used: pods=5",
        ),
        (
            403,
            "Forbidden",
            r#"services "p" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0"#,
            r#"{"name":"p","kind":"services"}"#,
            QuotaExceeded,
            Forbidden,
            "services.nodeports",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: failed quota: q: must specify limits.cpu for: squid"#,
            POD,
            Permanent,
            Forbidden,
            "cpu_limit",
        ),
        (
            403,
            "Forbidden",
            r#"pods is forbidden: User "ci" cannot create resource "pods" in API group "" in the namespace "egress""#,
            r#"{"kind":"pods"}"#,
            Permanent,
            Forbidden,
            "RoleBinding",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: User "ci" cannot delete resource "pods" in API group "" in the namespace "egress": RBAC: role.rbac.authorization.k8s.io "x" not found"#,
            POD,
            Permanent,
            Forbidden,
            "RoleBinding",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable by user or serviceaccount, provider restricted-v2: .containers[0].runAsUser: Invalid value: 65532: must be in the ranges: [1000680000, 1000689999]]"#,
            POD,
            Permanent,
            Forbidden,
            "run_as_user",
        ),
        (
            403,
            "Forbidden",
            r#"users "admin" is forbidden: User "ci" cannot impersonate resource "users" in API group "" at the cluster scope"#,
            r#"{"name":"admin","kind":"users"}"#,
            Permanent,
            Forbidden,
            "impersonation",
        ),
        (
            403,
            "Forbidden",
            r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "egress""#,
            r#"{"kind":"pods"}"#,
            Permanent,
            Forbidden,
            "anonymous",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "squid" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "squid" must set securityContext.capabilities.drop=["ALL"])"#,
            POD,
            Permanent,
            Forbidden,
            "Pod Security",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: [maximum cpu usage per Container is 1, but limit is 2]"#,
            POD,
            Permanent,
            Forbidden,
            "maximum cpu usage",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: unable to create new content in namespace egress because it is being terminated"#,
            r#"{"name":"p","kind":"pods","causes":[{"reason":"NamespaceTerminating","message":"namespace egress is being terminated","field":"metadata.namespace"}]}"#,
            Permanent,
            Forbidden,
            "being deleted",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: error looking up service account egress/squid: serviceaccount "squid" not found"#,
            POD,
            Permanent,
            ApiError,
            "service_account",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: error looking up service account egress/default: serviceaccount "default" not found"#,
            POD,
            Transient,
            ApiError,
            "service account",
        ),
        (
            403,
            "Forbidden",
            r#"pods "p" is forbidden: no PriorityClass with name high was found"#,
            POD,
            Permanent,
            Forbidden,
            "PriorityClass",
        ),
        (
            403,
            "Forbidden",
            r#"admission webhook "validate.kyverno.svc-fail" denied the request: images must be signed"#,
            "{}",
            Permanent,
            Forbidden,
            "a policy of the cluster",
        ),
        (
            400,
            "BadRequest",
            r#"admission webhook "validation.gatekeeper.sh" denied the request: [all-must-have-owner] you must provide labels: {"owner"}"#,
            "{}",
            Permanent,
            ApiError,
            "a policy of the cluster",
        ),
        (
            422,
            "Invalid",
            r#"pods "p" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'sizes' denied request: failed expression: object.spec"#,
            POD,
            Permanent,
            ApiError,
            "a policy of the cluster",
        ),
        (
            401,
            "Unauthorized",
            "Unauthorized",
            "{}",
            Permanent,
            Unauthorized,
            "credentials",
        ),
        (
            404,
            "NotFound",
            r#"pods "p" not found"#,
            POD,
            NotFound,
            ApiError,
            r#"pods "p""#,
        ),
        (
            404,
            "NotFound",
            r#"namespaces "egress" not found"#,
            r#"{"name":"egress","kind":"namespaces"}"#,
            Permanent,
            ApiError,
            "the namespace \"egress\" does not exist",
        ),
        (
            404,
            "NotFound",
            "the server could not find the requested resource",
            "{}",
            Permanent,
            ApiError,
            "check the URL",
        ),
        (
            404,
            "",
            "404 page not found",
            "{}",
            Permanent,
            ApiError,
            "check the URL",
        ),
        (
            409,
            "AlreadyExists",
            r#"pods "p" already exists"#,
            POD,
            Permanent,
            ApiError,
            "already exists",
        ),
        (
            409,
            "AlreadyExists",
            r#"object is being deleted: pods "p" already exists"#,
            POD,
            Transient,
            ApiError,
            "still being deleted",
        ),
        (
            409,
            "Conflict",
            r#"Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to the latest version and try again"#,
            POD,
            Transient,
            ApiError,
            "at the same time",
        ),
        (
            409,
            "Conflict",
            r#"Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please apply your changes to the latest version and try again"#,
            r#"{"name":"q","kind":"resourcequotas"}"#,
            Transient,
            ApiError,
            "at the same time",
        ),
        (
            410,
            "Expired",
            "The provided continue parameter is too old",
            "{}",
            Transient,
            ApiError,
            "410",
        ),
        (
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
            "{}",
            Permanent,
            ApiError,
            "3145728",
        ),
        (
            500,
            "InternalError",
            r#"Internal error occurred: failed calling webhook "x.y.z": failed to call webhook: Post "https://x.y.svc:443/mutate?timeout=10s": dial tcp 10.96.0.9:443: connect: connection refused"#,
            r#"{"causes":[{"message":"failed calling webhook"}]}"#,
            Transient,
            ApiError,
            "failed calling webhook",
        ),
        (
            500,
            "ServerTimeout",
            "The list operation against pods could not be completed at this time, please try again.",
            r#"{"kind":"pods","retryAfterSeconds":2}"#,
            Transient,
            ApiError,
            "500",
        ),
        (
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
            "{}",
            Transient,
            ApiError,
            "503",
        ),
        (
            504,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
            "{}",
            Transient,
            ApiError,
            "504",
        ),
        (
            429,
            "TooManyRequests",
            "storage is (re)initializing",
            r#"{"retryAfterSeconds":1}"#,
            Transient,
            ApiError,
            "too much to do",
        ),
    ] {
        let failure = classify(&answer(code, reason, message, details));
        assert_eq!(failure.kind, kind, "{message}");
        assert_eq!(failure.reason, health, "{message}");
        assert!(
            failure.text.contains(says),
            "{says:?} is not in {:?}",
            failure.text
        );
    }
}

#[test]
fn the_wait_that_was_asked_for_is_kept() {
    let failure = classify(&answer(
        429,
        "TooManyRequests",
        "slow",
        r#"{"retryAfterSeconds":9}"#,
    ));
    assert_eq!(failure.retry_after, Some(Duration::from_secs(9)));
    assert_eq!(Error::from(failure).wait(), Some(Duration::from_secs(9)));
    let failure = classify(&answer(500, "InternalError", "x", r#"{"retryAfterSeconds":0}"#));
    assert_eq!(failure.retry_after, None);
}

#[test]
fn absence_is_only_what_is_said_of_the_object_itself() {
    let pod = answer(404, "NotFound", r#"pods "p" not found"#, POD);
    assert!(is_not_found(&pod, "pods", "p"));
    assert!(!is_not_found(&pod, "pods", "q"));
    assert!(!is_not_found(&pod, "services", "p"));
    let page = answer(404, "", "404 page not found", "{}");
    assert!(!is_not_found(&page, "pods", "p"));
    let unnamed = answer(
        404,
        "NotFound",
        "the server could not find the requested resource",
        "{}",
    );
    assert!(!is_not_found(&unnamed, "pods", "p"));
    assert!(!is_not_found(&answer(410, "Gone", "gone", POD), "pods", "p"));
}

#[test]
fn conflicts_are_told_apart() {
    let exists = answer(409, "AlreadyExists", r#"pods "p" already exists"#, POD);
    assert!(is_already_exists(&exists) && !is_conflict(&exists));
    let precondition = answer(
        409,
        "Conflict",
        r#"Operation cannot be fulfilled on Pod "p": the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated"#,
        POD,
    );
    assert!(is_conflict(&precondition) && !is_already_exists(&precondition));
    let quota = answer(
        409,
        "Conflict",
        "modified",
        r#"{"name":"q","kind":"resourcequotas"}"#,
    );
    assert!(!is_conflict(&quota));
}

#[test]
fn an_invalid_object_is_told_by_its_fields_without_what_may_be_secret() {
    let failure = classify(&answer(
        422,
        "Invalid",
        r#"Pod "p" is invalid: [spec.containers[0].env[0].value: Invalid value: "geheim": no, spec.containers[0].image: Required value]"#,
        r#"{"name":"p","kind":"Pod","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"geheim\": no","field":"spec.containers[0].env[0].value"},{"reason":"FieldValueRequired","message":"Required value","field":"spec.containers[0].image"}]}"#,
    ));
    assert_eq!(failure.kind, ErrorKind::Permanent);
    assert!(
        failure
            .text
            .contains("spec.containers[0].env[0].value: FieldValueInvalid")
    );
    assert!(failure.text.contains("spec.containers[0].image: Required value"));
    assert!(!format!("{failure:?}").contains("geheim"));
}

#[test]
fn only_what_strikes_every_call_is_shared() {
    let unauthorized = classify(&answer(401, "Unauthorized", "Unauthorized", "{}"));
    assert!(unauthorized.shared && unauthorized.unauthorized);
    assert_eq!(Error::from(unauthorized).affected(), Some(""));
    let forbidden = classify(&answer(
        403,
        "Forbidden",
        r#"pods is forbidden: User "ci" cannot create resource "pods" in API group "" in the namespace "a""#,
        r#"{"kind":"pods"}"#,
    ));
    assert!(!forbidden.shared && !forbidden.unauthorized);
    assert_eq!(Error::from(forbidden).affected(), None);
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let failure = classify(&answer(500, "InternalError", &"ü".repeat(5000), "{}"));
    assert!(failure.text.ends_with('…') && failure.text.chars().count() < 2100);
}

#[test]
fn what_broke_on_the_way_may_be_repeated() {
    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    let failure = classify(&kube::Error::Service(Box::new(reset)));
    assert_eq!(failure.kind, ErrorKind::Transient);
    assert_eq!(failure.reason, HealthReason::Unreachable);
    let hidden = io::Error::other(rustls::Error::InvalidCertificate(
        rustls::CertificateError::UnknownIssuer,
    ));
    let failure = classify(&kube::Error::Service(Box::new(hidden)));
    assert_eq!(failure.kind, ErrorKind::Permanent);
    let known = Classified(Failure::credentials("the key is missing"));
    let failure = classify(&kube::Error::Service(Box::new(io::Error::other(known))));
    assert_eq!(failure, Failure::credentials("the key is missing"));
}
