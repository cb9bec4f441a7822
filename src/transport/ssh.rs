//! SSH to a host, directly or through one other, and from there to its sockets and ports.
//!
//! It must not know what is behind those, and it never reads `~/.ssh/config`: what it does follows
//! from the [`Route`] alone. Invariant: no byte of a login leaves before the host key was judged, and
//! every failure names its stage, its host and a way out.

pub mod agent;
pub mod dial;
pub mod error;
pub mod host_key;
pub mod key;
pub mod login;
pub mod session;

pub use dial::{Hop, Identity, Patience, Route, dial};
pub use error::{Cause, ChannelError, DialError, Stage};
pub use host_key::{HostKeyError, HostKeys};
pub use session::{Session, Stream};
