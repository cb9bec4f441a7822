//! Work that several callers want at once and that is done once.
//!
//! It must not know what the work is. Invariants: work under one key runs once at a time; it goes on as
//! long as anybody waits for it and ends with the last who does; nothing is kept of its result.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use crate::contract::Error;

type Outcome<T> = Result<T, Arc<Error>>;

/// Work under way, by key.
#[derive(Debug)]
pub(super) struct Flights<K, T>
where
    T: Clone,
{
    under_way: Mutex<HashMap<K, WeakShared<BoxFuture<'static, Outcome<T>>>>>,
}

impl<K, T: Clone> Default for Flights<K, T> {
    fn default() -> Self {
        Self {
            under_way: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash, T: Clone + Send + Sync + 'static> Flights<K, T> {
    /// Waits for the work of that key; where none is under way it is `start`ed.
    ///
    /// # Errors
    /// Everybody who waits gets what the work failed with.
    ///
    /// # Cancel safety
    /// Dropping this leaves the work to the others who wait; when nobody does, the work is dropped.
    pub(super) async fn join<F>(&self, key: K, start: impl FnOnce() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let work = self.work(key, start);
        work.await.map_err(shared)
    }

    fn work<F>(&self, key: K, start: impl FnOnce() -> F) -> Shared<BoxFuture<'static, Outcome<T>>>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // What ended, or was left by everybody, is of no use to who comes now.
        under_way.retain(|_, work| work.upgrade().is_some_and(|work| work.peek().is_none()));
        if let Some(work) = under_way.get(&key).and_then(WeakShared::upgrade) {
            return work;
        }
        let work = start().map(|result| result.map_err(Arc::new)).boxed().shared();
        if let Some(weak) = work.downgrade() {
            under_way.insert(key, weak);
        }
        work
    }
}

/// An error that others were told too, as one of the caller's own.
fn shared(error: Arc<Error>) -> Error {
    let mut own = Error::new(error.kind(), error.message());
    for (key, value) in error.context() {
        own = own.with(key, value.clone());
    }
    if let Some(target) = error.target() {
        own = own.on(target);
    }
    if let Some(wait) = error.wait() {
        own = own.retry_after(wait);
    }
    if let Some(prefix) = error.affected() {
        own = own.affecting(prefix);
    }
    if std::error::Error::source(&*error).is_some() {
        own = own.caused_by(Cause(error));
    }
    own
}

/// The cause of an error that several have.
#[derive(Debug)]
struct Cause(Arc<Error>);

impl Cause {
    fn first(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.first().map_or(Ok(()), |cause| write!(f, "{cause}"))
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.first()?.source()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::contract::ErrorKind;

    #[tokio::test]
    async fn those_who_come_meanwhile_share_one_run_and_those_who_come_later_start_another() {
        let flights = Arc::new(Flights::default());
        let runs = Arc::new(AtomicU32::new(0));
        let gate = Arc::new(Semaphore::new(0));
        let join = |key: &'static str| {
            let (flights, runs, gate) = (Arc::clone(&flights), Arc::clone(&runs), Arc::clone(&gate));
            async move {
                let run = || async move {
                    gate.acquire().await.expect("open").forget();
                    Ok(runs.fetch_add(1, Ordering::Relaxed))
                };
                flights.join(key, run).await.expect("a number")
            }
        };
        let waiting: Vec<_> = (0..10).map(|_| join("a")).collect();
        let release = async { gate.add_permits(1) };
        let (numbers, ()) = tokio::join!(futures_util::future::join_all(waiting), release);
        assert_eq!(numbers, [0; 10]);
        gate.add_permits(2);
        assert_eq!(join("a").await, 1);
        assert_eq!(join("b").await, 2);
    }

    #[tokio::test]
    async fn a_caller_who_leaves_stops_nothing_and_the_last_one_ends_the_work() {
        struct Ended(Arc<AtomicU32>);
        impl Drop for Ended {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let flights: Arc<Flights<u8, u8>> = Arc::default();
        let ended = Arc::new(AtomicU32::new(0));
        let gate = Arc::new(Semaphore::new(0));
        let join = || {
            let (flights, gate) = (Arc::clone(&flights), Arc::clone(&gate));
            let ended = Ended(Arc::clone(&ended));
            async move {
                let run = || async move {
                    let _ended = ended;
                    gate.acquire().await.expect("open").forget();
                    Ok(7)
                };
                flights.join(1, run).await.expect("a number")
            }
        };
        // The one who started it leaves before the gate opens.
        let mut first = Box::pin(join());
        assert!(futures_util::poll!(&mut first).is_pending());
        let [mut second, mut third] = [(); 2].map(|()| Box::pin(join()));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(first);
        gate.add_permits(1);
        assert_eq!(third.await, 7);
        assert_eq!(second.await, 7);

        let before = ended.load(Ordering::Relaxed);
        let mut alone = Box::pin(join());
        assert!(futures_util::poll!(&mut alone).is_pending());
        assert_eq!(ended.load(Ordering::Relaxed), before);
        drop(alone);
        assert_eq!(ended.load(Ordering::Relaxed), before + 1, "nobody waits any more");
    }

    #[tokio::test]
    async fn everybody_is_told_the_same_failure_with_its_cause() {
        let flights: Flights<u8, u8> = Flights::default();
        let fail = || async {
            Err(Error::quota("no room")
                .with("pool", "default")
                .on("h1")
                .caused_by("disk full"))
        };
        let (one, other) = tokio::join!(flights.join(1, fail), flights.join(1, fail));
        for error in [one, other].map(|result| result.expect_err("failed")) {
            assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
            assert_eq!(error.to_string(), "no room");
            assert_eq!(error.context(), [("pool", "default".to_owned())]);
            assert_eq!(error.target(), Some("h1"));
            let cause = std::error::Error::source(&error).expect("a cause");
            assert_eq!(cause.to_string(), "disk full");
            assert!(cause.source().is_none());
        }
    }
}
