//! Whether the host is still there. A plugin whose host is gone ends itself.
//!
//! go-plugin says nothing about this, and a host that is killed ends nobody. The rule here needs no
//! operating system: the host connects within a minute of the handshake (its own limit), keeps that
//! connection for its whole life, and holds a stream open on it, so that it never looks idle. So the
//! host is gone when nobody came within [`ARRIVAL`], or when the last connection ended [`RETURN`] ago.
//!
//! Must not know what is spoken. Invariant: only connections that passed TLS count.

use std::time::Duration;

use tokio::sync::watch;

/// How long the first connection may take: twice what the host allows itself.
const ARRIVAL: Duration = Duration::from_secs(120);
/// How long a host may take to come back after its connection broke.
const RETURN: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    now: usize,
    ever: bool,
}

/// Counts connections.
#[derive(Clone, Debug)]
pub(crate) struct Attendance(watch::Sender<Count>);

/// One connection; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Attending(watch::Sender<Count>);

impl Drop for Attending {
    fn drop(&mut self) {
        self.0.send_modify(|count| count.now -= 1);
    }
}

impl Attendance {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// Counts a connection.
    pub(crate) fn enter(&self) -> Attending {
        self.0.send_modify(|count| {
            *count = Count {
                now: count.now + 1,
                ever: true,
            }
        });
        Attending(self.0.clone())
    }

    /// Comes to an end when the host is gone.
    pub(crate) async fn host_gone(&self) {
        let mut count = self.0.subscribe();
        loop {
            // Neither wait fails: this holds a sender.
            let Ok(empty) = count.wait_for(|count| count.now == 0).await.map(|count| *count) else {
                return;
            };
            let limit = if empty.ever { RETURN } else { ARRIVAL };
            #[expect(
                clippy::disallowed_methods,
                reason = "this module stands alone; it has no transport to ask"
            )]
            let back = tokio::time::timeout(limit, count.wait_for(|count| count.now > 0))
                .await
                .is_ok();
            if !back {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// Lets virtual time pass, in which everything else that is due happens too.
    #[expect(clippy::disallowed_methods, reason = "the clock is paused: no test waits")]
    async fn pass(time: Duration) {
        tokio::time::sleep_until(Instant::now() + time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_never_comes_is_given_up() {
        let begin = Instant::now();
        Attendance::new().host_gone().await;
        assert_eq!(begin.elapsed(), ARRIVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_leaves_has_a_moment_to_come_back() {
        let attendance = Attendance::new();
        let first = attendance.enter();
        let begin = Instant::now();
        let gone = attendance.host_gone();
        let life = async {
            pass(ARRIVAL * 10).await;
            drop(first);
            pass(RETURN / 2).await;
            let second = attendance.enter();
            pass(ARRIVAL * 10).await;
            drop(second);
            Instant::now()
        };
        let ((), left) = tokio::join!(gone, life);
        assert!(left - begin >= ARRIVAL * 20);
        assert_eq!(left.elapsed(), RETURN);
    }
}
