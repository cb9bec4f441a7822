//! The provider's configuration: from `provider` blocks or a YAML file to something valid.
//!
//! Both forms become one [`Value`] that conforms to the schema of the `provider` block, so that a
//! setting is declared once. Must not know which kinds of backend exist (it is handed the list), nor
//! reach out to anything. Invariants: every mistake is reported at once, with its path; an unknown
//! value spoils only what it belongs to, and is a mistake only for whoever uses that.

pub mod field;
pub mod file;
pub mod kind;
pub mod reader;
pub mod unknowns;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crate::contract::{AdoptPolicy, BackendName, Installation};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, sentence};
use crate::plugin::schema::{Attribute, Block, NestedBlock};
use crate::plugin::value::Value;

pub use field::Field;
pub use kind::{Kind, Settings};
pub use reader::Reader;
pub use unknowns::Unknowns;

/// Names the installation where the configuration does not.
pub const INSTALLATION_VARIABLE: &str = "EGRESS_INSTALLATION";
/// Names the configuration file where the configuration holds neither it nor backends.
pub const FILE_VARIABLE: &str = "EGRESS_CONFIG";
/// The installation of a configuration that names none and needs none, because nobody else can
/// reach what its backends create.
pub const PRIVATE_INSTALLATION: &str = "default";
/// The name and the kind of the one backend of a configuration that has none.
const IMPLICIT_BACKEND: &str = "local";

/// What configuration there is beside the `provider` block: variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environment {
    /// Those of this process.
    OfProcess,
    /// These.
    Given(BTreeMap<String, OsString>),
}

impl Environment {
    /// The value of a variable. An empty one counts as unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<OsString> {
        let value = match self {
            Self::OfProcess => std::env::var_os(name),
            Self::Given(variables) => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// A path as written, with `~` in front replaced by the user's home. Another user's home, such as
    /// `~root`, stays as it is written.
    #[must_use]
    pub fn expand(&self, path: &str) -> PathBuf {
        let rest = match path.strip_prefix('~') {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('/'),
            None => None,
        };
        match (rest, self.get("HOME")) {
            (Some(""), Some(home)) => PathBuf::from(home),
            (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => PathBuf::from(path),
        }
    }
}

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who owns what is created.
    pub installation: Field<Installation>,
    /// What create does with an instance of ours that already has the name.
    pub adopt: Field<AdoptPolicy>,
    /// The backends by name; `None` where not even their names are known yet.
    pub backends: Option<BTreeMap<BackendName, Configured>>,
    /// What its author may not have meant.
    pub warnings: Diagnostics,
}

/// One configured backend.
#[derive(Clone, Debug)]
pub enum Configured {
    /// Its configuration is known.
    Ready {
        /// Its kind.
        kind: &'static Kind,
        /// What it was configured with.
        settings: Arc<dyn Settings>,
    },
    /// Something in its configuration is not known yet: there.
    Unknown(Vec<Path>),
}

/// How thoroughly a configuration is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrutiny {
    /// Only what the blocks say: the variables and files of the machine that validates need not be
    /// those of the machine that applies.
    BlocksAlone,
    /// Everything that will be used.
    Whole,
}

/// The schema of the `provider` block.
#[must_use]
pub fn provider_block(kinds: &'static [&'static Kind]) -> Block {
    let backend = Block::new()
        .describe("A place where proxies run. Exactly one of the blocks inside says of which kind.")
        .blocks(
            kinds
                .iter()
                .map(|kind| NestedBlock::single(kind.name, (kind.block)())),
        );
    Block::new()
        .describe("Egress proxies on the backends configured here.")
        .attribute(Attribute::string("installation").describe(format!(
            "Who owns what is created; two installations never touch each other's proxies. Required as soon as a backend other than `local` is configured. `{INSTALLATION_VARIABLE}`"
        )))
        .attribute(Attribute::string("adopt").describe(
            "What create does with a proxy of ours that already has the name: adopt what an interrupted create left (`\"interrupted\"`, the default), whatever has the same specification (`\"same_spec\"`), or nothing (`\"never\"`).",
        ))
        .attribute(Attribute::string("config_file").describe(format!(
            "A YAML file of the same content, with `backends` for the `backend` blocks; not beside `backend` blocks. `{FILE_VARIABLE}`, which is ignored where there are blocks."
        )))
        .block(NestedBlock::map("backend", backend))
}

impl Config {
    /// From the value of a `provider` block.
    ///
    /// # Errors
    /// Every mistake in it, and in the file it names.
    pub fn from_block(
        block: &Value,
        kinds: &'static [&'static Kind],
        environment: &Environment,
        scrutiny: Scrutiny,
    ) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::new();
        let has_blocks = block.get("backend").is_unknown()
            || block
                .get("backend")
                .as_map()
                .is_some_and(|blocks| !blocks.is_empty());
        let argument = block.get("config_file");
        if has_blocks && !argument.is_null() {
            problems.push(
                Diagnostic::error("Both config_file and backend blocks are given")
                    .detail("Configure the backends in one place: move the blocks into the file, or remove config_file.")
                    .at(Path::root().attribute("config_file")),
            );
        }
        if argument.as_str() == Some("") {
            problems.push(
                Diagnostic::error("config_file is empty")
                    .detail("Leave it out, or name a file.")
                    .at(Path::root().attribute("config_file")),
            );
        }
        let file = match (argument.as_str(), environment.get(FILE_VARIABLE)) {
            (Some(path), _) => Some(environment.expand(path)),
            (None, Some(path)) if !has_blocks && argument.is_null() => {
                Some(environment.expand(&path.to_string_lossy()))
            }
            (None, _) => None,
        };
        let from_file = match file.filter(|_| scrutiny == Scrutiny::Whole && !problems.has_errors()) {
            Some(path) => match file::read(&path, &provider_block(kinds)) {
                Ok(value) => Some(value),
                Err(diagnostics) => {
                    problems.extend(diagnostics);
                    None
                }
            },
            None => None,
        };
        let unread = argument.is_unknown() || (scrutiny == Scrutiny::BlocksAlone && !argument.is_null());
        let mut config = Self::assemble(
            block,
            from_file.as_ref(),
            unread,
            kinds,
            environment,
            &mut problems,
        );
        if scrutiny == Scrutiny::Whole {
            config.require_installation(&mut problems);
        }
        if problems.has_errors() {
            return Err(problems);
        }
        // What is left are warnings.
        config.warnings.extend(problems);
        Ok(config)
    }

    /// From a configuration file, as the command line reads it; none is `EGRESS_CONFIG`, or the
    /// configuration of a provider without arguments. `installation` beats what the file says.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn from_file(
        path: Option<&std::path::Path>,
        installation: Option<&str>,
        kinds: &'static [&'static Kind],
        environment: &Environment,
    ) -> Result<Self, Diagnostics> {
        let block = Value::object([
            ("installation", Value::from(installation.map(str::to_owned))),
            (
                "config_file",
                path.map(|path| path.to_string_lossy().into_owned()).into(),
            ),
        ]);
        Self::from_block(&block, kinds, environment, Scrutiny::Whole)
    }

    fn assemble(
        block: &Value,
        file: Option<&Value>,
        file_is_unread: bool,
        kinds: &'static [&'static Kind],
        environment: &Environment,
        problems: &mut Diagnostics,
    ) -> Self {
        let null = Value::Null;
        let file = file.unwrap_or(&null);
        let mut reader = Reader::new(block, Path::root(), environment, problems);
        let mut installation: Field<Installation> = reader.parsed("installation");
        let mut adopt: Field<AdoptPolicy> = reader.parsed("adopt");
        if let (Field::Null, Some(text)) = (&installation, environment.get(INSTALLATION_VARIABLE)) {
            match text.to_string_lossy().parse() {
                Ok(parsed) => installation = Field::Known(parsed),
                Err(error) => reader.problem(
                    Diagnostic::error(format!("{INSTALLATION_VARIABLE} cannot be used"))
                        .detail(sentence(&error.to_string())),
                ),
            }
        }
        let mut reader = Reader::new(file, Path::root(), environment, problems);
        let (filed_installation, filed_adopt) = (reader.parsed("installation"), reader.parsed("adopt"));
        if installation.is_null() {
            installation = filed_installation;
        }
        if adopt.is_null() {
            adopt = filed_adopt;
        }
        let blocks = match file.get("backend") {
            Value::Null => block.get("backend"),
            filed => filed,
        };
        let backends = if file_is_unread || blocks.is_unknown() {
            None
        } else {
            Some(read_backends(blocks, kinds, environment, problems))
        };
        let warnings = backends.as_ref().map(shared_places).unwrap_or_default();
        Self {
            installation,
            adopt,
            backends,
            warnings,
        }
    }

    fn require_installation(&self, problems: &mut Diagnostics) {
        if !self.installation.is_null() {
            return;
        }
        let needing = self
            .backends
            .iter()
            .flatten()
            .find_map(|(name, configured)| match configured {
                Configured::Ready { kind, .. } if kind.shared => Some((name, kind.name)),
                Configured::Ready { .. } | Configured::Unknown(_) => None,
            });
        if let Some((name, kind)) = needing {
            problems.push(
                Diagnostic::error("The provider needs an installation")
                    .detail(format!(
                        "Backend {name:?} is of kind {kind}, which others can reach too. Name who owns what is created here, such as installation = \"prod-eu\", or set {INSTALLATION_VARIABLE}: what two teams create under one installation, either of them can collect.",
                        name = name.as_str(),
                    ))
                    .at(Path::root().attribute("installation")),
            );
        }
    }
}

/// Backends that are one place under several names: what is made under one of them is there under
/// the others, too.
fn shared_places(backends: &BTreeMap<BackendName, Configured>) -> Diagnostics {
    let mut places: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for (name, configured) in backends {
        if let Configured::Ready { kind, settings } = configured
            && let Some(place) = settings.place()
        {
            places.entry((kind.name, place)).or_default().push(name.as_str());
        }
    }
    places
        .into_iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|((_, place), names)| {
            let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
            Diagnostic::warning(format!("The backends {} are one place", names.join(", "))).detail(format!(
                "They have the same {place}, so that every proxy there has an id under each of these names, and two resources can be one proxy. Give each a place of its own; to rename a backend, import its proxies under the new name."
            ))
        })
        .collect()
}

fn read_backends(
    blocks: &Value,
    kinds: &'static [&'static Kind],
    environment: &Environment,
    problems: &mut Diagnostics,
) -> BTreeMap<BackendName, Configured> {
    let mut backends = BTreeMap::new();
    let root = Path::root().attribute("backend");
    for (label, block) in blocks.as_map().into_iter().flatten() {
        let path = root.key(label);
        let name = match label.parse::<BackendName>() {
            Ok(name) => Some(name),
            Err(error) => {
                problems.push(
                    Diagnostic::error(format!("A backend cannot be called {label:?}"))
                        .detail(format!(
                            "{} It becomes part of ids, labels and volume names.",
                            sentence(&error.to_string())
                        ))
                        .at(path.clone()),
                );
                None
            }
        };
        let configured = read_backend(label, block, path, kinds, environment, problems);
        if let (Some(name), Some(configured)) = (name, configured) {
            backends.insert(name, configured);
        }
    }
    let nothing_given = blocks.as_map().is_none_or(BTreeMap::is_empty);
    if nothing_given
        && let Some(kind) = kinds.iter().find(|kind| kind.name == IMPLICIT_BACKEND)
        && let Ok(name) = IMPLICIT_BACKEND.parse()
    {
        let mut reader = Reader::new(&Value::Null, root.key(IMPLICIT_BACKEND), environment, problems);
        if let Some(settings) = (kind.parse)(&mut reader) {
            backends.insert(name, Configured::Ready { kind, settings });
        }
    }
    backends
}

fn read_backend(
    label: &str,
    block: &Value,
    path: Path,
    kinds: &'static [&'static Kind],
    environment: &Environment,
    problems: &mut Diagnostics,
) -> Option<Configured> {
    if block.is_unknown() {
        return Some(Configured::Unknown(vec![path]));
    }
    let given: Vec<_> = kinds
        .iter()
        .filter(|kind| !block.get(kind.name).is_null())
        .collect();
    let known = || kinds.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    let kind = match given.as_slice() {
        [kind] => **kind,
        [] => {
            problems.push(
                Diagnostic::error(format!("Backend {label:?} is of no kind"))
                    .detail(format!(
                        "It needs exactly one block inside that says what it is: {}.",
                        known()
                    ))
                    .at(path),
            );
            return None;
        }
        several => {
            let names: Vec<_> = several.iter().map(|kind| kind.name).collect();
            problems.push(
                Diagnostic::error(format!("Backend {label:?} is of several kinds"))
                    .detail(format!(
                        "It has the blocks {}; it needs exactly one. Give each a backend block of its own.",
                        names.join(", ")
                    ))
                    .at(path),
            );
            return None;
        }
    };
    let inner = block.get(kind.name);
    let path = path.attribute(kind.name);
    let mut unknown = Vec::new();
    unknown_paths(inner, &path, &mut unknown);
    // What is known is checked all the same, so that its mistakes show as early as they can.
    let settings = (kind.parse)(&mut Reader::new(inner, path, environment, problems));
    if !unknown.is_empty() {
        return Some(Configured::Unknown(unknown));
    }
    settings.map(|settings| Configured::Ready { kind, settings })
}

/// The places of a value where something is unknown.
fn unknown_paths(value: &Value, path: &Path, found: &mut Vec<Path>) {
    match value {
        Value::Unknown(_) => found.push(path.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        Value::Dynamic(_, inner) => unknown_paths(inner, path, found),
        Value::List(items) => {
            for (index, item) in (0..).zip(items) {
                unknown_paths(item, &path.index(index), found);
            }
        }
        Value::Map(entries) => {
            for (name, entry) in entries {
                unknown_paths(entry, &path.attribute(name), found);
            }
        }
    }
}
