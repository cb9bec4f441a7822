//! What one ConfigureProvider made: the backends by name, and what happened in this run so far.
//!
//! Must not know what any call wants. Invariant: it is replaced whole by the next configure, and
//! with it every shared listing, so that a process which serves many runs keeps nothing between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Config, Field};
use crate::contract::observe::Meter;
use crate::contract::{
    AdoptPolicy, Backend, BackendName, Facts, Installation, InstanceId, InstanceKey, Namespace, Specification,
};
use crate::plugin::diagnostics::{Diagnostic, Path};
use crate::registry;

/// A backend that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// Its name.
    pub(crate) name: BackendName,
    /// Itself, behind its decorators.
    pub(crate) backend: Arc<dyn Backend>,
    /// The namespace of a proxy that names none.
    pub(crate) default_namespace: Namespace,
}

#[derive(Debug)]
enum Entry {
    Open(Open),
    Unknown(Vec<Path>),
}

/// What one configure made.
#[derive(Debug)]
pub(crate) struct Session {
    installation: Field<Installation>,
    adopt: Field<AdoptPolicy>,
    backends: Option<BTreeMap<BackendName, Entry>>,
    created: Mutex<BTreeSet<InstanceId>>,
}

impl Session {
    /// The session of a valid configuration. Dials nothing.
    pub(crate) fn new(config: &Config, meter: &Arc<dyn Meter>) -> Self {
        let entry = |(name, configured): (&BackendName, &_)| {
            let entry = match registry::open(name, configured, meter) {
                Ok((backend, default_namespace)) => Entry::Open(Open {
                    name: name.clone(),
                    backend,
                    default_namespace,
                }),
                Err(unknown) => Entry::Unknown(unknown),
            };
            (name.clone(), entry)
        };
        Self {
            installation: config.installation.clone(),
            adopt: config.adopt,
            backends: config
                .backends
                .as_ref()
                .map(|backends| backends.iter().map(entry).collect()),
            created: Mutex::default(),
        }
    }

    /// Who owns what is created; `None` while it is unknown.
    pub(crate) fn installation(&self) -> Option<Installation> {
        match &self.installation {
            Field::Known(installation) => Some(installation.clone()),
            // Configure made sure that nothing here needs a name of its own.
            Field::Null => crate::config::PRIVATE_INSTALLATION.parse().ok(),
            Field::Unknown => None,
        }
    }

    /// The same for somebody who needs it now.
    pub(crate) fn owner(&self) -> Result<Installation, Diagnostic> {
        self.installation().ok_or_else(|| {
            unknown(
                "The provider's installation",
                &[Path::root().attribute("installation")],
            )
        })
    }

    /// What create adopts.
    pub(crate) fn adopt(&self) -> Result<AdoptPolicy, Diagnostic> {
        match self.adopt {
            Field::Known(policy) => Ok(policy),
            Field::Null => Ok(AdoptPolicy::default()),
            Field::Unknown => Err(unknown(
                "The provider's adopt",
                &[Path::root().attribute("adopt")],
            )),
        }
    }

    /// The backend of a resource that names none; `None` while that is unknown.
    pub(crate) fn only_backend(&self) -> Result<Option<&BackendName>, Diagnostic> {
        let Some(backends) = &self.backends else {
            return Ok(None);
        };
        let mut names = backends.keys();
        match (names.next(), names.next()) {
            (Some(only), None) => Ok(Some(only)),
            (None, _) => Err(Diagnostic::error("No backend is configured")
                .detail("Add a backend block to the provider's configuration.")),
            (Some(_), Some(_)) => Err(Diagnostic::error("The proxy names no backend")
                .detail(format!(
                    "Several are configured: {}. Set backend to one of them.",
                    self.names()
                ))
                .at(Path::root().attribute("backend"))),
        }
    }

    /// The backend of that name; `None` while its configuration is unknown.
    pub(crate) fn backend(&self, name: &BackendName) -> Result<Option<&Open>, Diagnostic> {
        match self.backends.as_ref().map(|backends| backends.get(name)) {
            None | Some(Some(Entry::Unknown(_))) => Ok(None),
            Some(Some(Entry::Open(open))) => Ok(Some(open)),
            Some(None) => Err(self.not_configured(name)),
        }
    }

    /// The same for somebody who needs it now.
    pub(crate) fn open(&self, name: &BackendName) -> Result<&Open, Diagnostic> {
        match self.backends.as_ref().map(|backends| backends.get(name)) {
            None => Err(unknown(
                "The provider's list of backends",
                &[Path::root().attribute("backend")],
            )),
            Some(Some(Entry::Unknown(paths))) => Err(unknown(&format!("Backend {:?}", name.as_str()), paths)),
            Some(Some(Entry::Open(open))) => Ok(open),
            Some(None) => Err(self.not_configured(name)),
        }
    }

    /// All backends for somebody who needs them now: those that can be used, and why the others cannot.
    pub(crate) fn all(&self) -> Result<Vec<Result<&Open, Diagnostic>>, Diagnostic> {
        let Some(backends) = &self.backends else {
            return Err(unknown(
                "The provider's list of backends",
                &[Path::root().attribute("backend")],
            ));
        };
        Ok(backends.keys().map(|name| self.open(name)).collect())
    }

    /// The id that a proxy `builds` would have on the first backend that can say so, for a message.
    pub(crate) fn example_id(&self) -> Option<String> {
        let installation = self.installation()?;
        let entries = self.backends.as_ref()?;
        entries.values().find_map(|entry| {
            let Entry::Open(open) = entry else {
                return None;
            };
            let specification = Specification {
                key: InstanceKey {
                    installation: installation.clone(),
                    namespace: open.default_namespace.clone(),
                    name: "builds".parse().ok()?,
                },
                given: Facts {
                    allowed_cidrs: Some(Vec::new()),
                    ..Facts::default()
                },
                labels: BTreeMap::new(),
            };
            let native = open.backend.resolve(&specification).ok()?.id;
            let backend = open.name.clone();
            Some(InstanceId { backend, native }.to_string())
        })
    }

    fn names(&self) -> String {
        let names: Vec<_> = self
            .backends
            .iter()
            .flat_map(BTreeMap::keys)
            .map(BackendName::as_str)
            .collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    }

    fn not_configured(&self, name: &BackendName) -> Diagnostic {
        Diagnostic::error(format!("Backend {:?} is not configured", name.as_str())).detail(format!(
            "The provider's configuration has {}. Use one of these names; or, where backend \"{name}\" was configured before, restore its block in the provider's configuration, pointing where it pointed: what it created is still there.",
            self.names()
        ))
    }

    /// Notes that `id` is being created in this run.
    ///
    /// # Errors
    /// Where it was noted before: two resources are one and the same proxy.
    pub(crate) fn claim(&self, id: &InstanceId) -> Result<(), Diagnostic> {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        if created.insert(id.clone()) {
            return Ok(());
        }
        Err(Diagnostic::error(format!("{id} is created twice in this run")).detail(
            "Two resources have the same backend, namespace and name, so that they would be one proxy with two owners. Give one of them another name, or remove it.",
        ))
    }
}

fn unknown(what: &str, paths: &[Path]) -> Diagnostic {
    let places: Vec<_> = paths.iter().map(Path::to_string).collect();
    Diagnostic::error(format!("{what} is not known yet")).detail(format!(
        "The provider's configuration takes {} from something that this run only creates. Apply that first (with -target), or give a value that is known.",
        places.join(", ")
    ))
}
