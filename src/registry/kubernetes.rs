//! The kind `kubernetes`: proxies as Pods of a cluster.
//!
//! Must not know the backend's rules. Invariant: reading the configuration touches no file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backend::kubernetes::{
    DEFAULT_IMAGE, Given, GivenAccess, GivenExec, Impersonate, Kubernetes, KubernetesConfig, PROFILE,
};
use crate::config::{Field, Kind, Reader, Settings, Unknowns};
use crate::contract::{Backend, BackendName, Namespace, Secret};
use crate::plugin::diagnostics::Diagnostic;
use crate::plugin::schema::{Attribute, Block, NestedBlock};
use crate::plugin::types::Type;

/// The kind.
pub(super) static KIND: Kind = Kind {
    name: "kubernetes",
    shared: true,
    block,
    parse,
    profile: || PROFILE,
};

fn block() -> Block {
    Block::new()
        .describe("Pods of a Kubernetes cluster.")
        .attributes(access())
        .attributes(placement())
        .block(NestedBlock::single("exec", exec()))
        .block(NestedBlock::single("impersonate", impersonate()))
}

/// How to reach the API server, and as whom.
fn access() -> [Attribute; 17] {
    [
        Attribute::string("kubeconfig").describe(
            "A kubeconfig, or several separated as in `KUBECONFIG`; what the first of them says counts. Default, unless `host` or `in_cluster` is set: `KUBECONFIG`, then `~/.kube/config`, then the service account of the Pod this runs in.",
        ),
        Attribute::string("context").describe("The context of the kubeconfig. Default: its current one."),
        Attribute::bool("in_cluster").describe("Uses the service account of the Pod this runs in."),
        Attribute::string("host").describe("The URL of the API server, such as `https://10.0.0.1:6443`, where no kubeconfig is used."),
        Attribute::string("token").sensitive().describe("A bearer token for `host`."),
        Attribute::string("token_file").describe("A file with a bearer token for `host`; read again when the API server does not accept it any more."),
        Attribute::string("ca_certificate").describe("The certificate of the authority that signed the one of `host`, PEM. Default: the authorities that this machine trusts."),
        Attribute::string("ca_file").describe("A file with it."),
        Attribute::string("client_certificate").describe("A client certificate for `host`, PEM."),
        Attribute::string("client_certificate_file").describe("A file with it."),
        Attribute::string("client_key").sensitive().describe("The key of the client certificate, PEM, not encrypted."),
        Attribute::string("client_key_file").describe("A file with it."),
        Attribute::string("proxy_url").sensitive().describe("The proxy to the API server: `http`, `https` or `socks5`. Default: `proxy-url` of the kubeconfig, then `HTTPS_PROXY`, unless `NO_PROXY` lists the API server."),
        Attribute::string("tls_server_name").describe("The name in the certificate of the API server, where it is not the one in the URL."),
        Attribute::bool("insecure").describe("Accepts any certificate, whatever its authority and name, so that anyone in between can read the credentials. For tests only."),
        Attribute::string("namespace").describe("The namespace of proxies that name none. Default `\"default\"`; the one of a kubeconfig's context does not count."),
        Attribute::list("namespaces", Type::String).describe("The namespaces that are listed for import, garbage collection and reads of a plan. Default: `namespace` alone. `[\"*\"]` is all of them, which takes a ClusterRole."),
    ]
}

/// What a proxy's Pod is like.
fn placement() -> [Attribute; 13] {
    [
        Attribute::string("image").describe(format!(
            "The image of a proxy's container; Squid 5 or later on the `PATH` and, for passwords, `sh` and `basic_ncsa_auth`. `image` of `placement` beats it. Default `\"{DEFAULT_IMAGE}\"`."
        )),
        Attribute::string("image_pull_policy").describe("When the image is pulled: `\"Always\"`, `\"IfNotPresent\"` or `\"Never\"`. Default: the cluster's."),
        Attribute::list("image_pull_secrets", Type::String).describe("The secrets to pull it with."),
        Attribute::string("service").describe("Gives each proxy a Service, whose address outlives the Pod's: `\"ClusterIP\"`, `\"NodePort\"` or `\"LoadBalancer\"`. Default `\"none\"`."),
        Attribute::map("service_annotations", Type::String).describe("The annotations of that Service, such as those for the cloud's load balancer."),
        Attribute::string("cpu_request").describe("CPU set aside for each proxy. Default `\"50m\"`."),
        Attribute::string("memory_request").describe("Memory set aside for each proxy. Default `\"128Mi\"`."),
        Attribute::string("cpu_limit").describe("The most CPU a proxy may take. Default: no limit."),
        Attribute::string("memory_limit").describe("The most memory a proxy may take. Default `\"512Mi\"`."),
        Attribute::string("run_as_user").describe("The user, a number, that Squid runs as; `\"assigned\"` where the cluster assigns one, as OpenShift does. Default `\"65532\"`."),
        Attribute::string("service_account").describe("The service account of each Pod, whose token it does not get. Default: the namespace's."),
        Attribute::string("priority_class").describe("The priority class of each Pod. Default: the cluster's."),
        Attribute::list("tolerations", Type::String).describe("The taints that each Pod tolerates, as `kubectl taint` writes them: `\"dedicated=egress:NoSchedule\"`, `\"spot:NoSchedule\"`, `\"spot\"`."),
    ]
}

fn exec() -> Block {
    Block::new()
        .describe("A program that gives credentials for `host`, as in a kubeconfig. It gets no input; what it says on stderr goes to the log.")
        .attributes([
            Attribute::string("command").required().describe("The program: a path, or a name on PATH."),
            Attribute::list("args", Type::String).describe("Its arguments."),
            Attribute::map("env", Type::String).sensitive().describe("What its environment has beside the provider's own."),
            Attribute::string("api_version").describe("The version of the API it speaks. Default `\"client.authentication.k8s.io/v1\"`."),
        ])
}

fn impersonate() -> Block {
    Block::new()
        .describe("Whom the API server shall take us for; the credentials must be allowed to impersonate.")
        .attributes([
            Attribute::string("user")
                .required()
                .describe("The user, such as `system:serviceaccount:egress:provider`."),
            Attribute::string("uid").describe("The user's uid."),
            Attribute::list("groups", Type::String).describe("The user's groups."),
            Attribute::map("extra", Type::list(Type::String)).describe("What else is known of the user."),
        ])
}

#[derive(Debug)]
struct KubernetesSettings(KubernetesConfig);

fn parse(reader: &mut Reader<'_>) -> Option<Arc<dyn Settings>> {
    let mut unknowns = Unknowns::default();
    let access = parse_access(reader, &mut unknowns);
    let known = |field: Field<String>| field.into_known();
    let given = Given {
        access,
        namespace: known(reader.string("namespace")),
        namespaces: reader.strings("namespaces").into_known(),
        image: known(reader.string("image")),
        image_pull_policy: known(reader.string("image_pull_policy")),
        image_pull_secrets: reader
            .strings("image_pull_secrets")
            .into_known()
            .unwrap_or_default(),
        // Annotations without the service that is not known yet are no mistake.
        service_annotations: if reader.string("service").is_unknown() {
            BTreeMap::new()
        } else {
            reader
                .texts("service_annotations")
                .into_known()
                .unwrap_or_default()
        },
        service: known(reader.string("service")),
        cpu_request: known(reader.string("cpu_request")),
        memory_request: known(reader.string("memory_request")),
        cpu_limit: known(reader.string("cpu_limit")),
        memory_limit: known(reader.string("memory_limit")),
        run_as_user: known(reader.string("run_as_user")),
        service_account: known(reader.string("service_account")),
        priority_class: known(reader.string("priority_class")),
        tolerations: reader.strings("tolerations").into_known().unwrap_or_default(),
    };
    let environment = reader.environment().clone();
    match KubernetesConfig::new(given, |name| environment.get(name)) {
        Ok(config) => Some(Arc::new(KubernetesSettings(config))),
        Err(problems) => {
            for problem in problems {
                let path = match problem.argument.split_once('.') {
                    Some((block, argument)) => reader.path_of(block).attribute(argument),
                    None => reader.path_of(problem.argument),
                };
                reader.problem(
                    Diagnostic::error(format!("{} cannot be used", problem.argument))
                        .detail(format!("{}.", problem.message))
                        .at(path),
                );
            }
            None
        }
    }
}

fn parse_access(reader: &mut Reader<'_>, unknowns: &mut Unknowns) -> GivenAccess {
    let mut given = GivenAccess {
        partly_unknown: false,
        kubeconfig: unknowns.known(reader.string("kubeconfig")),
        context: unknowns.known(reader.string("context")),
        in_cluster: unknowns.known(reader.bool("in_cluster")),
        host: unknowns.known(reader.string("host")),
        token: unknowns.secret(reader.string("token")),
        token_file: unknowns.known(reader.string("token_file")),
        ca_certificate: unknowns.known(reader.string("ca_certificate")),
        ca_file: unknowns.known(reader.string("ca_file")),
        client_certificate: unknowns.known(reader.string("client_certificate")),
        client_certificate_file: unknowns.known(reader.string("client_certificate_file")),
        client_key: unknowns.secret(reader.string("client_key")),
        client_key_file: unknowns.known(reader.string("client_key_file")),
        exec: None,
        impersonate: None,
        proxy_url: unknowns.secret(reader.string("proxy_url")),
        tls_server_name: unknowns.known(reader.string("tls_server_name")),
        insecure: unknowns.known(reader.bool("insecure")),
    };
    if let Some(mut block) = reader.block("exec") {
        let env = unknowns.known(block.texts("env")).unwrap_or_default();
        given.exec = Some(GivenExec {
            api_version: unknowns.known(block.string("api_version")),
            command: unknowns.known(block.string("command")),
            args: unknowns.known(block.strings("args")).unwrap_or_default(),
            env: env
                .into_iter()
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
        });
    }
    if let Some(mut block) = reader.block("impersonate") {
        given.impersonate = Some(Impersonate {
            user: unknowns.known(block.string("user")),
            uid: unknowns.known(block.string("uid")),
            groups: unknowns.known(block.strings("groups")).unwrap_or_default(),
            extra: unknowns.known(block.text_lists("extra")).unwrap_or_default(),
        });
    }
    given.partly_unknown = unknowns.any();
    given
}

impl Settings for KubernetesSettings {
    fn default_namespace(&self) -> Namespace {
        self.0.namespace().clone()
    }

    fn place(&self) -> Option<String> {
        Some(self.0.place())
    }

    fn build(&self, name: &BackendName) -> Arc<dyn Backend> {
        Arc::new(Kubernetes::new(name.clone(), self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;
    use crate::plugin::diagnostics::{Diagnostics, Path};
    use crate::plugin::value::Value;

    /// What is wrong with a block, by place; and whether it can be used.
    fn read(block: &Value) -> (Vec<String>, bool) {
        let mut problems = Diagnostics::new();
        let environment = Environment::Given(BTreeMap::new());
        let root = Path::root().attribute("kubernetes");
        let settings = parse(&mut Reader::new(block, root, &environment, &mut problems));
        let places = problems
            .into_iter()
            .map(|problem| problem.path.map_or_else(String::new, |path| path.to_string()));
        (places.collect(), settings.is_some())
    }

    #[test]
    fn a_whole_block_is_read() {
        let block = Value::object([
            ("host", Value::from("https://10.0.0.1:6443")),
            ("namespace", "egress".into()),
            ("service", "ClusterIP".into()),
            (
                "service_annotations",
                Value::Map(BTreeMap::from([("a/b".to_owned(), Value::from("c"))])),
            ),
            (
                "exec",
                Value::object([
                    ("command", Value::from("aws")),
                    ("args", Value::List(vec!["token".into()])),
                ]),
            ),
            ("impersonate", Value::object([("user", Value::from("somebody"))])),
        ]);
        assert_eq!(read(&block), (Vec::new(), true));
        assert_eq!(read(&Value::Null), (Vec::new(), true));
    }

    #[test]
    fn a_mistake_is_told_at_its_place() {
        let block = Value::object([
            ("host", Value::from("10.0.0.1")),
            (
                "exec",
                Value::object([("command", Value::from("aws")), ("api_version", "v1".into())]),
            ),
        ]);
        let (places, is_usable) = read(&block);
        assert_eq!(places, ["kubernetes.exec.api_version", "kubernetes.host"]);
        assert!(!is_usable);
    }

    #[test]
    fn what_is_not_known_yet_contradicts_nothing() {
        let block = |host: Value| Value::object([("host", host), ("token", "abc".into())]);
        let (places, _) = read(&block(Value::Null));
        assert_eq!(places, ["kubernetes.token"]);
        let unknown = Value::unknown();
        assert_eq!(read(&block(unknown)), (Vec::new(), true));
    }
}
