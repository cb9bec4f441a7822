//! The conformance suite over the backend `local`, with the real Squid on the real machine.
#![cfg(feature = "testing")]

#[path = "local/rig.rs"]
mod rig;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use egress::conformance::{Ability, Broken, Control, Harness, Sighting, Stage, Through};
use egress::contract::latch::Latch;
use egress::contract::observe::{Observed, Unmetered};
use egress::contract::snapshot::Snapshot;
use egress::contract::spec::CloudInitFact;
use egress::contract::{Backend, Fact, Facts, NativeId, Specification, State};
use rig::{Rig, free_port};
use rustix::process::{Pid, Signal, kill_process};

const NO_REMOTE: &str = "this machine is no remote that could refuse: tests/local_failures.rs cuts creates and deletes off at every await";
const ONE_PART: &str = "there is one part, this machine, and it answers as long as the provider runs on it";

/// A state directory and the real Squid.
struct LocalHarness {
    rig: Rig,
}

impl LocalHarness {
    fn new() -> Self {
        Self { rig: Rig::new() }
    }

    fn dir(&self, id: &NativeId) -> PathBuf {
        self.rig.state_dir().join(id.as_str())
    }

    /// Its name, since every case stays in the default namespace.
    fn name(id: &NativeId) -> &str {
        id.as_str().rsplit('/').next().unwrap_or_default()
    }

    fn processes(&self, id: &NativeId) -> Vec<u32> {
        let own = format!("{}/", self.dir(id).display());
        let mut found = self.rig.processes();
        found.retain(|pid| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&arguments).contains(&own)
        });
        found
    }

    fn kill(pids: &[u32]) -> Result<(), Broken> {
        let services: Vec<_> = pids.iter().filter_map(|pid| Rig::service(*pid)).collect();
        for pid in pids {
            let number = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            let number = number.ok_or_else(|| Broken(format!("{pid} is no number of a process")))?;
            match kill_process(number, Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(Broken(format!("process {pid} cannot be killed: {error}"))),
            }
        }
        let begun = std::time::Instant::now();
        // A process that is dead and not yet waited for has no arguments.
        while pids.iter().any(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| !arguments.is_empty())
        }) {
            if begun.elapsed() > Duration::from_secs(20) {
                return Err(Broken(format!("of {pids:?} some survive")));
            }
            std::thread::yield_now();
        }
        // A Squid that is killed leaves its shared memory, which a case may leave nobody to remove.
        for left in services.iter().flat_map(|service| Rig::shared_memory(service)) {
            let _ = std::fs::remove_file(left);
        }
        Ok(())
    }

    fn vanish(&self, id: &NativeId) -> Result<(), Broken> {
        Self::kill(&self.processes(id))?;
        std::fs::remove_dir_all(self.dir(id)).map_err(|error| Broken(error.to_string()))
    }
}

#[async_trait]
impl Harness for LocalHarness {
    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.rig.again(None))
    }

    fn backend_without(&self, _: &NativeId) -> Result<Arc<dyn Backend>, Broken> {
        Err(Broken(ONE_PART.to_owned()))
    }

    fn cannot(&self) -> &[(Ability, &'static str)] {
        &[
            (Ability::FailCreate(Stage::Accept), NO_REMOTE),
            (Ability::FailCreate(Stage::Secondary), NO_REMOTE),
            (Ability::FailCreate(Stage::Instance), NO_REMOTE),
            (Ability::FailCreate(Stage::Handover), NO_REMOTE),
            (Ability::HangCreate(Stage::Accept), NO_REMOTE),
            (Ability::HangCreate(Stage::Secondary), NO_REMOTE),
            (Ability::HangCreate(Stage::Instance), NO_REMOTE),
            (Ability::HangCreate(Stage::Handover), NO_REMOTE),
            (Ability::FailDelete, NO_REMOTE),
            (Ability::Refuse, NO_REMOTE),
            (
                Ability::LoseAddress,
                "the address is the one listened on: it is known while Squid runs",
            ),
            (
                Ability::StopServing,
                "a Squid that does not answer is paused or gone, and is Stopped",
            ),
            (
                Ability::Damage,
                "nothing belongs to an instance that could be damaged without it",
            ),
            (Ability::Unreachable, ONE_PART),
            (Ability::AllUnreachable, ONE_PART),
            (Ability::Elsewhere, ONE_PART),
            (Ability::Without, ONE_PART),
        ]
    }

    fn facts(&self) -> Facts {
        Facts {
            port: Some(free_port()),
            ..Facts::default()
        }
    }

    fn other_facts(&self) -> Facts {
        self.facts()
    }

    fn facts_elsewhere(&self) -> Result<Facts, Broken> {
        Err(Broken(ONE_PART.to_owned()))
    }

    fn refused(&self, honoured: &Specification) -> Vec<(Fact, Specification)> {
        let given = |change: fn(&mut Facts)| {
            let mut specification = honoured.clone();
            change(&mut specification.given);
            specification
        };
        let mut labelled = honoured.clone();
        labelled
            .labels
            .insert("egress-proxy/managed".into(), "yes".into());
        vec![
            (Fact::Zone, given(|facts| facts.zone = Some("z".into()))),
            (Fact::Region, given(|facts| facts.region = Some("r".into()))),
            (
                Fact::MachineType,
                given(|facts| facts.machine_type = Some("m".into())),
            ),
            (Fact::Image, given(|facts| facts.image = Some("i".into()))),
            (Fact::Spot, given(|facts| facts.spot = Some(true))),
            (Fact::Port, given(|facts| facts.port = Some(0))),
            (
                Fact::AllowedPorts,
                given(|facts| facts.allowed_ports = Some(vec![0])),
            ),
            (
                Fact::AllowedDomains,
                given(|facts| facts.allowed_domains = Some(vec!["*.example".into()])),
            ),
            (
                Fact::CloudInit,
                given(|facts| facts.cloud_init = Some(CloudInitFact::Version("1".into()))),
            ),
            (Fact::Labels, labelled),
        ]
    }

    fn malformed_ids(&self) -> Vec<NativeId> {
        ["x", "default/a/b", "default/A", "Default/a", "../a", "default/.."]
            .iter()
            .filter_map(|id| id.parse().ok())
            .collect()
    }

    async fn stage(&self, control: Control<'_>) -> Result<(), Broken> {
        let failed = |error: std::io::Error| Broken(error.to_string());
        match control {
            Control::SetState(id, State::Stopped) => Self::kill(&self.processes(id)),
            Control::SetState(id, State::Terminated) => {
                self.rig
                    .edit_record(Self::name(id), |record| record["deleting"] = true.into());
                Ok(())
            }
            // It runs from create on.
            Control::SetState(_, State::Running) => Ok(()),
            Control::StripMark(id) => {
                std::fs::remove_file(self.dir(id).join("instance.json")).map_err(failed)
            }
            // Nothing belongs to an instance, so nothing stays without it.
            Control::LeaveRemains(id) | Control::Vanish(id) => self.vanish(id),
            Control::PlaceForeign(id) => std::fs::create_dir_all(self.dir(id)).map_err(failed),
            Control::ForeignLabel(id, key, value) => {
                self.rig
                    .edit_record(Self::name(id), |record| record["labels"][key] = value.into());
                Ok(())
            }
            Control::Unreadable(id) => {
                std::fs::write(self.dir(id).join("instance.json"), "{").map_err(failed)
            }
            other => Err(Broken(format!("{other:?} cannot be staged"))),
        }
    }

    async fn sight(&self, id: &NativeId) -> Result<Sighting, Broken> {
        let mut sighting = Sighting {
            intact: true,
            ..Sighting::default()
        };
        if self.dir(id).exists() {
            sighting.objects.insert("directory".into(), String::new());
        }
        if let Ok(text) = std::fs::read(self.dir(id).join("instance.json")) {
            let text = String::from_utf8_lossy(&text).into_owned();
            if let Ok(record) = serde_json::from_str::<serde_json::Value>(&text) {
                let labels = serde_json::from_value::<BTreeMap<String, String>>(record["labels"].clone());
                sighting.labels = labels.unwrap_or_default();
            }
            sighting.objects.insert("instance.json".into(), text);
        }
        for pid in self.processes(id) {
            sighting.objects.insert(format!("process {pid}"), String::new());
        }
        Ok(sighting)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn tidy(&self) {
        // The rig proves on drop that this found everything.
        Self::kill(&self.rig.processes()).expect("killed");
        let state_dir = self.rig.state_dir();
        if state_dir.exists() {
            std::fs::remove_dir_all(state_dir).expect("removed");
        }
    }
}

/// What the provider puts around every backend.
fn decorated(inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
    Arc::new(Snapshot::new(Arc::new(Observed::new(
        rig::name(),
        Arc::new(Latch::new(inner)),
        Arc::new(Unmetered),
    ))))
}

egress::conformance_tests!(
    #[ignore = "needs squid"]
    plain,
    LocalHarness::new()
);
egress::conformance_tests!(
    #[ignore = "needs squid"]
    through_all,
    Through::new(LocalHarness::new(), decorated)
);
