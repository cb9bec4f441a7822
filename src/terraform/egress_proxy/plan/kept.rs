//! What a proxy keeps although its configuration does not give it any more.
//!
//! Pure. Invariant: it is told in the one plan in which the argument goes, and never where the same
//! is given in another form.

use crate::contract::Facts;
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path};
use crate::plugin::value::Value;
use crate::terraform::egress_proxy::schema::{
    ACCESS, ALLOWED_CIDRS, ALLOWED_DOMAINS, ALLOWED_PORTS, CLOUD_INIT, CLOUD_INIT_WO_VERSION, IMAGE,
    MACHINE_TYPE, PASSWORD_HASH, PASSWORD_WO_VERSION, PLACEMENT, REGION, SPOT, USERNAME, ZONE,
};

/// An argument without a constant default that is not given any more keeps its value on the proxy.
/// That is worth a word in the one plan in which it goes.
pub(super) fn warn_of_kept(prior: &Value, config: &Value, current: &Facts, diagnostics: &mut Diagnostics) {
    let blocks: [(&str, &[&str]); 3] = [
        (PLACEMENT, &[ZONE, REGION, MACHINE_TYPE, IMAGE, SPOT]),
        (
            ACCESS,
            &[
                ALLOWED_CIDRS,
                ALLOWED_PORTS,
                ALLOWED_DOMAINS,
                USERNAME,
                PASSWORD_WO_VERSION,
                PASSWORD_HASH,
            ],
        ),
        ("", &[CLOUD_INIT, CLOUD_INIT_WO_VERSION]),
    ];
    for (block, names) in blocks {
        let (before, now, path) = if block.is_empty() {
            (prior, config, Path::root())
        } else {
            (prior.get(block), config.get(block), Path::root().attribute(block))
        };
        let gone: Vec<_> = names
            .iter()
            .filter(|name| !before.get(name).is_null() && now.get(name).is_null())
            .filter(|name| still_has(current, name, config))
            .collect();
        if gone.is_empty() {
            continue;
        }
        let names: Vec<_> = gone
            .iter()
            .map(|name| path.attribute(**name).to_string())
            .collect();
        diagnostics.push(
            // The CLIs show only the first of the warnings with one title.
            Diagnostic::warning(format!(
                "The proxy keeps {} that is not given any more",
                if block.is_empty() { CLOUD_INIT } else { block }
            ))
                .detail(format!(
                    "{} cannot be taken from a proxy that exists, and leaving it out asks for no other value. To have a proxy without it, replace this one (with -replace).",
                    names.join(", ")
                ))
                .at(if block.is_empty() || now.is_null() { Path::root() } else { path }),
        );
    }
}

/// Whether the proxy still has what an argument gave, though the configuration gives it no more.
fn still_has(current: &Facts, name: &str, config: &Value) -> bool {
    match name {
        // Given in another form now: then it was compared, and is the same.
        PASSWORD_WO_VERSION | PASSWORD_HASH => {
            let access = config.get(ACCESS);
            current.password.is_some()
                && access.get(PASSWORD_WO_VERSION).is_null()
                && access.get(PASSWORD_HASH).is_null()
        }
        CLOUD_INIT | CLOUD_INIT_WO_VERSION => {
            current.cloud_init.is_some()
                && config.get(CLOUD_INIT).is_null()
                && config.get(CLOUD_INIT_WO_VERSION).is_null()
        }
        // Within a given block it falls back to its default; with the whole block gone it stays.
        ALLOWED_PORTS => config.get(ACCESS).is_null(),
        _ => true,
    }
}
