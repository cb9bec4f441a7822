//! Who listens where: whether a proxy's port is free, who has it, and whether it is ours by now.
//!
//! It must not start or stop anything. Invariant: only the process's own socket counts as its port
//! being open; that something answers there proves nothing.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::io::Errno;

use super::classify;
use super::place::Place;
use super::procfs::{self, Listener};
use crate::contract::Error;

/// Makes sure that every address can be listened on, by doing it for a moment.
pub(super) fn ensure_free(listen: &[IpAddr], port: u16, state_dir: &Path) -> Result<(), Error> {
    for address in listen {
        if let Err(error) = TcpListener::bind(SocketAddr::new(*address, port)) {
            return Err(taken(error, *address, port, state_dir));
        }
    }
    Ok(())
}

fn taken(error: io::Error, address: IpAddr, port: u16, state_dir: &Path) -> Error {
    let message = match Errno::from_io_error(&error) {
        Some(Errno::ADDRINUSE) => {
            let holder = holder(address, port, state_dir);
            format!(
                "the port {port} on {address} is taken by {holder}: choose another `port`, or stop what listens there"
            )
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            format!("the port {port} on {address} may be opened by root alone: choose a `port` from 1024 on")
        }
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT) => {
            format!("{address} is no address of this machine: correct `listen` of the backend")
        }
        _ => format!("cannot listen on port {port} of {address}"),
    };
    Error::new(classify::kind(&error), message).caused_by(error)
}

/// Who listens there, in words; as far as the process table tells.
fn holder(address: IpAddr, port: u16, state_dir: &Path) -> String {
    let conflicting: Vec<u64> = procfs::listeners()
        .unwrap_or_default()
        .iter()
        .filter(|listener| {
            let theirs = listener.address.ip().to_canonical();
            listener.address.port() == port && (theirs == address || theirs.is_unspecified())
        })
        .map(|listener| listener.inode)
        .collect();
    let owner = procfs::processes().unwrap_or_default().into_iter().find(|stat| {
        procfs::sockets(stat.pid)
            .is_ok_and(|sockets| sockets.iter().any(|socket| conflicting.contains(socket)))
    });
    match owner {
        Some(owner) => match own_proxy(&procfs::arguments(owner.pid), state_dir) {
            Some(place) => format!(
                "the proxy \"{}\" of this backend (process {})",
                place.id(),
                owner.pid
            ),
            None => {
                let name = procfs::name(owner.pid).unwrap_or_default();
                format!("process {} ({name})", owner.pid)
            }
        },
        None => "another process".to_owned(),
    }
}

/// The proxy whose configuration is among these arguments.
fn own_proxy(arguments: &[Vec<u8>], state_dir: &Path) -> Option<Place> {
    arguments
        .windows(2)
        .filter(|pair| pair[0] == b"-f")
        .find_map(|pair| {
            let conf = Path::new(std::ffi::OsStr::from_bytes(&pair[1]));
            let id = conf.parent()?.strip_prefix(state_dir).ok()?.to_str()?;
            let place = Place::parse(state_dir, &id.parse().ok()?)?;
            (place.conf() == conf).then_some(place)
        })
}

/// Whether a process has opened its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// All of them.
    All,
    /// Not this one.
    NotYet(SocketAddr),
    /// Somebody else has this one.
    Theirs(SocketAddr),
}

/// Whether process `pid` listens on every address.
pub(super) fn opened_by(pid: u32, listen: &[IpAddr], port: u16) -> io::Result<Opened> {
    // Where a process's descriptors may not be looked at (a container's root without the right to
    // trace), a socket that listens is taken for its own: the port was free before it was started.
    let own = procfs::sockets(pid).ok();
    Ok(judge(&procfs::listeners()?, own.as_deref(), listen, port))
}

fn judge(listeners: &[Listener], own: Option<&[u64]>, listen: &[IpAddr], port: u16) -> Opened {
    for address in listen {
        let wanted = SocketAddr::new(*address, port);
        let mut there = listeners
            .iter()
            .filter(|listener| listener.address == wanted)
            .peekable();
        if there.peek().is_none() {
            return Opened::NotYet(wanted);
        }
        if let Some(own) = own
            && !there.any(|listener| own.contains(&listener.inode))
        {
            return Opened::Theirs(wanted);
        }
    }
    Opened::All
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ErrorKind;

    #[test]
    fn a_taken_port_is_named_with_its_holder_and_the_way_out() {
        let socket = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = socket.local_addr().expect("bound").port();
        let error = ensure_free(&["127.0.0.1".parse().expect("an address")], port, Path::new("/s"))
            .expect_err("it is taken");
        assert_eq!(error.kind(), ErrorKind::Permanent);
        let text = error.to_string();
        for part in [
            &port.to_string(),
            "127.0.0.1",
            &std::process::id().to_string(),
            "`port`",
        ] {
            assert!(text.contains(part), "{text} names {part}");
        }
    }

    #[test]
    fn an_address_that_is_not_this_machines_is_named() {
        // TEST-NET-3 is nobody's.
        let error = ensure_free(
            &["203.0.113.9".parse().expect("an address")],
            40_000,
            Path::new("/s"),
        )
        .expect_err("no address of this machine");
        assert_eq!(error.kind(), ErrorKind::Permanent);
        assert!(error.to_string().contains("203.0.113.9") && error.to_string().contains("`listen`"));
    }

    #[test]
    fn another_proxy_is_named_by_its_id() {
        let arguments = |conf: &str| ["squid", "-N", "-f", conf].map(|word| word.as_bytes().to_vec());
        for (conf, id) in [
            ("/s/default/a/squid.conf", Some("default/a")),
            ("/s/default/a/other.conf", None),
            ("/t/default/a/squid.conf", None),
            ("/etc/squid/squid.conf", None),
        ] {
            let place = own_proxy(&arguments(conf), Path::new("/s"));
            assert_eq!(place.map(|place| place.id().to_string()).as_deref(), id, "{conf}");
        }
    }

    #[test]
    fn only_the_own_socket_counts() {
        let listener = |address: &str, inode| Listener {
            address: address.parse().expect("an address"),
            inode,
        };
        let here = [
            "127.0.0.1".parse().expect("an address"),
            "::1".parse().expect("an address"),
        ];
        let (v4, v6) = (listener("127.0.0.1:9", 1), listener("[::1]:9", 2));
        let own: &[u64] = &[1, 2, 7];
        assert_eq!(judge(&[v4, v6], Some(own), &here, 9), Opened::All);
        assert_eq!(judge(&[v4, v6], None, &here, 9), Opened::All);
        assert_eq!(judge(&[v4], Some(own), &here, 9), Opened::NotYet(v6.address));
        assert_eq!(judge(&[v4, v6], Some(&[2]), &here, 9), Opened::Theirs(v4.address));
        assert_eq!(
            judge(&[v4, v6], Some(own), &here, 8),
            Opened::NotYet("127.0.0.1:8".parse().expect("an address"))
        );
    }
}
