//! Which CLI releases there are, where each comes from, and what it can do.
//!
//! Knows nothing of what is tested with them. Invariant: a [`Cli`] that exists can be run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// One release of one of the CLIs.
#[derive(Clone, Debug)]
pub(crate) struct Cli {
    pub(crate) path: PathBuf,
    pub(crate) version: (u32, u32),
}

impl Cli {
    /// Whether write-only attributes reach a provider.
    pub(crate) fn has_write_only(&self) -> bool {
        self.version >= (1, 11)
    }

    /// The CLI that `TERRAFORM_EXTRA` names: a release that the scripts cannot get.
    pub(crate) fn extra() -> Self {
        let path = std::env::var_os("TERRAFORM_EXTRA").expect("TERRAFORM_EXTRA names a terraform or tofu");
        let output = Command::new(&path)
            .arg("version")
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_CLI_CONFIG_FILE", "/dev/null")
            .output()
            .expect("TERRAFORM_EXTRA can be run");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let line = text.lines().next().unwrap_or_default();
        let version = line
            .rsplit_once('v')
            .expect("a version line ends with the version")
            .1;
        Self {
            path: path.into(),
            version: major_minor(version),
        }
    }
}

fn major_minor(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().expect("a number"));
    (
        parts.next().expect("a major number"),
        parts.next().expect("a minor number"),
    )
}

/// A release by its tool and version; fetched or built when it is not there yet.
pub(crate) fn cli(tool: &str, version: &str) -> Cli {
    static FOUND: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let path = found.entry(format!("{tool} {version}")).or_insert_with(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("scripts/tools")
            .join(tool);
        let output = Command::new(&script)
            .arg(version)
            .output()
            .expect("bash runs the script");
        assert!(
            output.status.success(),
            "{} {version} failed:\n{}",
            script.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8").trim().into()
    });
    Cli {
        path: path.clone(),
        version: major_minor(version),
    }
}

/// Makes one test for each release of each function named: `on!(every: quick_pass)`.
///
/// `every` is every release the README claims, `long` the oldest and newest of both tools and the
/// first with write-only attributes, `identity` the first and newest with resource identity,
/// `for_each` one of each tool that imports with `for_each`, `query` every one with lists and actions.
macro_rules! on {
    (every: $($test:ident),+) => {
        on!(@ terraform_1_8_4 "terraform" "1.8.4" $($test)+);
        on!(@ terraform_1_9_8 "terraform" "1.9.8" $($test)+);
        on!(@ terraform_1_10_5 "terraform" "1.10.5" $($test)+);
        on!(@ terraform_1_11_4 "terraform" "1.11.4" $($test)+);
        on!(@ terraform_1_12_2 "terraform" "1.12.2" $($test)+);
        on!(@ terraform_1_13_5 "terraform" "1.13.5" $($test)+);
        on!(@ terraform_1_14_9 "terraform" "1.14.9" $($test)+);
        on!(@ terraform_1_15_5 "terraform" "1.15.5" $($test)+);
        on!(@ tofu_1_8_11 "tofu" "1.8.11" $($test)+);
        on!(@ tofu_1_12_6 "tofu" "1.12.6" $($test)+);
        mod extra {
            $(
                #[test]
                #[ignore = "needs TERRAFORM_EXTRA and squid"]
                fn $test() {
                    super::$test(&crate::release::Cli::extra());
                }
            )+
        }
    };
    (long: $($test:ident),+) => {
        on!(@ terraform_1_8_4 "terraform" "1.8.4" $($test)+);
        on!(@ terraform_1_11_4 "terraform" "1.11.4" $($test)+);
        on!(@ terraform_1_15_5 "terraform" "1.15.5" $($test)+);
        on!(@ tofu_1_8_11 "tofu" "1.8.11" $($test)+);
        on!(@ tofu_1_12_6 "tofu" "1.12.6" $($test)+);
    };
    (for_each: $($test:ident),+) => {
        on!(@ terraform_1_11_4 "terraform" "1.11.4" $($test)+);
        on!(@ tofu_1_12_6 "tofu" "1.12.6" $($test)+);
    };
    (query: $($test:ident),+) => {
        on!(@ terraform_1_14_9 "terraform" "1.14.9" $($test)+);
        on!(@ terraform_1_15_5 "terraform" "1.15.5" $($test)+);
    };
    (identity: $($test:ident),+) => {
        on!(@ terraform_1_12_2 "terraform" "1.12.2" $($test)+);
        on!(newest: $($test),+);
    };
    (newest: $($test:ident),+) => {
        on!(@ terraform_1_15_5 "terraform" "1.15.5" $($test)+);
        on!(@ tofu_1_12_6 "tofu" "1.12.6" $($test)+);
    };
    (@ $release:ident $tool:literal $version:literal $($test:ident)+) => {
        mod $release {
            $(
                #[test]
                #[ignore = "needs the CLIs and squid"]
                fn $test() {
                    super::$test(&crate::release::cli($tool, $version));
                }
            )+
        }
    };
}
