//! The SSH agent: a process that holds keys and signs with them.
//!
//! It must not know hosts. Invariant: no agent, an agent without keys and an agent that refuses to
//! sign are three different answers.

use std::io;
use std::path::{Path, PathBuf};

use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use tokio::net::UnixStream;

/// An agent and the keys it offers.
pub struct Agent {
    pub(super) client: AgentClient<UnixStream>,
    pub(super) identities: Vec<AgentIdentity>,
}

/// Why no agent can be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nothing says where it is.
    #[error(
        "no SSH agent is running here: SSH_AUTH_SOCK is not set; start one, set its socket's path, or give a \
         key_file"
    )]
    NotNamed,
    /// It does not answer.
    #[error("the SSH agent at {} cannot be reached; start it, or give a key_file", .socket.display())]
    Unreachable {
        /// Its socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It answers something else.
    #[error("what answers at {} is no SSH agent", .0.display())]
    NoAgent(PathBuf),
    /// It holds nothing.
    #[error("the SSH agent at {} holds no keys; add one with ssh-add, or give a key_file", .0.display())]
    Empty(PathBuf),
}

/// Asks the agent at `socket`, or the one the environment names, for its keys.
///
/// # Errors
/// See [`AgentError`].
pub async fn ask(socket: Option<&Path>) -> Result<Agent, AgentError> {
    let socket = match socket {
        Some(socket) => socket.to_owned(),
        None => std::env::var_os("SSH_AUTH_SOCK")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
            .ok_or(AgentError::NotNamed)?,
    };
    let stream = match UnixStream::connect(&socket).await {
        Ok(stream) => stream,
        Err(source) => return Err(AgentError::Unreachable { socket, source }),
    };
    let mut client = AgentClient::connect(stream);
    match client.request_identities().await {
        Err(_answer) => Err(AgentError::NoAgent(socket)),
        Ok(identities) if identities.is_empty() => Err(AgentError::Empty(socket)),
        Ok(identities) => Ok(Agent { client, identities }),
    }
}
