//! Proxies on a host that runs libvirt, through the real CLIs: guests that boot, reached through a real sshd.
//!
//! Their image is one built on the spot. An emulated CPU takes minutes for a boot, so that each test asks
//! all it can of one guest, and one guest runs at a time.

/// Makes one test of each function named, on one CLI.
macro_rules! on_a_host {
    ($release:ident $tool:literal $version:literal: $($test:ident),+) => {
        mod $release {
            $(
                #[test]
                #[ignore = "needs a libvirt host, the guest image and the CLIs"]
                fn $test() {
                    super::$test(&crate::release::cli($tool, $version));
                }
            )+
        }
    };
}

mod lifecycle;
mod rig;
