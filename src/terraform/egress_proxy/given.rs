//! What a configuration gives: its create-only facts, and everything that is wrong with it.
//!
//! Pure; must not know any backend. Invariants: every problem is found at once and has its path; a
//! secret becomes a version or a hash here and appears in no message.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::schema::{
    ACCESS, ALLOWED_CIDRS, ALLOWED_DOMAINS, ALLOWED_PORTS, CLOUD_INIT, CLOUD_INIT_WO, CLOUD_INIT_WO_VERSION,
    IMAGE, MACHINE_TYPE, PASSWORD_HASH, PASSWORD_WO, PASSWORD_WO_VERSION, PLACEMENT, PORT, REGION, SPOT,
    USERNAME, ZONE,
};
use crate::config::Field;
use crate::contract::spec::{CloudInitFact, DEFAULT_ALLOWED_PORTS, DEFAULT_PORT, PasswordFact, sha256_hex};
use crate::contract::{Fact, Facts, Secret};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, sentence};
use crate::plugin::value::Value;
use crate::squid;

/// The create-only facts that a configuration gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// Those that are known.
    pub(super) facts: Facts,
    /// Those that are given but not known yet.
    pub(super) unknown: BTreeSet<Fact>,
    /// Whether there is a `placement` block.
    pub(super) has_placement: bool,
    /// Whether there is an `access` block.
    pub(super) has_access: bool,
}

impl Given {
    /// Reads a configuration, or a state.
    pub(super) fn read(config: &Value, problems: &mut Diagnostics) -> Self {
        let (placement, access) = (config.get(PLACEMENT), config.get(ACCESS));
        let mut reader = FactReader {
            unknown: BTreeSet::new(),
            problems,
        };
        let root = Path::root();
        let facts = Facts {
            port: reader.port(config.get(PORT), || root.attribute(PORT)),
            zone: reader.text(placement, ZONE, Fact::Zone),
            region: reader.text(placement, REGION, Fact::Region),
            machine_type: reader.text(placement, MACHINE_TYPE, Fact::MachineType),
            image: reader.text(placement, IMAGE, Fact::Image),
            spot: reader.spot(placement),
            allowed_cidrs: reader.cidrs(access),
            allowed_ports: reader.ports(access),
            allowed_domains: reader.domains(access),
            username: reader.username(access),
            password: reader.password(access),
            cloud_init: reader.cloud_init(config),
        };
        let unknown = reader.unknown;
        Self {
            facts,
            unknown,
            has_placement: !placement.is_null(),
            has_access: !access.is_null(),
        }
    }

    /// What the configuration asks of a proxy that exists with `current` facts: what is given, the
    /// default where there is a constant one, and what the proxy has for everything else. A block
    /// that is left out changes nothing.
    pub(super) fn over(&self, current: &Facts) -> Facts {
        let given = &self.facts;
        let mut asked = current.clone();
        asked.port = Some(given.port.unwrap_or(DEFAULT_PORT));
        if self.has_placement {
            overlay(&mut asked.zone, &given.zone);
            overlay(&mut asked.region, &given.region);
            overlay(&mut asked.machine_type, &given.machine_type);
            overlay(&mut asked.image, &given.image);
            overlay(&mut asked.spot, &given.spot);
        }
        if self.has_access {
            overlay(&mut asked.allowed_cidrs, &given.allowed_cidrs);
            overlay(&mut asked.allowed_domains, &given.allowed_domains);
            overlay(&mut asked.username, &given.username);
            overlay(&mut asked.password, &given.password);
            // With one's own cloud-init document a proxy may have no such list at all.
            if given.allowed_ports.is_some() || current.allowed_ports.is_some() {
                let ports = given.allowed_ports.clone();
                asked.allowed_ports = Some(ports.unwrap_or_else(|| DEFAULT_ALLOWED_PORTS.to_vec()));
            }
        }
        overlay(&mut asked.cloud_init, &given.cloud_init);
        asked.canonical()
    }
}

fn overlay<T: Clone>(asked: &mut Option<T>, given: &Option<T>) {
    if given.is_some() {
        asked.clone_from(given);
    }
}

/// What of a cloud-init document is hashed: line ends and the empty end of a text differ between
/// editors and checkouts without any difference for the instance.
pub(super) fn cloud_init_sha256(text: &str) -> String {
    sha256_hex(text.replace("\r\n", "\n").trim_end_matches('\n'))
}

struct FactReader<'a> {
    unknown: BTreeSet<Fact>,
    problems: &'a mut Diagnostics,
}

impl FactReader<'_> {
    fn problem(&mut self, path: Path, summary: impl Into<String>, detail: impl Into<String>) {
        self.problems
            .push(Diagnostic::error(summary).detail(detail).at(path));
    }

    /// The value of an argument of a block; of an unknown block every argument is unknown.
    fn argument<'v>(&mut self, block: &'v Value, name: &str, fact: Fact) -> Field<&'v Value> {
        let value = if block.is_unknown() {
            block
        } else {
            block.get(name)
        };
        if value.is_null() {
            Field::Null
        } else if value.is_wholly_known() {
            Field::Known(value)
        } else {
            self.unknown.insert(fact);
            Field::Unknown
        }
    }

    fn text(&mut self, block: &Value, name: &str, fact: Fact) -> Option<String> {
        let text = self.argument(block, name, fact).into_known()?.as_str()?;
        if text.is_empty() {
            let path = super::schema::path_of(fact);
            self.problem(
                path,
                format!("{name} is empty"),
                "Leave it out, or give it a value.",
            );
            return None;
        }
        Some(text.to_owned())
    }

    fn spot(&mut self, placement: &Value) -> Option<bool> {
        self.argument(placement, SPOT, Fact::Spot).into_known()?.as_bool()
    }

    fn port(&mut self, value: &Value, path: impl FnOnce() -> Path) -> Option<u16> {
        if value.is_unknown() {
            self.unknown.insert(Fact::Port);
            return None;
        }
        let number = value.as_number()?;
        let port = number.to_i64().and_then(|port| u16::try_from(port).ok());
        match port.filter(|port| *port != 0) {
            Some(port) => Some(port),
            None => {
                self.problem(
                    path(),
                    "The port cannot be used",
                    format!("{number} is not a whole number from 1 to 65535."),
                );
                None
            }
        }
    }

    /// The elements of a list argument. That a list is empty is for the backend to judge.
    fn elements<'v>(&mut self, access: &'v Value, name: &str, fact: Fact) -> Option<(&'v [Value], Path)> {
        let path = Path::root().attribute(ACCESS).attribute(name);
        let elements = self.argument(access, name, fact).into_known()?.as_list();
        for (index, element) in (0..).zip(elements) {
            if element.is_null() {
                self.problem(
                    path.index(index),
                    format!("{name} holds null"),
                    format!("Element {index} is null; remove it, or give it a value."),
                );
            }
        }
        Some((elements, path))
    }

    fn cidrs(&mut self, access: &Value) -> Option<Vec<IpNet>> {
        let (elements, path) = self.elements(access, ALLOWED_CIDRS, Fact::AllowedCidrs)?;
        let mut cidrs = Vec::with_capacity(elements.len());
        for (index, text) in (0..).zip(elements) {
            let Some(text) = text.as_str() else { continue };
            match text.parse::<IpNet>() {
                Ok(cidr) => cidrs.push(cidr),
                Err(_) => {
                    let hint = match text.parse::<std::net::IpAddr>() {
                        Ok(address) => format!(" For this one address write {:?}.", IpNet::from(address).to_string()),
                        Err(_) => " It must be an address, a slash and a prefix length, such as \"10.0.0.0/8\" or \"fd00::/8\".".to_owned(),
                    };
                    self.problem(
                        path.index(index),
                        "A network cannot be used",
                        format!("Element {index} of {ALLOWED_CIDRS}, {text:?}, is not a network.{hint}"),
                    );
                }
            }
        }
        Some(cidrs)
    }

    fn ports(&mut self, access: &Value) -> Option<Vec<u16>> {
        let (elements, path) = self.elements(access, ALLOWED_PORTS, Fact::AllowedPorts)?;
        let ports = (0..)
            .zip(elements)
            .filter_map(|(index, element)| self.port(element, || path.index(index)));
        Some(ports.collect())
    }

    fn domains(&mut self, access: &Value) -> Option<Vec<String>> {
        let (elements, path) = self.elements(access, ALLOWED_DOMAINS, Fact::AllowedDomains)?;
        let mut domains = Vec::with_capacity(elements.len());
        for (index, text) in (0..).zip(elements) {
            let Some(text) = text.as_str() else { continue };
            match text.parse::<squid::Domain>() {
                Ok(_) => domains.push(text.to_owned()),
                Err(error) => self.problem(
                    path.index(index),
                    "A destination cannot be used",
                    format!("Element {index} of {ALLOWED_DOMAINS}: {error}."),
                ),
            }
        }
        Some(domains)
    }

    fn username(&mut self, access: &Value) -> Option<String> {
        let name = self.text(access, USERNAME, Fact::Username)?;
        if let Err(error) = name.parse::<squid::Username>() {
            let path = super::schema::path_of(Fact::Username);
            self.problem(path, "The username cannot be used", sentence(&error.to_string()));
            return None;
        }
        Some(name)
    }

    fn password(&mut self, access: &Value) -> Option<PasswordFact> {
        let path = |name: &str| Path::root().attribute(ACCESS).attribute(name);
        let version = self.argument(access, PASSWORD_WO_VERSION, Fact::Password);
        let hash = self.argument(access, PASSWORD_HASH, Fact::Password);
        if let Some(text) = version.known().and_then(|value| value.as_str()) {
            if text.is_empty() {
                self.problem(
                    path(PASSWORD_WO_VERSION),
                    "password_wo_version is empty",
                    "Give it any value, such as 1, and another one whenever the password changes.",
                );
            }
            return Some(PasswordFact::Version(text.to_owned()));
        }
        let hash = hash.into_known()?.as_str()?;
        if let Err(error) = squid::password::check_hash(&Secret::new(hash)) {
            let detail = format!(
                "{} To give the password itself, use password_wo.",
                sentence(&error.to_string())
            );
            self.problem(path(PASSWORD_HASH), "password_hash cannot be used", detail);
            return None;
        }
        Some(PasswordFact::HashSha256(sha256_hex(hash)))
    }

    fn cloud_init(&mut self, config: &Value) -> Option<CloudInitFact> {
        let version = self.argument(config, CLOUD_INIT_WO_VERSION, Fact::CloudInit);
        let text = self.argument(config, CLOUD_INIT, Fact::CloudInit);
        if let Some(version) = version.known().and_then(|value| value.as_str()) {
            if version.is_empty() {
                self.problem(
                    Path::root().attribute(CLOUD_INIT_WO_VERSION),
                    "cloud_init_wo_version is empty",
                    "Give it any value, such as 1, and another one whenever the document changes.",
                );
            }
            return Some(CloudInitFact::Version(version.to_owned()));
        }
        let text = text.into_known()?.as_str()?;
        if text.trim().is_empty() {
            self.problem(
                Path::root().attribute(CLOUD_INIT),
                "cloud_init is empty",
                "Leave it out for the built-in document, or give one.",
            );
            return None;
        }
        Some(CloudInitFact::TextSha256(cloud_init_sha256(text)))
    }
}

/// Whether a version of a write-only value must come with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions<'a> {
    /// It must: this is the configuration as it was written, or of what has no state yet.
    WithValues,
    /// Not where the version is the one of this state: under `ignore_changes` core shows the provider
    /// the state's block instead of the configuration's, and no state has the value.
    AsIn(&'a Value),
    /// It need not: so with the plan of a replacement. The apply sees the value and demands it.
    Alone,
}

impl Versions<'_> {
    fn excuse(self, config: &Value, block: Option<&str>, name: &str) -> bool {
        let of = |value: &Value| match block {
            Some(block) => value.get(block).get(name).clone(),
            None => value.get(name).clone(),
        };
        match self {
            Self::WithValues => false,
            Self::AsIn(prior) => of(config) == of(prior),
            Self::Alone => true,
        }
    }
}

/// Which of a pair of a write-only value and its version is missing, and the like. Only
/// a configuration has these rules: in a state write-only values are always null.
pub(super) fn check_combinations(config: &Value, versions: Versions<'_>, problems: &mut Diagnostics) {
    let access = config.get(ACCESS);
    let within = |name: &str| Path::root().attribute(ACCESS).attribute(name);
    let given = |name: &str| !access.get(name).is_null();
    let mut problem = |path: Path, summary: &str, detail: &str| {
        problems.push(Diagnostic::error(summary).detail(detail).at(path));
    };
    if !access.is_unknown() {
        let [username, password, version, hash] =
            [USERNAME, PASSWORD_WO, PASSWORD_WO_VERSION, PASSWORD_HASH].map(given);
        if password && !version {
            problem(
                within(PASSWORD_WO),
                "password_wo needs password_wo_version",
                "A write-only value is in no state, so that only its version shows a change. Set password_wo_version = 1, and another value whenever the password changes.",
            );
        }
        if version && !password && !versions.excuse(config, Some(ACCESS), PASSWORD_WO_VERSION) {
            problem(
                within(PASSWORD_WO_VERSION),
                "password_wo_version is given without password_wo",
                "The version of a password means nothing without one. Set password_wo, or remove password_wo_version.",
            );
        }
        if password && hash {
            problem(
                within(PASSWORD_HASH),
                "Both password_wo and password_hash are given",
                "A proxy has one password. Remove one of them.",
            );
        }
        if username && !password && !hash && !version {
            problem(
                within(USERNAME),
                "username is given without a password",
                "Set password_wo and password_wo_version, or password_hash.",
            );
        }
        if (password || hash) && !username {
            problem(
                within(if password { PASSWORD_WO } else { PASSWORD_HASH }),
                "A password is given without username",
                "Basic authentication needs both. Set username.",
            );
        }
        if let Some(text) = access.get(PASSWORD_WO).as_str()
            && let Err(error) = squid::password::check(&Secret::new(text))
        {
            problem(
                within(PASSWORD_WO),
                "The password cannot be used",
                &sentence(&error.to_string()),
            );
        }
    }
    let root = Path::root();
    let [text, write_only, version] =
        [CLOUD_INIT, CLOUD_INIT_WO, CLOUD_INIT_WO_VERSION].map(|name| !config.get(name).is_null());
    if write_only && !version {
        problem(
            root.attribute(CLOUD_INIT_WO),
            "cloud_init_wo needs cloud_init_wo_version",
            "A write-only value is in no state, so that only its version shows a change. Set cloud_init_wo_version = 1, and another value whenever the document changes.",
        );
    }
    if version && !write_only && !versions.excuse(config, None, CLOUD_INIT_WO_VERSION) {
        problem(
            root.attribute(CLOUD_INIT_WO_VERSION),
            "cloud_init_wo_version is given without cloud_init_wo",
            "Set cloud_init_wo, or remove cloud_init_wo_version.",
        );
    }
    if text && write_only {
        problem(
            root.attribute(CLOUD_INIT),
            "Both cloud_init and cloud_init_wo are given",
            "An instance has one document. Remove one of them.",
        );
    }
}

/// What the first line of a cloud-init document tells about the whole, where it tells nothing good.
pub(super) fn cloud_init_warning(text: &str) -> Option<String> {
    squid::cloud_init::head(text).map(|head| sentence(&head.warning()))
}

#[cfg(test)]
mod tests;
