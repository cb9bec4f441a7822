//! A real API server, and the ways to authenticate to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::audit::{Asked, Audit};
use super::authority::{Authority, Identity};
use super::control_plane::{self, ControlPlane};
use super::wait;

/// What a cluster consists of beside etcd and kube-apiserver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    /// kube-controller-manager: quota counts, service accounts appear, owners' dependents go.
    pub(crate) controllers: bool,
}

/// An API server.
pub(crate) struct Cluster {
    /// The `cluster` of a kubeconfig.
    cluster: Value,
    /// The `user` of the administrator's kubeconfig.
    admin: Value,
    controllers: bool,
    /// `None` for one that was there before.
    own: Option<ControlPlane>,
    /// Where kubeconfigs go.
    folder: PathBuf,
}

static OWN: LazyLock<Cluster> = LazyLock::new(|| Cluster::start(Setup { controllers: true }));

static EXISTING: LazyLock<Cluster> = LazyLock::new(Cluster::existing);

impl Cluster {
    /// The one that all tests of this process share, started by the first that asks.
    pub(crate) fn shared() -> &'static Self {
        if std::env::var("USE_EXISTING_CLUSTER").is_ok_and(|value| value == "true") {
            &EXISTING
        } else {
            Self::of_our_own()
        }
    }

    /// The same, for tests that need what no existing cluster gives them: users of theirs, its log, its end.
    pub(crate) fn of_our_own() -> &'static Self {
        &OWN
    }

    /// One of the test's own, on free ports of the loopback interface.
    pub(crate) fn start(setup: Setup) -> Self {
        let mut reasons = Vec::new();
        // Another process may take a free port before its new owner does.
        while reasons.len() < 5 {
            let cluster = Self::of(ControlPlane::on_loopback(setup.controllers), setup.controllers);
            match cluster.wait_ready() {
                Ok(()) => return cluster,
                Err(why) => reasons.push(why),
            }
        }
        panic!("no API server came up: {reasons:#?}");
    }

    pub(super) fn of(own: ControlPlane, controllers: bool) -> Self {
        let ca = base64::engine::general_purpose::STANDARD.encode(own.authority.certificate());
        Self {
            cluster: json!({ "server": own.server, "certificate-authority-data": ca }),
            admin: json!({ "token": own.token(control_plane::ADMIN) }),
            controllers,
            folder: own.supervisor.folder().to_owned(),
            own: Some(own),
        }
    }

    /// The cluster of `KUBECONFIG`, which is expected to run kube-controller-manager.
    fn existing() -> Self {
        let path = std::env::var("KUBECONFIG").expect("USE_EXISTING_CLUSTER needs KUBECONFIG");
        let config = Kubeconfig::read_from(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let config = serde_json::to_value(&config).expect("JSON");
        let named = |list: &str, name: &Value, what: &str| -> Value {
            let mut entries = config[list].as_array().into_iter().flatten();
            let found = entries.find(|entry| &entry["name"] == name);
            found.unwrap_or_else(|| panic!("{path}: no {what} {name}"))[what].clone()
        };
        let context = named("contexts", &config["current-context"], "context");
        Self {
            cluster: named("clusters", &context["cluster"], "cluster"),
            admin: named("users", &context["user"], "user"),
            controllers: true,
            own: None,
            folder: tempfile::tempdir().expect("a temporary folder").keep(),
        }
    }

    pub(super) fn wait_ready(&self) -> Result<(), String> {
        let own = self.own();
        let ready = self.block_on(async |client| {
            wait::until_async("a ready API server", async || {
                if let Some(why) = own.port_was_taken() {
                    return Ok(Err(why));
                }
                let request = http::Request::get("/readyz?verbose")
                    .body(Vec::new())
                    .expect("sound");
                match client.request_text(request).await {
                    Ok(_) => Ok(Ok(())),
                    Err(error) => Err(format!("{error}\n{}", own.supervisor.log("kube-apiserver"))),
                }
            })
            .await
        });
        if ready.is_ok() && self.controllers {
            own.start_controllers(&self.kubeconfig());
        }
        ready
    }

    /// `https://127.0.0.1:20443`
    pub(crate) fn server(&self) -> &str {
        self.cluster["server"].as_str().expect("a URL")
    }

    /// The certificate authority of the server's certificate, in PEM.
    pub(crate) fn ca(&self) -> String {
        let data = self.cluster["certificate-authority-data"].as_str();
        let pem = data.map_or_else(
            || {
                std::fs::read(self.cluster["certificate-authority"].as_str().expect("a file"))
                    .expect("readable")
            },
            |data| {
                base64::engine::general_purpose::STANDARD
                    .decode(data)
                    .expect("base64")
            },
        );
        String::from_utf8(pem).expect("PEM")
    }

    /// The same as a file.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.write("ca.pem", self.ca().as_bytes())
    }

    /// Writes a file into the cluster's folder, which goes with the cluster.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// The token of a user of [`control_plane::USERS`], or of the administrator; of an own cluster only.
    pub(crate) fn token(&self, name: &str) -> &str {
        self.own().token(name)
    }

    /// A client certificate of any user; of an own cluster only.
    pub(crate) fn client_certificate(&self, user: &str, group: Option<&str>) -> Identity {
        self.own().authority.client(user, group)
    }

    /// The administrator's kubeconfig, in a file of its own.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_with(&self.admin)
    }

    /// The administrator, as the `user` of a kubeconfig.
    pub(crate) fn admin(&self) -> &Value {
        &self.admin
    }

    /// A kubeconfig with this `user`: `{"token": …}`, `{"exec": {…}}`, …
    pub(crate) fn kubeconfig_with(&self, user: &Value) -> PathBuf {
        static WRITTEN: AtomicUsize = AtomicUsize::new(0);
        let name = format!("kubeconfig-{}", WRITTEN.fetch_add(1, Ordering::Relaxed));
        self.write(&name, self.kubeconfig_text(user).as_bytes())
    }

    /// What is in such a file: JSON, which is YAML.
    pub(crate) fn kubeconfig_text(&self, user: &Value) -> String {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "test", "cluster": self.cluster }],
            "users": [{ "name": "test", "user": user }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "current-context": "test",
        });
        config.to_string()
    }

    /// A client of the administrator, for the runtime that asks.
    pub(crate) async fn client(&self) -> kube::Client {
        self.client_of(&self.admin).await
    }

    /// A client with this `user` of a kubeconfig.
    pub(crate) async fn client_of(&self, user: &Value) -> kube::Client {
        let config = Kubeconfig::from_yaml(&self.kubeconfig_text(user)).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(config, &options)
            .await
            .expect("sound");
        kube::Client::try_from(config).expect("sound")
    }

    /// Asks the API server from where there is no runtime, or from within one that must not be blocked
    /// by an other.
    pub(crate) fn block_on<T: Send>(&self, ask: impl AsyncFnOnce(kube::Client) -> T + Send) -> T {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime
                    .expect("a runtime")
                    .block_on(async { ask(self.client().await).await })
            });
            asking
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A fresh namespace in which Pod Security enforces "restricted".
    pub(crate) async fn namespace(&self) -> String {
        self.namespace_with(&[("pod-security.kubernetes.io/enforce", "restricted")])
            .await
    }

    /// A fresh namespace with these labels.
    pub(crate) async fn namespace_with(&self, labels: &[(&str, &str)]) -> String {
        let client = self.client().await;
        let name = format!("t-{}", uuid::Uuid::new_v4().simple());
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels.collect::<BTreeMap<_, _>>()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .expect("created");
        if self.controllers {
            // Admission refuses Pods until the namespace has its account.
            let accounts: Api<ServiceAccount> = Api::namespaced(client, &name);
            wait::until_async("the default service account", async || {
                accounts.get("default").await.map_err(|error| error.to_string())
            })
            .await;
        }
        name
    }

    /// Asks for a namespace's end, and does not wait for it.
    pub(crate) async fn remove_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client().await);
        namespaces
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
    }

    /// A token of a service account, which is made where it is not there.
    pub(crate) async fn service_account_token(&self, namespace: &str, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await, namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        match accounts.create(&PostParams::default(), &account).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("service account {name}: {error}"),
        }
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await;
        answer.expect("a token").status.expect("answered").token
    }

    /// The requests that came while `during` ran, in the order of their answers; of an own cluster only.
    /// Those of the cluster's own components, and those of the administrator's client here, are left out.
    pub(crate) fn requests<T>(&self, during: impl FnOnce() -> T) -> (T, Vec<Asked>) {
        let own = self.own();
        let path = own.supervisor.path(control_plane::AUDIT_LOG);
        // A request of our own closes the log before and after: what is written behind it came later.
        let close = || {
            let seal = format!("/readyz?seal={}", uuid::Uuid::new_v4());
            self.block_on(async |client: kube::Client| {
                let request = http::Request::get(&seal).body(Vec::new()).expect("sound");
                client.request_text(request).await.expect("answered");
            });
            wait::until("the audit log", || {
                let asked = Audit {
                    path: path.clone(),
                    from: 0,
                }
                .read();
                let sealed = asked.iter().any(|asked| asked.uri == seal);
                sealed
                    .then_some(())
                    .ok_or_else(|| format!("{seal} is not among {} requests", asked.len()))
            });
        };
        close();
        let from = std::fs::metadata(&path).map_or(0, |file| usize::try_from(file.len()).expect("fits"));
        let done = during();
        close();
        let mut asked = Audit { path, from }.read();
        asked.retain(|asked| !asked.uri.starts_with("/readyz"));
        (done, asked)
    }

    /// Kills the API server; connections to it are reset, and new ones refused.
    pub(crate) fn stop_api_server(&self) {
        self.own().supervisor.stop("kube-apiserver");
    }

    /// Starts it again on the same port, with everything it knew.
    pub(crate) fn start_api_server_again(&self) {
        self.own().supervisor.again("kube-apiserver");
        self.wait_answering();
    }

    /// Stops it without closing anything: connections stay and nobody answers.
    pub(crate) fn freeze_api_server(&self) {
        self.own().supervisor.signal("kube-apiserver", "STOP");
    }

    pub(crate) fn thaw_api_server(&self) {
        self.own().supervisor.signal("kube-apiserver", "CONT");
    }

    fn wait_answering(&self) {
        self.block_on(async |client: kube::Client| {
            wait::until_async("the API server's return", async || {
                let request = http::Request::get("/readyz").body(Vec::new()).expect("sound");
                client
                    .request_text(request)
                    .await
                    .map_err(|error| error.to_string())
            })
            .await
        });
    }

    pub(super) fn own(&self) -> &ControlPlane {
        self.own
            .as_ref()
            .expect("a cluster that the tests started: USE_EXISTING_CLUSTER has no such thing")
    }

    /// Where kubeconfigs and logs are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.own.is_none() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
