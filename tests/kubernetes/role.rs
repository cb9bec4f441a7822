//! The Role of the examples' kustomization, in a test's own namespace.

use std::path::Path;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::kube_node::Cluster;

/// The account that the kustomization makes, with exactly the rights that it grants, as the `user` of a
/// kubeconfig.
pub(crate) async fn granted(cluster: &Cluster, client: &kube::Client, namespace: &str) -> Value {
    let account: ServiceAccount = made(client, namespace, "service-account.yaml").await;
    let _: Role = made(client, namespace, "role.yaml").await;
    let mut binding: RoleBinding = read("role-binding.yaml");
    for subject in binding.subjects.iter_mut().flatten() {
        // As kustomize does, which moves what it lists into its namespace.
        subject.namespace = Some(namespace.to_owned());
    }
    make(client, namespace, &binding).await;
    let name = account.metadata.name.expect("named");
    let token = cluster.service_account_token(namespace, &name).await;
    json!({ "token": token })
}

fn read<K: DeserializeOwned>(file: &str) -> K {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/kubernetes/namespace")
        .join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn made<K>(client: &kube::Client, namespace: &str, file: &str) -> K
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync,
{
    make(client, namespace, &read::<K>(file)).await
}

async fn make<K>(client: &kube::Client, namespace: &str, object: &K) -> K
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), object).await.expect("made")
}
