//! A server on the loopback interface that images come from.
//!
//! It serves one file under every path. Invariant: requests are counted when they arrive.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The server; it ends when it is dropped.
pub(crate) struct Web {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
}

impl Web {
    /// Serves a file whole.
    pub(crate) fn serve(file: &Path) -> Self {
        Self::cut_after(file, 0, u64::MAX)
    }

    /// The first `cuts` answers end after `after` bytes of the file, however many were announced.
    pub(crate) fn cut_after(file: &Path, cuts: usize, after: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicBool::new(false));
        let (file, counted, end) = (file.to_owned(), Arc::clone(&requests), Arc::clone(&ended));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    break;
                }
                let stream = stream.expect("a connection");
                let number = counted.fetch_add(1, Ordering::SeqCst);
                let most = if number < cuts { after } else { u64::MAX };
                let file = file.clone();
                // Who does not want the rest closes the connection, which is no failure of the server's.
                std::thread::spawn(move || answer(stream, &file, most).ok());
            }
        });
        Self {
            address,
            requests,
            ended,
        }
    }

    /// A URL of the file.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/guest.qcow2", self.address)
    }

    /// How many requests came.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers one request and closes the connection.
fn answer(stream: TcpStream, path: &PathBuf, most: u64) -> std::io::Result<()> {
    let mut from = 0;
    let mut request = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        request.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse().unwrap_or_default();
        }
    }
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from))?;
    let status = if from == 0 {
        "200 OK".to_owned()
    } else {
        format!(
            "206 Partial Content\r\nContent-Range: bytes {from}-{}/{length}",
            length - 1
        )
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"1\"\r\nConnection: close\r\n\r\n",
        length - from
    )?;
    std::io::copy(&mut file.take(most), &mut stream)?;
    Ok(())
}
