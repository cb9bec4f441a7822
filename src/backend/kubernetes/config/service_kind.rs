//! Which Service a proxy gets.
//!
//! It must not know how one is made. Invariant: a kind and its word are the same thing.

use std::str::FromStr;

/// Which Service a proxy gets beside its Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::backend::kubernetes) enum ServiceKind {
    /// None: its address is the Pod's.
    #[default]
    None,
    /// An address within the cluster.
    ClusterIp,
    /// A port on every node.
    NodePort,
    /// A load balancer of the cluster's provider.
    LoadBalancer,
}

impl ServiceKind {
    const ALL: [Self; 4] = [Self::None, Self::ClusterIp, Self::NodePort, Self::LoadBalancer];

    /// The word of the configuration, which is the API's own but for that of none.
    pub(in crate::backend::kubernetes) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

impl FromStr for ServiceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.as_str() == text).ok_or_else(|| {
            format!("{text:?} is none of \"none\", \"ClusterIP\", \"NodePort\" and \"LoadBalancer\"")
        })
    }
}
