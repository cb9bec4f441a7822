//! Packets: a length, a header of six words, a payload.
//!
//! It must not know what payloads mean. Invariant: a length beyond the protocol's bounds is refused
//! before anything is read for it, and memory grows with what arrives, not with what was announced.

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::xdr::{Decode, Decoder, Encode, Encoder, Malformed};

/// The most that may follow the length: libvirt's `VIR_NET_MESSAGE_MAX`.
pub const LARGEST: usize = 32 * 1024 * 1024;
/// Length and header.
pub const HEAD: usize = 28;
/// The most of a stream that one packet may carry, so that daemons of any age take it.
pub const LARGEST_CHUNK: usize = 262_120;

/// Which interface a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// libvirt's own.
    Remote,
    /// What only QEMU has.
    Qemu,
    /// Pings.
    Keepalive,
    /// Another one.
    Other(u32),
}

impl Program {
    fn number(self) -> u32 {
        match self {
            Self::Remote => 0x2000_8086,
            Self::Qemu => 0x2000_8087,
            Self::Keepalive => 0x6b65_6570,
            Self::Other(number) => number,
        }
    }

    fn from_number(number: u32) -> Self {
        match number {
            0x2000_8086 => Self::Remote,
            0x2000_8087 => Self::Qemu,
            0x6b65_6570 => Self::Keepalive,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.number())
    }
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// A call.
    Call = 0,
    /// Its reply.
    Reply = 1,
    /// Something nobody asked for.
    Message = 2,
    /// A piece of a stream, its end or its failure.
    Stream = 3,
    /// A call with file descriptors; not over this link.
    CallWithFds = 4,
    /// A reply with file descriptors; not over this link.
    ReplyWithFds = 5,
    /// A hole in a stream.
    StreamHole = 6,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Status {
    /// Well, and in a stream: its end.
    Ok = 0,
    /// The payload is an error.
    Error = 1,
    /// More of the stream follows.
    Continue = 2,
}

/// What stands before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Which interface.
    pub program: Program,
    /// Which of its procedures.
    pub procedure: i32,
    /// What it is.
    pub kind: Kind,
    /// Which call it belongs to.
    pub serial: u32,
    /// How it stands.
    pub status: Status,
}

/// The version of every program we speak.
const VERSION: u32 = 1;

impl Encode for Header {
    fn encode(&self, to: &mut Encoder) {
        to.put(&self.program.number())
            .put(&VERSION)
            .put(&self.procedure)
            .put(&(self.kind as u32))
            .put(&self.serial)
            .put(&(self.status as u32));
    }
}

impl Decode for Header {
    const LEAST: usize = 24;

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let program = Program::from_number(from.get()?);
        let version: u32 = from.get()?;
        if version != VERSION {
            return Err(Malformed::Choice {
                what: "a program's version",
                value: version,
            });
        }
        let procedure = from.get()?;
        let kind = match from.get()? {
            0 => Kind::Call,
            1 => Kind::Reply,
            2 => Kind::Message,
            3 => Kind::Stream,
            4 => Kind::CallWithFds,
            5 => Kind::ReplyWithFds,
            6 => Kind::StreamHole,
            value => {
                return Err(Malformed::Choice {
                    what: "a packet's type",
                    value,
                });
            }
        };
        let serial = from.get()?;
        let status = match from.get()? {
            0 => Status::Ok,
            1 => Status::Error,
            2 => Status::Continue,
            value => {
                return Err(Malformed::Choice {
                    what: "a packet's status",
                    value,
                });
            }
        };
        Ok(Self {
            program,
            procedure,
            kind,
            serial,
            status,
        })
    }
}

/// One packet.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    /// Its header.
    pub header: Header,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl fmt::Debug for Packet {
    /// Without the payload, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("header", &self.header)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

/// A payload over [`LARGEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {0} bytes is more than the protocol allows")]
pub struct TooLarge(pub usize);

/// The whole packet as bytes.
///
/// # Errors
/// When the payload is too large for one.
pub fn frame(header: &Header, payload: &[u8]) -> Result<Vec<u8>, TooLarge> {
    let length = HEAD + payload.len();
    let word = u32::try_from(length).map_err(|_too_large| TooLarge(length))?;
    if length > LARGEST {
        return Err(TooLarge(length));
    }
    let mut encoder = Encoder::new();
    encoder.put(&word).put(header);
    let mut bytes = encoder.finish();
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// Why no packet could be read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The peer ended the link between two packets.
    #[error("the peer closed the connection")]
    Closed,
    /// The link failed, within a packet's end included.
    #[error("the connection failed")]
    Io(#[source] io::Error),
    /// A length below the header's or over the protocol's bound.
    #[error("a packet of {0} bytes was announced")]
    Length(u32),
    /// A header that is none.
    #[error("a packet's header cannot be understood")]
    Header(#[source] Malformed),
}

/// Reads one packet.
///
/// # Errors
/// See [`Unread`]; the link is of no use after any of them.
pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Packet, Unread> {
    let mut word = [0; 4];
    // An end before the first byte is a close, an end after it a break.
    let first = from.read(&mut word).await.map_err(Unread::Io)?;
    if first == 0 {
        return Err(Unread::Closed);
    }
    from.read_exact(&mut word[first..]).await.map_err(Unread::Io)?;
    let length = u32::from_be_bytes(word);
    let rest = (length as usize)
        .checked_sub(4)
        .filter(|rest| (HEAD - 4..=LARGEST).contains(rest))
        .ok_or(Unread::Length(length))?;
    let mut bytes = Vec::new();
    let read = from
        .take(rest as u64)
        .read_to_end(&mut bytes)
        .await
        .map_err(Unread::Io)?;
    if read < rest {
        return Err(Unread::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    let header = Decoder::new(&bytes).get().map_err(Unread::Header)?;
    bytes.drain(..HEAD - 4);
    Ok(Packet {
        header,
        payload: bytes,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CALL: Header = Header {
        program: Program::Remote,
        procedure: 1,
        kind: Kind::Call,
        serial: 5,
        status: Status::Ok,
    };

    #[tokio::test]
    async fn golden_bytes_of_connect_open() {
        let mut encoder = Encoder::new();
        encoder.put(&Some("test:///default")).put(&0_u32);
        let bytes = frame(&CALL, &encoder.finish()).expect("small");
        let golden = b"\0\0\0\x38\x20\0\x80\x86\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0\
                       \0\0\0\x01\0\0\0\x0ftest:///default\0\0\0\0\0";
        assert_eq!(bytes, golden);
        let packet = read(&mut bytes.as_slice()).await.expect("reads");
        assert_eq!(packet.header, CALL);
        assert_eq!(packet.payload, golden[28..]);
    }

    #[tokio::test]
    async fn lengths_out_of_bounds_are_refused() {
        for length in [0, 3, 27, 0x0200_0005, u32::MAX] {
            let mut bytes = length.to_be_bytes().to_vec();
            bytes.extend([0; 64]);
            let error = read(&mut bytes.as_slice()).await.expect_err("refused");
            assert!(matches!(error, Unread::Length(found) if found == length));
        }
        // The largest is announced but not there: nothing of that size is held meanwhile.
        let mut bytes = 0x0200_0004_u32.to_be_bytes().to_vec();
        bytes.extend([0; 64]);
        assert!(matches!(read(&mut bytes.as_slice()).await, Err(Unread::Io(_))));
        assert_eq!(frame(&CALL, &vec![0; LARGEST]), Err(TooLarge(LARGEST + HEAD)));
    }

    #[tokio::test]
    async fn ends_are_told_apart() {
        let whole = frame(&CALL, b"1234").expect("small");
        assert!(matches!(read(&mut [].as_slice()).await, Err(Unread::Closed)));
        for end in 1..whole.len() {
            assert!(
                matches!(read(&mut &whole[..end]).await, Err(Unread::Io(_))),
                "{end}"
            );
        }
    }

    #[tokio::test]
    async fn a_header_from_elsewhere_is_refused() {
        for (word, value) in [(2, 2), (4, 7), (4, u32::MAX), (6, 3)] {
            let mut bytes = frame(&CALL, &[]).expect("small");
            bytes[word * 4..word * 4 + 4].copy_from_slice(&u32::to_be_bytes(value));
            let error = read(&mut bytes.as_slice()).await.expect_err("refused");
            assert!(
                matches!(error, Unread::Header(Malformed::Choice { value: found, .. }) if found == value)
            );
        }
    }

    #[test]
    fn a_payload_is_not_shown() {
        let packet = Packet {
            header: CALL,
            payload: b"secret".to_vec(),
        };
        assert!(!format!("{packet:?}").contains("115"));
        assert!(format!("{packet:?}").contains("payload_bytes: 6"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let _ = runtime.block_on(read(&mut bytes.as_slice()));
        }
    }
}
