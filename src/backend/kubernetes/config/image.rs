//! The image of a proxy's container, and when it is pulled.
//!
//! It must not know registries. Invariant: what is taken is a reference that a container runtime could resolve.

use std::str::FromStr;

/// The image of a proxy's container where the configuration names none: Squid 6.6 on Ubuntu 24.04.
pub const DEFAULT_IMAGE: &str = "docker.io/ubuntu/squid:6.6-24.04_edge";

/// A reference that a container runtime could resolve: no spaces, no scheme.
pub(in crate::backend::kubernetes) fn check_image(image: &str) -> Result<(), String> {
    if image.is_empty() {
        return Err("it is empty: name an image, or leave it out".to_owned());
    }
    if image.contains("://") {
        return Err(format!(
            "{image:?} has a scheme: write only registry, name and tag"
        ));
    }
    if image.len() > 1024 || !image.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{image:?} is no image reference, such as registry/squid:6"
        ));
    }
    Ok(())
}

/// When a container's image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend::kubernetes) enum ImagePullPolicy {
    /// At every start.
    Always,
    /// Where the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl ImagePullPolicy {
    /// The API's own word.
    pub(in crate::backend::kubernetes) fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

impl FromStr for ImagePullPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = [Self::Always, Self::IfNotPresent, Self::Never].into_iter();
        all.find(|policy| policy.as_str() == text)
            .ok_or_else(|| format!("{text:?} is none of \"Always\", \"IfNotPresent\" and \"Never\""))
    }
}
