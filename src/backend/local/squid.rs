//! The Squid of this machine: found, asked for its release, started, stopped.
//!
//! It must not know marks. Invariants: what is started outlives us and shares nothing with us, neither
//! terminal nor environment nor descriptors; it counts as started once its own sockets listen; it
//! counts as stopped once neither it nor a helper of it is alive.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

use super::account::{self, Account};
use super::place::Place;
use super::ports::{self, Opened};
use super::process::{self, Alive, Order};
use super::record::Identity;
use super::{classify, files, seam};
use crate::contract::Error;
use crate::squid::{ConfPath, release};
use crate::transport::call::{self, Interval, Limits, Look, Unfinished};

/// Where else than on `PATH` Squid may be: `PATH` of an ordinary user has no `sbin`.
const MORE_DIRS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/squid/sbin"];
/// What Squid's helpers find in their environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// For `squid -v` and `squid -k parse`.
const ASK_BUDGET: Duration = Duration::from_secs(20);
/// Until a started Squid must have opened its ports; it takes a tenth of a second where nothing
/// else is going on.
const START_BUDGET: Duration = Duration::from_secs(60);
/// How long a Squid that was told to end may take: its shutdown lifetime, and two seconds of its own.
const STOP_BUDGET: Duration = Duration::from_secs(10);
/// How long the kernel may take to end what was killed.
const KILL_BUDGET: Duration = Duration::from_secs(10);
/// How often a starting or ending Squid is looked at.
const LOOKS: Interval = Interval {
    first: Duration::from_millis(20),
    longest: Duration::from_millis(200),
};

/// An installed Squid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Installed {
    /// The program.
    pub(super) program: PathBuf,
    /// What it says about itself.
    pub(super) release: release::Release,
    /// Its password helper, where one was found.
    pub(super) helper: Option<ConfPath>,
    /// The account it changes to; none where we are not root.
    pub(super) account: Option<Account>,
}

/// Finds the program.
fn find(configured: Option<&Path>, path: Option<&std::ffi::OsStr>) -> Result<PathBuf, Error> {
    if let Some(configured) = configured {
        return if is_program(configured) {
            Ok(configured.to_owned())
        } else {
            Err(Error::permanent(format!(
                "there is no program {}: correct `squid` of the backend, or leave it out to search PATH",
                configured.display()
            )))
        };
    }
    path.map(|path| std::env::split_paths(path).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .filter(|dir| dir.is_absolute())
        .chain(MORE_DIRS.map(PathBuf::from))
        .map(|dir| dir.join("squid"))
        .find(|program| is_program(program))
        .ok_or_else(|| {
            Error::permanent(
                "Squid is not installed: there is no `squid` on PATH or in /usr/sbin. Install it (on Debian: \
                 apt-get install squid), or set `squid` of the backend to its path",
            )
        })
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Finds Squid and asks what it is.
pub(super) async fn installed(configured: Option<PathBuf>) -> Result<Installed, Error> {
    let program = seam::disk("find squid", move || {
        find(configured.as_deref(), std::env::var_os("PATH").as_deref())
    })
    .await?;
    let output = ask(&program, &["-v"]).await?;
    let release = release::Release::parse(&String::from_utf8_lossy(&output.stdout));
    let Some(major) = release.major() else {
        return Err(Error::permanent(format!(
            "{} is not Squid, or a broken one: `-v` tells no version ({})",
            program.display(),
            output.status
        )));
    };
    if major < release::OLDEST_MAJOR {
        return Err(Error::permanent(format!(
            "{} is Squid {major}: {} or later is needed",
            program.display(),
            release::OLDEST_MAJOR
        )));
    }
    seam::disk("find squid's account and helper", move || {
        let account = account::is_root().then(|| own_account(&release)).transpose()?;
        let helper = release
            .helper_candidates()
            .find(|path| is_program(Path::new(path)))
            .and_then(|path| path.parse().ok());
        Ok(Installed {
            program,
            release,
            helper,
            account,
        })
    })
    .await
}

fn own_account(release: &release::Release) -> Result<Account, Error> {
    let name = release.user.as_deref().unwrap_or(account::FALLBACK);
    Account::named(name)
        .map_err(|error| classify::process(error, "read the table of accounts"))?
        .ok_or_else(|| {
            Error::permanent(format!(
                "the account \"{name}\", which Squid changes to when root starts it, does not exist: create it"
            ))
        })
}

/// Runs Squid for an answer. It is killed with us: it is no proxy.
async fn ask(program: &Path, arguments: &[&str]) -> Result<Output, Error> {
    let name = format!("{} {}", program.display(), arguments.join(" "));
    let running = bare(program).args(arguments).kill_on_drop(true).output();
    seam::remote("ask squid", ASK_BUDGET, &name, running)
        .await?
        .map_err(|error| classify::process(error, &format!("run {name}")))
}

/// A command that gets nothing from us: the environment may hold credentials and whole variables of
/// a configuration, and would be readable for as long as the process lives.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

/// Has Squid read a configuration without acting on it.
///
/// # Errors
/// Permanent with Squid's own complaints.
pub(super) async fn parse(installed: &Installed, conf: &Path) -> Result<(), Error> {
    let conf = conf.display().to_string();
    let output = ask(&installed.program, &["-k", "parse", "-f", &conf]).await?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::permanent(format!(
        "{} refuses the configuration {conf}: {}",
        installed.program.display(),
        complaints(&said)
    )))
}

/// The lines in which Squid says what is wrong; the last ones where none does.
fn complaints(said: &str) -> String {
    const MOST: usize = 5;
    let worded = |line: &&str| {
        ["FATAL", "ERROR", "Bungled", "annot "]
            .iter()
            .any(|word| line.contains(word))
    };
    // Squid begins each line with its time.
    let text = |line: &str| {
        line.split_once("| ")
            .map_or(line, |(_, text)| text)
            .trim()
            .to_owned()
    };
    let mut lines: Vec<_> = said.lines().filter(worded).map(text).collect();
    if lines.is_empty() {
        lines = said
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(text)
            .collect();
    }
    lines.dedup();
    let skipped = lines.len().saturating_sub(MOST);
    if lines.is_empty() {
        "it says nothing".to_owned()
    } else {
        lines[skipped..].join("; ")
    }
}

/// Starts Squid, detached. The child is held only to learn how it ended, should it end at once.
pub(super) fn spawn(installed: &Installed, place: &Place, service: &str) -> Result<Child, Error> {
    bare(&installed.program)
        .args(["-N", "-n", service, "-f"])
        .arg(place.conf())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(false)
        .spawn()
        .map_err(|error| classify::process(error, &format!("start {}", installed.program.display())))
}

/// Where a starting Squid is to listen.
#[derive(Clone, Debug)]
pub(super) struct Listening {
    /// On which addresses.
    pub(super) listen: Vec<IpAddr>,
    /// On which port.
    pub(super) port: u16,
    /// The directory of all proxies, to tell ours from others'.
    pub(super) state_dir: PathBuf,
}

/// Waits until the child has opened its ports.
pub(super) async fn opened(
    child: &mut Child,
    place: &Place,
    listening: &Listening,
    log_before: u64,
) -> Result<(), Error> {
    let Some(pid) = child.id() else {
        return Err(ended(None, place, listening, log_before).await);
    };
    let limits = Limits::after(START_BUDGET);
    let looks = call::poll(&limits, LOOKS, || {
        let status = child.try_wait();
        let Listening { listen, port, .. } = listening.clone();
        async move {
            if let Some(status) =
                status.map_err(|error| Verdict::Failed(classify::process(error, "wait for Squid")))?
            {
                return Err(Verdict::Ended(status));
            }
            let opened = seam::disk("look at sockets", move || {
                ports::opened_by(pid, &listen, port)
                    .map_err(|error| classify::process(error, "read the table of sockets"))
            })
            .await
            .map_err(Verdict::Failed)?;
            Ok(match opened {
                Opened::All => Look::Done(()),
                Opened::NotYet(address) => Look::Pending(format!("it does not listen on {address} yet")),
                Opened::Theirs(address) => Look::Pending(format!("another process listens on {address}")),
            })
        }
    });
    match looks.await {
        Ok(()) => Ok(()),
        Err(Unfinished::Failed {
            error: Verdict::Failed(error),
            ..
        }) => Err(error),
        Err(Unfinished::Failed {
            error: Verdict::Ended(status),
            ..
        }) => Err(ended(Some(status), place, listening, log_before).await),
        Err(Unfinished::Interrupted { last, .. }) => Err(Error::transient(format!(
            "Squid (process {pid}) did not open its port within {}: {}",
            call::Seconds(START_BUDGET),
            last.unwrap_or_default()
        ))),
    }
}

/// Why a look at a starting Squid ends the wait.
enum Verdict {
    Failed(Error),
    Ended(std::process::ExitStatus),
}

/// Why a Squid that was just started ended: a taken port in our words, anything else in its own.
async fn ended(
    status: Option<std::process::ExitStatus>,
    place: &Place,
    listening: &Listening,
    log_before: u64,
) -> Error {
    let place = place.clone();
    let listening = listening.clone();
    let explained = seam::disk("read squid's log", move || {
        ports::ensure_free(&listening.listen, listening.port, &listening.state_dir)?;
        Ok(complaints(&files::log_since(&place, log_before)))
    });
    match explained.await {
        Ok(said) => {
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            Error::permanent(format!("Squid ended at once{status}: {said}"))
        }
        Err(error) => error,
    }
}

/// Stops a proxy's processes: in order, and by force what does not end in time. One that is killed
/// leaves its shared memory, which only its own arguments name where the record is gone.
pub(super) async fn stop(place: &Place) -> Result<(), Error> {
    let running = alive(place).await?;
    end(place, &running).await?;
    let services = running.services;
    if services.is_empty() {
        return Ok(());
    }
    seam::disk("remove shared memory", move || {
        services
            .iter()
            .try_for_each(|service| files::remove_shared_memory(service))
    })
    .await
}

async fn end(place: &Place, running: &Alive) -> Result<(), Error> {
    for squid in &running.squids {
        tell(squid, Order::Terminate).await?;
        // A paused process ends only once it goes on.
        tell(squid, Order::Continue).await?;
    }
    // Helpers end by themselves when their Squid does.
    if gone(place, STOP_BUDGET).await?.is_ok() {
        return Ok(());
    }
    for process in alive(place).await?.all() {
        tell(process, Order::Kill).await?;
    }
    gone(place, KILL_BUDGET)
        .await?
        .map_err(|status| Error::transient(format!("Squid cannot be stopped, not even by force: {status}")))
}

/// The proxy's processes.
async fn alive(place: &Place) -> Result<Alive, Error> {
    let place = place.clone();
    seam::disk("find processes", move || {
        process::alive(&place.conf(), &place.passwords())
            .map_err(|error| classify::process(error, "read the process table"))
    })
    .await
}

/// Tells exactly this process.
pub(super) async fn tell(target: &Identity, order: Order) -> Result<(), Error> {
    let target = target.clone();
    seam::disk("signal squid", move || {
        process::tell(&target, order)
            .map_err(|error: io::Error| classify::process(error, &format!("signal process {}", target.pid)))
    })
    .await
}

/// Waits until nothing of the proxy is alive; `Err` inside says what still is.
async fn gone(place: &Place, budget: Duration) -> Result<Result<(), String>, Error> {
    let limits = Limits::after(budget);
    let looks = call::poll(&limits, LOOKS, || async {
        let alive = alive(place).await?;
        let pids: Vec<_> = alive.all().map(|process| process.pid.to_string()).collect();
        Ok(if pids.is_empty() {
            Look::Done(())
        } else {
            Look::Pending(format!("still alive: process {}", pids.join(", ")))
        })
    });
    match looks.await {
        Ok(()) => Ok(Ok(())),
        Err(Unfinished::Failed { error, .. }) => Err(error),
        Err(Unfinished::Interrupted { last, .. }) => Ok(Err(last.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_squid_is_named_with_the_way_out() {
        let error = find(Some(Path::new("/nowhere/squid")), None).expect_err("it is not there");
        assert!(error.to_string().contains("/nowhere/squid") && error.to_string().contains("`squid`"));
        let error = find(Some(Path::new("/etc/passwd")), None).expect_err("no program");
        assert!(error.to_string().contains("/etc/passwd"));
    }

    #[test]
    fn path_comes_before_the_other_places_and_relative_entries_count_for_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("squid");
        std::fs::write(&program, "").expect("written");
        let path = std::env::join_paths([Path::new("."), dir.path()]).expect("a path");
        let unlucky = find(None, Some(&path)).map(|found| found == program);
        assert!(
            !matches!(unlucky, Ok(true)),
            "a file that cannot be run is no program"
        );
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
        assert_eq!(find(None, Some(&path)).expect("there"), program);
    }

    #[test]
    fn what_squid_complains_of_is_told_without_its_times() {
        for (said, told) in [
            ("", "it says nothing"),
            (
                "2026/11/30 02:55:19| Starting\n2026/11/30 02:55:19| FATAL: Bungled x line 3: y\n",
                "FATAL: Bungled x line 3: y",
            ),
            (
                "2026/11/30 02:55:19 kid1| commBind Cannot bind socket FD 13 to 127.0.0.1:1: (98)\nother\n",
                "commBind Cannot bind socket FD 13 to 127.0.0.1:1: (98)",
            ),
            ("odd words\n", "odd words"),
        ] {
            assert_eq!(complaints(said), told);
        }
        let many: String = (0..9).map(|n| format!("ERROR {n}\n")).collect();
        assert_eq!(complaints(&many), "ERROR 4; ERROR 5; ERROR 6; ERROR 7; ERROR 8");
    }
}
