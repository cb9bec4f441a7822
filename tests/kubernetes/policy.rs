//! Admission policies of a test's own, decided by the API server itself.
//!
//! It knows nothing of proxies. Invariant: a policy binds the namespace it was made for, and no other.

use serde_json::{Value, json};

use crate::kube_node::wait;

/// Makes a policy that refuses this operation on Pods of the namespace wherever the expression is false, and
/// returns its name.
pub(crate) async fn refuse(
    client: &kube::Client,
    namespace: &str,
    operation: &str,
    expression: &str,
    message: &str,
) -> String {
    let name = format!("p-{}", uuid::Uuid::new_v4().simple());
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                "operations": [operation], "resources": ["pods"] }] },
            "validations": [{ "expression": expression, "message": message }],
        },
    });
    make(client, "validatingadmissionpolicies", &policy).await;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"], "matchResources": of(namespace) },
    });
    make(client, "validatingadmissionpolicybindings", &binding).await;
    name
}

/// Makes a policy that gives each new Pod of the namespace that asks for no user this one.
pub(crate) async fn assign_user(client: &kube::Client, namespace: &str, user: i64) {
    let name = format!("p-{}", uuid::Uuid::new_v4().simple());
    let change = format!(
        "[JSONPatch{{op: \"add\", path: \"/spec/containers/0/securityContext/runAsUser\", value: {user}}}, \
         JSONPatch{{op: \"add\", path: \"/spec/securityContext/fsGroup\", value: {user}}}]"
    );
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"] }] },
            "matchConditions": [{ "name": "none", "expression": "!has(object.spec.securityContext.runAsUser)" }],
            "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": change } }],
        },
    });
    make(client, "mutatingadmissionpolicies", &policy).await;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": { "name": name },
        "spec": { "policyName": name, "matchResources": of(namespace) },
    });
    make(client, "mutatingadmissionpolicybindings", &binding).await;
}

/// Takes a policy of [`refuse`] back.
pub(crate) async fn allow(client: &kube::Client, name: &str) {
    let request = http::Request::delete(path("validatingadmissionpolicybindings", name))
        .body(Vec::new())
        .expect("sound");
    client.request::<Value>(request).await.expect("removed");
}

/// Waits until a policy has its effect, as `look` sees it: the API server learns of one a moment later.
pub(crate) async fn until_in_force(look: impl AsyncFnMut() -> Result<(), String>) {
    wait::until_async("the policy", look).await;
}

fn of(namespace: &str) -> Value {
    json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } } })
}

fn path(resource: &str, name: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{resource}/{name}")
}

async fn make(client: &kube::Client, resource: &str, object: &Value) {
    let request = http::Request::post(path(resource, "").trim_end_matches('/'))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())
        .expect("sound");
    client.request::<Value>(request).await.expect("made");
}
