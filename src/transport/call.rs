//! Time and ownership of work: deadlines, cancellation, budgets, retries, waits and tasks.
//!
//! It must not know what the work is. Invariant: nothing here turns an interruption into an answer;
//! a result that is ready is never thrown away for a deadline or cancellation of the same instant.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll as TaskPoll};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::contract::Error;

/// Until when an operation may run, and what else ends it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// When its time is up.
    pub deadline: Instant,
    /// Cancelled when the caller wants it no longer.
    pub cancel: CancellationToken,
}

impl Limits {
    /// `budget` from now on, ended early by `cancel`.
    #[must_use]
    pub fn new(budget: Duration, cancel: CancellationToken) -> Self {
        Self {
            deadline: after(budget),
            cancel,
        }
    }

    /// `budget` from now on, cancelled by nobody.
    #[must_use]
    pub fn after(budget: Duration) -> Self {
        Self::new(budget, CancellationToken::new())
    }

    /// The time left; zero once the deadline passed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The reason to stop, if there is one already.
    ///
    /// # Errors
    /// Which of the two limits was reached; cancellation first.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.cancel.is_cancelled() {
            Err(Interrupted::Cancelled)
        } else if self.remaining().is_zero() {
            Err(Interrupted::Deadline)
        } else {
            Ok(())
        }
    }
}

/// Why work ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Interrupted {
    /// Its time was up.
    #[error("the time for the operation ran out")]
    Deadline,
    /// Somebody cancelled it.
    #[error("the operation was cancelled")]
    Cancelled,
}

/// Runs `work` until it ends or a limit is reached, whichever comes first.
///
/// Work is not started under a limit that was reached before. A result that is ready in the same
/// instant as a limit is returned.
///
/// # Errors
/// The limit that was reached; the work was dropped then.
///
/// # Cancel safety
/// Dropping this drops the work.
pub async fn bounded<F: Future>(limits: &Limits, work: F) -> Result<F::Output, Interrupted> {
    limits.check()?;
    tokio::select! {
        biased;
        output = work => Ok(output),
        () = limits.cancel.cancelled() => Err(Interrupted::Cancelled),
        () = sleep_until(limits.deadline) => Err(Interrupted::Deadline),
    }
}

/// Waits for `time`, unless a limit is reached first.
///
/// # Errors
/// The limit that was reached.
pub async fn pause(limits: &Limits, time: Duration) -> Result<(), Interrupted> {
    bounded(limits, sleep_until(after(time))).await
}

/// That long from now; for a time that no clock can tell, as good as never.
fn after(time: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + NEVER)
}

/// The one sleep.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that sleeps; every caller bounds it"
)]
async fn sleep_until(instant: Instant) {
    tokio::time::sleep_until(instant).await;
}

/// A remote call that used up its budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} did not answer within {}", Seconds(*budget))]
pub struct Overran {
    /// The call, as a person would name it.
    pub call: String,
    /// What it was given.
    pub budget: Duration,
}

impl From<Overran> for Error {
    fn from(overran: Overran) -> Self {
        // Whether the call took effect is unknown; repeating it is safe, since all are idempotent.
        Error::transient(overran.to_string())
    }
}

/// Gives one remote call its budget.
///
/// # Errors
/// [`Overran`], which converts into a Transient [`Error`] naming the call and the budget.
///
/// # Cancel safety
/// Dropping this drops the call, as does an overrun: a wire left half-read must be marked dead by
/// whoever owns it.
pub async fn within<F: Future>(
    budget: Duration,
    call: impl fmt::Display,
    work: F,
) -> Result<F::Output, Overran> {
    tokio::select! {
        biased;
        output = work => Ok(output),
        () = sleep_until(after(budget)) => Err(Overran { call: call.to_string(), budget }),
    }
}

/// A duration as people write it: `1.5 s`.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.subsec_millis() == 0 {
            write!(f, "{} s", self.0.as_secs())
        } else {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        }
    }
}

/// The longest pause before the first repetition.
pub const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause of all, unless the backend asks for a longer one.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long to pause after that many failures: doubling up to [`LONGEST_PAUSE`], of which a random
/// share between half and all is taken so that many clients do not return together.
fn backoff(failures: u32, random: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let longest = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    let half = longest / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Why a retried operation has no result.
#[derive(Debug)]
pub enum Unsuccessful {
    /// It failed in a way that no repetition cures, or the deadline left no room for another
    /// attempt. The error's context says how many attempts were made where it was more than one.
    Failed(Error),
    /// A limit was reached while an attempt was running or while waiting for the next one.
    Interrupted {
        /// Which limit.
        by: Interrupted,
        /// What the attempts before came to.
        last: Option<Error>,
        /// How many attempts were begun.
        attempts: u32,
    },
}

/// The one retry policy: repeats what failed as Transient, with exponential, jittered pauses that
/// are at least as long as the backend asked for, for as long as the deadline leaves room.
///
/// # Errors
/// See [`Unsuccessful`]. An error that the deadline leaves no room to retry is returned at once,
/// not at the deadline.
///
/// # Cancel safety
/// Dropping this drops the attempt.
pub async fn retry<T, F, Fut>(limits: &Limits, mut attempt: F) -> Result<T, Unsuccessful>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Error>>,
{
    let mut last = None;
    let mut attempts = 0;
    loop {
        if let Err(by) = limits.check() {
            return Err(Unsuccessful::Interrupted { by, last, attempts });
        }
        attempts += 1;
        let error = match bounded(limits, attempt()).await {
            Ok(Ok(output)) => return Ok(output),
            Ok(Err(error)) => error,
            Err(by) => return Err(Unsuccessful::Interrupted { by, last, attempts }),
        };
        // Without randomness all clients pause alike, which is no reason to fail.
        let own = backoff(attempts, getrandom::u32().unwrap_or(u32::MAX));
        let wait = error.wait().map_or(own, |asked| asked.max(own));
        if !error.kind().retryable() || wait >= limits.remaining() {
            return Err(Unsuccessful::Failed(counted(error, attempts)));
        }
        tracing::debug!(attempts, wait_ms = wait.as_millis(), "the operation is repeated");
        if let Err(by) = pause(limits, wait).await {
            return Err(Unsuccessful::Interrupted {
                by,
                last: Some(error),
                attempts,
            });
        }
        last = Some(error);
    }
}

fn counted(error: Error, attempts: u32) -> Error {
    if attempts > 1 {
        error.with("attempts", attempts.to_string())
    } else {
        error
    }
}

/// What one look of a wait found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    /// What was waited for.
    Done(T),
    /// Not yet; the status, for the person who reads why the wait ran out.
    Pending(String),
}

/// How often a wait looks: the pauses double from `first` to `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The pause after the first look.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Interval {
    /// Always the same pause.
    #[must_use]
    pub const fn every(pause: Duration) -> Self {
        Self {
            first: pause,
            longest: pause,
        }
    }
}

/// Why a wait ended without what it waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished<E> {
    /// A look failed.
    Failed {
        /// With this.
        error: E,
        /// The last status before.
        last: Option<String>,
    },
    /// A limit was reached.
    Interrupted {
        /// Which.
        by: Interrupted,
        /// The last status seen.
        last: Option<String>,
    },
}

/// Looks again and again until a look says done: level-triggered, so that nothing missed between
/// two looks matters, and never without a limit. The last status is part of every failure.
///
/// # Errors
/// See [`Unfinished`].
///
/// # Cancel safety
/// Dropping this drops the look.
pub async fn poll<T, E, F, Fut>(limits: &Limits, interval: Interval, mut look: F) -> Result<T, Unfinished<E>>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Look<T>, E>>,
{
    let mut last = None;
    let mut wait = interval.first;
    loop {
        match bounded(limits, look()).await {
            Ok(Ok(Look::Done(output))) => return Ok(output),
            Ok(Ok(Look::Pending(status))) => last = Some(status),
            Ok(Err(error)) => return Err(Unfinished::Failed { error, last }),
            Err(by) => return Err(Unfinished::Interrupted { by, last }),
        }
        if let Err(by) = pause(limits, wait).await {
            return Err(Unfinished::Interrupted { by, last });
        }
        wait = wait.saturating_mul(2).min(interval.longest);
    }
}

/// Work that runs by itself and has an owner: dropping the task aborts it. Awaiting it yields its output.
#[derive(Debug)]
#[must_use = "a task that nobody holds is aborted at once"]
pub struct Task<T>(tokio::task::JoinHandle<T>);

/// Why a task has no output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It panicked; the panic's own words went to the panic hook and nowhere else.
    #[error("a task panicked")]
    Panicked,
    /// It was aborted, or the runtime shut down.
    #[error("a task was aborted")]
    Aborted,
}

impl<T: Send + 'static> Task<T> {
    /// Starts `work` in the span that there is.
    pub fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that spawns; the handle is owned"
        )]
        Self(tokio::spawn(work.in_current_span()))
    }

    /// Starts `work` in no span: it goes on after the operation that started it, whose span would last as
    /// long as the work.
    pub fn apart(work: impl Future<Output = T> + Send + 'static) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that spawns; the handle is owned"
        )]
        Self(tokio::spawn(work))
    }
}

impl<T> Task<T> {
    /// Asks it to end at its next await.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Whether it ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> TaskPoll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|ended| {
            ended.map_err(|error| {
                if error.is_panic() {
                    Lost::Panicked
                } else {
                    Lost::Aborted
                }
            })
        })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs `work`, which blocks its thread (a lock, a slow disk), on a thread of its own.
///
/// # Errors
/// When it panicked.
///
/// # Cancel safety
/// What blocks cannot be aborted: dropped, it runs to its end and its output is lost.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Lost> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|_error: tokio::task::JoinError| Lost::Panicked)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::contract::ErrorKind;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_deadline_ends_work_and_says_so() {
        let start = Instant::now();
        let ended = bounded(&Limits::after(90 * SECOND), pending::<()>()).await;
        assert_eq!(ended, Err(Interrupted::Deadline));
        assert_eq!(start.elapsed(), 90 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn cancellation_ends_work_without_time_passing() {
        let limits = Limits::after(90 * SECOND);
        let start = Instant::now();
        let cancel = async {
            tokio::task::yield_now().await;
            limits.cancel.cancel();
        };
        let (ended, ()) = tokio::join!(bounded(&limits, pending::<()>()), cancel);
        assert_eq!(ended, Err(Interrupted::Cancelled));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_of_the_same_instant_is_not_thrown_away() {
        let limits = Limits::after(SECOND);
        let cancelling = async {
            limits.cancel.cancel();
            7
        };
        assert_eq!(bounded(&limits, cancelling).await, Ok(7));
        let limits = Limits::after(SECOND);
        let just_in_time = async {
            sleep_until(limits.deadline).await;
            7
        };
        assert_eq!(bounded(&limits, just_in_time).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_not_begun_under_a_limit_already_reached() {
        let begun = AtomicBool::new(false);
        let work = || async { begun.store(true, Ordering::Relaxed) };
        assert_eq!(
            bounded(&Limits::after(Duration::ZERO), work()).await,
            Err(Interrupted::Deadline)
        );
        let limits = Limits::after(Duration::ZERO);
        limits.cancel.cancel();
        assert_eq!(bounded(&limits, work()).await, Err(Interrupted::Cancelled));
        assert!(!begun.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_over_its_budget_is_transient_and_named() {
        let start = Instant::now();
        let overran = within(
            1500 * Duration::from_millis(1),
            "DomainCreate on h1",
            pending::<()>(),
        )
        .await
        .expect_err("never ready");
        assert_eq!(start.elapsed(), Duration::from_millis(1500));
        let error = Error::from(overran);
        assert_eq!(error.kind(), ErrorKind::Transient);
        assert_eq!(
            error.to_string(),
            "DomainCreate on h1 did not answer within 1.5 s"
        );
        assert_eq!(within(Duration::ZERO, "now", ready(1)).await, Ok(1));
    }

    /// Runs the retry policy over these outcomes; also returns the instants of the attempts.
    async fn retried(
        limits: &Limits,
        outcomes: Vec<Result<u8, Error>>,
    ) -> (Result<u8, Unsuccessful>, Vec<Duration>) {
        let start = Instant::now();
        let mut outcomes = outcomes.into_iter();
        let mut instants = Vec::new();
        let result = retry(limits, || {
            instants.push(start.elapsed());
            let outcome = outcomes.next();
            async move {
                match outcome {
                    Some(outcome) => outcome,
                    None => pending().await,
                }
            }
        })
        .await;
        (result, instants)
    }

    #[tokio::test(start_paused = true)]
    async fn only_transient_is_repeated() {
        let limits = Limits::after(600 * SECOND);
        let outcomes = vec![Err(Error::transient("a")), Err(Error::transient("b")), Ok(3)];
        let (result, instants) = retried(&limits, outcomes).await;
        assert!(matches!(result, Ok(3)));
        assert_eq!(instants.len(), 3);
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::Permanent,
            ErrorKind::QuotaExceeded,
        ] {
            let (result, instants) = retried(&limits, vec![Err(Error::new(kind, "no")), Ok(1)]).await;
            let Err(Unsuccessful::Failed(error)) = result else {
                panic!("{kind:?} was repeated");
            };
            assert_eq!((error.kind(), instants.len()), (kind, 1));
            assert!(error.context().is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_the_backend_asked_for_is_kept() {
        let limits = Limits::after(600 * SECOND);
        let asked = Error::transient("rate").retry_after(45 * SECOND);
        let (result, instants) = retried(&limits, vec![Err(asked), Ok(1)]).await;
        assert!(matches!(result, Ok(1)));
        assert_eq!(instants, [Duration::ZERO, 45 * SECOND]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_error_comes_back_at_once_when_no_time_is_left_for_another_attempt() {
        let limits = Limits::after(60 * SECOND);
        let start = Instant::now();
        let outcomes = vec![
            Err(Error::transient("first")),
            Err(Error::transient("last").retry_after(120 * SECOND)),
        ];
        let (result, instants) = retried(&limits, outcomes).await;
        let Err(Unsuccessful::Failed(error)) = result else {
            panic!("a failure was expected");
        };
        assert_eq!(error.to_string(), "last");
        assert_eq!(error.context(), [("attempts", "2".to_owned())]);
        assert_eq!(instants.len(), 2);
        assert!(start.elapsed() <= FIRST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_hangs_is_ended_by_the_deadline_and_the_failure_before_it_is_told() {
        let limits = Limits::after(60 * SECOND);
        let start = Instant::now();
        let (result, _) = retried(&limits, vec![Err(Error::transient("refused"))]).await;
        let Err(Unsuccessful::Interrupted { by, last, attempts }) = result else {
            panic!("an interruption was expected");
        };
        assert_eq!((by, attempts), (Interrupted::Deadline, 2));
        assert_eq!(last.expect("told").to_string(), "refused");
        assert_eq!(start.elapsed(), 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn cancellation_ends_the_pause_between_attempts() {
        let limits = Limits::after(600 * SECOND);
        let start = Instant::now();
        let asked = Error::transient("rate").retry_after(300 * SECOND);
        let cancel = async {
            let _ = pause(&Limits::after(600 * SECOND), SECOND).await;
            limits.cancel.cancel();
        };
        let ((result, _), ()) = tokio::join!(retried(&limits, vec![Err(asked)]), cancel);
        let Err(Unsuccessful::Interrupted { by, attempts, .. }) = result else {
            panic!("an interruption was expected");
        };
        assert_eq!((by, attempts), (Interrupted::Cancelled, 1));
        assert_eq!(start.elapsed(), SECOND);
    }

    #[test]
    fn pauses_double_within_their_jitter_up_to_the_longest() {
        for (failures, longest) in [(1, 500), (2, 1000), (3, 2000), (7, 30_000), (60, 30_000)] {
            let longest = Duration::from_millis(longest);
            assert_eq!(backoff(failures, 0), longest / 2, "{failures}");
            assert_eq!(backoff(failures, u32::MAX), longest, "{failures}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_looks_first_and_remembers_the_last_status() {
        let limits = Limits::after(10 * SECOND);
        let interval = Interval {
            first: SECOND,
            longest: 4 * SECOND,
        };
        let start = Instant::now();
        let mut looks = Vec::new();
        let ended = poll(&limits, interval, || {
            looks.push(start.elapsed().as_secs());
            let status = format!("look {}", looks.len());
            async move { Ok::<_, Error>(Look::<()>::Pending(status)) }
        })
        .await;
        assert!(matches!(
            ended,
            Err(Unfinished::Interrupted { by: Interrupted::Deadline, last: Some(last) }) if last == "look 4"
        ));
        assert_eq!(looks, [0, 1, 3, 7]);
        assert_eq!(start.elapsed(), 10 * SECOND);
        let done = poll(&limits.clone(), interval, || async {
            Ok::<_, Error>(Look::Done(1))
        })
        .await;
        assert!(matches!(
            done,
            Err(Unfinished::Interrupted {
                by: Interrupted::Deadline,
                last: None
            })
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_fails_or_hangs_ends_the_wait() {
        let limits = Limits::after(10 * SECOND);
        let mut looks = 0;
        let ended = poll(&limits, Interval::every(SECOND), || {
            looks += 1;
            let first = looks == 1;
            async move {
                if first {
                    Ok(Look::<()>::Pending("booting".into()))
                } else {
                    Err("gone")
                }
            }
        })
        .await;
        assert_eq!(
            ended,
            Err(Unfinished::Failed {
                error: "gone",
                last: Some("booting".into())
            })
        );
        let ended = poll(&limits, Interval::every(SECOND), pending::<Result<Look<()>, ()>>).await;
        assert!(matches!(
            ended,
            Err(Unfinished::Interrupted {
                by: Interrupted::Deadline,
                last: None
            })
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_ends_with_its_owner() {
        let guard = Arc::new(());
        let held = Arc::clone(&guard);
        let task = Task::spawn(async move {
            let _held = held;
            pending::<()>().await;
        });
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&guard), 2);
        drop(task);
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&guard), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_yields_its_output_or_how_it_was_lost() {
        assert_eq!(Task::spawn(async { 7 }).await, Ok(7));
        let task = Task::spawn(pending::<()>());
        task.abort();
        assert_eq!(task.await, Err(Lost::Aborted));
        assert_eq!(
            Task::spawn(async { panic!("on purpose") }).await,
            Err::<(), _>(Lost::Panicked)
        );
        assert_eq!(blocking(|| 7).await, Ok(7));
    }
}
