//! The configuration that makes an instance, as a person would write it.
//!
//! Pure; must not know how it is printed. Invariant: what the instance has and its mark cannot hold, a
//! password or a document, is asked for and never left out.

use super::import::{configuration, empty};
use super::private::Private;
use super::refresh;
use super::schema::{self, ACCESS, CLOUD_INIT, CLOUD_INIT_WO, PASSWORD_HASH, PASSWORD_WO};
use crate::contract::spec::{CloudInitFact, PasswordFact};
use crate::contract::{BackendName, Fact, Instance};
use crate::plugin::value::Value;

/// What an argument is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// This.
    Is(Value),
    /// What only a person knows: the end of a variable's name, and what the variable is for.
    Asked(&'static str, &'static str),
}

/// An argument and what it is set to.
pub(crate) type Argument = (String, Expression);

/// A resource block without its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Its arguments, in the order of the schema.
    pub(crate) arguments: Vec<Argument>,
    /// The blocks in it.
    pub(crate) blocks: Vec<(String, Vec<Argument>)>,
}

impl Written {
    /// Whether something must be asked for whose text the state will hold: the first apply takes it
    /// over, without a write to the backend.
    pub(crate) fn is_completed_by_apply(&self) -> bool {
        let blocks = self.blocks.iter().flat_map(|(_, arguments)| arguments);
        self.arguments.iter().chain(blocks).any(|(name, expression)| {
            matches!(expression, Expression::Asked(..)) && (name == PASSWORD_HASH || name == CLOUD_INIT)
        })
    }
}

/// The state that an import of that instance comes to.
pub(crate) fn imported(instance: &Instance, backend: &BackendName) -> Value {
    let (state, _) = refresh::refresh(&empty(), &Private::default(), instance, backend);
    state
}

/// The configuration that plans nothing for an imported instance.
pub(crate) fn written(instance: &Instance, backend: &BackendName) -> Written {
    let mark = &instance.mark;
    let given = |fact| mark.given.contains(&fact);
    let password = mark.facts.password.as_ref().filter(|_| given(Fact::Password));
    let password = password.map(|fact| match fact {
        PasswordFact::Version(_) => (
            PASSWORD_WO,
            Expression::Asked("password", "The password that the proxy was made with."),
        ),
        PasswordFact::HashSha256(_) => (
            PASSWORD_HASH,
            Expression::Asked(
                "password_hash",
                "The password's hash that the proxy was made with.",
            ),
        ),
    });
    let document = mark.facts.cloud_init.as_ref().filter(|_| given(Fact::CloudInit));
    let document = document.map(|fact| {
        let asked = Expression::Asked(
            "cloud_init",
            "The cloud-init document that the proxy was made with.",
        );
        match fact {
            CloudInitFact::Version(_) => (CLOUD_INIT_WO, asked),
            CloudInitFact::TextSha256(_) => (CLOUD_INIT, asked),
        }
    });
    let config = configuration(imported(instance, backend));
    let block = schema::schema().block;
    let names = |attributes: &[crate::plugin::schema::Attribute]| -> Vec<String> {
        attributes
            .iter()
            .map(|attribute| attribute.name.clone())
            .collect()
    };
    let arguments = arguments(&config, names(&block.attributes), document);
    let blocks = block.blocks.iter().filter_map(|nested| {
        let asked = password.clone().filter(|_| nested.name == ACCESS);
        let within = arguments_of(&config, &nested.name, names(&nested.block.attributes), asked);
        (!within.is_empty()).then(|| (nested.name.clone(), within))
    });
    Written {
        arguments,
        blocks: blocks.collect(),
    }
}

fn arguments_of(
    config: &Value,
    block: &str,
    names: Vec<String>,
    asked: Option<(&'static str, Expression)>,
) -> Vec<Argument> {
    arguments(config.get(block), names, asked)
}

/// What is set, in that order, and what is asked for.
fn arguments(values: &Value, names: Vec<String>, asked: Option<(&'static str, Expression)>) -> Vec<Argument> {
    names
        .into_iter()
        .filter_map(|name| {
            if let Some((_, expression)) = asked.as_ref().filter(|(asked, _)| *asked == name) {
                return Some((name, expression.clone()));
            }
            let value = values.get(&name);
            (!value.is_null()).then(|| (name, Expression::Is(value.clone())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::schema::{CLOUD_INIT_WO_VERSION, PASSWORD_WO_VERSION};
    use super::*;
    use crate::contract::{Facts, Incarnation, InstanceKey, Mark, Namespace, State, Target, Uid};

    fn instance(facts: Facts) -> Instance {
        let given = facts.present();
        let facts = facts.with_common_defaults();
        let key = InstanceKey {
            installation: "prod".parse().expect("valid"),
            namespace: Namespace::default(),
            name: "a".parse().expect("valid"),
        };
        Instance {
            id: "default/a".parse().expect("valid"),
            mark: Mark {
                uid: Uid::of(&key, &facts.sha256()),
                key,
                incarnation: Incarnation::fresh(),
                pending: false,
                label_keys: BTreeSet::new(),
                created_at: None,
                spec_sha256: facts.sha256(),
                facts,
                given,
            },
            target: Target::default(),
            state: State::Running,
            started: true,
            ip: None,
            egress_ip: None,
            created_at: None,
            labels: BTreeMap::new(),
            reason: None,
        }
    }

    fn shown(written: &Written) -> (Vec<&str>, Vec<(&str, Vec<&str>)>) {
        fn names(arguments: &[Argument]) -> Vec<&str> {
            arguments.iter().map(|(name, _)| name.as_str()).collect()
        }
        let blocks = written.blocks.iter();
        (
            names(&written.arguments),
            blocks
                .map(|(name, within)| (name.as_str(), names(within)))
                .collect(),
        )
    }

    fn of(facts: Facts) -> Written {
        written(&instance(facts), &"here".parse().expect("valid"))
    }

    #[test]
    fn what_was_defaulted_is_not_written() {
        let written = of(Facts::default());
        let (arguments, blocks) = shown(&written);
        assert_eq!(arguments, ["name", "namespace", "backend"]);
        assert_eq!(blocks, []);
        assert!(!written.is_completed_by_apply());
    }

    #[test]
    fn what_no_mark_holds_is_asked_for() {
        let versions = Facts {
            port: Some(8080),
            username: Some("u".into()),
            password: Some(PasswordFact::Version("1".into())),
            cloud_init: Some(CloudInitFact::Version("2".into())),
            ..Facts::default()
        };
        let written = of(versions);
        let (arguments, blocks) = shown(&written);
        assert!(arguments.contains(&CLOUD_INIT_WO) && arguments.contains(&CLOUD_INIT_WO_VERSION));
        assert!(arguments.contains(&"port"));
        let (name, within) = &blocks[0];
        assert_eq!((blocks.len(), *name), (1, ACCESS));
        assert_eq!(*within, ["username", PASSWORD_WO, PASSWORD_WO_VERSION]);
        assert!(!written.is_completed_by_apply());

        let texts = Facts {
            username: Some("u".into()),
            password: Some(PasswordFact::HashSha256("ab".into())),
            cloud_init: Some(CloudInitFact::TextSha256("ab".into())),
            ..Facts::default()
        };
        let written = of(texts);
        let (arguments, blocks) = shown(&written);
        assert!(arguments.contains(&CLOUD_INIT) && !arguments.contains(&CLOUD_INIT_WO));
        assert_eq!(blocks[0].1, ["username", PASSWORD_HASH]);
        assert!(written.is_completed_by_apply());
    }
}
