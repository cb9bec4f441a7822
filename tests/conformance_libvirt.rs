//! The conformance suite over the backends `kvm` and `kvm2`, on a libvirt in memory.
#![cfg(feature = "testing")]

#[path = "libvirt/rig.rs"]
mod rig;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use egress::conformance::{Ability, Broken, Control, Harness, Sighting, Stage, Through};
use egress::contract::latch::Latch;
use egress::contract::observe::{Observed, Unmetered};
use egress::contract::snapshot::Snapshot;
use egress::contract::{Backend, ErrorKind, Fact, Facts, NativeId, Operation, Specification, State};
use egress::transport::libvirt::LibvirtApi as _;
use egress::transport::libvirt::fake::{Effect, FakeHost, Fault, Telling};
use egress::transport::libvirt::types::AddressSource;
use rig::{KVM, KVM2, Kind, Rig};

/// Two hosts in memory.
struct LibvirtHarness(Rig);

impl LibvirtHarness {
    fn new(kind: Kind) -> Self {
        Self(Rig::new(kind))
    }

    /// The host and the domain's name of an id.
    fn parts<'a>(&self, id: &'a NativeId) -> (&FakeHost, &'a str) {
        let parts: Vec<_> = id.as_str().split('/').collect();
        (&self.0.hosts[parts[1]], parts[3])
    }

    fn put(&self, id: &NativeId, procedure: &'static str, effect: Effect) {
        let (host, domain) = self.parts(id);
        host.put(Fault {
            procedure,
            // Volumes have the name between dots; a trial's names are found nowhere else.
            about: domain.to_owned(),
            effect,
            once: true,
        });
    }

    /// Changes the mark of a domain.
    fn edit(&self, id: &NativeId, edit: impl Fn(&str) -> String) -> Result<(), Broken> {
        let (host, domain) = self.parts(id);
        let namespace = self.0.kind.policy.namespace;
        let mut world = host.world();
        let found = world.domains.get_mut(domain).ok_or_else(|| missing(id))?;
        for (own, element) in &mut found.definition.metadata {
            if own == namespace {
                *element = edit(element);
            }
        }
        Ok(())
    }
}

fn missing(id: &NativeId) -> Broken {
    Broken(format!("there is no {id}"))
}

/// Where a create or a delete is at that stage.
fn procedure(create: bool, stage: Stage) -> &'static str {
    match (create, stage) {
        (true, Stage::Accept) => "StorageVolCreateXML",
        (true, Stage::Secondary) => "StorageVolUpload",
        (true, Stage::Instance) => "DomainDefineXMLFlags",
        (true, Stage::Handover) => "DomainSetMetadata",
        (false, Stage::Accept) => "DomainLookupByName",
        (false, Stage::Secondary) => "StorageVolDelete",
        (false, Stage::Instance | Stage::Handover) => "DomainUndefineFlags",
    }
}

/// What libvirt says that fails in that way.
fn refusal(kind: ErrorKind, stage: Stage, text: &str) -> Effect {
    let (code, text) = match (kind, stage) {
        (ErrorKind::Transient, _) => (38, format!("Unable to read from monitor: {text}")),
        (ErrorKind::Permanent, _) => (67, format!("unsupported configuration: {text}")),
        (ErrorKind::QuotaExceeded, _) => (
            38,
            format!("cannot create the volume: No space left on device ({text})"),
        ),
        (ErrorKind::NotFound, Stage::Handover) => (42, format!("Domain not found: {text}")),
        (ErrorKind::NotFound, _) => (49, format!("Storage pool not found: {text}")),
    };
    Effect::Refuse(code, text)
}

/// What is between two texts.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

#[async_trait]
impl Harness for LibvirtHarness {
    fn backend(&self) -> Arc<dyn Backend> {
        self.0.backend_with(&["h1", "h2"])
    }

    fn backend_without(&self, id: &NativeId) -> Result<Arc<dyn Backend>, Broken> {
        let other = if id.as_str().starts_with("hosts/h1/") {
            "h2"
        } else {
            "h1"
        };
        Ok(self.0.backend_with(&[other]))
    }

    fn cannot(&self) -> &[(Ability, &'static str)] {
        &[]
    }

    fn facts(&self) -> Facts {
        Rig::facts()
    }

    fn facts_elsewhere(&self) -> Result<Facts, Broken> {
        Ok(Facts {
            zone: Some("h2".to_owned()),
            ..self.facts()
        })
    }

    fn refused(&self, honoured: &Specification) -> Vec<(Fact, Specification)> {
        let given = |change: fn(&mut Facts)| {
            let mut specification = honoured.clone();
            change(&mut specification.given);
            specification
        };
        let labelled = |key: &str, value: &str| {
            let mut specification = honoured.clone();
            specification.labels.insert(key.into(), value.into());
            specification
        };
        vec![
            (Fact::Zone, given(|facts| facts.zone = Some("h3".into()))),
            // There are two, and neither is the default.
            (Fact::Zone, given(|facts| facts.zone = None)),
            (Fact::Region, given(|facts| facts.region = Some("r".into()))),
            (
                Fact::MachineType,
                given(|facts| facts.machine_type = Some("huge".into())),
            ),
            (Fact::Image, given(|facts| facts.image = Some("debian".into()))),
            (
                Fact::Image,
                given(|facts| facts.image = Some("ftp://host/image".into())),
            ),
            (Fact::Spot, given(|facts| facts.spot = Some(true))),
            (Fact::Port, given(|facts| facts.port = Some(0))),
            (Fact::AllowedCidrs, given(|facts| facts.allowed_cidrs = None)),
            (
                Fact::AllowedPorts,
                given(|facts| facts.allowed_ports = Some(vec![0])),
            ),
            (
                Fact::AllowedDomains,
                given(|facts| facts.allowed_domains = Some(vec!["*.example".into()])),
            ),
            (Fact::Labels, labelled("egress-proxy-managed", "yes")),
            (Fact::Labels, labelled("team", "a\u{1}b")),
        ]
    }

    fn malformed_ids(&self) -> Vec<NativeId> {
        [
            "x",
            "hosts/h1",
            "hosts/h1/domains",
            "hosts/h1/domains/a/b",
            "hosts/h1/guests/a",
            "domains/a",
            "6b1c1e0a-8c6e-4a3b-8d6b-1f7c3b1a2d3e",
        ]
        .iter()
        .filter_map(|id| id.parse().ok())
        .collect()
    }

    async fn stage(&self, control: Control<'_>) -> Result<(), Broken> {
        match control {
            Control::FailCreate(id, stage, kind, text) => {
                self.put(id, procedure(true, stage), refusal(kind, stage, text));
            }
            Control::HangCreate(id, stage) => self.put(id, procedure(true, stage), Effect::Hang),
            Control::FailDelete(id, stage) => {
                let effect = refusal(ErrorKind::Transient, stage, "the connection was reset");
                self.put(id, procedure(false, stage), effect);
            }
            Control::Refuse(id, Operation::Get, kind) => {
                let effect = match kind {
                    ErrorKind::Permanent => Effect::Refuse(88, "access denied".to_owned()),
                    ErrorKind::Transient => Effect::Refuse(38, "Connection reset by peer".to_owned()),
                    ErrorKind::NotFound | ErrorKind::QuotaExceeded => {
                        return Err(Broken(format!("no get is refused as {}", kind.as_str())));
                    }
                };
                self.put(id, "DomainLookupByName", effect);
            }
            Control::Refuse(_, other, _) => {
                return Err(Broken(format!("{other} is refused by its own controls")));
            }
            Control::SetState(id, state) => {
                let (host, domain) = self.parts(id);
                let mut world = host.world();
                if state == State::Terminated {
                    world.domains.remove(domain).ok_or_else(|| missing(id))?;
                    return Ok(());
                }
                let found = world.domains.get_mut(domain).ok_or_else(|| missing(id))?;
                (found.state, found.id) = match state {
                    State::Provisioning => (0, found.id),
                    State::Running => (1, found.id),
                    State::Stopped | State::Terminated => (5, -1),
                };
            }
            Control::LoseAddress(id) => {
                let (host, _) = self.parts(id);
                let agent = "Guest agent is not responding: QEMU guest agent is not connected";
                let mut world = host.world();
                let mut tells = |source, telling| drop(world.sources.insert(source as u8, telling));
                tells(AddressSource::Agent, Telling::Refuses(86, agent));
                tells(
                    AddressSource::Arp,
                    Telling::Refuses(1, "internal error: wrong nlmsg len"),
                );
                tells(AddressSource::Lease, Telling::These(Vec::new()));
            }
            Control::StopServing(id) => self.parts(id).0.set_serving(false),
            Control::StripMark(id) => {
                let (host, domain) = self.parts(id);
                let mut world = host.world();
                let found = world.domains.get_mut(domain).ok_or_else(|| missing(id))?;
                found.definition.metadata.clear();
            }
            Control::LeaveRemains(id) => {
                let (host, domain) = self.parts(id);
                host.world().domains.remove(domain).ok_or_else(|| missing(id))?;
            }
            Control::Damage(id) => {
                let (host, domain) = self.parts(id);
                let inner = format!(".{domain}.");
                for (name, volume) in &mut host.world().volumes {
                    if name.contains(&inner) {
                        volume.content.truncate(volume.content.len() / 2);
                        volume.xml = volume.xml.replace("backingStore", "nothing");
                    }
                }
            }
            Control::Vanish(id) => {
                let (host, domain) = self.parts(id);
                let inner = format!(".{domain}.");
                let mut world = host.world();
                world.domains.remove(domain).ok_or_else(|| missing(id))?;
                world.volumes.retain(|name, _| !name.contains(&inner));
            }
            Control::PlaceForeign(id) => {
                let (host, domain) = self.parts(id);
                let xml = format!("<domain type='kvm'><name>{domain}</name><devices></devices></domain>");
                let defined = host.connect().define(&xml, 0).await;
                defined.map_err(|error| Broken(error.to_string()))?;
            }
            Control::ForeignLabel(id, key, value) => {
                let prefix = self.0.kind.policy.prefix;
                let end = format!("</{prefix}:proxy>");
                let label = format!("<{prefix}:label key='{key}' value='{value}'/>{end}");
                self.edit(id, |element| element.replace(&end, &label))?;
            }
            Control::Unreadable(id) => {
                self.edit(id, |element| match between(element, "mark>", "</") {
                    Some(mark) => element.replace(mark, "{"),
                    None => String::new(),
                })?;
            }
            Control::Unreachable(id) => self.parts(id).0.set_reachable(false),
            Control::AllUnreachable => {
                for host in self.0.hosts.values() {
                    host.set_reachable(false);
                }
            }
        }
        Ok(())
    }

    async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken> {
        let (host, domain) = self.parts(id);
        let world = host.world();
        let mut sighting = Sighting {
            intact: true,
            ..Sighting::default()
        };
        if let Some(found) = world.domains.get(domain) {
            let metadata: String = found
                .definition
                .metadata
                .iter()
                .map(|(_, element)| element.as_str())
                .collect();
            let mark = between(&metadata, "mark>", "</").unwrap_or_default();
            sighting.objects.insert("domain".into(), mark.to_owned());
            for label in metadata.split("label key='").skip(1) {
                if let Some((key, rest)) = label.split_once('\'')
                    && let Some(value) = between(rest, "value='", "'")
                {
                    sighting.labels.insert(key.to_owned(), value.to_owned());
                }
            }
        }
        let inner = format!(".{domain}.");
        for (name, volume) in world.volumes.iter().filter(|(name, _)| name.contains(&inner)) {
            sighting.objects.insert(name.clone(), volume.xml.clone());
            let length = between(&volume.xml, "<capacity unit='bytes'>", "</capacity>");
            sighting.intact &= if name.ends_with(".disk") {
                volume.xml.contains("<backingStore>")
            } else {
                length == Some(volume.content.len().to_string().as_str())
            };
        }
        Ok(sighting)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    async fn tidy(&self) {}
}

/// What the provider puts around every backend.
fn decorated(inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
    let name = "lab".parse().expect("a name");
    Arc::new(Snapshot::new(Arc::new(Observed::new(
        name,
        Arc::new(Latch::new(inner)),
        Arc::new(Unmetered),
    ))))
}

egress::conformance_tests!(kvm, LibvirtHarness::new(KVM));
egress::conformance_tests!(kvm2, LibvirtHarness::new(KVM2));
egress::conformance_tests!(kvm_through_all, Through::new(LibvirtHarness::new(KVM), decorated));
egress::conformance_tests!(
    kvm2_through_all,
    Through::new(LibvirtHarness::new(KVM2), decorated)
);
