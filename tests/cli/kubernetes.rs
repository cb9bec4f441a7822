//! Proxies on a real Kubernetes node, through the real CLIs, under exactly the Role of `examples/kubernetes`.
//!
//! The image is one built on the spot: nothing is pulled.

/// Makes one test of each function named: on the newest release of Terraform, and of OpenTofu for `both`.
macro_rules! on_a_node {
    (both: $($both:ident),+; one: $($one:ident),+) => {
        on_a_node!(@ terraform_1_15_5 "terraform" "1.15.5" $($both)+ $($one)+);
        on_a_node!(@ tofu_1_12_6 "tofu" "1.12.6" $($both)+);
    };
    (one: $($test:ident),+) => {
        on_a_node!(@ terraform_1_15_5 "terraform" "1.15.5" $($test)+);
    };
    (@ $release:ident $tool:literal $version:literal $($test:ident)+) => {
        mod $release {
            $(
                #[test]
                #[ignore = "needs a Kubernetes node, kubectl and the CLIs"]
                fn $test() {
                    super::$test(&crate::release::cli($tool, $version));
                }
            )+
        }
    };
}

mod conditions;
mod lifecycle;
mod requests;
mod rig;
mod services;
mod together;
