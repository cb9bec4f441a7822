//! What `squid -v` says about the Squid that is installed.
//!
//! It must not run anything. Invariant: what the text does not say is `None`, never a guess.

/// A Squid as its `-v` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// The version, such as `5.7`.
    pub version: Option<String>,
    /// The account it changes to when it is started by root.
    pub user: Option<String>,
    /// Where its helpers are.
    pub helper_dir: Option<String>,
}

/// The oldest major version whose configuration language has all that is generated.
pub const OLDEST_MAJOR: u32 = 5;

/// Where distributions put the helpers, for a Squid that does not say.
pub const HELPER_DIRS: [&str; 5] = [
    "/usr/lib/squid",
    "/usr/lib64/squid",
    "/usr/libexec/squid",
    "/usr/local/libexec/squid",
    "/usr/local/squid/libexec",
];

/// The helper that verifies passwords.
pub const PASSWORD_HELPER: &str = "basic_ncsa_auth";

impl Release {
    /// Reads the output of `squid -v`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let option = |name: &str| {
            text.split_whitespace()
                .map(|word| word.trim_matches('\''))
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
                .map(|value| value.trim_matches(['\'', '"']).to_owned())
        };
        Self {
            version: text
                .lines()
                .find_map(|line| line.split_once("Version "))
                .and_then(|(_, rest)| rest.split_whitespace().next())
                .map(str::to_owned),
            user: option("--with-default-user"),
            helper_dir: option("--libexecdir"),
        }
    }

    /// The major version.
    #[must_use]
    pub fn major(&self) -> Option<u32> {
        self.version.as_deref()?.split(['.', '-']).next()?.parse().ok()
    }

    /// Where [`PASSWORD_HELPER`] may be, the likeliest first.
    pub fn helper_candidates(&self) -> impl Iterator<Item = String> {
        self.helper_dir
            .iter()
            .map(String::as_str)
            .chain(HELPER_DIRS)
            .map(|dir| format!("{}/{PASSWORD_HELPER}", dir.trim_end_matches('/')))
            .collect::<Vec<_>>()
            .into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_the_distributions_are_read() {
        let debian = "Squid Cache: Version 5.7\nService Name: squid\nDebian linux\n\nThis binary uses OpenSSL.\n\
            configure options:  '--build=x86_64-linux-gnu' '--libexecdir=/usr/lib/squid' '--with-default-user=proxy' \
            'CFLAGS=-g -O2 -fdebug-prefix-map=/b=. -Wall'\n";
        let fedora = "Squid Cache: Version 6.10\nService Name: squid\n\nconfigure options:  '--libexecdir=/usr/lib64/squid' \
            '--with-default-user=squid'\n";
        let built = "Squid Cache: Version 7.0.1-VCS\nService Name: squid\nconfigure options:\n";
        for (text, version, major, user, first_helper) in [
            (debian, "5.7", 5, Some("proxy"), "/usr/lib/squid/basic_ncsa_auth"),
            (
                fedora,
                "6.10",
                6,
                Some("squid"),
                "/usr/lib64/squid/basic_ncsa_auth",
            ),
            (built, "7.0.1-VCS", 7, None, "/usr/lib/squid/basic_ncsa_auth"),
        ] {
            let release = Release::parse(text);
            assert_eq!(release.version.as_deref(), Some(version));
            assert_eq!(release.major(), Some(major));
            assert_eq!(release.user.as_deref(), user);
            assert_eq!(release.helper_candidates().next().as_deref(), Some(first_helper));
        }
        for text in ["", "not squid", "Version"] {
            assert_eq!(Release::parse(text), Release::default(), "{text}");
        }
    }
}
