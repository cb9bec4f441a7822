//! The taints that a proxy's Pod tolerates, as people write them.
//!
//! It must not know nodes. Invariant: what is parsed is a toleration that the API server accepts.

use k8s_openapi::api::core::v1::Toleration;

/// A taint as `kubectl taint` writes it: `key`, `key=value`, `key:effect`, `key=value:effect`.
pub(super) fn parse(text: &str) -> Result<Toleration, String> {
    let (taint, effect) = match text.rsplit_once(':') {
        Some((taint, effect)) => (taint, Some(effect)),
        None => (text, None),
    };
    let (key, value) = match taint.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (taint, None),
    };
    if key.is_empty() || key.chars().any(char::is_whitespace) {
        return Err(format!(
            "{text:?} names no taint: write key=value:effect, key:effect or key"
        ));
    }
    if let Some(effect) = effect
        && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect)
    {
        return Err(format!(
            "{text:?} has the effect {effect:?}, which is none of NoSchedule, PreferNoSchedule and NoExecute"
        ));
    }
    Ok(Toleration {
        key: Some(key.to_owned()),
        operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value: value.map(str::to_owned),
        effect: effect.map(str::to_owned),
        toleration_seconds: None,
    })
}
