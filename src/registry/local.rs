//! The kind `local`: proxies as Squid processes of this machine.
//!
//! Must not know the backend's rules. Invariant: reading the configuration touches no file.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::backend::local::{Local, LocalConfig, PROFILE, STATE_DIR_VARIABLE, default_state_dir};
use crate::config::{Kind, Reader, Settings};
use crate::contract::{Backend, BackendName};
use crate::plugin::diagnostics::{Diagnostic, sentence};
use crate::plugin::schema::{Attribute, Block};
use crate::plugin::types::Type;

/// The kind.
pub(super) static KIND: Kind = Kind {
    name: "local",
    shared: false,
    block,
    parse,
    profile: || PROFILE,
};

fn block() -> Block {
    Block::new()
        .describe("Squid processes on the machine that runs Terraform.")
        .attributes([
            Attribute::string("state_dir").describe(format!(
                "Keeps one directory for each proxy. Default: `/var/lib/egress-proxy` for root, else the XDG state folder. `{STATE_DIR_VARIABLE}`"
            )),
            Attribute::string("squid").describe("The Squid to run. Default: the one on PATH, then `/usr/sbin/squid`."),
            Attribute::list("listen", Type::String)
                .describe("The addresses that proxies listen on; the first is `ip`. Default `[\"127.0.0.1\"]`."),
        ])
}

#[derive(Debug)]
struct LocalSettings(LocalConfig);

fn parse(reader: &mut Reader<'_>) -> Option<Arc<dyn Settings>> {
    let given = reader.file("state_dir").into_known();
    let of_variable = given.is_none() && reader.environment().get(STATE_DIR_VARIABLE).is_some();
    let state_dir = match given {
        Some(state_dir) => Ok(state_dir),
        None => default_state_dir(|name| reader.environment().get(name), is_root()),
    };
    let squid = reader.file("squid").into_known();
    let addresses = reader.strings("listen").into_known();
    if addresses.as_ref().is_some_and(Vec::is_empty) {
        let problem = Diagnostic::error("listen is empty")
            .detail("A proxy that listens nowhere serves nobody. Leave it out for 127.0.0.1, or name addresses of this machine.");
        reader.problem(problem.at(reader.path_of("listen")));
    }
    let mut listen = Vec::new();
    for (index, text) in (0..).zip(addresses.unwrap_or_default()) {
        match text.parse::<IpAddr>() {
            Ok(address) => listen.push(address),
            Err(_) => {
                let problem = Diagnostic::error("An address to listen on cannot be used").detail(format!(
                    "Element {index} of listen, {text:?}, is not an IP address."
                ));
                reader.problem(problem.at(reader.path_of("listen").index(index)));
            }
        }
    }
    let config = state_dir
        .map_err(|problem| vec![problem])
        .and_then(|state_dir| LocalConfig::new(&state_dir, squid, listen));
    match config {
        Ok(config) => Some(Arc::new(LocalSettings(config))),
        Err(problems) => {
            for problem in problems {
                let message = sentence(&problem.message);
                reader.problem(if problem.argument == "state_dir" && of_variable {
                    Diagnostic::error(format!("{STATE_DIR_VARIABLE} cannot be used")).detail(format!(
                        "{message} Set the variable to another directory, or give state_dir."
                    ))
                } else {
                    Diagnostic::error(format!("{} cannot be used", problem.argument))
                        .detail(message)
                        .at(reader.path_of(problem.argument))
                });
            }
            None
        }
    }
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

impl Settings for LocalSettings {
    fn place(&self) -> Option<String> {
        // By components: a slash more or less names the same directory.
        let dir: PathBuf = self.0.state_dir().as_path().components().collect();
        Some(format!("state_dir {}", dir.display()))
    }

    fn build(&self, name: &BackendName) -> Arc<dyn Backend> {
        Arc::new(Local::new(name.clone(), self.0.clone()))
    }
}
