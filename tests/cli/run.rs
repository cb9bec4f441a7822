//! One finished run of a CLI: what it said, how it ended, and assertions on both.
//!
//! Knows nothing of proxies. A failed assertion shows the command and everything it printed.

use std::fmt::Write as _;

use serde_json::Value;

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) command: String,
    /// `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// It ended well.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        self.ends_with(0)
    }

    /// It ended with this code.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "unexpected exit code\n{}",
            self.transcript()
        );
        self
    }

    /// It failed, and the diagnostics say all of these.
    #[track_caller]
    pub(crate) fn fails_saying(self, texts: &[&str]) -> Self {
        self.ends_with(1).says(texts)
    }

    /// The output holds all of these, wherever the CLI broke its lines.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        let said = self.flowed();
        for text in texts {
            assert!(
                said.contains(text),
                "nothing says {text:?}\n{}",
                self.transcript()
            );
        }
        self
    }

    /// The output holds none of these.
    #[track_caller]
    pub(crate) fn never_says(self, texts: &[&str]) -> Self {
        let said = self.flowed();
        for text in texts {
            assert!(
                !said.contains(text),
                "something says {text:?}\n{}",
                self.transcript()
            );
        }
        self
    }

    /// stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{}", self.transcript()))
    }

    /// Both streams with the frame of diagnostics and the line breaks undone.
    pub(crate) fn flowed(&self) -> String {
        let text = format!("{}\n{}", self.stdout, self.stderr);
        let words = text.split(|c: char| c.is_whitespace() || matches!(c, '│' | '╷' | '╵'));
        words
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub(crate) fn transcript(&self) -> String {
        let mut text = format!("$ {}\n", self.command);
        let _ = writeln!(text, "exit code {:?}", self.code);
        let _ = writeln!(text, "--- stdout\n{}", self.stdout);
        let _ = writeln!(text, "--- stderr\n{}", self.stderr);
        text
    }
}
