//! The shell that owns the processes of a cluster, so that none outlives the test process.
//!
//! Knows nothing of Kubernetes. Invariant: when the supervisor is dropped, or the test process ends in
//! whatever way, everything it started ends and its folder is removed.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// See `supervise.sh`.
pub(crate) struct Supervisor {
    folder: PathBuf,
    child: Child,
    /// `None` only while it is dropped. Commands and answers alternate, hence one lock for both.
    pipes: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Supervisor {
    /// One in the namespaces of the test process.
    pub(crate) fn here() -> Self {
        Self::start(&[])
    }

    /// One in network, process and mount namespaces of its own; needs root.
    pub(crate) fn isolated(cgroup: &str) -> Self {
        Self::start(&["node", cgroup])
    }

    fn start(role: &[&str]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("egress-kube-")
            .tempdir()
            .expect("a temporary folder")
            .keep();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kube_node/supervise.sh");
        let mut child = Command::new("sh")
            .arg(script)
            .arg(&folder)
            .args(role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the test process: the end of the pipe tells this one.
            .process_group(0)
            .spawn()
            .expect("sh");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let supervisor = Self {
            folder,
            child,
            pipes: Mutex::new(Some((input, output))),
        };
        supervisor.answered("ready", None);
        supervisor
    }

    /// Where scripts, logs and everything else of the cluster is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file into the folder and says where it is.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Runs a program until it ends or is stopped.
    pub(crate) fn run(&self, name: &str, program: &Path, arguments: &[String]) {
        let mut script = format!("exec {}", quoted(&program.display().to_string()));
        for argument in arguments {
            let _ = write!(script, " \\\n  {}", quoted(argument));
        }
        self.write(&format!("{name}.sh"), script + "\n");
        self.again(name);
    }

    /// Runs a program again that was stopped.
    pub(crate) fn again(&self, name: &str) {
        self.answered("done", Some(&format!("start {name}")));
    }

    /// Kills a program, and returns when it is dead.
    pub(crate) fn stop(&self, name: &str) {
        self.answered("done", Some(&format!("stop {name}")));
    }

    pub(crate) fn signal(&self, name: &str, signal: &str) {
        self.answered("done", Some(&format!("signal {name} {signal}")));
    }

    /// The last lines of a program's log, for a failure's text.
    pub(crate) fn log(&self, name: &str) -> String {
        let text = std::fs::read(self.path(&format!("{name}.log"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// The process id of the first process inside, for `nsenter`; of an isolated supervisor only.
    pub(crate) fn inner_pid(&self) -> u32 {
        let child_of = |pid: u32| -> u32 {
            let path = format!("/proc/{pid}/task/{pid}/children");
            let children = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            let first = children
                .split_whitespace()
                .next()
                .and_then(|pid| pid.parse().ok());
            first.unwrap_or_else(|| panic!("{path} names no process"))
        };
        child_of(child_of(self.child.id()))
    }

    fn answered(&self, expected: &str, command: Option<&str>) {
        let mut pipes = self
            .pipes
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (input, output) = pipes.as_mut().expect("not dropped");
        if let Some(command) = command {
            writeln!(input, "{command}").expect("the supervisor reads");
        }
        let mut answer = String::new();
        output.read_line(&mut answer).expect("the supervisor answers");
        assert_eq!(
            answer.trim_end(),
            expected,
            "the supervisor's answer to {command:?}"
        );
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.pipes
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        let _ = self.child.wait();
    }
}

/// A word for the shell that means itself.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
