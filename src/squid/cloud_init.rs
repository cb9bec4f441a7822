//! What a user's own cloud-init document must begin with to be honoured.
//!
//! It must not know how a document reaches an instance, nor keep any of its text: a document may hold
//! secrets, so a warning never quotes it. Invariant: a document that cloud-init reads as it is gets no
//! warning.

/// What cloud-init recognises at the very beginning of user-data, by the name of its handler.
const HEADS: [&str; 9] = [
    "#cloud-config",
    "#!",
    "## template: jinja",
    "#cloud-boothook",
    "#include",
    "#part-handler",
    "#cloud-config-archive",
    "Content-Type:",
    "MIME-Version:",
];

/// What is wrong with the head of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// There is no text.
    Empty,
    /// A byte order mark comes first.
    ByteOrderMark,
    /// A blank line, or blanks, come before what would be recognised.
    LeadingBlank,
    /// None of the heads.
    Unknown,
}

impl Head {
    /// The warning for the plan.
    #[must_use]
    pub fn warning(self) -> String {
        let what = match self {
            Self::Empty => "is empty".to_owned(),
            Self::ByteOrderMark => {
                "begins with a byte order mark, so cloud-init does not recognise its first line; save it without one"
                    .to_owned()
            }
            Self::LeadingBlank => {
                "begins with a blank, so cloud-init does not recognise its first line; use <<-EOT or trimspace()"
                    .to_owned()
            }
            Self::Unknown => format!(
                "begins with none of the first lines that cloud-init recognises, so it would be ignored: {}",
                HEADS.join(", ")
            ),
        };
        format!("the cloud-init document {what}")
    }
}

/// Looks at the head of a document: `None` where cloud-init recognises it.
#[must_use]
pub fn head(document: &str) -> Option<Head> {
    if document.is_empty() {
        return Some(Head::Empty);
    }
    if let Some(rest) = document.strip_prefix('\u{feff}') {
        return Some(if rest.is_empty() {
            Head::Empty
        } else {
            Head::ByteOrderMark
        });
    }
    if recognised(document) {
        return None;
    }
    let trimmed = document.trim_start();
    Some(if trimmed.is_empty() {
        Head::Empty
    } else if recognised(trimmed) {
        Head::LeadingBlank
    } else {
        Head::Unknown
    })
}

/// cloud-init compares beginnings in lower case, as this does.
fn recognised(text: &str) -> bool {
    HEADS.iter().any(|head| {
        text.get(..head.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(head))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_cloud_init_recognises_pass() {
        for good in [
            "#cloud-config\nusers: []",
            "#cloud-config",
            "#!/bin/sh\ntrue",
            "## template: jinja\n#cloud-config\n",
            "#cloud-boothook\n",
            "#include\nhttps://example.com/a",
            "#include-once\n",
            "#part-handler\n",
            "#cloud-config-archive\n- a",
            "Content-Type: multipart/mixed; boundary=x\n",
            "MIME-Version: 1.0\nContent-Type: multipart/mixed\n",
        ] {
            assert_eq!(head(good), None, "{good}");
        }
    }

    #[test]
    fn heads_that_it_drops_are_warned_about_without_quoting() {
        for (bad, what) in [
            ("", Head::Empty),
            (" \n", Head::Empty),
            ("\u{feff}", Head::Empty),
            ("\u{feff}#cloud-config\nsecret: 1", Head::ByteOrderMark),
            ("\n#cloud-config\nsecret: 1", Head::LeadingBlank),
            ("  #cloud-config\nsecret: 1", Head::LeadingBlank),
            ("users:\n- secret", Head::Unknown),
            ("# cloud-config\nsecret: 1", Head::Unknown),
            ("é", Head::Unknown),
        ] {
            assert_eq!(head(bad), Some(what), "{bad:?}");
            let warning = what.warning();
            assert!(
                warning.starts_with("the cloud-init document ") && !warning.contains("secret"),
                "{warning}"
            );
        }
        assert!(Head::Unknown.warning().contains("#cloud-config"));
    }
}
