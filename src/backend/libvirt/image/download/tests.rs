//! Downloads from a server of the tests' own, which answers, cuts and changes its mind as it is told.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::backend::libvirt::image::spool;
use crate::contract::ErrorKind;
use crate::transport::call::Task;

async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.expect("a request"));
    }
    String::from_utf8(request).expect("text").to_lowercase()
}

/// Answers each request with the next text and closes the connection.
struct Server {
    url: Url,
    requests: Arc<Mutex<Vec<String>>>,
    _task: Task<()>,
}

async fn server(answers: Vec<Vec<u8>>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&requests);
    let task = Task::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let request = read_request(&mut stream).await;
            log.lock().expect("sound").push(request);
            stream.write_all(&answer).await.expect("answered");
            stream.shutdown().await.expect("closed");
        }
    });
    Server {
        url: format!("http://{address}/image?token=sentinel")
            .parse()
            .expect("a URL"),
        requests,
        _task: task,
    }
}

impl Server {
    fn asked(&self, number: usize, line: &str) -> bool {
        let requests = self.requests.lock().expect("sound");
        requests[number].lines().any(|asked| asked == line)
    }
}

const PATIENCE: Patience = Patience {
    stall: Duration::from_secs(30),
    resumptions: 3,
    pause: Duration::from_millis(1),
};

fn content() -> Vec<u8> {
    (0..100_000_u32).map(|n| (n * 7 % 251) as u8).collect()
}

/// An answer that ends after `sent` of its bytes.
fn answer(status: &str, headers: &str, body: &[u8], sent: usize) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body[..sent]);
    answer
}

fn whole(headers: &str, sent: usize) -> Vec<u8> {
    answer("200 OK", headers, &content(), sent)
}

fn part(from: usize, sent: usize) -> Vec<u8> {
    let range = format!("Content-Range: bytes {from}-99999/100000\r\nETag: \"1\"\r\n");
    answer("206 Partial Content", &range, &content()[from..], sent)
}

const TAG: &str = "ETag: \"1\"\r\n";

async fn start(server: &Server, verified: bool) -> Result<Download, Error> {
    let client = Client::builder().no_proxy().build().expect("a client");
    Download::start(client, server.url.clone(), verified, PATIENCE).await
}

async fn rest(download: &mut Download) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    while let Some(piece) = download.next().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// All of it, or why not, the chain of causes included.
async fn downloaded(answers: Vec<Vec<u8>>, verified: bool) -> (Result<Vec<u8>, Error>, Server) {
    let server = server(answers).await;
    let result = match start(&server, verified).await {
        Ok(mut download) => rest(&mut download).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &result {
        let mut told = format!("{error} {error:?}");
        let mut cause = std::error::Error::source(error);
        while let Some(one) = cause {
            told.push_str(&one.to_string());
            cause = one.source();
        }
        assert!(!told.contains("sentinel"), "{told}");
        assert!(told.contains("127.0.0.1"), "{told}");
    }
    (result, server)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[tokio::test]
async fn a_file_comes_whole_with_its_length_its_head_and_its_digest() {
    let server = server(vec![whole("", 100_000)]).await;
    let mut download = start(&server, false).await.expect("answered");
    assert_eq!(download.length(), Some(100_000));
    assert_eq!(download.head(300).await.expect("a head")[..300], content()[..300]);
    assert!(rest(&mut download).await.expect("the rest") == content());
    assert_eq!(download.digest(), sha256(&content()));
}

#[tokio::test]
async fn a_head_longer_than_the_file_is_the_file() {
    let server = server(vec![answer("200 OK", "", b"short", 5)]).await;
    let mut download = start(&server, false).await.expect("answered");
    assert_eq!(download.head(512).await.expect("a head"), b"short");
    assert_eq!(rest(&mut download).await.expect("the rest"), b"short");
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_was_cut() {
    let answers = vec![whole(TAG, 30_000), part(30_000, 20_000), part(50_000, 50_000)];
    let (result, server) = downloaded(answers, false).await;
    assert!(result.expect("whole") == content());
    assert!(server.asked(1, "range: bytes=30000-") && server.asked(1, "if-range: \"1\""));
    assert!(server.asked(2, "range: bytes=50000-"));
}

#[tokio::test]
async fn a_server_that_sends_no_parts_is_read_past_what_came() {
    let (result, _) = downloaded(vec![whole(TAG, 30_000), whole(TAG, 100_000)], false).await;
    assert!(result.expect("whole") == content());
    // Without anything that tells versions apart, the digest will.
    let (result, server) = downloaded(vec![whole("", 30_000), whole("", 100_000)], true).await;
    assert!(result.expect("whole") == content());
    assert!(!server.requests.lock().expect("sound")[1].contains("if-range"));
}

#[tokio::test]
async fn a_failing_server_is_asked_again_before_the_rest_is_given_up() {
    let busy = answer("503 Service Unavailable", "", b"", 0);
    let answers = vec![
        whole(TAG, 30_000),
        busy.clone(),
        busy.clone(),
        part(30_000, 70_000),
    ];
    let (result, _) = downloaded(answers, false).await;
    assert!(result.expect("whole") == content());
    let (result, _) = downloaded(vec![whole(TAG, 30_000), busy.clone(), busy.clone(), busy], false).await;
    assert_eq!(result.expect_err("given up").kind(), ErrorKind::Transient);
}

#[tokio::test]
async fn parts_of_two_versions_are_never_joined() {
    let weak = "ETag: W/\"1\"\r\n";
    for second in [
        whole("ETag: \"2\"\r\n", 100_000),
        part(29_999, 70_001),
        answer("200 OK", TAG, b"other", 5),
        answer("416 Range Not Satisfiable", "", b"", 0),
    ] {
        let (result, _) = downloaded(vec![whole(TAG, 30_000), second], false).await;
        let error = result.expect_err("changed");
        assert_eq!(error.kind(), ErrorKind::Transient);
        assert!(error.message().contains("changed"), "{error}");
    }
    // Nothing tells versions apart, so no second request is made.
    for headers in ["", weak] {
        let (result, server) = downloaded(vec![whole(headers, 30_000)], false).await;
        let error = result.expect_err("cut");
        assert_eq!(error.kind(), ErrorKind::Transient);
        assert!(error.message().contains("30000 of 100000"), "{error}");
        assert_eq!(server.requests.lock().expect("sound").len(), 1);
    }
}

#[tokio::test]
async fn what_a_server_answers_is_told_apart() {
    let permanent = ErrorKind::Permanent;
    let transient = ErrorKind::Transient;
    for (status, kind, way_out) in [
        ("404 Not Found", permanent, "correct the URL"),
        ("410 Gone", permanent, "correct the URL"),
        ("401 Unauthorized", permanent, "credentials"),
        ("403 Forbidden", permanent, "credentials"),
        ("400 Bad Request", permanent, "400"),
        ("204 No Content", permanent, "204"),
        ("408 Request Timeout", transient, "408"),
        ("500 Internal Server Error", transient, "500"),
        ("503 Service Unavailable", transient, "503"),
    ] {
        let (result, _) = downloaded(vec![answer(status, "", b"", 0)], false).await;
        let error = result.expect_err(status);
        assert_eq!(error.kind(), kind, "{status}");
        assert!(error.message().contains(way_out), "{error}");
    }
    let limited = answer("429 Too Many Requests", "Retry-After: 7\r\n", b"", 0);
    let (result, _) = downloaded(vec![limited], false).await;
    assert_eq!(result.expect_err("limited").wait(), Some(Duration::from_secs(7)));
    let (result, _) = downloaded(vec![b"nonsense\r\n\r\n".to_vec()], false).await;
    assert_eq!(result.expect_err("no HTTP").kind(), transient);
}

#[tokio::test]
async fn a_server_that_stops_sending_is_not_waited_for_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url: Url = format!("http://{}/i", listener.local_addr().expect("one"))
        .parse()
        .expect("a URL");
    let patience = Patience {
        stall: Duration::from_millis(200),
        resumptions: 0,
        ..PATIENCE
    };
    let client = Client::builder().no_proxy().build().expect("a client");
    let serve = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        read_request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
            .await
            .expect("answered");
        stream
    };
    let start = Download::start(client, url, true, patience);
    let (_held_open, download) = tokio::join!(serve, start);
    let mut download = download.expect("answered");
    let error = rest(&mut download).await.expect_err("stalled");
    assert_eq!(error.kind(), ErrorKind::Transient);
    assert!(error.message().contains("did not answer within"), "{error}");
}

#[tokio::test]
async fn a_length_that_nobody_says_is_learned_on_disk_within_bounds() {
    let chunked = || {
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in content().chunks(9000) {
            answer.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            answer.extend_from_slice(piece);
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        answer
    };
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(vec![chunked(), chunked()]).await;
    let mut download = start(&server, false).await.expect("answered");
    assert_eq!(download.length(), None);
    let mut spooled = spool::spool(&mut download, folder.path(), 100_000)
        .await
        .expect("kept");
    assert_eq!(spooled.length, 100_000);
    let mut read = Vec::new();
    spooled.file.read_to_end(&mut read).await.expect("read");
    assert!(read == content());
    assert_eq!(download.digest(), sha256(&content()));

    let mut download = start(&server, false).await.expect("answered");
    let error = spool::spool(&mut download, folder.path(), 99_999)
        .await
        .expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Permanent);
    assert!(
        error.message().contains("127.0.0.1") && error.message().contains("Content-Length"),
        "{error}"
    );
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0, "it has no name even while it is there");
}
