//! The provider: its schema, its configuration, and what it offers.
//!
//! Must not know what its resource and data sources do. Invariants: configure dials nothing and can
//! be called again in the same process; what runs when it is called keeps the session it began with.

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;

use super::egress_proxy::{self, EgressProxy};
use super::gc_action::{self, GcAction};
use super::provider_health::ProviderHealth;
use super::proxies::Proxies;
use super::proxy_list::{self, ProxyList};
use super::session::Session;
use crate::config::{self, Config, Environment, Scrutiny};
use crate::contract::observe::Meter;
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::provider::{
    Action, Call, ConfigureRequest, DataSource, ListResource, Named, Provider, Resource, ServerCapabilities,
};
use crate::plugin::schema::Schema;
use crate::plugin::value::Value;
use crate::registry;

/// Where the session of the last configure is.
#[derive(Debug, Default)]
pub(crate) struct Sessions(RwLock<Option<Arc<Session>>>);

impl Sessions {
    /// The session that calls from now on use.
    pub(crate) fn current(&self) -> Result<Arc<Session>, Diagnostic> {
        let session = self.0.read().unwrap_or_else(PoisonError::into_inner);
        session.clone().ok_or_else(|| {
            Diagnostic::error("The provider is not configured")
                .detail("The host sent a call that needs the provider's configuration before the configuration itself.")
        })
    }

    fn replace(&self, session: Session) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(session));
    }
}

/// The provider `egress`.
#[derive(Debug)]
pub struct EgressProvider {
    environment: Environment,
    meter: Arc<dyn Meter>,
    sessions: Arc<Sessions>,
}

impl EgressProvider {
    /// A provider that is not configured yet, in that environment, whose operations are measured by
    /// `meter`.
    #[must_use]
    pub fn new(environment: Environment, meter: Arc<dyn Meter>) -> Self {
        Self {
            environment,
            meter,
            sessions: Arc::default(),
        }
    }

    /// The schema of the `provider` block.
    #[must_use]
    pub fn provider_schema() -> Schema {
        Schema::new(config::provider_block(registry::kinds()))
    }
}

#[async_trait]
impl Provider for EgressProvider {
    fn schema(&self) -> Schema {
        Self::provider_schema()
    }

    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            plan_destroy: false,
            move_resource_state: true,
            generate_resource_config: true,
        }
    }

    fn resources(&self) -> Named<dyn Resource> {
        let proxy: Arc<dyn Resource> = Arc::new(EgressProxy::new(Arc::clone(&self.sessions)));
        Named::from([(egress_proxy::TYPE_NAME.to_owned(), proxy)])
    }

    fn data_sources(&self) -> Named<dyn DataSource> {
        let health: Arc<dyn DataSource> = Arc::new(ProviderHealth::new(Arc::clone(&self.sessions)));
        let proxies: Arc<dyn DataSource> = Arc::new(Proxies::new(Arc::clone(&self.sessions)));
        Named::from([
            ("egress_provider_health".to_owned(), health),
            ("egress_proxies".to_owned(), proxies),
        ])
    }

    fn list_resources(&self) -> Named<dyn ListResource> {
        let list: Arc<dyn ListResource> = Arc::new(ProxyList::new(Arc::clone(&self.sessions)));
        Named::from([(proxy_list::NAME.to_owned(), list)])
    }

    fn actions(&self) -> Named<dyn Action> {
        let gc: Arc<dyn Action> = Arc::new(GcAction::new(Arc::clone(&self.sessions)));
        Named::from([(gc_action::NAME.to_owned(), gc)])
    }

    async fn validate(&self, _call: &Call, config: Value) -> Diagnostics {
        match Config::from_block(
            &config,
            registry::kinds(),
            &self.environment,
            Scrutiny::BlocksAlone,
        ) {
            Ok(_) => Diagnostics::new(),
            Err(problems) => problems,
        }
    }

    async fn configure(&self, _call: &Call, request: ConfigureRequest) -> Diagnostics {
        match Config::from_block(
            &request.config,
            registry::kinds(),
            &self.environment,
            Scrutiny::Whole,
        ) {
            Ok(config) => {
                self.sessions.replace(Session::new(&config, &self.meter));
                config.warnings
            }
            Err(problems) => problems,
        }
    }
}
