//! What go-plugin agrees on before the first call: the environment in, one line out.
//!
//! Must not know sockets or TLS. Invariant: the line is the first and only thing on stdout, and it is
//! written once the server listens.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Tells a plugin host apart from a person at a shell. Terraform's and OpenTofu's value.
const COOKIE: (&str, &str) = (
    "TF_PLUGIN_MAGIC_COOKIE",
    "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
);

/// The version of go-plugin's own protocol.
const CORE_VERSION: u32 = 1;

/// The major version of the provider protocol that is served.
pub(crate) const PROTOCOL_VERSION: u32 = 6;

/// What the host said in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Whether a plugin host started the process.
    pub(crate) is_plugin: bool,
    /// The protocol versions the host speaks; empty where it did not say.
    pub(crate) versions: Vec<u32>,
    /// The host's certificate as PEM; none where the user turned TLS off.
    pub(crate) client_certificate: Option<String>,
    /// Where a unix socket should be.
    pub(crate) socket_directory: Option<String>,
    /// Which group may use the unix socket beside its owner: a number or a name.
    pub(crate) socket_group: Option<String>,
    /// The range of TCP ports to choose from.
    pub(crate) ports: std::ops::RangeInclusive<u16>,
    /// Whether the host asked for one connection for everything.
    pub(crate) multiplex: bool,
}

impl Environment {
    /// Reads the process's environment.
    pub(crate) fn of_process() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads an environment.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        let port = |name: &str, default| text(name).and_then(|value| value.parse().ok()).unwrap_or(default);
        let versions = text("PLUGIN_PROTOCOL_VERSIONS").unwrap_or_default();
        Self {
            is_plugin: variable(COOKIE.0).as_deref() == Some(COOKIE.1),
            versions: versions
                .split(',')
                .filter_map(|version| version.trim().parse().ok())
                .collect(),
            client_certificate: text("PLUGIN_CLIENT_CERT"),
            socket_directory: text("PLUGIN_UNIX_SOCKET_DIR"),
            socket_group: text("PLUGIN_UNIX_SOCKET_GROUP"),
            ports: port("PLUGIN_MIN_PORT", 0)..=port("PLUGIN_MAX_PORT", 0),
            multiplex: text("PLUGIN_MULTIPLEX_GRPC").is_some_and(|value| value != "false" && value != "0"),
        }
    }

    /// Whether the host speaks the version that is served. One that does not is told the version all
    /// the same: it then says so itself, better than "plugin exited".
    pub(crate) fn speaks_our_version(&self) -> bool {
        self.versions.is_empty() || self.versions.contains(&PROTOCOL_VERSION)
    }
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// `unix` or `tcp`.
    pub(crate) network: &'static str,
    /// The path, or host and port.
    pub(crate) address: String,
}

/// The handshake line.
pub(crate) fn line(address: &Address, certificate: Option<&[u8]>, multiplex: bool) -> String {
    let Address { network, address } = address;
    let certificate = certificate
        .map(|der| STANDARD_NO_PAD.encode(der))
        .unwrap_or_default();
    // Multiplexing is go-plugin's own framing, which no Terraform or OpenTofu asks for: the answer
    // to a host that does is no.
    let multiplex = if multiplex { "|false" } else { "" };
    format!("{CORE_VERSION}|{PROTOCOL_VERSION}|{network}|{address}|grpc|{certificate}{multiplex}\n")
}

/// The value of `TF_REATTACH_PROVIDERS` with which hosts attach to a server in debug mode. `provider`
/// is `namespace/type`, or an address with its registry.
pub(crate) fn reattach(provider: &str, address: &Address, pid: u32) -> String {
    let config = serde_json::json!({
        "Protocol": "grpc",
        "ProtocolVersion": PROTOCOL_VERSION,
        "Pid": pid,
        // Without it the host takes the process for its own, and ends it after the first command.
        "Test": true,
        "Addr": { "Network": address.network, "String": address.address },
    });
    let names = if provider.matches('/').count() >= 2 {
        vec![provider.to_owned()]
    } else {
        ["registry.terraform.io", "registry.opentofu.org"]
            .map(|host| format!("{host}/{provider}"))
            .to_vec()
    };
    let all: serde_json::Map<_, _> = names.into_iter().map(|name| (name, config.clone())).collect();
    serde_json::Value::Object(all).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::read(|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn only_the_cookie_makes_a_plugin() {
        assert!(environment(&[COOKIE]).is_plugin);
        assert!(!environment(&[]).is_plugin);
        assert!(!environment(&[(COOKIE.0, "something else")]).is_plugin);
    }

    #[test]
    fn the_environment_is_read_as_go_plugin_writes_it() {
        let environment = environment(&[
            COOKIE,
            ("PLUGIN_PROTOCOL_VERSIONS", "6,5"),
            ("PLUGIN_MIN_PORT", "10000"),
            ("PLUGIN_MAX_PORT", "25000"),
            ("PLUGIN_CLIENT_CERT", "-----BEGIN CERTIFICATE-----"),
            ("PLUGIN_UNIX_SOCKET_DIR", "/run/x"),
            ("PLUGIN_UNIX_SOCKET_GROUP", "100"),
            ("PLUGIN_MULTIPLEX_GRPC", "true"),
        ]);
        assert_eq!(environment.versions, [6, 5]);
        assert!(environment.speaks_our_version());
        assert_eq!(environment.ports, 10000..=25000);
        assert_eq!(
            environment.client_certificate.as_deref(),
            Some("-----BEGIN CERTIFICATE-----")
        );
        assert_eq!(environment.socket_directory.as_deref(), Some("/run/x"));
        assert_eq!(environment.socket_group.as_deref(), Some("100"));
        assert!(environment.multiplex);
    }

    #[test]
    fn a_host_of_other_versions_is_recognised() {
        assert!(environment(&[]).speaks_our_version());
        assert!(!environment(&[("PLUGIN_PROTOCOL_VERSIONS", "4,5")]).speaks_our_version());
        assert!(
            environment(&[("PLUGIN_CLIENT_CERT", "")])
                .client_certificate
                .is_none()
        );
    }

    #[test]
    fn the_line_has_the_fields_in_go_plugins_order() {
        let unix = Address {
            network: "unix",
            address: "/tmp/x/s".into(),
        };
        assert_eq!(line(&unix, None, false), "1|6|unix|/tmp/x/s|grpc|\n");
        // Standard alphabet, no padding.
        assert_eq!(
            line(&unix, Some(&[0xfb, 0xff, 0xfe, 0x01]), false),
            "1|6|unix|/tmp/x/s|grpc|+//+AQ\n"
        );
        let tcp = Address {
            network: "tcp",
            address: "127.0.0.1:10000".into(),
        };
        assert_eq!(line(&tcp, None, true), "1|6|tcp|127.0.0.1:10000|grpc||false\n");
    }

    #[test]
    fn a_debugged_provider_is_found_by_both_hosts() {
        let unix = Address {
            network: "unix",
            address: "/tmp/x/s".into(),
        };
        let text = reattach("acme/toy", &unix, 7);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        for host in ["registry.terraform.io", "registry.opentofu.org"] {
            let entry = &json[format!("{host}/acme/toy")];
            assert_eq!(entry["ProtocolVersion"], 6);
            assert_eq!(entry["Test"], true);
            assert_eq!(entry["Pid"], 7);
            assert_eq!(entry["Addr"]["String"], "/tmp/x/s");
        }
        let json: serde_json::Value =
            serde_json::from_str(&reattach("example.com/acme/toy", &unix, 7)).unwrap();
        assert_eq!(
            json.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["example.com/acme/toy"]
        );
    }
}
