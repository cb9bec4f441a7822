//! Bounded waits that look again and again, and say at the end what they saw last.

use std::time::{Duration, Instant};

/// How long anything of a cluster may take on a loaded machine. Not an assertion on speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

const PAUSE: Duration = Duration::from_millis(50);

/// Returns what `look` finds; panics with the last reason why not when patience ends.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(
                Instant::now() < deadline,
                "{what} did not come about within {PATIENCE:?}: {why}"
            ),
        }
        pause();
    }
}

/// The same where looking is asynchronous.
pub(crate) async fn until_async<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(why) => assert!(
                Instant::now() < deadline,
                "{what} did not come about within {PATIENCE:?}: {why}"
            ),
        }
        pause_async().await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "between two looks; nothing is concluded from it"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[expect(
    clippy::disallowed_methods,
    reason = "between two looks; nothing is concluded from it"
)]
async fn pause_async() {
    tokio::time::sleep(PAUSE).await;
}
