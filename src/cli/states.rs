//! The states that a command is given: read, and asked what they hold of ours.
//!
//! Must not know backends. Invariant: what is not a state, or a state that cannot be read, is an error
//! that names the file and the way out, never an empty state; and no value of it is repeated, since
//! states hold secrets.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use clap::Args;
use serde_json::Value;

use crate::contract::Incarnation;
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::terraform::orphans::Held;

/// The resource type whose instances count.
const TYPE: &str = "egress_proxy";
/// Stands for standard input.
const STDIN: &str = "-";

/// Which states a command is given.
#[derive(Debug, Args)]
pub(super) struct Given {
    /// A state whose proxies are left out: as `terraform show -json` or `terraform state pull` prints
    /// it; `-` is standard input; repeatable (default: standard input, where something is connected)
    #[arg(long = "state", value_name = "FILE")]
    files: Vec<String>,
    /// Go without any state: nothing counts as held
    #[arg(long, conflicts_with = "files")]
    no_state: bool,
}

/// The states that were read.
#[derive(Debug, Default)]
pub(super) struct States {
    /// Each by its name, and how many proxies it holds.
    pub(super) read: Vec<(String, usize)>,
    /// What they hold.
    pub(super) held: Held,
    /// The names of the proxies in their root modules.
    pub(super) names: BTreeSet<String>,
}

impl Given {
    /// Whether it was said that there is no state.
    pub(super) fn says_none(&self) -> bool {
        self.no_state
    }

    /// Reads them; of none named, the one on standard input, where something is connected to it.
    ///
    /// # Errors
    /// Every state that cannot be read.
    pub(super) fn read(&self) -> Result<States, Diagnostics> {
        let mut states = States::default();
        if self.no_state {
            return Ok(states);
        }
        let standard_input = [STDIN.to_owned()];
        let files = if self.files.is_empty() && is_connected() {
            &standard_input
        } else {
            &*self.files
        };
        let mut problems = Diagnostics::new();
        for file in files {
            let (name, text) = if file == STDIN {
                ("standard input", stdin())
            } else {
                (file.as_str(), text_of(Path::new(file)))
            };
            if let Err(problem) = text.and_then(|text| states.add(name, &text)) {
                problems.push(problem);
            }
        }
        problems.into_result()?;
        Ok(states)
    }
}

/// Whether standard input is a pipe or a file: neither a person nor nothing.
fn is_connected() -> bool {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return false;
    }
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        rustix::fs::fstat(stdin.as_fd()).is_ok_and(|found| {
            let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
            kind.is_fifo() || kind.is_file() || kind.is_socket()
        })
    }
    #[cfg(not(unix))]
    true
}

/// Whether somebody sits at standard input who can be asked.
pub(super) fn has_person() -> bool {
    std::io::stdin().is_terminal()
}

fn stdin() -> Result<Vec<u8>, Diagnostic> {
    let mut text = Vec::new();
    match std::io::stdin().lock().read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Diagnostic::error("Standard input cannot be read").detail(format!("{error}."))),
    }
}

fn text_of(path: &Path) -> Result<Vec<u8>, Diagnostic> {
    std::fs::read(path).map_err(|error| {
        Diagnostic::error(format!("The state {} cannot be read", path.display())).detail(format!("{error}."))
    })
}

impl States {
    fn add(&mut self, name: &str, text: &[u8]) -> Result<(), Diagnostic> {
        let proxies = parse(text).map_err(|why| {
            Diagnostic::error(format!("The state {name} cannot be used")).detail(format!("{why}."))
        })?;
        for proxy in &proxies {
            // What a failed create left may have neither.
            let by_id = proxy.id.as_deref().is_some_and(|id| self.held.add_id(id).is_ok());
            let incarnation = proxy.incarnation.as_deref().map(str::parse::<Incarnation>);
            match incarnation {
                Some(Ok(incarnation)) => self.held.add_incarnation(incarnation),
                Some(Err(_)) if !by_id => {
                    return Err(
                        Diagnostic::error(format!("The state {name} cannot be used")).detail(format!(
                            "{} has neither an id nor an incarnation that can be read.",
                            proxy.address
                        )),
                    );
                }
                Some(Err(_)) | None => {}
            }
            self.names.extend(proxy.root_name.clone());
        }
        self.read.push((name.to_owned(), proxies.len()));
        Ok(())
    }
}

/// A proxy in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Proxy {
    address: String,
    /// Its resource's name, where that is in the root module.
    root_name: Option<String>,
    id: Option<String>,
    incarnation: Option<String>,
}

/// The proxies of a state: as `terraform show -json` prints it, or raw.
fn parse(text: &[u8]) -> Result<Vec<Proxy>, String> {
    if text.iter().all(u8::is_ascii_whitespace) {
        // What a command that failed leaves in a pipe: to take it for no state would make every proxy an orphan.
        return Err(
            "it is empty; give the output of `terraform show -json`, and see that this command did not fail, or say \
             with --no-state that there is no state"
                .into(),
        );
    }
    let state: Value = serde_json::from_slice(text).map_err(|error| {
        format!(
            "it is no JSON (line {}); give the output of `terraform show -json` or `terraform state pull`",
            error.line()
        )
    })?;
    let found = |key: &str| !state[key].is_null();
    if found("encrypted_data") {
        return Err("it is encrypted; give the output of `tofu show -json` or `tofu state pull`".into());
    }
    if found("planned_values") || found("resource_changes") {
        return Err(
            "it is a plan; give the state, as `terraform show -json` without a file prints it".into(),
        );
    }
    if let Some(version) = state["format_version"].as_str() {
        if version.split('.').next() != Some("1") {
            return Err(format!(
                "its format version is {version:?}; versions 1.x are known, so use a newer release of this program"
            ));
        }
        if found("provider_schemas") || found("terraform_version") || found("values") || is_empty(&state) {
            let mut proxies = Vec::new();
            module(&state["values"]["root_module"], true, &mut proxies)?;
            return Ok(proxies);
        }
    }
    match state["version"].as_u64() {
        Some(4) => raw(&state),
        Some(version) => Err(format!(
            "its version is {version}; version 4 is known, which Terraform 0.12 and later and OpenTofu write"
        )),
        None => {
            Err("it is no state; give the output of `terraform show -json` or `terraform state pull`".into())
        }
    }
}

/// The form of a state in which nothing is: a format version and nothing else.
fn is_empty(state: &Value) -> bool {
    state.as_object().is_some_and(|fields| fields.len() == 1)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The proxies of a module and of those in it.
fn module(module: &Value, root: bool, proxies: &mut Vec<Proxy>) -> Result<(), String> {
    for resource in list(&module["resources"], "resources")? {
        if resource["type"] == TYPE && resource["mode"] == "managed" {
            let values = &resource["values"];
            proxies.push(Proxy {
                address: text(&resource["address"]).unwrap_or_default(),
                root_name: text(&resource["name"]).filter(|_| root),
                id: text(&values["id"]),
                incarnation: text(&values["incarnation"]),
            });
        }
    }
    for child in list(&module["child_modules"], "child_modules")? {
        self::module(child, false, proxies)?;
    }
    Ok(())
}

/// The proxies of a raw state, deposed ones included: they are the state's until they are destroyed.
fn raw(state: &Value) -> Result<Vec<Proxy>, String> {
    let mut proxies = Vec::new();
    for resource in list(&state["resources"], "resources")? {
        if resource["type"] != TYPE || resource["mode"] != "managed" {
            continue;
        }
        let (module, name) = (
            text(&resource["module"]),
            text(&resource["name"]).unwrap_or_default(),
        );
        let prefix = module
            .as_ref()
            .map(|module| format!("{module}."))
            .unwrap_or_default();
        for instance in list(&resource["instances"], "instances")? {
            let attributes = &instance["attributes"];
            proxies.push(Proxy {
                address: format!("{prefix}{TYPE}.{name}"),
                root_name: module.is_none().then(|| name.clone()),
                id: text(&attributes["id"]),
                incarnation: text(&attributes["incarnation"]),
            });
        }
    }
    Ok(proxies)
}

/// A list that may be left out, and nothing else.
fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], String> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        _ => Err(format!("its {name} are no list")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(state: &Value) -> Result<Vec<(String, Option<String>)>, String> {
        let proxies = parse(state.to_string().as_bytes())?;
        Ok(proxies
            .into_iter()
            .map(|proxy| (proxy.address, proxy.id))
            .collect())
    }

    #[test]
    fn both_forms_of_a_state_are_read_with_modules_and_deposed_instances() {
        let raw = json!({
            "version": 4, "serial": 3, "lineage": "x",
            "resources": [
                { "mode": "managed", "type": "egress_proxy", "name": "a", "instances": [
                    { "index_key": 0, "attributes": { "id": "here/default/a", "incarnation": null } },
                    { "deposed": "00", "attributes": { "id": "here/default/old" } },
                ] },
                { "module": "module.m", "mode": "managed", "type": "egress_proxy", "name": "b",
                  "instances": [{ "attributes": { "id": "here/default/b" } }] },
                { "mode": "data", "type": "egress_proxy", "name": "c", "instances": [{ "attributes": { "id": "x/y" } }] },
                { "mode": "managed", "type": "other", "name": "d", "instances": [{ "attributes": { "id": "x/y" } }] },
            ],
        });
        let expected = |addresses: [&str; 3]| {
            let ids = ["here/default/a", "here/default/old", "here/default/b"];
            let pairs = addresses.into_iter().zip(ids);
            Ok(pairs
                .map(|(address, id)| (address.to_owned(), Some(id.to_owned())))
                .collect::<Vec<_>>())
        };
        assert_eq!(
            parsed(&raw),
            expected(["egress_proxy.a", "egress_proxy.a", "module.m.egress_proxy.b"])
        );
        let shown = json!({
            "format_version": "1.0", "terraform_version": "1.15.5",
            "values": { "root_module": {
                "resources": [
                    { "address": "egress_proxy.a[0]", "mode": "managed", "type": "egress_proxy", "name": "a",
                      "values": { "id": "here/default/a" } },
                    { "address": "egress_proxy.a[0]", "mode": "managed", "type": "egress_proxy", "name": "a",
                      "deposed_key": "00", "values": { "id": "here/default/old" } },
                    { "address": "other.d", "mode": "managed", "type": "other", "name": "d", "values": { "id": "x" } },
                ],
                "child_modules": [{ "child_modules": [{ "resources": [
                    { "address": "module.m.module.n.egress_proxy.b", "mode": "managed", "type": "egress_proxy",
                      "name": "b", "values": { "id": "here/default/b" } },
                ] }] }],
            } },
        });
        assert_eq!(
            parsed(&shown),
            expected([
                "egress_proxy.a[0]",
                "egress_proxy.a[0]",
                "module.m.module.n.egress_proxy.b"
            ])
        );
    }

    #[test]
    fn a_state_without_anything_is_a_state() {
        for state in [
            json!({ "format_version": "1.0" }),
            json!({ "format_version": "1.0", "terraform_version": "1.8.4" }),
            json!({ "version": 4, "resources": [] }),
            json!({ "version": 4 }),
        ] {
            assert_eq!(parsed(&state), Ok(vec![]), "{state}");
        }
    }

    #[test]
    fn what_is_no_state_is_refused_without_repeating_it() {
        for (text, says) in [
            ("", "empty"),
            ("  \n", "empty"),
            ("sentinel", "no JSON"),
            ("{\"sentinel\": ", "no JSON"),
            ("[]", "no state"),
            ("{\"sentinel\": 1}", "no state"),
            ("{\"version\": 3}", "version is 3"),
            ("{\"format_version\": \"2.0\", \"values\": {}}", "2.0"),
            ("{\"format_version\": \"1.2\", \"planned_values\": {}}", "plan"),
            ("{\"encrypted_data\": \"sentinel\", \"meta\": {}}", "encrypted"),
            ("{\"version\": 4, \"resources\": \"sentinel\"}", "no list"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains("sentinel"), "{error}");
        }
    }

    #[test]
    fn what_can_be_told_by_nothing_spoils_the_state() {
        let mut states = States::default();
        let state = json!({ "version": 4, "resources": [
            { "mode": "managed", "type": "egress_proxy", "name": "a",
              "instances": [{ "attributes": { "id": null, "incarnation": "none" } }] },
        ] });
        let error = states
            .add("x.tfstate", state.to_string().as_bytes())
            .expect_err("unreadable");
        assert!(error.to_string().contains("egress_proxy.a"), "{error}");
    }
}
