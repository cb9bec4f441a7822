//! A request through a proxy, the origin server that answers it, and free ports.
//!
//! Speaks plain HTTP by hand, so that what is tested is the proxy and not a client's idea of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use base64::Engine as _;

/// A port on which nothing listens at this moment.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}

/// What the origin says.
const BODY: &str = "from the origin server";

/// Answers every request with the same text as long as the tests run.
static ORIGIN: LazyLock<SocketAddr> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream);
        }
    });
    address
});

/// The port of the origin server, which a proxy has to allow.
pub(crate) fn origin_port() -> u16 {
    ORIGIN.port()
}

/// The status line that a GET of the origin gets through the proxy on a loopback port.
pub(crate) fn get_through(port: u16) -> String {
    get(port, "")
}

/// The same with a user and a password.
pub(crate) fn get_as(user: &str, password: &str, port: u16) -> String {
    let token = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    get(port, &format!("Proxy-Authorization: Basic {token}\r\n"))
}

fn get(port: u16, headers: &str) -> String {
    let origin = *ORIGIN;
    let request =
        format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\n{headers}Connection: close\r\n\r\n");
    let answer = exchange(port, &request).unwrap_or_else(|error| panic!("port {port}: {error}"));
    if answer.starts_with("HTTP/1.1 200") {
        assert!(answer.ends_with(BODY), "another body: {answer}");
    }
    answer.lines().next().unwrap_or_default().to_owned()
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request)?;
    let length = BODY.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{BODY}"
    )
}

fn exchange(port: u16, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Nothing answers on the port any more, or soon: the kernel closes the sockets of a killed process
/// only when the last of its threads is gone.
#[track_caller]
pub(crate) fn nobody_listens(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(
            Instant::now() < deadline,
            "something still listens on port {port}"
        );
    }
}
