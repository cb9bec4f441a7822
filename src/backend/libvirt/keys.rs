//! Turns on proxies: within this process, whoever changes one holds it.
//!
//! It must not know what is done meanwhile. Invariant: an entry lives as long as somebody holds it or
//! waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::contract::NativeId;

type Turns = Mutex<HashMap<NativeId, Arc<tokio::sync::Mutex<()>>>>;

/// The proxies that are held.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(Arc<Turns>);

/// A turn; dropping it ends it.
#[derive(Debug)]
pub(super) struct Held {
    keys: Keys,
    id: NativeId,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Keys {
    fn turns(&self) -> MutexGuard<'_, HashMap<NativeId, Arc<tokio::sync::Mutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn on that proxy.
    ///
    /// # Cancel safety
    /// Dropping this gives up the place in the queue.
    pub(super) async fn hold(&self, id: &NativeId) -> Held {
        let turn = Arc::clone(self.turns().entry(id.clone()).or_default());
        // Made before the wait, so that giving up tidies as well.
        let mut held = Held {
            keys: self.clone(),
            id: id.clone(),
            guard: None,
        };
        held.guard = Some(turn.lock_owned().await);
        held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut turns = self.keys.turns();
        self.guard = None;
        // Whoever waits has it too.
        if turns
            .get(&self.id)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            turns.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left() {
        let keys = Keys::default();
        let (one, other): (NativeId, NativeId) = (
            "hosts/h/domains/a".parse().expect("an id"),
            "x".parse().expect("an id"),
        );
        let first = keys.hold(&one).await;
        assert!(keys.hold(&one).now_or_never().is_none(), "held twice");
        drop(keys.hold(&other).now_or_never().expect("another proxy is free"));
        let mut second = Box::pin(keys.hold(&one));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        drop(first);
        drop(second.await);
        assert!(keys.turns().is_empty());
    }
}
