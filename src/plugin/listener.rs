//! Where the server listens: a unix socket that only its owner can reach, or loopback TCP on Windows.
//!
//! Must not know what is spoken. Invariants: the socket is made inside a directory of mode 0700, so
//! there is no moment at which another user could connect; its path is short enough for the system;
//! and nothing of it is left when the listener is dropped.

use std::io;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::plugin::handshake::{Address, Environment};

/// A byte stream of either kind.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A listener of either kind.
pub(crate) enum Listener {
    #[cfg(unix)]
    Unix(unix::UnixSocket),
    #[cfg_attr(
        all(unix, not(test)),
        expect(dead_code, reason = "what Windows listens on; tested here all the same")
    )]
    Tcp(TcpListener),
}

impl Listener {
    /// Listens where the host asked for it.
    pub(crate) async fn bind(environment: &Environment) -> io::Result<Self> {
        #[cfg(unix)]
        return unix::UnixSocket::bind(environment).map(Self::Unix);
        #[cfg(not(unix))]
        return bind_tcp(environment.ports.clone()).await.map(Self::Tcp);
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => Ok(Address {
                network: "unix",
                address: socket.path().to_owned(),
            }),
            Self::Tcp(listener) => Ok(Address {
                network: "tcp",
                address: listener.local_addr()?.to_string(),
            }),
        }
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<Box<dyn Io>> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => Ok(Box::new(socket.accept().await?)),
            Self::Tcp(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

/// Listens on the first free loopback port of a range; `0..=0` lets the system choose.
#[cfg_attr(
    all(unix, not(test)),
    expect(dead_code, reason = "what Windows listens on; tested here all the same")
)]
async fn bind_tcp(ports: RangeInclusive<u16>) -> io::Result<TcpListener> {
    let range = format!("{} to {}", ports.start(), ports.end());
    for port in ports {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("no port from {range} is free"),
    ))
}

#[cfg(unix)]
mod unix {
    //! The unix socket and its directory.

    use std::fs::{self, DirBuilder, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
    use std::path::{Path, PathBuf};

    use tokio::net::{UnixListener, UnixStream};

    use super::Environment;

    /// What a socket's path may have everywhere: Linux has room for 107 bytes, macOS and the BSDs for 103.
    const MAX_PATH: usize = 100;

    /// A socket in a directory of its own.
    pub(crate) struct UnixSocket {
        listener: UnixListener,
        directory: Directory,
        path: String,
    }

    impl UnixSocket {
        pub(super) fn bind(environment: &Environment) -> io::Result<Self> {
            let wanted = environment
                .socket_directory
                .as_ref()
                .map(PathBuf::from)
                .unwrap_or_else(std::env::temp_dir);
            Self::bind_in(
                &[wanted, "/tmp".into(), "/var/tmp".into()],
                environment.socket_group.as_deref(),
            )
        }

        /// Listens below the first parent that can be written to and makes a path short enough.
        fn bind_in(parents: &[PathBuf], group: Option<&str>) -> io::Result<Self> {
            let mut failure = io::Error::other("there is no directory for the socket");
            for parent in parents {
                match Self::bind_below(parent, group) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => {
                        failure = io::Error::new(error.kind(), format!("{}: {error}", parent.display()));
                    }
                }
            }
            Err(failure)
        }

        fn bind_below(parent: &Path, group: Option<&str>) -> io::Result<Self> {
            let parent = std::path::absolute(parent)?;
            let random = getrandom::u64().map_err(io::Error::other)?;
            let directory = parent.join(format!("plugin-{random:016x}"));
            let socket = directory.join("s");
            let path = socket
                .to_str()
                .filter(|path| path.len() <= MAX_PATH && !path.contains(['|', '\n']));
            let Some(path) = path.map(str::to_owned) else {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidFilename,
                    "a socket's path there would be too long",
                ));
            };
            DirBuilder::new().mode(0o700).create(&directory)?;
            let directory = Directory(directory);
            let listener = UnixListener::bind(&socket)?;
            fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
            if let Some(group) = group {
                let gid = group_id(group, &fs::read_to_string("/etc/group").unwrap_or_default())?;
                for (path, mode) in [(&socket, 0o660), (&directory.0, 0o750)] {
                    chown(path, None, Some(gid))?;
                    fs::set_permissions(path, Permissions::from_mode(mode))?;
                }
            }
            Ok(Self {
                listener,
                directory,
                path,
            })
        }

        pub(super) fn path(&self) -> &str {
            &self.path
        }

        pub(super) async fn accept(&self) -> io::Result<UnixStream> {
            Ok(self.listener.accept().await?.0)
        }
    }

    impl Drop for UnixSocket {
        fn drop(&mut self) {
            // The directory goes with its own drop, after the socket in it.
            let _ = fs::remove_file(self.directory.0.join("s"));
        }
    }

    struct Directory(PathBuf);

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir(&self.0);
        }
    }

    /// The number of a group that is given as a number or by name.
    fn group_id(group: &str, database: &str) -> io::Result<u32> {
        if let Ok(id) = group.parse() {
            return Ok(id);
        }
        let found = database.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(group))
                .then(|| fields.nth(1).and_then(|id| id.parse().ok()))
                .flatten()
        });
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group {group:?}")))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        }

        #[tokio::test]
        async fn only_the_owner_can_reach_the_socket_and_nothing_is_left_of_it() {
            let parent = tempfile::tempdir().unwrap();
            let socket = UnixSocket::bind_in(&[parent.path().to_owned()], None).unwrap();
            let path = PathBuf::from(socket.path());
            assert!(path.starts_with(parent.path()));
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
            let client = UnixStream::connect(&path).await.unwrap();
            socket.accept().await.unwrap();
            drop((client, socket));
            assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        }

        #[tokio::test]
        async fn a_long_or_unusable_directory_is_passed_over() {
            let parent = tempfile::tempdir().unwrap();
            let long = parent.path().join("x".repeat(90));
            fs::create_dir(&long).unwrap();
            let fallback = tempfile::tempdir_in("/tmp").unwrap();
            let parents = [
                long.clone(),
                parent.path().join("absent"),
                fallback.path().to_owned(),
            ];
            let socket = UnixSocket::bind_in(&parents, None).unwrap();
            assert!(Path::new(socket.path()).starts_with(fallback.path()));
            let error = UnixSocket::bind_in(&[long], None).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("too long"), "{error}");
        }

        #[tokio::test]
        async fn a_group_is_let_in_where_the_host_asks_for_it() {
            let parent = tempfile::tempdir().unwrap();
            let own = std::os::unix::fs::MetadataExt::gid(&fs::metadata(parent.path()).unwrap());
            let socket = UnixSocket::bind_in(&[parent.path().to_owned()], Some(&own.to_string())).unwrap();
            let path = PathBuf::from(socket.path());
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o660, 0o750));
        }

        #[test]
        fn a_group_is_found_by_number_or_name() {
            let database = "root:x:0:\nwheel:x:10:a,b\n";
            assert_eq!(group_id("10", database).unwrap(), 10);
            assert_eq!(group_id("wheel", database).unwrap(), 10);
            assert!(group_id("whee", database).is_err());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tcp_takes_the_first_free_port_of_the_range() {
        let taken = bind_tcp(0..=0).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind_tcp(port..=port).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("no port from {port} to {port} is free")),
            "{error}"
        );
        let next = bind_tcp(port..=u16::MAX).await.unwrap();
        assert!(next.local_addr().unwrap().port() > port);
        let listener = Listener::Tcp(next);
        let address = listener.address().unwrap();
        assert_eq!(address.network, "tcp");
        assert!(address.address.starts_with("127.0.0.1:"));
        let client = tokio::net::TcpStream::connect(address.address).await.unwrap();
        listener.accept().await.unwrap();
        drop(client);
    }
}
