//! A client against a peer that the test plays, over a pipe, on the paused clock.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::future::join_all;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex};
use tokio::time::Instant;
use tracing::{Instrument as _, Subscriber};
use tracing_subscriber::layer::{self, Layer, SubscriberExt as _};

use super::super::api::LibvirtApi;
use super::super::error::Code;
use super::super::packet::{self, Header, Kind, LARGEST_CHUNK, Packet, Program, Status};
use super::super::types::{Domain, Volume};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// The other end of the pipe.
struct Peer(DuplexStream);

impl Peer {
    async fn read(&mut self) -> Packet {
        packet::read(&mut self.0).await.expect("a packet")
    }

    async fn write(&mut self, header: Header, payload: &[u8]) {
        let bytes = packet::frame(&header, payload).expect("small");
        self.0.write_all(&bytes).await.expect("written");
    }

    async fn answer(&mut self, call: &Packet, kind: Kind, status: Status, payload: &[u8]) {
        let header = Header {
            kind,
            status,
            ..call.header
        };
        self.write(header, payload).await;
    }

    async fn reply(&mut self, call: &Packet, value: &(impl Encode + Sync)) {
        self.answer(call, Kind::Reply, Status::Ok, &encoded(value)).await;
    }

    /// Replies to a call as soon as it comes.
    async fn expect(&mut self, procedure: &Procedure, value: &(impl Encode + Sync)) -> Packet {
        let call = self.read().await;
        assert_eq!(
            (call.header.program, call.header.procedure, call.header.kind),
            (procedure.program, procedure.number, Kind::Call)
        );
        self.reply(&call, value).await;
        call
    }

    async fn message(&mut self, number: i32) {
        let header = Header {
            program: Program::Keepalive,
            procedure: number,
            kind: Kind::Message,
            serial: 0,
            status: Status::Ok,
        };
        self.write(header, &[]).await;
    }

    async fn open(&mut self, keepalive: bool) {
        self.expect(&procedure::AUTH_LIST, &vec![0_i32]).await;
        let call = self.expect(&procedure::CONNECT_OPEN, &()).await;
        assert_eq!(call.payload, encoded(&(Some("test:///default"), 0_u32)));
        self.expect(&procedure::CONNECT_SUPPORTS_FEATURE, &i32::from(keepalive))
            .await;
    }
}

impl Encode for Vec<i32> {
    fn encode(&self, to: &mut Encoder) {
        to.put(self.as_slice());
    }
}

fn refusal(code: i32, message: &str) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.put(&(code, 10_i32, Some(message), 2_i32));
    encoder.put(&(None::<&str>, None::<&str>, None::<&str>, None::<&str>));
    encoder.put(&(0_i32, 0_i32, None::<&str>));
    encoder.finish()
}

/// An open client over a pipe that holds `room` bytes in each direction.
async fn opened_with(room: usize, keepalive: bool) -> (Client, Peer) {
    let (ours, theirs) = duplex(room);
    let mut peer = Peer(theirs);
    let opening = Client::open(ours, "test:///default", Settings::default());
    let (client, ()) = tokio::join!(opening, peer.open(keepalive));
    (client.expect("opens"), peer)
}

async fn opened() -> (Client, Peer) {
    opened_with(1 << 20, false).await
}

fn domain(name: &str) -> Domain {
    Domain {
        name: name.to_owned(),
        uuid: uuid::Uuid::from_bytes([3; 16]),
        id: -1,
    }
}

fn volume() -> Volume {
    Volume {
        pool: "p".into(),
        name: "v".into(),
        key: "/p/v".into(),
    }
}

fn down_of(error: Error) -> LinkDown {
    match error {
        Error::Link { down, .. } => down,
        other => panic!("the link should be down: {other:?}"),
    }
}

/// Counts the spans that ended.
struct Ended(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Ended {
    fn on_close(&self, _: tracing::span::Id, _: layer::Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_connection_outlives_the_operation_that_opened_it() {
    let ended = Arc::new(AtomicUsize::new(0));
    let seeing = tracing_subscriber::registry().with(Ended(Arc::clone(&ended)));
    let _guard = tracing::subscriber::set_default(seeing);
    let operation = tracing::info_span!("operation");
    let (client, _peer) = opened_with(1 << 20, true).instrument(operation).await;
    tokio::task::yield_now().await;
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    assert!(client.is_up());
}

#[tokio::test(start_paused = true)]
async fn polkit_is_used_when_nothing_simpler_is_offered() {
    let (ours, theirs) = duplex(1 << 16);
    let mut peer = Peer(theirs);
    let play = async {
        peer.expect(&procedure::AUTH_LIST, &vec![1_i32, 2]).await;
        peer.expect(&procedure::AUTH_POLKIT, &1_i32).await;
        peer.expect(&procedure::CONNECT_OPEN, &()).await;
        peer.expect(&procedure::CONNECT_SUPPORTS_FEATURE, &0_i32).await;
    };
    let (client, ()) = tokio::join!(Client::open(ours, "qemu:///system", Settings::default()), play);
    assert!(client.expect("opens").is_up());
}

#[tokio::test(start_paused = true)]
async fn a_way_to_authenticate_that_we_lack_is_named() {
    let (ours, theirs) = duplex(1 << 16);
    let mut peer = Peer(theirs);
    let play = async { peer.expect(&procedure::AUTH_LIST, &vec![1_i32, 7]).await };
    let (client, _) = tokio::join!(Client::open(ours, "qemu:///system", Settings::default()), play);
    let error = client.expect_err("refused");
    assert!(matches!(&error, Error::Authentication(names) if names == "SASL, method 7"));
    assert!(error.to_string().contains("auth_unix_rw"));
}

#[tokio::test(start_paused = true)]
async fn replies_find_their_callers_in_any_order() {
    let (client, mut peer) = opened().await;
    let play = async {
        let mut calls = Vec::new();
        for _ in 0..100 {
            calls.push(peer.read().await);
        }
        let mut serials: Vec<u32> = calls.iter().map(|call| call.header.serial).collect();
        serials.dedup();
        assert_eq!(serials.len(), 100);
        for call in calls.iter().rev() {
            let name: String = whole(&call.payload).expect("a name");
            peer.reply(call, &domain(&name)).await;
        }
    };
    let names: Vec<String> = (0..100).map(|number| format!("vm-{number}")).collect();
    let calling = join_all(names.iter().map(|name| client.domain(name)));
    let (found, ()) = tokio::join!(calling, play);
    let found: Vec<String> = found
        .into_iter()
        .map(|domain| domain.expect("found").name)
        .collect();
    assert_eq!(found, names);
}

#[tokio::test(start_paused = true)]
async fn what_libvirtd_says_survives() {
    let (client, mut peer) = opened().await;
    let play = async {
        let call = peer.read().await;
        let payload = refusal(42, "no domain with matching name 'x'");
        peer.answer(&call, Kind::Reply, Status::Error, &payload).await;
    };
    let (found, ()) = tokio::join!(client.domain("x"), play);
    let error = found.expect_err("refused");
    assert_eq!(error.code(), Some(Code::NO_DOMAIN));
    assert_eq!(error.to_string(), "libvirtd refused DomainLookupByName");
    let Error::Remote { error, .. } = error else {
        panic!("a refusal was expected");
    };
    assert_eq!((error.domain, error.level), (10, 2));
    assert_eq!(error.to_string(), "no domain with matching name 'x'");
    assert!(client.is_up());
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_cannot_be_understood_is_that_calls_alone() {
    let (client, mut peer) = opened().await;
    let play = async {
        for (status, payload) in [(Status::Ok, &[0xff; 8][..]), (Status::Error, &[1, 2, 3])] {
            let call = peer.read().await;
            peer.answer(&call, Kind::Reply, status, payload).await;
        }
        peer.expect(&procedure::CONNECT_GET_HOSTNAME, &"h").await;
    };
    let ask = async {
        for _ in 0..2 {
            assert!(matches!(client.hostname().await, Err(Error::Reply { .. })));
        }
        client.hostname().await
    };
    let (name, ()) = tokio::join!(ask, play);
    assert_eq!(name.expect("a name"), "h");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_disturbs_nobody() {
    let (client, mut peer) = opened().await;
    let given_up = async {
        let calling = client.domain("given up");
        tokio::select! {
            biased;
            _ = calling => panic!("nobody replied"),
            () = async { for _ in 0..20 { tokio::task::yield_now().await; } } => {}
        }
    };
    given_up.await;
    let play = async {
        let first = peer.read().await;
        let second = peer.read().await;
        assert_ne!(first.header.serial, second.header.serial);
        peer.reply(&first, &domain("given up")).await;
        peer.reply(&second, &domain("kept")).await;
    };
    let (kept, ()) = tokio::join!(client.domain("kept"), play);
    assert_eq!(kept.expect("found").name, "kept");
    assert!(client.is_up());
}

#[tokio::test(start_paused = true)]
async fn a_call_over_its_budget_leaves_the_link_up_and_its_late_reply_is_dropped() {
    let (client, mut peer) = opened().await;
    let start = Instant::now();
    let error = client.hostname().await.expect_err("no answer");
    assert!(matches!(error, Error::Overran(_)));
    assert_eq!(error.to_string(), "ConnectGetHostname did not answer within 30 s");
    assert_eq!(start.elapsed(), 30 * SECOND);
    let late = peer.read().await;
    let play = async {
        peer.reply(&late, &"late").await;
        peer.expect(&procedure::CONNECT_GET_HOSTNAME, &"new").await;
    };
    let (name, ()) = tokio::join!(client.hostname(), play);
    assert_eq!(name.expect("a name"), "new");
}

#[tokio::test(start_paused = true)]
async fn when_the_link_dies_every_waiter_is_told_and_those_after_it() {
    let (client, peer) = opened().await;
    let die = async {
        tokio::task::yield_now().await;
        drop(peer);
    };
    let mut source = io::Cursor::new(vec![1; 100]);
    let target = volume();
    let (names, uploaded, ()) = tokio::join!(
        join_all((0..20).map(|_| client.hostname())),
        client.upload(&target, 0, 0, &mut source),
        die
    );
    for name in names {
        assert!(matches!(
            down_of(name.expect_err("dead")),
            LinkDown::Closed | LinkDown::Io(_)
        ));
    }
    down_of(uploaded.expect_err("dead"));
    down_of(client.hostname().await.expect_err("still dead"));
    assert!(!client.is_up());
}

#[tokio::test(start_paused = true)]
async fn a_cut_inside_a_packet_is_a_break() {
    let (client, mut peer) = opened().await;
    let play = async {
        let call = peer.read().await;
        let header = Header {
            kind: Kind::Reply,
            ..call.header
        };
        let bytes = packet::frame(&header, &encoded(&"host")).expect("small");
        peer.0
            .write_all(&bytes[..bytes.len() - 3])
            .await
            .expect("written");
        drop(peer);
    };
    let (name, ()) = tokio::join!(client.hostname(), play);
    assert!(matches!(down_of(name.expect_err("cut")), LinkDown::Io(_)));
}

#[tokio::test(start_paused = true)]
async fn what_is_against_the_protocol_takes_the_link_down() {
    for wrong in 0..7 {
        let (client, mut peer) = opened().await;
        let play = async {
            let call = peer.read().await;
            let mut header = Header {
                kind: Kind::Reply,
                ..call.header
            };
            match wrong {
                0 => header.serial += 1,
                1 => header.procedure += 1,
                2 => header.program = Program::Qemu,
                3 => header.status = Status::Continue,
                4 => header.kind = Kind::Call,
                5 => header.kind = Kind::ReplyWithFds,
                _ => {
                    peer.0.write_all(&[0xff; 64]).await.expect("written");
                    return peer;
                }
            }
            peer.write(header, &encoded(&"host")).await;
            peer
        };
        let (name, _peer) = tokio::join!(client.hostname(), play);
        let down = down_of(name.expect_err("against the protocol"));
        assert!(matches!(down, LinkDown::Protocol(_)), "{wrong}: {down:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_and_pieces_of_streams_long_gone_are_passed_over() {
    let (client, mut peer) = opened().await;
    let play = async {
        let call = peer.read().await;
        for (kind, status) in [
            (Kind::Message, Status::Ok),
            (Kind::Stream, Status::Continue),
            (Kind::Stream, Status::Error),
            (Kind::StreamHole, Status::Continue),
        ] {
            let header = Header {
                kind,
                status,
                serial: 4711,
                ..call.header
            };
            peer.write(header, &[1, 2, 3]).await;
        }
        peer.reply(&call, &"host").await;
    };
    let (name, ()) = tokio::join!(client.hostname(), play);
    assert_eq!(name.expect("a name"), "host");
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered() {
    let (client, mut peer) = opened().await;
    peer.message(1).await;
    let pong = peer.read().await;
    assert_eq!(
        (
            pong.header.program,
            pong.header.procedure,
            pong.header.kind,
            pong.header.serial
        ),
        (Program::Keepalive, 2, Kind::Message, 0)
    );
    assert!(client.is_up());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_pings_stays_and_one_that_falls_silent_is_given_up() {
    let (client, mut peer) = opened_with(1 << 16, true).await;
    let start = Instant::now();
    let calling = client.define("<domain/>", 0);
    let play = async {
        let define = peer.read().await;
        for _ in 0..10 {
            let ping = peer.read().await;
            assert_eq!(
                (ping.header.program, ping.header.procedure),
                (Program::Keepalive, 1)
            );
            peer.message(2).await;
        }
        assert_eq!(start.elapsed(), 100 * SECOND);
        peer.reply(&define, &domain("d")).await;
    };
    let (defined, ()) = tokio::join!(calling, play);
    assert_eq!(defined.expect("defined").name, "d");
    // Three pings stay unanswered, each followed by ten seconds of silence.
    let start = Instant::now();
    let error = client.define("<domain/>", 0).await.expect_err("silent");
    assert!(matches!(down_of(error), LinkDown::Silent));
    assert_eq!(start.elapsed(), 40 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_keepalive_is_not_pinged() {
    let (client, mut peer) = opened().await;
    let error = client.define("<domain/>", 0).await.expect_err("no answer");
    assert!(matches!(error, Error::Overran(_)));
    assert_eq!(
        peer.read().await.header.procedure,
        procedure::DOMAIN_DEFINE_XML_FLAGS.number
    );
    drop(client);
    assert_eq!(peer.0.read(&mut [0; 1]).await.expect("closed"), 0);
}

#[tokio::test(start_paused = true)]
async fn close_says_goodbye() {
    let (client, mut peer) = opened().await;
    let play = async { peer.expect(&procedure::CONNECT_CLOSE, &()).await };
    tokio::join!(client.close(), play);
    assert!(matches!(
        down_of(client.hostname().await.expect_err("closed")),
        LinkDown::Shut
    ));
}

/// Gives its pieces one after the other, then the error if there is one.
struct Pieces(VecDeque<Vec<u8>>, Option<io::ErrorKind>);

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match (self.0.pop_front(), self.1) {
            (Some(mut piece), _) => {
                let rest = piece.split_off(piece.len().min(to.remaining()));
                to.put_slice(&piece);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
                Poll::Ready(Ok(()))
            }
            (None, Some(kind)) => Poll::Ready(Err(kind.into())),
            (None, None) => Poll::Ready(Ok(())),
        }
    }
}

/// Never has anything.
struct Stuck;

impl AsyncRead for Stuck {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// Reads the pieces of a stream until its end or abort.
async fn received(peer: &mut Peer, call: &Packet) -> (Vec<u8>, Status) {
    let mut bytes = Vec::new();
    loop {
        let piece = peer.read().await;
        assert_eq!(
            (piece.header.kind, piece.header.serial, piece.header.procedure),
            (Kind::Stream, call.header.serial, call.header.procedure)
        );
        if piece.header.status != Status::Continue {
            assert!(piece.payload.is_empty());
            return (bytes, piece.header.status);
        }
        assert!((1..=LARGEST_CHUNK).contains(&piece.payload.len()));
        bytes.extend(piece.payload);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_arrives_whole_in_bounded_pieces_beside_other_calls() {
    let contents: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
    for (room, piece, length) in [
        (1 << 20, 700_000, 700_000),
        (4096, 1000, 0),
        (100, 263_000, 700_000),
    ] {
        let (client, mut peer) = opened_with(room, false).await;
        let mut source = Pieces(contents.chunks(piece).map(<[u8]>::to_vec).collect(), None);
        let play = async {
            let call = peer.expect(&procedure::STORAGE_VOL_UPLOAD, &()).await;
            assert_eq!(call.payload, encoded(&(volume(), 0_u64, length, 0_u32)));
            let (bytes, status) = received(&mut peer, &call).await;
            assert_eq!(status, Status::Ok);
            assert!(bytes == contents);
            peer.answer(&call, Kind::Stream, Status::Ok, &[]).await;
        };
        let target = volume();
        let (sent, ()) = tokio::join!(client.upload(&target, 0, length, &mut source), play);
        assert_eq!(sent.expect("uploaded"), 700_000);
        assert!(client.is_up());
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_than_the_announced_length_is_sent() {
    let (client, mut peer) = opened().await;
    let mut source = io::Cursor::new(vec![7; 1000]);
    let play = async {
        let call = peer.expect(&procedure::STORAGE_VOL_UPLOAD, &()).await;
        let (bytes, status) = received(&mut peer, &call).await;
        assert_eq!((bytes.len(), status), (600, Status::Ok));
        peer.answer(&call, Kind::Stream, Status::Ok, &[]).await;
    };
    let target = volume();
    let (sent, ()) = tokio::join!(client.upload(&target, 0, 600, &mut source), play);
    assert_eq!(sent.expect("uploaded"), 600);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_ends_early_or_fails_aborts_the_upload() {
    for (length, failure) in [(1000, None), (0, Some(io::ErrorKind::ConnectionReset))] {
        let (client, mut peer) = opened().await;
        let mut source = Pieces([vec![1; 400]].into(), failure);
        let play = async {
            let call = peer.expect(&procedure::STORAGE_VOL_UPLOAD, &()).await;
            assert_eq!(received(&mut peer, &call).await.1, Status::Error);
            peer.expect(&procedure::CONNECT_GET_HOSTNAME, &"h").await;
        };
        let target = volume();
        let work = async {
            let sent = client.upload(&target, 0, length, &mut source).await;
            client.hostname().await.expect("the link is up");
            sent
        };
        let (sent, ()) = tokio::join!(work, play);
        match (sent.expect_err("aborted"), failure) {
            (Error::SourceShort { announced, sent }, None) => assert_eq!((announced, sent), (1000, 400)),
            (Error::Source(error), Some(kind)) => assert_eq!(error.kind(), kind),
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn libvirtd_may_fail_an_upload_at_any_time() {
    for at in 0..3 {
        let (client, mut peer) = opened().await;
        let play = async {
            let call = peer.read().await;
            let refused = refusal(38, "cannot write: No space left on device");
            if at == 0 {
                peer.answer(&call, Kind::Reply, Status::Error, &refused).await;
            } else {
                peer.reply(&call, &()).await;
                if at == 2 {
                    received(&mut peer, &call).await;
                }
                peer.answer(&call, Kind::Stream, Status::Error, &refused).await;
            }
            peer
        };
        let target = volume();
        let work = async {
            if at == 2 {
                client.upload(&target, 0, 0, &mut io::Cursor::new([1; 9])).await
            } else {
                client.upload(&target, 0, 0, &mut Stuck).await
            }
        };
        let (sent, mut peer) = tokio::join!(work, play);
        assert_eq!(sent.expect_err("failed").code(), Some(Code::SYSTEM_ERROR), "{at}");
        // A stream that libvirtd ended needs no abort.
        let next = async { peer.expect(&procedure::CONNECT_GET_HOSTNAME, &"h").await };
        let (name, _) = tokio::join!(client.hostname(), next);
        assert_eq!(name.expect("up"), "h");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_upload_is_aborted_on_the_wire_and_disturbs_nobody() {
    // Dropped while waiting for the source, and before libvirtd opened the stream.
    for opened_first in [true, false] {
        let (client, mut peer) = opened().await;
        let client = Arc::new(client);
        let uploading = Task::spawn({
            let client = Arc::clone(&client);
            async move { client.upload(&volume(), 0, 0, &mut Stuck).await }
        });
        let call = peer.read().await;
        if opened_first {
            peer.reply(&call, &()).await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
        drop(uploading);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        if !opened_first {
            peer.reply(&call, &()).await;
        }
        assert_eq!(received(&mut peer, &call).await, (Vec::new(), Status::Error));
        let play = async { peer.expect(&procedure::CONNECT_GET_HOSTNAME, &"h").await };
        let (name, _) = tokio::join!(client.hostname(), play);
        assert_eq!(name.expect("up"), "h");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_dropped_upload_follows_its_abort() {
    let (client, mut peer) = opened_with(1000, false).await;
    let client = Arc::new(client);
    let uploading = Task::spawn({
        let client = Arc::clone(&client);
        async move { client.upload(&volume(), 0, 0, &mut tokio::io::repeat(5)).await }
    });
    let call = peer.expect(&procedure::STORAGE_VOL_UPLOAD, &()).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(uploading);
    // The piece being written is finished, those queued behind it are not begun.
    let (bytes, status) = received(&mut peer, &call).await;
    assert_eq!((bytes.len(), status), (LARGEST_CHUNK, Status::Error));
    let play = async { peer.expect(&procedure::CONNECT_GET_HOSTNAME, &"h").await };
    let (name, _) = tokio::join!(client.hostname(), play);
    assert_eq!(name.expect("up"), "h");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_reading_is_given_up() {
    let (client, mut peer) = opened_with(1 << 16, false).await;
    let target = volume();
    let start = Instant::now();
    let play = async {
        peer.expect(&procedure::STORAGE_VOL_UPLOAD, &()).await;
        peer
    };
    let mut source = tokio::io::repeat(5);
    let (sent, _peer) = tokio::join!(client.upload(&target, 0, 0, &mut source), play);
    assert!(matches!(down_of(sent.expect_err("stalled")), LinkDown::Stalled));
    assert_eq!(start.elapsed(), 60 * SECOND);
    assert!(!client.is_up());
}

#[tokio::test(start_paused = true)]
async fn a_message_over_the_protocols_bound_is_not_sent() {
    let (client, mut peer) = opened().await;
    let error = client
        .define(&"x".repeat(33 << 20), 0)
        .await
        .expect_err("too large");
    assert!(matches!(error, Error::Request { .. }));
    let play = async { peer.expect(&procedure::CONNECT_GET_HOSTNAME, &"h").await };
    let (name, _) = tokio::join!(client.hostname(), play);
    assert_eq!(name.expect("up"), "h");
}

proptest! {
    #[test]
    fn whatever_a_peer_sends_every_caller_is_told(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (client, mut peer) = opened().await;
            let play = async {
                peer.read().await;
                let _ = peer.0.write_all(&bytes).await;
                drop(peer);
            };
            let (name, ()) = tokio::join!(client.hostname(), play);
            prop_assert!(name.is_err());
            Ok(())
        })?;
    }
}
