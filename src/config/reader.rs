//! Reads one block of the configuration, and collects what is wrong with it.
//!
//! Must not know which block. Invariant: every problem carries the path of the value it is about;
//! reading never stops at the first.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use super::{Environment, Field};
use crate::contract::AdoptPolicy;
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, sentence};
use crate::plugin::value::Value;

/// Reads one block.
#[derive(Debug)]
pub struct Reader<'a> {
    value: &'a Value,
    path: Path,
    environment: &'a Environment,
    problems: &'a mut Diagnostics,
}

impl<'a> Reader<'a> {
    /// Reads `value`, which is at `path`.
    pub fn new(
        value: &'a Value,
        path: Path,
        environment: &'a Environment,
        problems: &'a mut Diagnostics,
    ) -> Self {
        Self {
            value,
            path,
            environment,
            problems,
        }
    }

    /// The place of an argument.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Path {
        self.path.attribute(name)
    }

    /// What is configured beside the blocks.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        self.environment
    }

    /// Whether an argument is given, or a block is there; a problem with it does not count.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        !self.value.get(name).is_null()
    }

    /// Whether it is not known yet what an argument is, or which blocks there are.
    #[must_use]
    pub fn is_unknown(&self, name: &str) -> bool {
        self.value.get(name).is_unknown()
    }

    /// Adds a problem.
    pub fn problem(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    /// A string.
    #[must_use]
    pub fn string(&self, name: &str) -> Field<String> {
        Field::string(self.value.get(name))
    }

    /// A boolean.
    #[must_use]
    pub fn bool(&self, name: &str) -> Field<bool> {
        Field::bool(self.value.get(name))
    }

    /// A list or set of strings; unknown while one of them is. A null among them is a problem.
    pub fn strings(&mut self, name: &str) -> Field<Vec<String>> {
        let value = self.value.get(name);
        if value.is_null() {
            return Field::Null;
        }
        for (index, element) in (0..).zip(value.as_list()) {
            if element.is_null() {
                let problem = Diagnostic::error(format!("{name} holds null"))
                    .detail(format!("Element {index} is null; remove it, or give it a value."));
                self.problem(problem.at(self.path_of(name).index(index)));
            }
        }
        if !value.is_wholly_known() {
            return Field::Unknown;
        }
        let texts = value.as_list().iter().filter_map(Value::as_str);
        Field::Known(texts.map(str::to_owned).collect())
    }

    /// A map of strings; unknown while one of them is.
    #[must_use]
    pub fn texts(&self, name: &str) -> Field<BTreeMap<String, String>> {
        self.entries(name, |value| value.as_str().map(str::to_owned))
    }

    /// A map of lists of strings; unknown while one of them is.
    #[must_use]
    pub fn text_lists(&self, name: &str) -> Field<BTreeMap<String, Vec<String>>> {
        self.entries(name, |value| {
            let texts = value.as_list().iter().filter_map(Value::as_str);
            Some(texts.map(str::to_owned).collect())
        })
    }

    fn entries<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Field<BTreeMap<String, T>> {
        let value = self.value.get(name);
        if value.is_null() {
            return Field::Null;
        }
        if !value.is_wholly_known() {
            return Field::Unknown;
        }
        let entries = value.as_map().into_iter().flatten();
        Field::Known(
            entries
                .filter_map(|(key, value)| Some((key.clone(), read(value)?)))
                .collect(),
        )
    }

    /// A whole number.
    pub fn whole(&mut self, name: &str, range: std::ops::RangeInclusive<i64>) -> Field<i64> {
        let value = self.value.get(name);
        if value.is_unknown() {
            return Field::Unknown;
        }
        let Some(number) = value.as_number() else {
            return Field::Null;
        };
        match number.to_i64().filter(|number| range.contains(number)) {
            Some(number) => Field::Known(number),
            None => {
                let problem = Diagnostic::error(format!("{name} cannot be used")).detail(format!(
                    "{number} is not a whole number from {} to {}.",
                    range.start(),
                    range.end()
                ));
                self.problem(problem.at(self.path_of(name)));
                Field::Null
            }
        }
    }

    /// A string that is parsed; what does not parse is a problem, and null.
    pub fn parsed<T>(&mut self, name: &str) -> Field<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        match self.string(name) {
            Field::Null => Field::Null,
            Field::Unknown => Field::Unknown,
            Field::Known(text) => match text.parse() {
                Ok(parsed) => Field::Known(parsed),
                Err(error) => {
                    let problem = Diagnostic::error(format!("{name} cannot be used"))
                        .detail(sentence(&error.to_string()));
                    self.problem(problem.at(self.path_of(name)));
                    Field::Null
                }
            },
        }
    }

    /// The path of a file or folder; `~/` is the user's home.
    pub fn file(&mut self, name: &str) -> Field<PathBuf> {
        let text = self.string(name);
        if text.known().is_some_and(String::is_empty) {
            let problem =
                Diagnostic::error(format!("{name} is empty")).detail("Leave it out, or name a path.");
            self.problem(problem.at(self.path_of(name)));
            return Field::Null;
        }
        text.map(|text| self.environment.expand(&text))
    }

    /// A nested block, where there is one.
    pub fn block(&mut self, name: &str) -> Option<Reader<'_>> {
        let value = self.value.get(name);
        value.as_map()?;
        let path = self.path_of(name);
        Some(Reader::new(value, path, self.environment, self.problems))
    }

    /// The labels of a block that may occur many times.
    #[must_use]
    pub fn labels(&self, name: &str) -> Vec<String> {
        let blocks = self.value.get(name).as_map();
        blocks
            .into_iter()
            .flatten()
            .map(|(label, _)| label.clone())
            .collect()
    }

    /// One of the blocks that may occur many times.
    pub fn labelled(&mut self, name: &str, label: &str) -> Reader<'_> {
        let value = self.value.get(name).get(label);
        let path = self.path_of(name).key(label);
        Reader::new(value, path, self.environment, self.problems)
    }
}

impl FromStr for AdoptPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "interrupted" => Ok(Self::Interrupted),
            "same_spec" => Ok(Self::SameSpec),
            "never" => Ok(Self::Never),
            other => Err(format!(
                "{other:?} is none of \"interrupted\", \"same_spec\" and \"never\""
            )),
        }
    }
}
