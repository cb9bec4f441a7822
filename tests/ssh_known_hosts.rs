//! Our known_hosts matcher and OpenSSH's own client, asked about the same lines.
//!
//! OpenSSH's server is started by the client itself for each question and speaks through a pipe, so
//! nothing listens anywhere.

use std::path::Path;
use std::process::{Command, Stdio};

use egress::transport::known_hosts::{HostName, KnownHosts, Verdict};
use russh::keys::PublicKey;

#[derive(Debug, PartialEq, Eq)]
enum Word {
    Known,
    Unknown,
    Changed,
    Revoked,
}

fn ours(verdict: &Verdict) -> Word {
    match verdict {
        Verdict::Known { .. } => Word::Known,
        Verdict::Unknown { .. } => Word::Unknown,
        Verdict::Changed { .. } => Word::Changed,
        Verdict::Revoked { .. } => Word::Revoked,
    }
}

fn run(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; install openssh-client and openssh-server"));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn make_key(folder: &Path, name: &str, kind: &str) -> String {
    let path = folder.join(name);
    run(Command::new("ssh-keygen")
        .args(["-q", "-N", "", "-C", "", "-t", kind, "-f"])
        .arg(&path));
    let text = std::fs::read_to_string(path.with_extension("pub")).expect("a public key");
    text.trim().to_owned()
}

fn theirs(folder: &Path, host: &str, port: u16) -> Word {
    let in_folder = |name: &str| folder.join(name).display().to_string();
    let proxy = format!("/usr/sbin/sshd -i -f {} -E /dev/null", in_folder("sshd_config"));
    let said = run(Command::new("ssh")
        .args([
            "-F",
            "none",
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=yes",
        ])
        .args(["-o", "GlobalKnownHostsFile=none", "-o", "PubkeyAuthentication=no"])
        .args(["-o", &format!("UserKnownHostsFile={}", in_folder("known_hosts"))])
        .args(["-o", &format!("ProxyCommand={proxy}"), "-p", &port.to_string()])
        .args([&format!("nobody@{host}"), "true"]));
    if said.contains("REVOKED HOST KEY") {
        Word::Revoked
    } else if said.contains("IDENTIFICATION HAS CHANGED") {
        Word::Changed
    } else if said.contains("host key is known for") {
        Word::Unknown
    } else if said.contains("Permission denied") {
        Word::Known
    } else {
        panic!("ssh said something else: {said}")
    }
}

#[test]
#[ignore = "needs OpenSSH (openssh-client, openssh-server)"]
fn our_matcher_agrees_with_openssh() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::create_dir_all("/run/sshd").expect("sshd wants this folder");
    let server = make_key(folder, "server", "ed25519");
    let [other, rsa, ca] = [("other", "ed25519"), ("rsa", "rsa"), ("ca", "ed25519")]
        .map(|(name, kind)| make_key(folder, name, kind));
    let (mut hashed, mut hashed_port) = (String::new(), String::new());
    for (name, line) in [("kvm1.lan", &mut hashed), ("[kvm1.lan]:2222", &mut hashed_port)] {
        let file = folder.join("hashed");
        std::fs::write(&file, format!("{name} {server}\n")).expect("written");
        run(Command::new("ssh-keygen")
            .arg("-q")
            .arg("-H")
            .arg("-f")
            .arg(&file));
        *line = std::fs::read_to_string(&file).expect("hashed");
    }
    std::fs::write(
        folder.join("sshd_config"),
        format!(
            "HostKey {}\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PubkeyAuthentication yes\nAuthorizedKeysFile none\nStrictModes no\n",
            folder.join("server").display()
        ),
    )
    .expect("written");
    let offered = PublicKey::from_openssh(&server).expect("a key").into();
    let base64 = server.split(' ').nth(1).expect("two fields").to_owned();
    let cases: &[(&str, &str, u16)] = &[
        ("kvm1.lan {K}\n", "kvm1.lan", 22),
        ("kvm1.lan {K} a comment\n", "kvm1.lan", 22),
        ("kvm1.lan {K}\r\n", "kvm1.lan", 22),
        ("kvm1.lan {K}", "kvm1.lan", 22),
        ("a,kvm1.lan,b {K}\n", "kvm1.lan", 22),
        ("{H}", "kvm1.lan", 22),
        ("{H}", "KVM1.lan", 22),
        ("{H}", "kvm2.lan", 22),
        ("{HP}", "kvm1.lan", 2222),
        ("{HP}", "kvm1.lan", 22),
        ("fd00::5 {K}\n", "fd00::5", 22),
        ("[fd00::5]:2222 {K}\n", "fd00::5", 2222),
        ("[kvm1.lan]:2222 {K}\n", "kvm1.lan", 2222),
        ("[kvm1.lan]:2222 {K2}\n", "kvm1.lan", 2222),
        ("kvm1.lan {K2}\n", "kvm1.lan", 2222),
        ("kvm1.lan {K2}\n", "kvm1.lan", 22),
        ("kvm1.lan {R}\n", "kvm1.lan", 22),
        ("KVM1.Lan {K}\n", "kvm1.lan", 22),
        ("kvm1.lan {K}\n", "KVM1.LAN", 22),
        ("kvm1.lan\tssh-ed25519\t{b64}\n", "kvm1.lan", 22),
        ("kvm1.lan  ssh-ed25519  {b64}\n", "kvm1.lan", 22),
        ("  \tkvm1.lan {K}\n", "kvm1.lan", 22),
        ("*.lan {K}\n", "kvm1.lan", 22),
        ("kvm?.lan {K}\n", "kvm1.lan", 22),
        ("*.lan,!kvm1.lan {K}\n", "kvm1.lan", 22),
        ("!kvm1.lan,*.lan {K}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("kvm1.lan {K2}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("@revoked kvm1.lan {K}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("kvm1.lan {K}\n@revoked * {K}\n", "kvm1.lan", 22),
        ("@revoked other {K}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("@revoked * {K2}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("@revoked * {K}\n", "kvm1.lan", 22),
        ("@cert-authority *.lan {CA}\n", "kvm1.lan", 22),
        ("@cert-authority *.lan {K}\n", "kvm1.lan", 22),
        ("@cert-authority *.lan {CA}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("kvm1.lan ssh-ed25519 AAA!\nkvm1.lan {K}\n", "kvm1.lan", 22),
        (
            "kvm1.lan ssh-dss AAAAB3NzaC1kc3MAAACBAN\nkvm1.lan {K}\n",
            "kvm1.lan",
            22,
        ),
        ("kvm1.lan ssh-rsa {b64}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("kvm1.lan ssh-rsa {b64}\n", "kvm1.lan", 22),
        ("kvm1.lan\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("kvm1.lan # {K}\n", "kvm1.lan", 22),
        ("# a\n\n  # b\nkvm1.lan {K2}\n", "kvm1.lan", 22),
        ("[kvm1.lan]:22 {K}\n", "kvm1.lan", 22),
        ("", "kvm1.lan", 22),
        ("@foo kvm1.lan {K}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        (
            "@revoked @cert-authority kvm1.lan {K}\nkvm1.lan {K}\n",
            "kvm1.lan",
            22,
        ),
        ("\u{feff}kvm1.lan {K}\n", "kvm1.lan", 22),
        ("[*]:2222 {K}\n", "h", 2222),
        ("* {K}\n", "h", 2222),
        ("|1|x|y {K2}\nkvm1.lan {K}\n", "kvm1.lan", 22),
        ("|2|x|y {K2}\nkvm1.lan {K}\n", "kvm1.lan", 22),
    ];
    let mut differences = Vec::new();
    for (template, host, port) in cases {
        let lines = template
            .replace("{K}", &server)
            .replace("{K2}", &other)
            .replace("{R}", &rsa)
            .replace("{CA}", &ca)
            .replace("{HP}", &hashed_port)
            .replace("{H}", &hashed)
            .replace("{b64}", &base64);
        std::fs::write(folder.join("known_hosts"), &lines).expect("written");
        let records = KnownHosts::new("known_hosts", lines).about(&HostName::new(host, *port));
        let (ours, theirs) = (ours(&records.judge(&offered, 0)), theirs(folder, host, *port));
        if ours != theirs {
            differences.push(format!(
                "{template:?} for {host} {port}: we {ours:?}, OpenSSH {theirs:?}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    // The one intended difference: OpenSSH's client looks a second time without the port.
    std::fs::write(folder.join("known_hosts"), format!("h {server}\n")).expect("written");
    let records = KnownHosts::new("known_hosts", format!("h {server}\n")).about(&HostName::new("h", 2222));
    assert_eq!(theirs(folder, "h", 2222), Word::Known);
    assert_eq!(ours(&records.judge(&offered, 0)), Word::Unknown);
}
