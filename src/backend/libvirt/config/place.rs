//! Where in a libvirt backend's block something is, and what is wrong there.
//!
//! It must not know what the arguments mean. Invariant: a problem names the argument it is about, down to
//! the label of its block.

use std::fmt;

/// One step down into the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To an argument, or to the blocks of a name.
    Argument(&'static str),
    /// To the block with that label.
    Label(String),
}

/// A place in the block: `host["beelink"].address`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(Vec<Step>);

impl Place {
    /// The block itself.
    #[must_use]
    pub fn root() -> Self {
        Self(Vec::new())
    }

    /// An argument there, or the blocks of that name.
    #[must_use]
    pub fn argument(&self, name: &'static str) -> Self {
        self.down(Step::Argument(name))
    }

    /// The block with that label there.
    #[must_use]
    pub fn label(&self, label: &str) -> Self {
        self.down(Step::Label(label.to_owned()))
    }

    fn down(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The steps that lead there.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.0.iter()
    }

    /// A problem there.
    pub(super) fn problem(&self, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem {
            place: self.clone(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Argument(name) if index == 0 => f.write_str(name)?,
                Step::Argument(name) => write!(f, ".{name}")?,
                Step::Label(label) => write!(f, "[{label:?}]")?,
            }
        }
        Ok(())
    }
}

/// Something in the block that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ConfigProblem {
    /// Where.
    pub place: Place,
    /// What is wrong, with the value and the way out.
    pub message: String,
}
