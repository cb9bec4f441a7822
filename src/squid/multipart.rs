//! A cloud-init document that is made of several.
//!
//! It must not know what they say. Invariant: a part is read as what its own headers say it is.

/// Separates the parts. Whoever writes this line into a document of theirs means to break it.
const BOUNDARY: &str = "egress-proxy-part-6f1d0c5e";

/// A part of the type `text/KIND`; `name` is the file that cloud-init makes of it.
#[must_use]
pub fn part(kind: &str, name: &str, text: &str) -> String {
    format!(
        "Content-Type: text/{kind}; charset=\"utf-8\"\nContent-Transfer-Encoding: 8bit\n\
         Content-Disposition: attachment; filename=\"{name}\"\n\n{text}"
    )
}

/// The document of these parts, each with its headers.
#[must_use]
pub fn document(parts: &[String]) -> String {
    let parts: String = parts
        .iter()
        .map(|part| format!("--{BOUNDARY}\n{part}\n"))
        .collect();
    format!(
        "Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\nMIME-Version: 1.0\n\n{parts}--{BOUNDARY}--\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_between_two_lines_of_the_boundary() {
        let document = document(&[part("plain", "a", "one\n"), "X: y\n\ntwo\n".into()]);
        assert_eq!(crate::squid::cloud_init::head(&document), None);
        let (head, rest) = document.split_once("\n\n").expect("headers");
        assert!(head.contains(&format!("boundary=\"{BOUNDARY}\"")));
        let line = format!("--{BOUNDARY}");
        let parts: Vec<_> = rest.split(&line).collect();
        let [before, one, two, end] = parts.as_slice() else {
            panic!("{parts:?}");
        };
        assert_eq!((*before, *end), ("", "--\n"));
        assert!(one.starts_with("\nContent-Type: text/plain; ") && one.ends_with("\n\none\n\n"));
        assert_eq!(*two, "\nX: y\n\ntwo\n\n");
    }
}
