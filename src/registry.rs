//! The kinds of backend there are, and how a configuration becomes backends.
//!
//! The only module that names all backends: schema, configuration file, command line and
//! documentation derive from [`kinds`]. A new kind is one module here, above its own folder under
//! `backend/`. Invariant: every backend that leaves this module is behind all of its decorators.

mod kubernetes;
mod kvm;
mod kvm2;
mod libvirt;
mod local;
#[cfg(feature = "testing")]
mod memory;

use std::sync::Arc;

use crate::config::{Configured, Kind};
use crate::contract::latch::Latch;
use crate::contract::observe::{Meter, Observed};
use crate::contract::snapshot::Snapshot;
use crate::contract::{Backend, BackendName, Namespace};
use crate::plugin::diagnostics::Path;

/// Every kind of backend.
#[must_use]
pub fn kinds() -> &'static [&'static Kind] {
    KINDS
}

static KINDS: &[&Kind] = &[
    &kubernetes::KIND,
    &kvm::KIND,
    &kvm2::KIND,
    &local::KIND,
    #[cfg(feature = "testing")]
    &memory::KIND,
];

/// The backend of a configuration, and the namespace of a proxy on it that names none. Dials nothing;
/// measurements go to `meter`.
///
/// # Errors
/// Where something in the configuration is not known yet: there.
pub fn open(
    name: &BackendName,
    configured: &Configured,
    meter: &Arc<dyn Meter>,
) -> Result<(Arc<dyn Backend>, Namespace), Vec<Path>> {
    match configured {
        Configured::Ready { settings, .. } => Ok((
            decorated(name, settings.build(name), meter),
            settings.default_namespace(),
        )),
        Configured::Unknown(paths) => Err(paths.clone()),
    }
}

/// Innermost what saves calls that cannot succeed, outermost what answers without any call, so that
/// exactly the operations a backend is asked for are seen.
fn decorated(name: &BackendName, backend: Arc<dyn Backend>, meter: &Arc<dyn Meter>) -> Arc<dyn Backend> {
    let latched = Arc::new(Latch::new(backend));
    let observed = Arc::new(Observed::new(name.clone(), latched, Arc::clone(meter)));
    Arc::new(Snapshot::new(observed))
}
