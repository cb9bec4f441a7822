//! The one classifier: what an answer of the API server, or none, means for a proxy.
//!
//! It must not do I/O. Invariants: NotFound is only what the API server says of one named object; a
//! used-up allowance is QuotaExceeded, what stays wrong until somebody changes it is Permanent, and
//! only the rest is worth repeating; no text holds a value that the API server quotes from us.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use kube::core::Status;

use crate::contract::{Error, ErrorKind, HealthReason};

/// Longer texts of an API server are cut.
const LONGEST: usize = 2000;
/// What the docs call the page that grants what is missing.
const RBAC: &str = "grant it with a Role and a RoleBinding, as examples/kubernetes does";

/// What a failed call means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    /// What a health check says of it.
    pub(super) reason: HealthReason,
    /// What happened and the way out, for a person.
    pub(super) text: String,
    /// What lies beneath, in the words of whoever found it.
    pub(super) cause: Option<String>,
    /// How long the API server asked to wait.
    pub(super) retry_after: Option<Duration>,
    /// Whether it strikes every call of the backend alike.
    pub(super) shared: bool,
    /// Whether the API server did not accept the credentials, so that fresh ones may help.
    pub(super) unauthorized: bool,
    /// Whether the API server found no role that allows it, which one that is starting never finds.
    pub(super) without_role: bool,
}

impl Failure {
    pub(super) fn new(kind: ErrorKind, reason: HealthReason, text: impl Into<String>) -> Self {
        Self {
            kind,
            reason,
            text: text.into(),
            cause: None,
            retry_after: None,
            shared: false,
            unauthorized: false,
            without_role: false,
        }
    }

    /// Credentials that cannot be read or used: the same for every call, until somebody acts.
    pub(super) fn credentials(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Permanent, HealthReason::CredentialsUnavailable, text).shared()
    }

    /// The same answer of an API server that is still starting, and does not know yet who may do what.
    pub(super) fn while_starting(self) -> Self {
        Self {
            kind: ErrorKind::Transient,
            reason: HealthReason::ApiError,
            text: format!("the API server is still starting: {}", self.text),
            ..self
        }
    }

    pub(super) fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    pub(super) fn shared(mut self) -> Self {
        self.shared = true;
        self
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let mut error = Error::new(failure.kind, failure.text);
        if let Some(cause) = failure.cause {
            error = error.caused_by(cause);
        }
        if let Some(wait) = failure.retry_after {
            error = error.retry_after(wait);
        }
        if failure.shared {
            error = error.affecting("");
        }
        error
    }
}

/// Whether the API server says that the object of that kind (plural, such as `pods`) and name does
/// not exist. A page that is not there, or another object, proves nothing.
pub(super) fn is_not_found(error: &kube::Error, kind: &str, name: &str) -> bool {
    answer(error).is_some_and(|status| {
        status.reason == "NotFound"
            && status
                .details
                .as_ref()
                .is_some_and(|details| details.kind == kind && details.name == name)
    })
}

/// Whether an object of that name exists already.
pub(super) fn is_already_exists(error: &kube::Error) -> bool {
    answer(error).is_some_and(|status| status.reason == "AlreadyExists")
}

/// Whether the object was changed, or is another one by now: a precondition failed. What quota
/// accounting says of its own objects is none.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    answer(error).is_some_and(|status| status.reason == "Conflict" && object_kind(status) != "resourcequotas")
}

fn answer(error: &kube::Error) -> Option<&Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

fn object_kind(status: &Status) -> &str {
    status.details.as_ref().map_or("", |details| &details.kind)
}

/// What a failed call means.
pub(super) fn classify(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => by_status(status),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Failure::new(
            ErrorKind::Permanent,
            HealthReason::ApiError,
            "the answer is not what an API server of Kubernetes gives: check that the URL leads to one",
        ),
        kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => Failure::new(
            ErrorKind::Permanent,
            HealthReason::ApiError,
            "the request could not be built",
        )
        .because(error.to_string()),
        other => by_transport(other),
    }
}

/// What no answer means.
fn by_transport(error: &(dyn StdError + 'static)) -> Failure {
    for cause in causes(error) {
        if let Some(failure) = cause.downcast_ref::<Classified>() {
            return failure.0.clone();
        }
        if let Some(failure) = cause.downcast_ref::<rustls::Error>() {
            return by_tls(failure);
        }
    }
    // The innermost cause is the one that says something: "dns error", "Connection refused".
    let innermost = causes(error).last().map(ToString::to_string);
    if let Some(failure) = causes(error).find_map(|cause| by_proxy(&cause.to_string())) {
        return match innermost {
            Some(cause) if failure.kind == ErrorKind::Transient => failure.because(cut(&cause)),
            Some(_) | None => failure,
        };
    }
    let io = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>());
    let text = match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => {
            "the API server cannot be reached: nothing listens at its address"
        }
        Some(io::ErrorKind::TimedOut) => "the API server cannot be reached: its address does not answer",
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => {
            "the connection to the API server broke"
        }
        Some(_) | None => "the API server cannot be reached",
    };
    let failure = Failure::new(ErrorKind::Transient, HealthReason::Unreachable, text);
    match innermost {
        Some(cause) => failure.because(cut(&cause)),
        None => failure,
    }
}

/// What it means where the proxy in between is the one that failed.
///
/// MATCH ON TEXT: the errors of hyper-util's connectors have private types; the texts are those of its source,
/// and tested through real proxies.
fn by_proxy(cause: &str) -> Option<Failure> {
    match cause {
        "tunnel error: proxy authorization required"
        | "SOCKS error: credentials not accepted"
        | "SOCKS error: server does not support user/pass authentication" => Some(
            Failure::new(
                ErrorKind::Permanent,
                HealthReason::Unauthorized,
                "the proxy to the API server does not accept the user and the password of its URL, or that it has none: \
                 check proxy_url, proxy-url of the kubeconfig, or HTTPS_PROXY",
            )
            .shared(),
        ),
        _ if cause.starts_with("tunnel error: ") || cause.starts_with("SOCKS error: ") => Some(Failure::new(
            ErrorKind::Transient,
            HealthReason::Unreachable,
            "the proxy to the API server cannot be reached, or does not reach it",
        )),
        _ => None,
    }
}

/// A failure whose meaning is known to whoever found it, on its way through a client.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.text)]
pub(super) struct Classified(pub(super) Failure);

/// An error and what caused it, through the I/O errors that hide their own cause.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn StdError + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

/// What a failed handshake means. Nobody but the user can mend one.
fn by_tls(error: &rustls::Error) -> Failure {
    use rustls::CertificateError as Bad;
    let permanent = |text: &str| {
        Failure::new(ErrorKind::Permanent, HealthReason::Unauthorized, text)
            .because(error.to_string())
            .shared()
    };
    match error {
        rustls::Error::InvalidCertificate(bad) => match bad {
            Bad::UnknownIssuer => permanent(
                "the certificate of the API server is not signed by an authority that is trusted here: set ca_certificate or ca_file, or certificate-authority in the kubeconfig, to the certificate of the authority itself; the server's own certificate, which kubectl accepts there, is not enough",
            ),
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => permanent(
                "the certificate of the API server is for other names than the one it was reached by: use one of those in the URL, or set tls_server_name to it",
            ),
            Bad::Expired | Bad::ExpiredContext { .. } => {
                permanent("the certificate of the API server has expired, or this machine's clock is wrong")
            }
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => permanent(
                "the certificate of the API server is not valid yet, or this machine's clock is wrong",
            ),
            other if format!("{other:?}").contains("CaUsedAsEndEntity") => permanent(
                "the API server shows a certificate of an authority as its own: give it one that is signed by the authority",
            ),
            _ => permanent("the certificate of the API server cannot be trusted"),
        },
        rustls::Error::AlertReceived(_) => {
            permanent("the API server refused the TLS handshake: check the client certificate")
        }
        rustls::Error::InvalidMessage(_) => permanent(
            "the API server does not speak TLS: write http:// in its URL if that is meant, or check the port",
        ),
        rustls::Error::NoCertificatesPresented => permanent("the API server shows no certificate"),
        _ => Failure::new(
            ErrorKind::Transient,
            HealthReason::Unreachable,
            "the TLS handshake with the API server failed",
        )
        .because(error.to_string()),
    }
}

/// What an answer means.
fn by_status(status: &Status) -> Failure {
    let said = cut(&status.message);
    let kind = object_kind(status);
    let name = status.details.as_ref().map_or("", |details| &details.name);
    let permanent = |text: String| Failure::new(ErrorKind::Permanent, HealthReason::ApiError, text);
    let mut failure = match (status.code, status.reason.as_str()) {
        (401, _) => Failure {
            unauthorized: true,
            ..Failure::new(
                ErrorKind::Permanent,
                HealthReason::Unauthorized,
                "the API server does not accept the credentials",
            )
            .shared()
        },
        (403, _) => forbidden(status, &said),
        (404, "NotFound") if kind == "namespaces" => permanent(format!(
            "the namespace \"{name}\" does not exist: create it, or name another one"
        )),
        (404, "NotFound") if !name.is_empty() => Failure::new(ErrorKind::NotFound, HealthReason::ApiError, said),
        (404, _) => permanent(format!(
            "the API server does not know what was asked for: check the URL ({said})"
        )),
        // Beneath another object's name this is quota accounting that was overtaken.
        (409, "Conflict") => Failure::new(
            ErrorKind::Transient,
            HealthReason::ApiError,
            format!("somebody else changed it at the same time: {said}"),
        ),
        // MATCH ON TEXT: the API server has no reason of its own for a name that is being freed.
        (409, _) if said.contains("object is being deleted") => Failure::new(
            ErrorKind::Transient,
            HealthReason::ApiError,
            format!("the one before is still being deleted: {said}"),
        ),
        (409, _) => permanent(format!("the API server refused it: {said}")),
        (422, _) => permanent(invalid(status, &said)),
        (429, _) => Failure::new(
            ErrorKind::Transient,
            HealthReason::ApiError,
            "the API server has too much to do",
        ),
        (400 | 405 | 406 | 411..=416 | 431, _) => permanent(denied(&said)),
        (410, _) | (500..=599, _) => Failure::new(
            ErrorKind::Transient,
            HealthReason::ApiError,
            format!("the API server failed ({}): {said}", status.code),
        ),
        (300..=399, _) => permanent(
            "the API server answered with a redirection, which no API server of Kubernetes does: check the URL"
                .to_owned(),
        ),
        (code, _) => permanent(format!("the API server answered {code}: {said}")),
    };
    failure.retry_after = status
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(seconds.into()));
    failure
}

/// A 403: authorisation, admission and quota share the code and the reason, so that only the text
/// tells them apart; the texts are those of Kubernetes' own source, and tested below.
fn forbidden(status: &Status, said: &str) -> Failure {
    let because = |reason: &str| {
        status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    };
    let refused = |text: String| Failure::new(ErrorKind::Permanent, HealthReason::Forbidden, text);
    if said.contains("exceeded quota:") {
        return Failure::new(
            ErrorKind::QuotaExceeded,
            HealthReason::Forbidden,
            format!("the namespace's quota is used up: {said}"),
        );
    }
    if said.contains("failed quota:") {
        return refused(format!(
            "the namespace's quota wants requests and limits of every Pod: set cpu_limit and what else it names ({said})"
        ));
    }
    if said.contains("violates PodSecurity") {
        return refused(format!("the namespace's Pod Security refuses the Pod: {said}"));
    }
    if said.contains("unable to validate against any security context constraint") {
        return refused(format!(
            "the security context constraints of OpenShift refuse the Pod: set run_as_user to \"assigned\", so that \
             it gets one of the namespace's own users ({said})"
        ));
    }
    if because("NamespaceTerminating") {
        return refused(format!("the namespace is being deleted: {said}"));
    }
    // A new namespace has its service account a moment later.
    if said.contains("error looking up service account") {
        let is_default = said.contains("serviceaccount \"default\" not found");
        return Failure::new(
            if is_default {
                ErrorKind::Transient
            } else {
                ErrorKind::Permanent
            },
            HealthReason::ApiError,
            format!("the Pod's service account does not exist: create it, or set service_account ({said})"),
        );
    }
    if said.contains("User \"system:anonymous\"") {
        return Failure {
            unauthorized: true,
            ..refused(format!(
                "the API server takes us for anonymous: no credentials were sent, or it did not accept them ({said})"
            ))
        };
    }
    if said.contains(" cannot impersonate resource ") {
        return refused(format!("impersonation is not allowed: {said}"));
    }
    // "User "x" cannot create resource "pods" in API group "" in the namespace "egress""
    if said.contains(" cannot ") && said.contains(" resource ") {
        return Failure {
            without_role: true,
            ..refused(format!("it is not allowed: {said}; {RBAC}"))
        };
    }
    refused(denied(said))
}

/// What was refused on the content of the request.
fn denied(said: &str) -> String {
    if said.contains("denied the request") || said.contains("denied request") {
        format!("a policy of the cluster refuses it: {said}")
    } else {
        format!("the API server refused it: {said}")
    }
}

/// A 422 by its fields. The API server quotes values, and some of them carry what is secret.
fn invalid(status: &Status, said: &str) -> String {
    let causes = status
        .details
        .as_ref()
        .map_or(&[][..], |details| &details.causes[..]);
    // A policy's own words belong to no field.
    if causes.iter().all(|cause| cause.field.is_empty()) {
        return denied(said);
    }
    let fields: Vec<_> = causes
        .iter()
        .map(|cause| {
            let secretive = ["env", "annotations", "args", "command", "data"]
                .iter()
                .any(|part| cause.field.contains(part));
            match (secretive, cause.field.is_empty()) {
                (true, _) => format!("{}: {}", cause.field, cause.reason),
                (false, true) => cause.message.clone(),
                (false, false) => format!("{}: {}", cause.field, cause.message),
            }
        })
        .collect();
    cut(&format!("the API server finds it invalid: {}", fields.join("; ")))
}

fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
