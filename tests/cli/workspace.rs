//! A folder in which one CLI runs our provider, and nothing of the machine's own configuration.
//!
//! Knows nothing of what a configuration says. Invariant: when it is dropped, no process that knew its
//! folder is alive, whatever the test did.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::release::Cli;
use crate::run::Run;

/// How long one command may take before the test gives up on it. Not an assertion on speed.
const PATIENCE: Duration = Duration::from_secs(300);

/// The provider as built with the tests.
pub(crate) const PROVIDER: &str = env!("CARGO_BIN_EXE_terraform-provider-egress");

/// One CLI in one folder.
pub(crate) struct Workspace {
    folder: TempDir,
    cli: Cli,
    env: BTreeMap<String, String>,
    patience: Duration,
}

impl Workspace {
    /// An empty folder, with the provider under development in place of any installed one.
    pub(crate) fn new(cli: &Cli) -> Self {
        // Squid gives up root and has to reach its files below this folder.
        let folder = tempfile::Builder::new()
            .prefix("egress-cli-")
            .permissions(fs::Permissions::from_mode(0o711))
            .tempdir()
            .expect("a temporary folder");
        let path = folder.path();
        for name in ["home", "bin", "infra", "tmp"] {
            fs::create_dir(path.join(name)).expect("a folder");
        }
        std::os::unix::fs::symlink(PROVIDER, path.join("bin/terraform-provider-egress")).expect("a link");
        let config = format!(
            "provider_installation {{\n  dev_overrides {{\n    \"egress-proxies/egress\" = {:?}\n  }}\n  direct {{}}\n}}\n",
            path.join("bin")
        );
        fs::write(path.join("cli.tfrc"), config).expect("a file");
        let env = [
            ("PATH", std::env::var("PATH").unwrap_or_default()),
            ("HOME", text(&path.join("home"))),
            ("TMPDIR", text(&path.join("tmp"))),
            ("TF_CLI_CONFIG_FILE", text(&path.join("cli.tfrc"))),
            ("TF_IN_AUTOMATION", "1".into()),
            ("TF_INPUT", "0".into()),
            ("CHECKPOINT_DISABLE", "1".into()),
            ("EGRESS_STATE_DIR", text(&path.join("proxies"))),
        ];
        Self {
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
            cli: cli.clone(),
            folder,
            patience: PATIENCE,
        }
    }

    /// The same with a `main.tf`.
    pub(crate) fn with(cli: &Cli, main: &str) -> Self {
        let workspace = Self::new(cli);
        workspace.write("main.tf", main);
        workspace
    }

    /// A second folder for configuration and state that shares everything else: another team's state.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn infra(&self) -> PathBuf {
        self.path("infra")
    }

    /// Writes a file of the configuration; what was there is replaced.
    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.infra().join(name), content).expect("a file");
    }

    pub(crate) fn set_env(&mut self, name: &str, value: impl Into<String>) {
        self.env.insert(name.to_owned(), value.into());
    }

    /// For commands that wait for more than processes of this machine.
    pub(crate) fn be_patient(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// A command in the workspace's environment, in a process group of its own.
    pub(crate) fn command(&self, program: &Path, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    /// Starts the CLI and leaves it running.
    pub(crate) fn start(&self, arguments: &[&str]) -> Started {
        self.start_in(&self.infra(), arguments)
    }

    fn start_in(&self, folder: &Path, arguments: &[&str]) -> Started {
        let mut started = Started::new(
            self.command(&self.cli.path, folder, arguments),
            arguments.join(" "),
        );
        started.patience = self.patience;
        started
    }

    /// Runs the CLI to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.start(arguments).wait()
    }

    /// Runs the CLI in another folder of the workspace.
    pub(crate) fn run_in(&self, folder: &Path, arguments: &[&str]) -> Run {
        self.start_in(folder, arguments).wait()
    }

    /// Runs the provider's own command line.
    pub(crate) fn ask_provider(&self, arguments: &[&str]) -> Run {
        Started::new(
            self.command(Path::new(PROVIDER), &self.infra(), arguments),
            arguments.join(" "),
        )
        .wait()
    }

    #[track_caller]
    pub(crate) fn apply(&self) -> Run {
        self.run(&["apply", "-auto-approve", "-no-color"]).succeeds()
    }

    #[track_caller]
    pub(crate) fn destroy(&self) -> Run {
        self.run(&["destroy", "-auto-approve", "-no-color"]).succeeds()
    }

    /// A plan finds nothing to do.
    #[track_caller]
    pub(crate) fn plans_nothing(&self) {
        self.run(&["plan", "-detailed-exitcode", "-no-color"]).succeeds();
    }

    /// What a plan would do, by resource address: `["create"]`, `["update"]`, `["delete", "create"]`, …
    #[track_caller]
    pub(crate) fn planned(&self, arguments: &[&str]) -> Planned {
        let all = [&["plan", "-out=plan.bin", "-no-color"], arguments].concat();
        self.run(&all).succeeds();
        let json = self.run(&["show", "-json", "plan.bin"]).succeeds().json();
        Planned(json)
    }

    /// A resource's values in the state; `None` where the state does not hold it.
    #[track_caller]
    pub(crate) fn state_of(&self, address: &str) -> Option<Value> {
        self.instance(address).map(|instance| instance["values"].clone())
    }

    /// Whether the state marks a resource for replacement.
    #[track_caller]
    pub(crate) fn is_tainted(&self, address: &str) -> bool {
        let instance = self
            .instance(address)
            .unwrap_or_else(|| panic!("{address} is not in the state"));
        instance["tainted"] == true
    }

    fn instance(&self, address: &str) -> Option<Value> {
        let json = self.run(&["show", "-json"]).succeeds().json();
        let resources = json["values"]["root_module"]["resources"].as_array().cloned();
        resources
            .unwrap_or_default()
            .into_iter()
            .find(|resource| resource["address"] == address)
    }

    /// Every process that was told of the workspace's folder, by command line or environment.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let folder = text(self.folder.path());
        let entries = fs::read_dir("/proc").expect("/proc");
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(Process::read)
            .filter(|process| process.command.contains(&folder) || process.environment.contains(&folder))
            .collect()
    }

    /// Kills the Squids of the workspace's proxies, and returns when they are dead.
    #[track_caller]
    pub(crate) fn kill_squids(&self) {
        let squids = || -> Vec<Process> {
            let processes = self.processes().into_iter();
            processes
                .filter(|process| process.command.contains("squid"))
                .collect()
        };
        let mut alive = squids();
        assert!(!alive.is_empty(), "no Squid runs");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !alive.is_empty() {
            assert!(Instant::now() < deadline, "these survived a SIGKILL: {alive:#?}");
            for squid in &alive {
                squid.kill(Signal::KILL);
            }
            alive = squids();
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // A process that ends of itself just now is no leak: wait for it, but not for ever.
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut left = self.processes();
        while !left.is_empty() && Instant::now() < deadline {
            std::thread::yield_now();
            left = self.processes();
        }
        for process in &left {
            process.kill(Signal::KILL);
        }
        if !left.is_empty() && !std::thread::panicking() {
            panic!("processes outlived the test: {left:#?}");
        }
    }
}

/// A process, as `/proc` tells.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) command: String,
    environment: String,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.pid, self.command)
    }
}

impl Process {
    /// `None` for one that is gone, or dead and not waited for.
    fn read(pid: i32) -> Option<Self> {
        let read = |name: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{name}")).ok()?;
            Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
        };
        let stat = read("stat")?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        (!matches!(state, 'Z' | 'X')).then_some(())?;
        Some(Self {
            pid,
            command: read("cmdline")?,
            environment: read("environ").unwrap_or_default(),
        })
    }

    pub(crate) fn kill(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended by now, which is as good.
            let _ = kill_process(pid, signal);
        }
    }
}

/// A CLI that runs.
pub(crate) struct Started {
    child: Child,
    command: String,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
    patience: Duration,
}

impl Started {
    pub(crate) fn new(mut command: Command, shown: String) -> Self {
        let program = Path::new(command.get_program())
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = drain(child.stdout.take().expect("piped"));
        let stderr = drain(child.stderr.take().expect("piped"));
        Self {
            child,
            command: format!("{} {shown}", program.unwrap_or_default()),
            stdout,
            stderr,
            patience: PATIENCE,
        }
    }

    /// What Ctrl-C does: the signal goes to the CLI and to every plugin it started.
    pub(crate) fn interrupt(&self) {
        kill_process_group(self.group(), Signal::INT).expect("the CLI runs");
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for its end; gives up on one that hangs.
    pub(crate) fn wait(mut self) -> Run {
        let group = self.group();
        // Both streams end when the CLI and everything it started have ended or closed them.
        let deadline = Instant::now() + self.patience;
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let stdout = self.stdout.recv_timeout(left(deadline));
        let stderr = self.stderr.recv_timeout(left(deadline));
        if stdout.is_err() || stderr.is_err() {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
            panic!("{} did not end within {:?}", self.command, self.patience);
        }
        let status = self.child.wait().expect("our child");
        Run {
            command: self.command,
            code: status.code(),
            stdout: stdout.unwrap_or_default(),
            stderr: stderr.unwrap_or_default(),
        }
    }
}

/// Reads a stream to its end beside everything else.
fn drain(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// A plan as JSON.
pub(crate) struct Planned(pub(crate) Value);

impl Planned {
    /// What it does with one resource.
    pub(crate) fn actions(&self, address: &str) -> Vec<String> {
        let actions = &self.change(address)["change"]["actions"];
        let actions = actions.as_array().into_iter().flatten();
        actions
            .map(|action| action.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The whole entry of one resource; null where the plan does not have it.
    pub(crate) fn change(&self, address: &str) -> Value {
        let mut changes = self.0["resource_changes"].as_array().into_iter().flatten();
        changes
            .find(|change| change["address"] == address)
            .cloned()
            .unwrap_or_default()
    }

    /// Which attributes force the replacement of a resource.
    pub(crate) fn replaced_by(&self, address: &str) -> Value {
        self.change(address)["change"]["replace_paths"].clone()
    }
}

fn text(path: &Path) -> String {
    path.to_str()
        .expect("temporary folders have plain names")
        .to_owned()
}
