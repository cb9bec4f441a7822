//! The proxy between us and an API server: from a kubeconfig, an argument or the environment.
//!
//! It must not dial. Invariants: a URL of a proxy is never quoted, since it may hold a password; the
//! environment's proxies do not count for this machine's own addresses, nor for what `NO_PROXY` lists.

use std::fmt;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use super::access::{self, EnvironmentProxies};
use super::classify::Failure;
use super::material::unusable;
use crate::contract::Secret;

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Https,
    Socks5,
}

/// A proxy.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) protocol: Protocol,
    /// Scheme, host and port, without a user.
    pub(super) uri: Uri,
    pub(super) user: Option<(String, Secret)>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uri)
    }
}

impl Proxy {
    /// The proxy of that URL; `name` is what a person calls the place it is written in.
    ///
    /// # Errors
    /// Where it is no URL of a proxy.
    pub(super) fn parse(name: &str, url: &Secret) -> Result<Self, Failure> {
        let uri = access::proxy(url.expose()).map_err(|why| unusable(name, why))?;
        let (protocol, scheme, default_port) = match uri.scheme_str() {
            Some("https") => (Protocol::Https, "https", 443),
            Some("http") => (Protocol::Http, "http", 80),
            // A connector knows no other schemes; what is spoken is what `protocol` says.
            _ => (Protocol::Socks5, "http", 1080),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let user = authority.rsplit_once('@').map(|(user, _)| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            (decoded(user), Secret::new(decoded(password)))
        });
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16().unwrap_or(default_port);
        let uri = format!("{scheme}://{host}:{port}")
            .parse()
            .map_err(|_| unusable(name, "it is no URL of a proxy"))?;
        Ok(Self { protocol, uri, user })
    }

    /// The proxy that the environment has for that server, if it has one.
    ///
    /// # Errors
    /// Where it is no URL of a proxy.
    pub(super) fn of_environment(
        proxies: &EnvironmentProxies,
        server: &Uri,
    ) -> Result<Option<Self>, Failure> {
        let is_https = server.scheme_str() == Some("https");
        let (name, url) = if is_https {
            ("HTTPS_PROXY", &proxies.https)
        } else {
            ("HTTP_PROXY", &proxies.http)
        };
        let Some(url) = url else { return Ok(None) };
        let host = server.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_own = bare.parse::<std::net::IpAddr>().map_or_else(
            |_| bare.eq_ignore_ascii_case("localhost"),
            |address| address.is_loopback(),
        );
        // The matcher decides from the list alone; which proxy it would give is of no interest.
        let matcher = Matcher::builder()
            .http("http://proxy")
            .https("http://proxy")
            .no(proxies.none.clone().unwrap_or_default())
            .build();
        if is_own || matcher.intercept(server).is_none() {
            return Ok(None);
        }
        let url = if url.expose().contains("://") {
            url.clone()
        } else {
            Secret::new(format!("http://{}", url.expose()))
        };
        Self::parse(name, &url).map(Some)
    }
}

/// Percent-encoding undone; what is none stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes
            .get(at + 1..at + 3)
            .filter(|pair| byte == b'%' && pair.iter().all(u8::is_ascii_hexdigit))
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match hex {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Proxy {
        Proxy::parse("proxy_url", &Secret::new(url)).expect("a proxy")
    }

    #[test]
    fn a_url_of_a_proxy_is_taken_apart() {
        let proxy = of("http://me:p%40ss%2Fw@proxy:3128");
        assert_eq!(
            (proxy.protocol, proxy.uri.to_string().as_str()),
            (Protocol::Http, "http://proxy:3128/")
        );
        let (user, password) = proxy.user.expect("a user");
        assert_eq!((user.as_str(), password.expose()), ("me", "p@ss/w"));
        assert_eq!(of("http://proxy").uri.port_u16(), Some(80));
        assert_eq!(of("https://proxy").uri.port_u16(), Some(443));
        let socks = of("socks5://[::1]");
        assert_eq!(
            (socks.protocol, socks.uri.to_string().as_str()),
            (Protocol::Socks5, "http://[::1]:1080/")
        );
        assert!(socks.user.is_none());
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_being_quoted() {
        for url in ["ftp://u:geheim@proxy", "geheim", "http://u:ge heim@proxy", ""] {
            let failure = Proxy::parse("HTTPS_PROXY", &Secret::new(url)).expect_err(url);
            assert!(
                !failure.text.contains("geheim") && failure.text.contains("HTTPS_PROXY"),
                "{}",
                failure.text
            );
        }
    }

    #[test]
    fn the_environment_counts_unless_it_excepts_the_server() {
        let proxies = EnvironmentProxies {
            http: Some(Secret::new("http://plain:1")),
            https: Some(Secret::new("proxy:3128")),
            none: Some("10.0.0.0/8,.internal, exact.example".to_owned()),
        };
        let chosen = |server: &'static str| {
            Proxy::of_environment(&proxies, &Uri::from_static(server))
                .expect("a proxy or none")
                .map(|proxy| proxy.uri.to_string())
        };
        assert_eq!(
            chosen("https://api.example:6443").as_deref(),
            Some("http://proxy:3128/")
        );
        assert_eq!(
            chosen("http://api.example:8080").as_deref(),
            Some("http://plain:1/")
        );
        for excepted in [
            "https://10.1.2.3:6443",
            "https://api.internal",
            "https://exact.example",
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
            "https://localhost:6443",
        ] {
            assert_eq!(chosen(excepted), None, "{excepted}");
        }
        let none = Proxy::of_environment(&EnvironmentProxies::default(), &Uri::from_static("https://a"));
        assert!(none.expect("none").is_none());
    }
}
