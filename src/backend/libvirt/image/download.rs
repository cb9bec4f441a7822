//! An image as it comes over HTTP: piece by piece, taken up again where the connection was cut.
//!
//! It must not know where the pieces go. Invariants: no more than one piece is in memory; what was
//! handed out is the beginning of one file, whatever happened on the way; of a URL only its host is
//! shown, since the rest may hold a token.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_RANGE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use reqwest::{Client, Response, Url};
use sha2::{Digest as _, Sha256};

use crate::contract::Error;
use crate::transport::call::{Limits, pause, within};

/// How patient a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long an answer, or the next piece of one, may take.
    pub stall: Duration,
    /// How often in a row it is taken up again without a new byte.
    pub resumptions: u32,
    /// The pause before the first of these; it doubles.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(60),
            resumptions: 5,
            pause: Duration::from_secs(1),
        }
    }
}

/// A download under way.
pub(super) struct Download {
    client: Client,
    url: Url,
    patience: Patience,
    /// How long the file is, where the server said so.
    length: Option<u64>,
    /// What tells this file from another one under the same URL.
    version: Option<HeaderValue>,
    /// Whether the file's digest will be compared, so that a mistake on the way shows.
    verified: bool,
    response: Response,
    /// Read ahead.
    held: BytesMut,
    /// How many bytes came.
    at: u64,
    digest: Sha256,
}

impl Download {
    /// Asks for a file, and returns when the server said that it comes. `verified` says whether its
    /// digest is known.
    ///
    /// # Errors
    /// Permanent where it cannot be had, Transient where it may be another time.
    pub(super) async fn start(
        client: Client,
        url: Url,
        verified: bool,
        patience: Patience,
    ) -> Result<Self, Error> {
        let response = within(
            patience.stall,
            at_host(&url, "the image's server"),
            client.get(url.clone()).send(),
        )
        .await?
        .map_err(|error| unanswered(&url, error))?;
        if response.status() != StatusCode::OK {
            return Err(refused(&url, response.status(), response.headers()));
        }
        Ok(Self {
            length: response.content_length(),
            version: version(response.headers()),
            client,
            url,
            patience,
            verified,
            response,
            held: BytesMut::new(),
            at: 0,
            digest: Sha256::new(),
        })
    }

    /// The server that was asked.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// How long the file is, where the server says so.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// How the file begins, at least `wanted` bytes of it where it has as many. They come from
    /// [`Download::next`] all the same.
    ///
    /// # Errors
    /// As [`Download::next`].
    pub(super) async fn head(&mut self, wanted: usize) -> Result<&[u8], Error> {
        while self.held.len() < wanted {
            match self.receive().await? {
                Some(piece) => self.held.extend_from_slice(&piece),
                None => break,
            }
        }
        Ok(&self.held)
    }

    /// The next piece; `None` at the end of the file.
    ///
    /// # Errors
    /// Where the connection was cut and could not be taken up again, or the file changed meanwhile.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.held.is_empty() {
            self.receive().await
        } else {
            Ok(Some(self.held.split().freeze()))
        }
    }

    /// The SHA-256 of all that came, in lower-case hexadecimal digits.
    pub(super) fn digest(&self) -> String {
        self.digest
            .clone()
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        let mut tries = 0;
        loop {
            let cut = match within(
                self.patience.stall,
                "the next piece of the image",
                self.response.chunk(),
            )
            .await
            {
                Ok(Ok(Some(piece))) if piece.is_empty() => continue,
                Ok(Ok(Some(piece))) => return Ok(Some(self.counted(piece))),
                Ok(Ok(None)) if self.length.is_none_or(|length| self.at == length) => return Ok(None),
                Ok(Ok(None)) => Error::transient(self.told("the image ended too early")),
                Ok(Err(error)) => Error::transient(self.told("the image's download was cut off"))
                    .caused_by(error.without_url()),
                Err(overran) => overran.into(),
            };
            let piece = self.resume(cut, &mut tries).await?;
            if !piece.is_empty() {
                return Ok(Some(self.counted(piece)));
            }
        }
    }

    fn counted(&mut self, piece: Bytes) -> Bytes {
        self.at += piece.len() as u64;
        self.digest.update(&piece);
        piece
    }

    /// Asks for the rest of the file; `cut` is why the rest has not come. What the new answer held
    /// beyond the place of the cut comes back.
    async fn resume(&mut self, mut cut: Error, tries: &mut u32) -> Result<Bytes, Error> {
        loop {
            if *tries == self.patience.resumptions || (self.version.is_none() && !self.verified) {
                return Err(cut);
            }
            let wait = self.patience.pause.saturating_mul(1 << (*tries).min(16));
            *tries += 1;
            // The caller's own deadline ends it too, by dropping it.
            if pause(&Limits::after(wait.saturating_mul(2)), wait).await.is_err() {
                return Err(cut);
            }
            tracing::debug!(
                host = self.url.host_str(),
                at = self.at,
                tries = *tries,
                "the download is taken up again"
            );
            match self.rest().await {
                Ok((response, piece)) => {
                    self.response = response;
                    return Ok(piece);
                }
                Err(Missed::NotNow(error)) => cut = error,
                Err(Missed::Gone(error)) => return Err(error),
            }
        }
    }

    /// An answer that goes on where the last one ended, after the piece beside it.
    async fn rest(&self) -> Result<(Response, Bytes), Missed> {
        let mut request = self
            .client
            .get(self.url.clone())
            .header(RANGE, format!("bytes={}-", self.at));
        if let Some(version) = &self.version {
            request = request.header(IF_RANGE, version.clone());
        }
        let response = within(
            self.patience.stall,
            at_host(&self.url, "the image's server"),
            request.send(),
        )
        .await
        .map_err(|overran| Missed::NotNow(overran.into()))?
        .map_err(|error| Missed::of(unanswered(&self.url, error)))?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if self.continues(response.headers()) => Ok((response, Bytes::new())),
            StatusCode::OK if self.is_same(&response) => self.skip(response).await.map_err(Missed::of),
            StatusCode::PARTIAL_CONTENT | StatusCode::OK | StatusCode::RANGE_NOT_SATISFIABLE => {
                // The operation's own repetition begins anew.
                let changed = Error::transient(self.told("the image changed while it was downloaded"));
                Err(Missed::Gone(changed))
            }
            status => Err(Missed::of(refused(&self.url, status, response.headers()))),
        }
    }

    /// Whether a partial answer is the part that was asked for.
    fn continues(&self, headers: &HeaderMap) -> bool {
        let range = headers
            .get(CONTENT_RANGE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("bytes "));
        let Some((range, whole)) = range.and_then(|range| range.split_once('/')) else {
            return false;
        };
        let first = range.split('-').next().and_then(|first| first.parse().ok());
        first == Some(self.at)
            && self
                .length
                .is_none_or(|length| whole == "*" || whole.parse() == Ok(length))
    }

    /// Whether a whole answer is the file that was begun: the server does not send parts of it.
    fn is_same(&self, response: &Response) -> bool {
        let same_length = response.content_length() == self.length;
        let same_version = self.version.is_some() && version(response.headers()) == self.version;
        same_length && (same_version || self.verified)
    }

    /// Reads past what came before.
    async fn skip(&self, mut response: Response) -> Result<(Response, Bytes), Error> {
        let mut left = self.at;
        loop {
            let piece = within(
                self.patience.stall,
                "the next piece of the image",
                response.chunk(),
            )
            .await?;
            match piece {
                Ok(Some(mut piece)) => {
                    let old = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
                    left -= old as u64;
                    let new = piece.split_off(old);
                    if left == 0 {
                        return Ok((response, new));
                    }
                }
                Ok(None) => return Err(Error::transient(self.told("the image ended too early again,"))),
                Err(error) => {
                    return Err(
                        Error::transient(self.told("the image's download was cut off again"))
                            .caused_by(error.without_url()),
                    );
                }
            }
        }
    }

    /// A sentence with where and how far.
    fn told(&self, what: &str) -> String {
        let whole = self
            .length
            .map_or_else(String::new, |length| format!(" of {length}"));
        format!("{} after {}{whole} bytes", at_host(&self.url, what), self.at)
    }
}

/// Why the rest of a file did not come.
enum Missed {
    /// It may come if it is asked for again.
    NotNow(Error),
    /// It will not.
    Gone(Error),
}

impl Missed {
    fn of(error: Error) -> Self {
        if error.kind().retryable() {
            Self::NotNow(error)
        } else {
            Self::Gone(error)
        }
    }
}

fn at_host(url: &Url, what: &str) -> String {
    format!("{what} ({})", url.host_str().unwrap_or_default())
}

/// What identifies the version of a file strongly enough to join parts of it.
fn version(headers: &HeaderMap) -> Option<HeaderValue> {
    let strong = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    strong.or_else(|| headers.get(LAST_MODIFIED)).cloned()
}

/// No answer at all.
fn unanswered(url: &Url, error: reqwest::Error) -> Error {
    let error = error.without_url();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(one) = cause {
        if let Some(rustls::Error::InvalidCertificate(_)) = one.downcast_ref() {
            return Error::permanent(at_host(
                url,
                "the certificate of the image's server is not accepted",
            ))
            .caused_by(error);
        }
        cause = one.source();
    }
    if error.is_redirect() {
        return Error::permanent(at_host(
            url,
            "the image's server leads elsewhere, and it cannot be followed",
        ))
        .caused_by(error);
    }
    Error::transient(at_host(url, "the image's server could not be reached")).caused_by(error)
}

/// An answer that is not the file.
fn refused(url: &Url, status: StatusCode, headers: &HeaderMap) -> Error {
    let what = |what: &str| format!("{} with {status}", at_host(url, what));
    match status.as_u16() {
        // A rate, or a moment.
        408 | 425 | 429 | 500..=599 => {
            let error = Error::transient(what("the image's server answered"));
            let seconds = headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok())
                .and_then(|value| value.trim().parse().ok());
            match seconds {
                Some(seconds) => error.retry_after(Duration::from_secs(seconds)),
                None => error,
            }
        }
        404 | 410 => Error::permanent(format!(
            "{}: no image is there; correct the URL",
            what("the image's server answered")
        )),
        401 | 403 => Error::permanent(format!(
            "{}: it wants credentials; give a URL that anyone may read, or that holds them",
            what("the image's server answered")
        )),
        _ => Error::permanent(what("the image's server answered")),
    }
}

#[cfg(test)]
#[path = "download/tests.rs"]
mod tests;
