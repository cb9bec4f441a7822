//! The generated `squid.conf` and password file before the real Squid and its real helper.
//!
//! Nothing here starts a proxy: that is `tests/local_traffic.rs`. What `squid -k parse` complains
//! about fails the test, be it an error or a warning.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use egress::contract::spec::PasswordFact;
use egress::contract::{Facts, Secret};
use egress::squid::{
    AccessLog, Descriptors, Loopback, PasswordFile, Policy, Site, password, release, render,
};

const SQUID: &str = "/usr/sbin/squid";

fn helper() -> String {
    let output = Command::new(SQUID).arg("-v").output().expect("squid -v runs");
    release::Release::parse(&String::from_utf8_lossy(&output.stdout))
        .helper_candidates()
        .find(|path| Path::new(path).exists())
        .expect("Squid's password helper is installed")
}

fn site(dir: &Path) -> Site {
    let path = |name: &str| dir.join(name).as_path().try_into().expect("a plain path");
    Site {
        listen: vec!["127.0.0.1".parse().expect("an address")],
        loopback: Loopback::Denied,
        pid_file: None,
        cache_log: path("cache.log"),
        access_log: AccessLog::None,
        work_dir: dir.try_into().expect("a plain path"),
        passwords: PasswordFile {
            helper: helper().parse().expect("a plain path"),
            file: path("passwd"),
        },
        descriptors: Descriptors::DEFAULT,
        shutdown_lifetime: Duration::from_secs(1),
        visible_hostname: "egress-proxy".parse().expect("a name"),
    }
}

fn facts(cidrs: &[&str]) -> Facts {
    Facts {
        allowed_cidrs: Some(
            cidrs
                .iter()
                .map(|cidr| cidr.parse().expect("a network"))
                .collect(),
        ),
        ..Facts::default()
    }
}

/// What Squid says about a configuration that it should take without a word: its exit, and every
/// line that is no report of progress.
fn complaints(conf: &str, dir: &Path) -> Vec<String> {
    let file = dir.join("squid.conf");
    std::fs::write(&file, conf).expect("written");
    let output = Command::new(SQUID)
        .args(["-k", "parse", "-f"])
        .arg(&file)
        .output()
        .expect("squid runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut complaints: Vec<_> = said
        .lines()
        .filter(|line| {
            ["WARNING", "ERROR", "FATAL", "NOTICE", "Bungled"]
                .iter()
                .any(|word| line.contains(word))
        })
        // The choice is ours: a proxy that names itself tells the destination whose client asks.
        .filter(|line| !line.ends_with("WARNING: HTTP requires the use of Via"))
        .map(str::to_owned)
        .collect();
    if !output.status.success() {
        complaints.push(format!("{}: {said}", output.status));
    }
    complaints
}

#[test]
#[ignore = "needs squid"]
fn squid_takes_what_is_generated() {
    let many: Vec<String> = (0..2000)
        .map(|n| format!("10.{}.{}.0/25", n / 250, n % 250))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let user = |facts| Facts {
        username: Some("team@a.b-c+d_e".into()),
        password: Some(PasswordFact::Version("1".into())),
        ..facts
    };
    let domains = |listed: &[&str]| Facts {
        allowed_domains: Some(listed.iter().map(|&domain| domain.to_owned()).collect()),
        ..facts(&["10.0.0.0/8"])
    };
    let table = [
        ("one network", facts(&["10.0.0.0/8"])),
        (
            "both families",
            facts(&["10.42.0.7/32", "100.64.0.5/32", "fd00::1/128", "fd00::/8"]),
        ),
        ("everything", facts(&["0.0.0.0/0", "::/0"])),
        ("IPv4 within IPv6", facts(&["::/8", "::ffff:0:0/95"])),
        (
            "networks within networks",
            facts(&["10.0.0.0/8", "10.1.0.0/16", "10.1.1.1/32"]),
        ),
        ("nobody", facts(&[])),
        ("two thousand networks", facts(&many)),
        ("a user", user(facts(&["10.0.0.0/8"]))),
        (
            "no tunnel",
            Facts {
                allowed_ports: Some(vec![]),
                ..facts(&["10.0.0.0/8"])
            },
        ),
        (
            "many ports",
            Facts {
                allowed_ports: Some((1..=1000).collect()),
                ..facts(&["10.0.0.0/8"])
            },
        ),
        (
            "the largest port",
            Facts {
                port: Some(65_535),
                ..facts(&["10.0.0.0/8"])
            },
        ),
        ("no destination", domains(&[])),
        (
            "destinations within destinations",
            domains(&[
                "example.com",
                ".example.com",
                "a.example.com",
                ".b.example.com",
                ".com.example",
                "localhost",
            ]),
        ),
        (
            "addresses",
            domains(&["192.0.2.1", "2001:db8::1", "_a.b-c.xn--bcher-kva.example"]),
        ),
        ("all at once", user(domains(&[".example.com", "192.0.2.1"]))),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    for (case, facts) in table {
        for loopback in [Loopback::Denied, Loopback::ForLoopbackClients] {
            for listen in [&[][..], &["127.0.0.1"], &["127.0.0.1", "::1"]] {
                let listen = listen
                    .iter()
                    .map(|address| address.parse().expect("an address"))
                    .collect();
                let site = Site {
                    loopback,
                    listen,
                    ..site(dir.path())
                };
                let conf = render(&Policy::of(&facts).expect(case), &site);
                assert_eq!(complaints(&conf, dir.path()), [""; 0], "{case}, {loopback:?}");
            }
        }
    }
}

#[test]
#[ignore = "needs squid"]
fn squid_takes_every_kind_of_site() {
    let dir = tempfile::tempdir().expect("a directory");
    let policy = Policy::of(&facts(&["10.0.0.0/8"])).expect("sound");
    let container = Site {
        cache_log: "/dev/null".parse().expect("a path"),
        access_log: AccessLog::File("/dev/stdout".parse().expect("a path")),
        listen: vec![],
        ..site(dir.path())
    };
    let machine = Site {
        pid_file: Some(dir.path().join("squid.pid").as_path().try_into().expect("a path")),
        access_log: AccessLog::File(
            dir.path()
                .join("access.log")
                .as_path()
                .try_into()
                .expect("a path"),
        ),
        descriptors: 65_536.try_into().expect("in range"),
        shutdown_lifetime: Duration::ZERO,
        ..site(dir.path())
    };
    for site in [container, machine] {
        assert_eq!(
            complaints(&render(&policy, &site), dir.path()),
            [""; 0],
            "{site:?}"
        );
    }
}

/// The test above would see a mistake: Squid refuses each of these.
#[test]
#[ignore = "needs squid"]
fn squid_complains_about_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a directory");
    let good = render(
        &Policy::of(&facts(&["10.0.0.0/8"])).expect("sound"),
        &site(dir.path()),
    );
    for wrong in [
        "http_acces deny all",
        "acl d dstdomain .example.com\nacl d dstdomain a.example.com",
        "acl c src 0.0.0.0/0",
        "http_access deny nobody",
    ] {
        assert_ne!(
            complaints(&format!("{good}{wrong}\n"), dir.path()),
            [""; 0],
            "{wrong}"
        );
    }
}

/// Asks the helper as Squid does: a line of user and password, percent-encoded.
fn helper_says(file: &Path, line: &str) -> String {
    let mut child = Command::new(helper())
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the helper runs");
    let mut stdin = child.stdin.take().expect("piped");
    writeln!(stdin, "{line}").expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("the helper ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs squid"]
fn squids_helper_verifies_every_hash_that_is_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("passwd");
    let user = "team".parse().expect("a user");
    let fresh = password::hash(&Secret::new("pw long enough")).expect("hashed");
    let of = |plain: &str, method: &str| {
        // mkpasswd is not installed everywhere; perl's crypt is the C library's.
        let output = Command::new("perl")
            .args(["-e", "print crypt($ARGV[0], $ARGV[1])", plain, method])
            .output()
            .expect("perl runs");
        Secret::new(String::from_utf8(output.stdout).expect("ASCII"))
    };
    let plain = "pw long enough";
    let hashes = [
        fresh,
        of(plain, "$6$saltsalt"),
        of(plain, "$6$rounds=10000$salt"),
        of(plain, "$5$saltsalt"),
        of(plain, "$y$j9T$F5Jx5fExrKuPp53xLKQ..1"),
        of(plain, "$2y$05$bvIG6Nmid91Mu9RcmmWZfO"),
        of(plain, "$2b$05$bvIG6Nmid91Mu9RcmmWZfO"),
        of(plain, "$1$saltsalt"),
        // `openssl passwd -apr1 -salt saltsalt 'pw long enough'`: crypt(3) does not know this one.
        Secret::new("$apr1$saltsalt$oZckmdOOl/ygP53fE4eC90"),
    ];
    for hash in hashes {
        let shown = hash.expose().to_owned();
        std::fs::write(&file, password::file(&user, &hash).expect(&shown).expose()).expect("written");
        assert!(
            helper_says(&file, "team pw%20long%20enough").starts_with("OK"),
            "{shown}"
        );
        assert!(helper_says(&file, "team pw%20long").starts_with("ERR"), "{shown}");
        assert!(
            helper_says(&file, "other pw%20long%20enough").starts_with("ERR"),
            "{shown}"
        );
    }
}
