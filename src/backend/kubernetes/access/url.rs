//! URLs and names in a way in.
//!
//! It must not dial. Invariant: a URL that may hold a password is never quoted.

/// The URL of an API server: scheme, host, perhaps a port and a path.
pub(in crate::backend::kubernetes) fn server(text: &str) -> Result<http::Uri, String> {
    let example = "such as https://10.0.0.1:6443";
    if text.is_empty() {
        return Err(format!("it is empty: write the API server's URL, {example}"));
    }
    if !text.contains("://") {
        return Err(format!(
            "{text:?} has no scheme: write https://{text}, unless the server speaks plain http"
        ));
    }
    let uri: http::Uri = text
        .parse()
        .map_err(|_| format!("{text:?} is no URL, {example}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("{text:?} is neither https nor http, {example}"));
    }
    // Not quoted: there is a password in it.
    if uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err("it holds a user name: credentials go into token, client_certificate or exec".to_owned());
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(format!("{text:?} names no host, {example}"));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!(
            "{text:?} has a query or a fragment: end it after the path"
        ));
    }
    Ok(uri)
}

/// The URL of a proxy. What is wrong with one is said without quoting it: it may hold a password.
pub(in crate::backend::kubernetes) fn proxy(text: &str) -> Result<http::Uri, String> {
    let uri: http::Uri = text
        .parse()
        .map_err(|_| "it is no URL, such as http://proxy:3128 or socks5://proxy:1080".to_owned())?;
    if !matches!(uri.scheme_str(), Some("http" | "https" | "socks5" | "socks5h")) {
        return Err("its scheme is none of http, https, socks5 and socks5h".to_owned());
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err("it names no host".to_owned());
    }
    Ok(uri)
}

/// The name that a certificate is checked for.
pub(in crate::backend::kubernetes) fn server_name(
    text: &str,
) -> Option<rustls::pki_types::ServerName<'static>> {
    rustls::pki_types::ServerName::try_from(text.to_owned()).ok()
}
