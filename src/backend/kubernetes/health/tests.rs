//! Health of a server of the tests' own: how far a check gets, and how it tells reasons apart.

use super::super::access::GivenAccess;
use super::super::config::Given;
use super::super::config::tests::configured;
use super::super::testing::{Authority, Reply, Seen, Server};
use super::*;

async fn checked(
    handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    edit: impl FnOnce(&mut Given),
) -> TargetHealth {
    let authority = Authority::new();
    let server = Server::start(&authority.sign(&["127.0.0.1"]), None, handler).await;
    let config = configured(|given| {
        given.access = GivenAccess {
            host: Some(server.url()),
            ca_certificate: Some(authority.pem.clone()),
            token: given.access.token.clone(),
            ..GivenAccess::default()
        };
        given.namespace = Some("egress".to_owned());
        edit(given);
    });
    let connection = Connection::new("cluster".parse().expect("a name"), config.access.clone());
    let mut reports = check(&connection, &config).await;
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

/// A server that allows what `allows` says of a verb and a resource.
fn server(allows: impl Fn(&str, &str, &str) -> bool + Send + Sync) -> impl Fn(&Seen) -> Reply + Send + Sync {
    move |seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/version") => Reply::version(),
        ("GET", "/api/v1/namespaces/egress") => Reply::json(
            200,
            r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"egress"}}"#,
        ),
        ("POST", path) if path.starts_with("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") => {
            let mut review: serde_json::Value = serde_json::from_str(&seen.body).expect("a review");
            let asked = &review["spec"]["resourceAttributes"];
            let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
            let allowed = allows(&text("verb"), &text("resource"), &text("namespace"));
            review["status"] = serde_json::json!({ "allowed": allowed });
            Reply::json(201, review.to_string())
        }
        other => panic!("nobody asks for {other:?}"),
    }
}

#[tokio::test]
async fn a_cluster_that_allows_everything_is_healthy() {
    let report = checked(server(|_, _, _| true), |_| ()).await;
    assert_eq!(report.reason, HealthReason::Healthy, "{report:?}");
    assert!(report.target.starts_with("https://127.0.0.1:"));
    let detail = |key: &str| report.details.get(key).map(String::as_str);
    assert_eq!(detail("server_version"), Some("v1.36.3"));
    assert_eq!(detail("namespace_exists"), Some("true"));
    assert_eq!(detail("can_create_pods"), Some("true"));
    assert_eq!(detail("can_create_services"), None);
}

#[tokio::test]
async fn what_is_not_allowed_is_forbidden_and_named() {
    let report = checked(
        server(|verb, resource, namespace| match (verb, resource, namespace) {
            ("delete", "services", "egress") | ("list", "pods", "") => false,
            (_, "services", _) => true,
            (_, _, namespace) => namespace == "egress",
        }),
        |given| {
            given.service = Some("ClusterIP".to_owned());
            given.namespaces = Some(vec!["*".to_owned()]);
        },
    )
    .await;
    assert_eq!(report.reason, HealthReason::Forbidden);
    assert!(
        report
            .message
            .contains("delete services in egress, list pods in all namespaces:"),
        "{report:?}"
    );
    assert_eq!(report.details["can_delete_services"], "false");
    assert_eq!(report.details["can_create_services"], "true");
    assert_eq!(report.details["can_list_pods_in_all_namespaces"], "false");
}

#[tokio::test]
async fn a_namespace_that_is_missing_is_told_from_one_that_may_not_be_read() {
    let missing = server(|_, _, _| true);
    let report = checked(
        move |seen| {
            if seen.path != "/api/v1/namespaces/egress" {
                return missing(seen);
            }
            let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"egress\" not found","reason":"NotFound","details":{"name":"egress","kind":"namespaces"},"code":404}"#;
            Reply::json(404, body)
        },
        |_| (),
    )
    .await;
    assert_eq!(report.reason, HealthReason::ApiError);
    assert!(report.message.contains("does not exist"), "{report:?}");
    assert_eq!(report.details["namespace_exists"], "false");

    let unreadable = server(|_, _, _| true);
    let report = checked(
        move |seen| {
            if seen.path != "/api/v1/namespaces/egress" {
                return unreadable(seen);
            }
            Reply::status(
                403,
                "Forbidden",
                "namespaces \"egress\" is forbidden: User \"ci\" cannot get resource \"namespaces\" in API group \"\" in the namespace \"egress\"",
            )
        },
        |_| (),
    )
    .await;
    assert_eq!(report.reason, HealthReason::Healthy, "{report:?}");
    assert_eq!(report.details["namespace_exists"], "not readable");
}

#[tokio::test]
async fn reasons_are_told_apart() {
    let unauthorized = checked(|_| Reply::unauthorized(), |_| ()).await;
    assert_eq!(unauthorized.reason, HealthReason::Unauthorized);
    let failing = checked(|_| Reply::status(500, "InternalError", "etcd is away"), |_| ()).await;
    assert_eq!(failing.reason, HealthReason::ApiError);
    assert!(failing.message.contains("etcd is away"));
    let unreadable = checked(
        |_| Reply::version(),
        |given| {
            given.access.token = None;
            given.access.token_file = Some("/nonexistent/token".to_owned());
        },
    )
    .await;
    assert_eq!(unreadable.reason, HealthReason::CredentialsUnavailable);
    assert_eq!(unreadable.details.get("server_version"), None);
    let away = checked(
        |_| Reply::version(),
        |given| given.access.host = Some("https://127.0.0.1:1".to_owned()),
    )
    .await;
    assert_eq!(away.reason, HealthReason::Unreachable);
    let other = checked(
        |_| Reply::version(),
        |given| given.access.ca_certificate = Some(Authority::new().pem),
    )
    .await;
    assert_eq!(other.reason, HealthReason::Unauthorized);
}
