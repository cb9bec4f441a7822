//! A request through a proxy, the origin server that answers it, and free ports.
//!
//! Speaks plain HTTP by hand, so that what is tested is the proxy and not a client's idea of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use base64::Engine as _;

/// A port on which nothing listens at this moment.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}

/// Answers every request with the same text until the test ends.
pub(crate) struct Origin {
    address: SocketAddr,
}

/// What the origin says.
const BODY: &str = "from the origin server";

impl Origin {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream);
            }
        });
        Self { address }
    }

    /// The status line that a GET of this origin gets through the proxy on a loopback port.
    pub(crate) fn get_through(&self, port: u16) -> String {
        self.get(port, "")
    }

    /// The same with a user and a password.
    pub(crate) fn get_as(&self, user: &str, password: &str, port: u16) -> String {
        let token = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        self.get(port, &format!("Proxy-Authorization: Basic {token}\r\n"))
    }

    fn get(&self, port: u16, headers: &str) -> String {
        let request = format!(
            "GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\n{headers}Connection: close\r\n\r\n",
            self.address
        );
        let answer = exchange(port, &request).unwrap_or_else(|error| panic!("port {port}: {error}"));
        if answer.starts_with("HTTP/1.1 200") {
            assert!(answer.ends_with(BODY), "another body: {answer}");
            assert!(answer.contains("Via:"), "not through a proxy: {answer}");
        }
        answer.lines().next().unwrap_or_default().to_owned()
    }
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

/// Nothing answers on the port any more.
#[track_caller]
pub(crate) fn nobody_listens(port: u16) {
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_err(),
        "something still listens on port {port}"
    );
}
