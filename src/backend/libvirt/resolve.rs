//! What a specification means on hosts that run libvirt.
//!
//! It must not do I/O. Invariant: whatever a virtual machine there cannot honour, or libvirt would refuse, is
//! refused here with its attribute, never ignored.

use super::config::{Host, Image, LibvirtConfig};
use super::names::Place;
use crate::contract::{Fact, Facts, Problem, Problems, Resolved, Specification, Warning};
use crate::squid::Policy;

/// The longest key or value of a label: they are kept in the domain's metadata.
const LONGEST_LABEL: usize = 1024;

/// Resolves a specification.
///
/// # Errors
/// Every problem at once.
pub fn resolve(config: &LibvirtConfig, specification: &Specification) -> Result<Resolved, Vec<Problem>> {
    let Specification { key, given, labels } = specification;
    let mut problems = Problems::of(specification);
    refuse_unsupported(given, &mut problems);
    let host = host(config, given, &mut problems);
    let machine_type = machine_type(config, given, &mut problems);
    let image = image(config, given, &mut problems);
    for (key, value) in labels {
        if let Err(message) = check_label(key, value) {
            problems.refuse(Fact::Labels, message);
        }
    }
    let facts = Facts {
        zone: host.map(|host| host.name.to_string()),
        machine_type,
        image,
        // Nothing is preempted on one's own hosts.
        spot: None,
        ..given.clone()
    }
    .with_common_defaults();
    let mut warnings = Vec::new();
    if let Some(policy) = problems.keep(Policy::of(&facts)) {
        warnings.extend(policy.warnings());
    }
    warnings.extend(own_cloud_init(&facts));
    let place = host.and_then(|host| Place::of(host.name.as_str(), key));
    problems.or_resolved(place.map(|place| place.id().clone()), facts, warnings)
}

/// What a virtual machine on one's own host has no use for.
fn refuse_unsupported(given: &Facts, problems: &mut Problems) {
    if let Some(region) = &given.region {
        problems.refuse(
            Fact::Region,
            format!(
                "placement.region = \"{region}\" cannot be honoured: hosts are in no region; leave it out, and name the \
                 host in placement.zone"
            ),
        );
    }
    if given.spot == Some(true) {
        problems.refuse(
            Fact::Spot,
            "placement.spot = true cannot be honoured: nothing is preempted on one's own hosts; leave it out",
        );
    }
}

/// The one of the catalogue that was named, or the only one there is.
fn chosen<'a, T>(
    given: Option<&str>,
    catalogue: impl Iterator<Item = (&'a str, T)> + Clone,
    what: &str,
    argument: &str,
) -> Result<(&'a str, T), String> {
    let names = || {
        let names: Vec<_> = catalogue.clone().map(|(name, _)| format!("\"{name}\"")).collect();
        names.join(", ")
    };
    let Some(given) = given else {
        let mut all = catalogue.clone();
        return match (all.next(), all.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(format!(
                "the backend has no {what}: add a block {argument} \"NAME\" to it"
            )),
            (Some(_), Some(_)) => Err(format!(
                "it is missing, and the backend has several of which one must be named: {}",
                names()
            )),
        };
    };
    catalogue.clone().find(|(name, _)| *name == given).ok_or_else(|| {
        let known = names();
        if known.is_empty() {
            format!("the backend has no {what} \"{given}\", nor any other: add a block {argument} \"{given}\" to it")
        } else {
            format!(
                "the backend has no {what} \"{given}\": take one of {known}, or add a block {argument} \"{given}\" to it"
            )
        }
    })
}

fn host<'a>(config: &'a LibvirtConfig, given: &Facts, problems: &mut Problems) -> Option<&'a Host> {
    let hosts = config.hosts().values().map(|host| (host.name.as_str(), host));
    match chosen(given.zone.as_deref(), hosts, "host", "host") {
        Ok((_, host)) => Some(host),
        Err(message) => {
            problems.refuse(Fact::Zone, message);
            None
        }
    }
}

fn machine_type(config: &LibvirtConfig, given: &Facts, problems: &mut Problems) -> Option<String> {
    let types = config
        .machine_types()
        .iter()
        .map(|(name, machine_type)| (name.as_str(), machine_type));
    match chosen(
        given.machine_type.as_deref(),
        types,
        "machine type",
        "machine_type",
    ) {
        Ok((name, _)) => Some(name.to_owned()),
        Err(message) => {
            problems.refuse(Fact::MachineType, message);
            None
        }
    }
}

/// The key of the catalogue, or the URL of an image that is in none.
fn image(config: &LibvirtConfig, given: &Facts, problems: &mut Problems) -> Option<String> {
    let refused = match given.image.as_deref() {
        Some(url) if url.contains("://") => match Image::of_url(url) {
            Ok(_) => return Some(url.to_owned()),
            Err(message) => message,
        },
        given => {
            let images = config.images().iter().map(|(key, image)| (key.as_str(), image));
            match chosen(given, images, "image", "image") {
                Ok((key, _)) => return Some(key.to_owned()),
                Err(message) => format!("{message}, or give the URL of one"),
            }
        }
    };
    problems.refuse(Fact::Image, refused);
    None
}

/// What XML can hold, within bounds.
fn check_label(key: &str, value: &str) -> Result<(), String> {
    let is_alien = |letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}');
    let is_sound = |text: &str| text.len() <= LONGEST_LABEL && !text.contains(is_alien);
    if key.is_empty() || !is_sound(key) {
        return Err(format!(
            "the label's key {key:?} cannot be used: it must have 1 to {LONGEST_LABEL} bytes and no control characters"
        ));
    }
    if !is_sound(value) {
        return Err(format!(
            "the value of the label {key:?} cannot be used: it must have at most {LONGEST_LABEL} bytes and no control \
             characters"
        ));
    }
    Ok(())
}

/// A document of one's own is what the machine does, whatever else is asked for.
fn own_cloud_init(facts: &Facts) -> Option<Warning> {
    facts.cloud_init.as_ref().map(|_document| Warning {
        fact: Fact::CloudInit,
        title: "The proxy is configured by your own cloud-init document".to_owned(),
        message: "It takes the place of the built-in one, so that `port` and `access` describe what it does and enforce \
                  nothing. Have it install the proxy, let in only the clients that access.allowed_cidrs names, and \
                  listen on `port`; or leave cloud_init out."
            .to_owned(),
    })
}

#[cfg(test)]
#[path = "resolve/tests.rs"]
mod tests;
