//! What `/proc` says: the only file that reads it.
//!
//! It must not know what the processes are for. Invariants: a process that ended while it was looked
//! at is absent, not an error; a zombie is told apart from a process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// A line of `/proc/PID/stat`, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// The process.
    pub(super) pid: u32,
    /// One letter; see proc_pid_stat(5).
    pub(super) state: char,
    /// Its process group.
    pub(super) group: u32,
    /// When it started, in clock ticks after the boot.
    pub(super) start_time: u64,
}

impl Stat {
    /// Whether it ended and waits for its parent to notice.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether a signal paused it.
    pub(super) fn is_paused(&self) -> bool {
        self.state == 'T'
    }
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses, which may itself hold anything.
    let (pid, rest) = text.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    Some(Stat {
        pid: pid.parse().ok()?,
        state: fields.next()?.chars().next()?,
        // After the state come the parent and the group; the start is field 22 of all.
        group: fields.nth(1)?.parse().ok()?,
        start_time: fields.nth(16)?.parse().ok()?,
    })
}

/// The process of that number.
pub(super) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Every process.
///
/// # Errors
/// When the process table cannot be read at all.
pub(super) fn processes() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            found.extend(stat(pid));
        }
    }
    Ok(found)
}

/// The arguments of a process; none for a zombie.
pub(super) fn arguments(pid: u32) -> Vec<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .map(|text| parse_arguments(&text))
        .unwrap_or_default()
}

fn parse_arguments(text: &[u8]) -> Vec<Vec<u8>> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// The program's name, for a person.
pub(super) fn name(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(text.trim_end().to_owned())
}

/// What tells this boot from every other.
///
/// # Errors
/// When the kernel does not say.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// What tells this machine from every other: its machine-id, else its name.
pub(super) fn machine_id() -> String {
    ["/etc/machine-id", "/var/lib/dbus/machine-id"]
        .into_iter()
        .find_map(|path| {
            let id = std::fs::read_to_string(path).ok()?.trim().to_owned();
            // systemd writes "uninitialized" into images.
            let sound = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            sound.then_some(id)
        })
        .or_else(|| host_name().map(|name| format!("host-{name}")))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The machine's name.
pub(super) fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// Where.
    pub(super) address: SocketAddr,
    /// The number by which a process's descriptors name it.
    pub(super) inode: u64,
}

/// Every TCP socket that listens.
///
/// # Errors
/// When the kernel does not say; a machine without IPv6 has no second table.
pub(super) fn listeners() -> io::Result<Vec<Listener>> {
    let mut found = parse_listeners(&std::fs::read_to_string("/proc/net/tcp")?);
    match std::fs::read_to_string("/proc/net/tcp6") {
        Ok(text) => found.extend(parse_listeners(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

fn parse_listeners(table: &str) -> Vec<Listener> {
    const LISTEN: &str = "0A";
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            let (address, port) = fields.get(1)?.split_once(':')?;
            (*fields.get(3)? == LISTEN).then_some(())?;
            Some(Listener {
                address: SocketAddr::new(parse_address(address)?, u16::from_str_radix(port, 16).ok()?),
                inode: fields.get(9)?.parse().ok()?,
            })
        })
        .collect()
}

/// The kernel prints addresses as words of 32 bits in the machine's own byte order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// The inodes of a process's sockets.
///
/// # Errors
/// When its descriptors may not be looked at, or it ended.
pub(super) fn sockets(pid: u32) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        // A descriptor may be closed between the listing and this look.
        if let Ok(link) = std::fs::read_link(entry?.path()) {
            found.extend(parse_socket(&link));
        }
    }
    Ok(found)
}

fn parse_socket(link: &Path) -> Option<u64> {
    link.to_str()?
        .strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read_whatever_the_program_is_called() {
        let tail = "S 1 412 412 0 -1 4194560 3250 0 0 0 5 3 0 0 20 0 1 0 99887 103911424 24390 0 0";
        let sound = Stat {
            pid: 412,
            state: 'S',
            group: 412,
            start_time: 99_887,
        };
        for name in ["squid", "a b", "a) b", ") S 1 2 (", "", "\n"] {
            assert_eq!(
                parse_stat(&format!("412 ({name}) {tail}")),
                Some(sound),
                "{name:?}"
            );
        }
        for bad in [
            "",
            "412",
            "412 (squid",
            "412 (squid) S",
            "412 (squid) S 1 2 3",
            "x (squid) S",
        ] {
            assert_eq!(parse_stat(bad), None, "{bad:?}");
        }
        for (state, dead, paused) in [
            ('R', false, false),
            ('S', false, false),
            ('D', false, false),
            ('T', false, true),
            ('t', false, false),
            ('Z', true, false),
            ('X', true, false),
        ] {
            let stat = Stat { state, ..sound };
            assert_eq!((stat.is_dead(), stat.is_paused()), (dead, paused), "{state}");
        }
    }

    #[test]
    fn this_process_is_found() {
        let own = stat(std::process::id()).expect("it runs");
        assert!(!own.is_dead());
        // Between the two looks its main thread may have gone to sleep.
        let same = |other: &Stat| (other.pid, other.start_time) == (own.pid, own.start_time);
        assert!(processes().expect("a table").iter().any(same));
        assert!(!arguments(own.pid).is_empty());
        assert!(boot_id().expect("a boot").len() >= 32);
        assert_eq!(stat(u32::MAX), None);
    }

    #[test]
    fn arguments_are_split_at_zeros() {
        for (text, arguments) in [
            (&b""[..], &[][..]),
            (b"squid\0-N\0-f\0/a b\0", &["squid", "-N", "-f", "/a b"]),
            (b"squid\0\0x\0", &["squid", "", "x"]),
            (b"title", &["title"]),
        ] {
            let expected: Vec<_> = arguments.iter().map(|text| text.as_bytes().to_vec()).collect();
            assert_eq!(parse_arguments(text), expected);
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn listening_sockets_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             \x20  0: 0100007F:98D8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 66833 1 0000 100 0 0 10 0\n\
             \x20  1: 020200C0:AB52 507100CB:01BB 01 00000000:00000000 00:00000000 00000000     0        0 61076 1 0000 20 4 1 56 146\n\
             \x20  2: 00000000000000000000000001000000:0C38 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 13 0 77 1 0 100 0 0 10 0\n\
             garbage\n";
        let expected = [("127.0.0.1:39128", 66_833), ("[::1]:3128", 77)].map(|(address, inode)| Listener {
            address: address.parse().expect("an address"),
            inode,
        });
        assert_eq!(parse_listeners(table), expected);
        assert_eq!(parse_listeners(""), []);
    }

    #[test]
    fn a_listening_socket_is_found_with_its_process() {
        let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = socket.local_addr().expect("bound");
        let listener = listeners()
            .expect("a table")
            .into_iter()
            .find(|listener| listener.address == address)
            .expect("it listens");
        assert!(
            sockets(std::process::id())
                .expect("its own")
                .contains(&listener.inode)
        );
        for (link, inode) in [
            ("socket:[5]", Some(5)),
            ("pipe:[5]", None),
            ("/dev/null", None),
            ("socket:[x]", None),
        ] {
            assert_eq!(parse_socket(Path::new(link)), inode, "{link}");
        }
    }
}
