//! The decoders over the fuzzers' corpus: what `make fuzz` starts from holds in every test run.
//!
//! Knows nothing of what must hold: that is the fuzzers' own library, taken in as it is.

use std::fs;
use std::path::Path;

#[expect(unreachable_pub, reason = "it is a library elsewhere, and public there")]
#[path = "fuzz/src/lib.rs"]
mod checks;

fn over(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("every target has a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        let bytes = fs::read(&file).expect("readable");
        let held = std::panic::catch_unwind(|| check(&bytes)).is_ok();
        assert!(held, "{} breaks the decoder", file.display());
    }
}

macro_rules! targets {
    ($($target:ident),*) => {
        $(#[test]
        fn $target() {
            over(stringify!($target), checks::$target);
        })*

        #[test]
        fn every_target_of_the_fuzzers_is_here() {
            let manifest = include_str!("fuzz/Cargo.toml");
            let listed = manifest.lines().filter_map(|line| line.strip_prefix("path = \"targets/")?.strip_suffix(".rs\""));
            assert_eq!(listed.collect::<Vec<_>>(), [$(stringify!($target)),*]);
        }
    };
}

targets!(
    msgpack,
    refinements,
    json,
    state,
    number,
    type_json,
    libvirt_packet,
    libvirt_xdr,
    libvirt_document,
    known_hosts
);
