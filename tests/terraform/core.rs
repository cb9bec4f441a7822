//! A very small Terraform core: what it proposes, what it demands of a plan and of an apply.
//!
//! It keeps one state file's worth of proxies and drives the provider through its traits as a real
//! core does: validate, read, plan (twice for a replacement), plan again at apply, apply. Every rule
//! that a real core enforces with "Provider produced …" panics here.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use egress::config::Environment;
use egress::contract::observe::Unmetered;
use egress::plugin::diagnostics::{Diagnostic, Diagnostics, Path, Step};
use egress::plugin::provider::{
    ApplyRequest, Call, ClientCapabilities, ConfigureRequest, DataSource, ImportRequest, ImportTarget,
    PlanRequest, Provider as _, ReadDataRequest, ReadRequest, Resource,
};
use egress::plugin::schema::{Attribute, Block, Nesting, Presence};
use egress::plugin::value::Value;
use egress::terraform::EgressProvider;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// One resource in the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) state: Value,
    pub(crate) private: Vec<u8>,
    pub(crate) identity: Option<Value>,
    pub(crate) tainted: bool,
}

/// What a plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    NoOp,
    Create,
    Update,
    Replace,
}

/// A plan for one resource.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) action: Action,
    pub(crate) prior: Stored,
    pub(crate) config: Value,
    pub(crate) planned: Value,
    pub(crate) replace: Vec<String>,
    pub(crate) diagnostics: Diagnostics,
    private: Vec<u8>,
    identity: Option<Value>,
}

/// The core: a provider, and a state.
pub(crate) struct Core {
    provider: EgressProvider,
    resource: Arc<dyn Resource>,
    block: Block,
    pub(crate) state: BTreeMap<String, Stored>,
    pub(crate) token: CancellationToken,
    pub(crate) client: ClientCapabilities,
    config: Value,
    /// What the user was told in this run.
    pub(crate) told: Diagnostics,
}

impl Core {
    /// A core whose provider is configured with that block.
    pub(crate) async fn configured(config: Value) -> Self {
        let mut core = Self::unconfigured();
        let problems = core.configure(config).await;
        assert!(!problems.has_errors(), "{problems:#?}");
        core
    }

    pub(crate) fn unconfigured() -> Self {
        let home = BTreeMap::from([("HOME".to_owned(), "/nowhere".into())]);
        let environment = Environment::Given(home);
        let provider = EgressProvider::new(environment, Arc::new(Unmetered));
        let resource = provider.resources()["egress_proxy"].clone();
        let block = resource.schema().block;
        Self {
            provider,
            resource,
            block,
            config: Value::Null,
            state: BTreeMap::new(),
            token: CancellationToken::new(),
            client: ClientCapabilities {
                write_only_attributes_allowed: true,
                ..ClientCapabilities::default()
            },
            told: Diagnostics::new(),
        }
    }

    /// Configures the provider: a new run of the CLI in the same process.
    pub(crate) async fn configure(&mut self, config: Value) -> Diagnostics {
        let config = filled(&self.provider.schema().block, config);
        let problems = self.provider.validate(&self.call(), config.clone()).await;
        if problems.has_errors() {
            return problems;
        }
        self.config = config.clone();
        let request = ConfigureRequest {
            terraform_version: "1.15.5".into(),
            config,
        };
        self.provider.configure(&self.call(), request).await
    }

    pub(crate) fn call(&self) -> Call {
        Call::new()
            .with_token(self.token.clone())
            .with_client(self.client)
    }

    pub(crate) fn resource(&self) -> &dyn Resource {
        &*self.resource
    }

    /// The state of a resource.
    #[track_caller]
    pub(crate) fn of(&self, address: &str) -> &Value {
        &self.state[address].state
    }

    #[track_caller]
    pub(crate) fn text(&self, address: &str, attribute: &str) -> String {
        let value = self.of(address).get(attribute);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{attribute} is {value:?}"))
            .to_owned()
    }

    /// Refreshes one resource.
    pub(crate) async fn refresh(&mut self, address: &str) -> Diagnostics {
        let Some(stored) = self.state.get(address).cloned() else {
            return Diagnostics::new();
        };
        let request = ReadRequest {
            state: stored.state.clone(),
            private: stored.private.clone(),
            identity: stored.identity.clone(),
            provider_meta: Value::Null,
        };
        let read = self.resource.read(&self.call(), request).await;
        self.told.extend(read.diagnostics.clone());
        if read.diagnostics.has_errors() {
            // Core keeps what it had.
            return read.diagnostics;
        }
        if read.state.is_null() {
            self.state.remove(address);
            return read.diagnostics;
        }
        self.assert_conforms(&read.state, "read");
        assert!(
            read.state.is_wholly_known(),
            "read returned unknowns: {:#?}",
            read.state
        );
        assert_known_identity(read.identity.as_ref());
        let stored = Stored {
            state: read.state,
            private: read.private,
            identity: read.identity,
            tainted: stored.tainted,
        };
        self.state.insert(address.to_owned(), stored);
        read.diagnostics
    }

    pub(crate) async fn validate(&self, config: &Value) -> Diagnostics {
        let config = filled(&self.block, config.clone());
        self.resource.validate(&self.call(), config).await
    }

    /// Validates, refreshes and plans, in a run of its own: the provider is configured anew.
    pub(crate) async fn plan(&mut self, address: &str, config: Value) -> Result<Planned, Diagnostics> {
        self.configure(self.config.clone()).await.into_result()?;
        let config = filled(&self.block, config);
        let problems = self.resource.validate(&self.call(), config.clone()).await;
        problems.clone().into_result()?;
        self.refresh(address).await.into_result()?;
        let prior = self.state.get(address).cloned().unwrap_or_default();
        self.plan_with(prior, config).await
    }

    /// Plans with `ignore_changes`: the provider is shown the state's value of what is ignored, while
    /// the configuration is validated as it was written.
    pub(crate) async fn plan_ignoring(
        &mut self,
        address: &str,
        config: Value,
        ignored: &[&str],
    ) -> Result<Planned, Diagnostics> {
        self.configure(self.config.clone()).await.into_result()?;
        let mut config = filled(&self.block, config);
        let problems = self.resource.validate(&self.call(), config.clone()).await;
        problems.clone().into_result()?;
        self.refresh(address).await.into_result()?;
        let prior = self.state.get(address).cloned().unwrap_or_default();
        for name in ignored {
            config.set(*name, prior.state.get(name).clone());
        }
        self.plan_with(prior, config).await
    }

    async fn plan_with(&self, prior: Stored, config: Value) -> Result<Planned, Diagnostics> {
        // A tainted object is planned as the create that replaces it.
        let known = if prior.tainted {
            Stored::default()
        } else {
            prior.clone()
        };
        let mut response = self.plan_once(&known, &config, known.private.clone()).await;
        response.diagnostics.clone().into_result()?;
        self.assert_plan_valid(&known.state, &config, &response.planned);
        let mut replace = Vec::new();
        if !known.state.is_null() {
            for path in &response.requires_replace {
                let (before, after) = (at(&known.state, path), at(&response.planned, path));
                assert!(
                    before.is_some() || after.is_some(),
                    "requires_replace holds {path}, which is in neither state nor plan"
                );
                let null = Value::Null;
                let (before, after) = (before.unwrap_or(&null), after.unwrap_or(&null));
                if !after.is_wholly_known() || before != after {
                    replace.push(path.to_string());
                }
            }
        }
        let action = if prior.tainted {
            Action::Replace
        } else if known.state.is_null() {
            Action::Create
        } else if !replace.is_empty() {
            Action::Replace
        } else if response.planned == known.state {
            Action::NoOp
        } else {
            Action::Update
        };
        if action == Action::Update {
            assert_known_identity(response.identity.as_ref());
        }
        if action == Action::Replace && !prior.tainted {
            let nothing = Stored::default();
            let first = response.diagnostics.clone();
            let first_replace = std::mem::take(&mut response.requires_replace);
            response = self.plan_once(&nothing, &config, response.private).await;
            response.diagnostics.clone().into_result()?;
            self.assert_plan_valid(&Value::Null, &config, &response.planned);
            let shown = |path: &Path| at(&known.state, path) != at(&response.planned, path);
            assert!(
                first_replace.iter().any(shown),
                "a replacement that the plan shows no reason for: {replace:?}"
            );
            let second = std::mem::take(&mut response.diagnostics);
            response.diagnostics = first.into_iter().chain(second).collect();
        }
        Ok(Planned {
            action,
            prior,
            config,
            planned: response.planned,
            replace,
            diagnostics: response.diagnostics,
            private: response.private,
            identity: response.identity,
        })
    }

    async fn plan_once(
        &self,
        prior: &Stored,
        config: &Value,
        private: Vec<u8>,
    ) -> egress::plugin::provider::PlanResponse {
        let proposed = proposed_new(&self.block, &prior.state, config);
        let request = PlanRequest {
            prior: prior.state.clone(),
            proposed,
            config: config.clone(),
            private,
            planned_private: Vec::new(),
            identity: prior.identity.clone(),
            provider_meta: Value::Null,
        };
        self.resource.plan(&self.call(), request).await
    }

    /// Applies a plan. What the provider says is in the result; errors do not undo the state.
    pub(crate) async fn apply(&mut self, address: &str, plan: Planned) -> Diagnostics {
        self.apply_resolved(address, plan, None).await
    }

    /// Applies a plan whose configuration is known by now where it was not when it was planned.
    pub(crate) async fn apply_resolved(
        &mut self,
        address: &str,
        plan: Planned,
        resolved: Option<Value>,
    ) -> Diagnostics {
        let config = resolved.map_or(plan.config.clone(), |config| filled(&self.block, config));
        let told = match plan.action {
            Action::NoOp => Diagnostics::new(),
            Action::Create => self.create(address, &plan, config).await,
            Action::Update => {
                let again = match self.plan_with(plan.prior.clone(), config.clone()).await {
                    Ok(again) => again,
                    Err(problems) => return problems,
                };
                assert!(
                    matches!(again.action, Action::Update | Action::NoOp),
                    "inconsistent final plan: {:?}",
                    again.action
                );
                assert_compatible("inconsistent final plan", &plan.planned, &again.planned);
                self.change(address, plan.prior, again, config).await
            }
            Action::Replace => {
                let deleted = self.delete(address).await;
                if deleted.has_errors() {
                    return deleted;
                }
                let created = self.create(address, &plan, config).await;
                deleted.into_iter().chain(created).collect()
            }
        };
        self.told.extend(told.clone());
        told
    }

    /// Replaces under `create_before_destroy`: the new object first, then the deposed one.
    pub(crate) async fn apply_create_first(&mut self, address: &str, plan: Planned) -> Diagnostics {
        assert_eq!(plan.action, Action::Replace);
        let deposed = self.state.remove(address).expect("something to replace");
        let config = plan.config.clone();
        let created = self.create(address, &plan, config).await;
        if created.has_errors() {
            if !self.state.contains_key(address) {
                // Core puts the deposed object back where nothing replaced it.
                self.state.insert(address.to_owned(), deposed);
            } else {
                self.state.insert(format!("{address} (deposed)"), deposed);
            }
            return created;
        }
        let address = format!("{address} (deposed)");
        self.state.insert(address.clone(), deposed);
        let deleted = self.delete(&address).await;
        created.into_iter().chain(deleted).collect()
    }

    async fn create(&mut self, address: &str, plan: &Planned, config: Value) -> Diagnostics {
        let nothing = Stored::default();
        let again = match self.plan_with(nothing.clone(), config.clone()).await {
            Ok(again) => again,
            Err(problems) => return problems,
        };
        assert_compatible("inconsistent final plan", &plan.planned, &again.planned);
        self.change(address, nothing, again, config).await
    }

    /// Applies a plan whose handler panics, as the plugin's service does: what the handler left behind
    /// is stored, tainted where it was a create; without anything the state stays. Whether it left
    /// anything.
    pub(crate) async fn apply_panicking(&mut self, address: &str, plan: Planned) -> bool {
        let (prior, tainted) = match plan.action {
            Action::Create => (Value::Null, true),
            Action::Update => (plan.prior.state, false),
            Action::NoOp | Action::Replace => panic!("{:?} is no single apply", plan.action),
        };
        let request = ApplyRequest {
            prior,
            planned: plan.planned,
            config: plan.config,
            private: plan.private,
            identity: plan.identity,
            provider_meta: Value::Null,
        };
        self.panicking(address, request, tainted).await
    }

    /// Destroys a resource, and the handler panics; as above.
    pub(crate) async fn delete_panicking(&mut self, address: &str) -> bool {
        let stored = self.state.get(address).cloned().expect("something to destroy");
        let request = ApplyRequest {
            prior: stored.state,
            planned: Value::Null,
            config: Value::Null,
            private: stored.private,
            identity: stored.identity,
            provider_meta: Value::Null,
        };
        self.panicking(address, request, false).await
    }

    async fn panicking(&mut self, address: &str, request: ApplyRequest, tainted: bool) -> bool {
        let call = self.call();
        let applied = AssertUnwindSafe(self.resource.apply(&call, request));
        assert!(applied.catch_unwind().await.is_err(), "the handler did not panic");
        let Some(left) = call.take_checkpoint() else {
            return false;
        };
        self.assert_conforms(&left.state, "a checkpoint");
        assert!(
            left.state.is_wholly_known(),
            "a checkpoint holds unknowns: {:#?}",
            left.state
        );
        assert_known_identity(left.identity.as_ref());
        let stored = Stored {
            state: left.state,
            private: left.private,
            identity: left.identity,
            tainted,
        };
        self.state.insert(address.to_owned(), stored);
        true
    }

    async fn change(&mut self, address: &str, prior: Stored, plan: Planned, config: Value) -> Diagnostics {
        let request = ApplyRequest {
            prior: prior.state.clone(),
            planned: plan.planned.clone(),
            config,
            private: plan.private,
            identity: plan.identity,
            provider_meta: Value::Null,
        };
        let applied = self.resource.apply(&self.call(), request).await;
        let failed = applied.diagnostics.has_errors();
        if !failed {
            assert!(!applied.state.is_null(), "the state is null without an error");
            assert_compatible("inconsistent result after apply", &plan.planned, &applied.state);
            assert_known_identity(applied.identity.as_ref());
        }
        if applied.state.is_null() {
            // An error without a state keeps the prior one on update, and nothing on create.
            return applied.diagnostics;
        }
        self.assert_conforms(&applied.state, "apply");
        assert!(
            applied.state.is_wholly_known(),
            "apply returned unknowns: {:#?}",
            applied.state
        );
        let stored = Stored {
            state: applied.state,
            private: applied.private,
            identity: applied.identity,
            tainted: failed && prior.state.is_null(),
        };
        self.state.insert(address.to_owned(), stored);
        applied.diagnostics
    }

    /// Destroys one resource.
    pub(crate) async fn delete(&mut self, address: &str) -> Diagnostics {
        let stored = self.state.get(address).cloned().expect("something to destroy");
        let request = ApplyRequest {
            prior: stored.state.clone(),
            planned: Value::Null,
            config: Value::Null,
            private: stored.private.clone(),
            identity: stored.identity.clone(),
            provider_meta: Value::Null,
        };
        let applied = self.resource.apply(&self.call(), request).await;
        let failed = applied.diagnostics.has_errors();
        if applied.state.is_null() && !failed {
            self.state.remove(address);
        } else {
            assert!(failed, "a destroy without an error left a state");
            if !applied.state.is_null() {
                self.assert_conforms(&applied.state, "destroy");
                let kept = Stored {
                    state: applied.state,
                    private: applied.private,
                    ..stored
                };
                self.state.insert(address.to_owned(), kept);
            }
        }
        applied.diagnostics
    }

    /// Plans and applies, and expects it to succeed.
    pub(crate) async fn up(&mut self, address: &str, config: Value) -> Planned {
        let plan = match self.plan(address, config).await {
            Ok(plan) => plan,
            Err(problems) => panic!("the plan failed: {problems:#?}"),
        };
        let told = self.apply(address, plan.clone()).await;
        assert!(!told.has_errors(), "the apply failed: {told:#?}");
        plan
    }

    /// The action of a plan that is expected to succeed.
    pub(crate) async fn action(&mut self, address: &str, config: Value) -> Action {
        match self.plan(address, config).await {
            Ok(plan) => plan.action,
            Err(problems) => panic!("the plan failed: {problems:#?}"),
        }
    }

    /// Imports, and reads what was imported.
    pub(crate) async fn import(&mut self, address: &str, id: &str) -> Diagnostics {
        self.import_target(address, ImportTarget::Id(id.to_owned())).await
    }

    pub(crate) async fn import_target(&mut self, address: &str, id: ImportTarget) -> Diagnostics {
        let imported = self.resource.import(&self.call(), ImportRequest { id }).await;
        if imported.diagnostics.has_errors() {
            return imported.diagnostics;
        }
        let [object] = imported.imported.try_into().expect("one object");
        assert!(!object.state.is_null());
        self.assert_conforms(&object.state, "import");
        let stored = Stored {
            state: object.state,
            private: object.private,
            identity: object.identity,
            tainted: false,
        };
        self.state.insert(address.to_owned(), stored);
        let told = self.refresh(address).await;
        if told.has_errors() {
            self.state.remove(address);
            return told;
        }
        if !self.state.contains_key(address) {
            let error = Diagnostic::error("Cannot import non-existent remote object");
            return told.into_iter().chain([error]).collect();
        }
        told
    }

    /// Reads a data source.
    pub(crate) async fn data(&self, name: &str, config: Value) -> Result<Value, Diagnostics> {
        let source: Arc<dyn DataSource> = self.provider.data_sources()[name].clone();
        let config = filled(&source.schema().block, config);
        source
            .validate(&self.call(), config.clone())
            .await
            .into_result()?;
        let request = ReadDataRequest {
            config,
            provider_meta: Value::Null,
        };
        let read = source.read(&self.call(), request).await;
        read.diagnostics.into_result()?;
        assert!(!read.state.is_null() && read.state.is_wholly_known());
        Ok(read.state)
    }

    /// Whether a value holds exactly what the schema has.
    fn assert_conforms(&self, value: &Value, what: &str) {
        conforms(&self.block, value, what);
    }

    fn assert_plan_valid(&self, prior: &Value, config: &Value, planned: &Value) {
        conforms(&self.block, planned, "plan");
        plan_valid(&self.block, prior, config, planned, "");
    }
}

fn assert_known_identity(identity: Option<&Value>) {
    let identity = identity.expect("an identity");
    assert!(identity.is_wholly_known(), "{identity:#?}");
    let names: Vec<_> = identity.as_map().expect("an object").keys().collect();
    assert_eq!(names, ["backend", "key"]);
}

fn conforms(block: &Block, value: &Value, what: &str) {
    let entries = value
        .as_map()
        .unwrap_or_else(|| panic!("{what}: no object: {value:?}"));
    let mut names: Vec<_> = block.attributes.iter().map(|attribute| &attribute.name).collect();
    names.extend(block.blocks.iter().map(|nested| &nested.name));
    names.sort();
    let given: Vec<_> = entries.keys().collect();
    assert_eq!(
        given, names,
        "{what}: the object has other attributes than the schema"
    );
    for attribute in &block.attributes {
        if attribute.write_only {
            assert!(
                entries[&attribute.name].is_null(),
                "{what}: the write-only {} is not null",
                attribute.name
            );
        }
    }
    for nested in &block.blocks {
        let value = &entries[&nested.name];
        match nested.nesting {
            Nesting::Single if value.is_null() => {}
            Nesting::Single => conforms(&nested.block, value, what),
            other => panic!("no block of nesting {other:?} is expected here"),
        }
    }
}

/// The rules for a planned value (protocol notes, section 4.2).
fn plan_valid(block: &Block, prior: &Value, config: &Value, planned: &Value, place: &str) {
    for attribute in &block.attributes {
        let place = format!("{place}{}", attribute.name);
        let name = &attribute.name;
        let (prior, config, planned) = (prior.get(name), config.get(name), planned.get(name));
        attribute_valid(attribute, prior, config, planned, &place);
    }
    for nested in &block.blocks {
        let place = format!("{place}{}.", nested.name);
        let name = &nested.name;
        let (prior, config, planned) = (prior.get(name), config.get(name), planned.get(name));
        assert_eq!(
            config.is_null(),
            planned.is_null(),
            "invalid plan: block {place} is there in only one of configuration and plan"
        );
        assert!(!planned.is_unknown(), "invalid plan: block {place} is unknown");
        if !config.is_null() {
            plan_valid(&nested.block, prior, config, planned, &place);
        }
    }
}

fn attribute_valid(attribute: &Attribute, prior: &Value, config: &Value, planned: &Value, place: &str) {
    if attribute.write_only {
        assert!(planned.is_null(), "invalid plan: write-only {place} is not null");
        return;
    }
    if planned == config {
        return;
    }
    if !prior.is_null() && !config.is_null() && planned == prior {
        return;
    }
    let computed = matches!(
        attribute.presence,
        Presence::Computed | Presence::OptionalComputed
    );
    assert!(
        config.is_null() && computed,
        "invalid plan: {place} is {planned:?}, configured {config:?}, before {prior:?}"
    );
}

/// What core proposes: the configuration where it says something, else the state.
fn proposed_new(block: &Block, prior: &Value, config: &Value) -> Value {
    let mut proposed = BTreeMap::new();
    for attribute in &block.attributes {
        let name = &attribute.name;
        let computed = matches!(
            attribute.presence,
            Presence::Computed | Presence::OptionalComputed
        );
        let value = match config.get(name) {
            Value::Null if computed && !prior.is_null() => prior.get(name),
            configured => configured,
        };
        proposed.insert(name.clone(), value.clone());
    }
    for nested in &block.blocks {
        let (name, config) = (&nested.name, config.get(&nested.name));
        let value = if config.is_null() {
            Value::Null
        } else {
            proposed_new(&nested.block, prior.get(name), config)
        };
        proposed.insert(name.clone(), value);
    }
    Value::Map(proposed)
}

/// Every known planned value must have come true.
fn assert_compatible(what: &str, planned: &Value, actual: &Value) {
    compatible(what, planned, actual, "");
}

fn compatible(what: &str, planned: &Value, actual: &Value, place: &str) {
    match (planned, actual) {
        (Value::Unknown(refinements), actual) => {
            if refinements.nullness() == Some(egress::plugin::value::Nullness::NotNull) {
                assert!(!actual.is_null(), "{what}: {place} was promised not to be null");
            }
        }
        (Value::Map(planned), Value::Map(actual)) => {
            assert_eq!(
                planned.keys().collect::<Vec<_>>(),
                actual.keys().collect::<Vec<_>>(),
                "{what}: {place}"
            );
            for (name, value) in planned {
                compatible(what, value, &actual[name], &format!("{place}.{name}"));
            }
        }
        (planned, actual) => assert_eq!(planned, actual, "Provider produced {what}: {place}"),
    }
}

/// The value at a path; `None` where the path leads through null.
fn at<'v>(value: &'v Value, path: &Path) -> Option<&'v Value> {
    path.0.iter().try_fold(value, |value, step| match step {
        Step::Attribute(name) => value.as_map()?.get(name),
        Step::Key(key) => value.as_map()?.get(key),
        Step::Index(index) => value.as_list().get(usize::try_from(*index).ok()?),
    })
}

/// A configuration with everything that it does not say made null, as core sends it.
pub(crate) fn filled(block: &Block, config: Value) -> Value {
    if config.is_unknown() {
        return config;
    }
    let mut given = match config {
        Value::Map(entries) => entries,
        Value::Null => BTreeMap::new(),
        other => panic!("a block is an object, not {other:?}"),
    };
    let mut value = BTreeMap::new();
    for attribute in &block.attributes {
        let given = given.remove(&attribute.name).unwrap_or_default();
        value.insert(attribute.name.clone(), given);
    }
    for nested in &block.blocks {
        let given = given.remove(&nested.name).unwrap_or_default();
        let given = match (nested.nesting, given) {
            (Nesting::Map, Value::Null) => Value::Map(BTreeMap::new()),
            (Nesting::Map, Value::Map(labelled)) => Value::Map(
                labelled
                    .into_iter()
                    .map(|(label, block)| (label, filled(&nested.block, block)))
                    .collect(),
            ),
            (_, Value::Null) => Value::Null,
            (_, given) => filled(&nested.block, given),
        };
        value.insert(nested.name.clone(), given);
    }
    assert!(given.is_empty(), "the schema has no {:?}", given.keys());
    Value::Map(value)
}
