//! What a provider tells the user: errors and warnings, with the place they are about.
//!
//! Must not know the wire. Invariant: a diagnostic has a summary, and a path only where it is about
//! one attribute or block.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The operation failed.
    Error,
    /// The operation goes on.
    Warning,
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// An attribute of an object, or a nested block.
    Attribute(String),
    /// An entry of a map.
    Key(String),
    /// An element of a list or tuple.
    Index(i64),
}

/// A place in a value, from its root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// The whole value.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path that goes on into an attribute or nested block.
    #[must_use]
    pub fn attribute(&self, name: impl Into<String>) -> Self {
        self.step(Step::Attribute(name.into()))
    }

    /// The path that goes on into an entry of a map.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.step(Step::Key(key.into()))
    }

    /// The path that goes on into an element of a list or tuple.
    #[must_use]
    pub fn index(&self, index: i64) -> Self {
        self.step(Step::Index(index))
    }

    /// The path that goes on by one step.
    #[must_use]
    pub fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Whether this is the whole value.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Path {
    /// As Terraform writes references: `backend["lab"].host["a"].port`, `list[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Attribute(name) => write!(f, "{}{name}", if i == 0 { "" } else { "." })?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// One thing to tell the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// One line, without a full stop.
    pub summary: String,
    /// Sentences: what is wrong with which value, and the way out. May be empty.
    pub detail: String,
    /// The attribute or block it is about.
    pub path: Option<Path>,
}

impl Diagnostic {
    /// An error.
    pub fn error(summary: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            summary: summary.into(),
            detail: String::new(),
            path: None,
        }
    }

    /// A warning.
    pub fn warning(summary: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(summary)
        }
    }

    /// With the sentences.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// With the place it is about.
    #[must_use]
    pub fn at(mut self, path: Path) -> Self {
        self.path = Some(path);
        self
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    /// `error: summary (at path): detail`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.severity {
            Severity::Error => "error: ",
            Severity::Warning => "warning: ",
        })?;
        f.write_str(&self.summary)?;
        if let Some(path) = self.path.as_ref().filter(|path| !path.is_root()) {
            write!(f, " (at {path})")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

/// The text as sentences: with a capital letter in front, unless it begins with a name as users write
/// it, and a full stop behind.
#[must_use]
pub fn sentence(text: &str) -> String {
    let text = text.trim_end();
    let Some(first) = text.chars().next() else {
        return String::new();
    };
    let stop = if text.ends_with(['.', '!', '?', '}']) {
        ""
    } else {
        "."
    };
    let word = text.split([' ', ':', ',']).next().unwrap_or_default();
    if word.contains(['.', '_', '=', '/', '`', '"', '[']) {
        return format!("{text}{stop}");
    }
    format!("{}{}{stop}", first.to_uppercase(), &text[first.len_utf8()..])
}

/// Everything there is to tell about one operation, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Nothing to tell.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(Diagnostic::is_error)
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// Ok where there is no error. Warnings alone are lost: keep them first where they matter.
    ///
    /// # Errors
    /// The diagnostics themselves, where one of them is an error.
    pub fn into_result(self) -> Result<(), Self> {
        if self.has_errors() { Err(self) } else { Ok(()) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, diagnostics: I) {
        self.0.extend(diagnostics);
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(diagnostics: I) -> Self {
        Self(diagnostics.into_iter().collect())
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_like_a_reference() {
        let path = Path::root()
            .attribute("backend")
            .key("lab")
            .attribute("host")
            .key("a\"b")
            .attribute("port");
        assert_eq!(path.to_string(), r#"backend["lab"].host["a\"b"].port"#);
        assert_eq!(Path::root().attribute("list").index(0).to_string(), "list[0]");
        assert!(Path::root().is_root() && !path.is_root());
    }

    #[test]
    fn a_name_at_the_start_of_a_sentence_stays_as_users_write_it() {
        for (text, told) in [
            ("", ""),
            ("the port is taken", "The port is taken."),
            ("élan", "Élan."),
            ("name \"A\" must be short.", "Name \"A\" must be short."),
            (
                "access.password_hash must be one",
                "access.password_hash must be one.",
            ),
            (
                "cloud_init cannot be honoured: why",
                "cloud_init cannot be honoured: why.",
            ),
            ("\"lab/a\" is gone", "\"lab/a\" is gone."),
            ("import it:\n\nimport {\n}\n", "Import it:\n\nimport {\n}"),
        ] {
            assert_eq!(sentence(text), told);
        }
    }

    #[test]
    fn only_errors_fail() {
        let mut diagnostics = Diagnostics::from(Diagnostic::warning("odd"));
        assert!(!diagnostics.has_errors());
        diagnostics.push(
            Diagnostic::error("bad")
                .detail("It is 7.")
                .at(Path::root().attribute("port")),
        );
        assert!(diagnostics.has_errors());
        assert_eq!(diagnostics.0[1].to_string(), "error: bad (at port): It is 7.");
        assert!(diagnostics.into_result().is_err());
    }
}
