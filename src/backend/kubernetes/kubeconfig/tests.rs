//! Kubeconfigs as people have them.

use std::fs;

use super::*;
use crate::contract::{ErrorKind, HealthReason};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

fn of(text: &str) -> Result<Chosen, Failure> {
    let folder = Folder::new();
    choose(&[folder.file("config", text)], None)
}

fn chosen(text: &str) -> Chosen {
    of(text).unwrap_or_else(|failure| panic!("{failure:?}"))
}

/// One context of one cluster and one user.
fn simple(cluster: &str, user: &str) -> String {
    format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: me}}}}]\nclusters: [{{name: k, cluster: {cluster}}}]\nusers: [{{name: me, user: {user}}}]\n"
    )
}

fn user(text: &str) -> Result<Chosen, Failure> {
    of(&simple("{server: 'https://s'}", text))
}

fn token(chosen: &Chosen) -> String {
    let header = chosen
        .token
        .as_ref()
        .expect("a token")
        .bearer()
        .expect("a header");
    header.to_str().expect("text").to_owned()
}

#[test]
fn of_two_files_the_first_to_name_something_counts_as_with_kubectl() {
    let folder = Folder::new();
    let entry = |context: &str, server: &str, token: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\ncontexts: [{{name: {context}, context: {{cluster: {context}, user: me}}}}]\nclusters: [{{name: {context}, cluster: {{server: '{server}'}}}}]\nusers: [{{name: me, user: {{token: {token}}}}}]\n"
        )
    };
    let paths = [
        folder.file("first", &entry("one", "https://one", "token-one")),
        folder.file("second", &entry("two", "https://two", "token-two")),
    ];
    let chosen = choose(&paths, Some("two")).expect("a context");
    assert_eq!(chosen.server, "https://two");
    assert_eq!(token(&chosen), "Bearer token-one");
    assert_eq!(chosen.warnings.len(), 1);
    let warning = &chosen.warnings[0];
    assert!(warning.contains("\"me\"") && warning.contains("first") && warning.contains("second"));
    assert!(!warning.contains("token-"), "{warning}");
    // The current context is that of the first file, and the same entry twice is no surprise.
    let chosen = choose(&paths, None).expect("a context");
    assert_eq!(chosen.server, "https://one");
    let same = [
        paths[0].clone(),
        folder.file("same", &entry("one", "https://one", "token-one")),
    ];
    assert_eq!(
        choose(&same, None).expect("a context").warnings,
        Vec::<String>::new()
    );
}

#[test]
fn of_several_files_those_that_are_missing_are_passed_over() {
    let folder = Folder::new();
    let there = folder.file("there", &simple("{server: 'https://s'}", "{}"));
    let missing = folder.0.path().join("missing");
    choose(&[missing.clone(), there], None).expect("a context");
    for paths in [vec![missing.clone()], vec![missing.clone(), missing]] {
        let failure = choose(&paths, None).expect_err("nothing is there");
        assert_eq!(failure.kind, ErrorKind::Permanent);
        assert!(
            failure.text.contains("missing") && failure.text.contains("exist"),
            "{}",
            failure.text
        );
    }
}

#[test]
fn what_is_named_must_be_there() {
    let no_current = "contexts: [{name: a, context: {cluster: k}}, {name: b, context: {cluster: k}}]";
    let no_cluster = "current-context: a\ncontexts: [{name: a, context: {cluster: k}}]";
    let no_user = "current-context: a\ncontexts: [{name: a, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: 'https://s'}}]";
    for (text, says) in [
        ("", "no current context: it has no contexts at all"),
        ("clusters: []\ncontexts: null\nusers:\n", "no current context"),
        (no_current, "set context to one of a, b"),
        (
            "current-context: x\ncontexts: [{name: a, context: {cluster: k}}]",
            "no context \"x\": set context to one of a",
        ),
        (no_cluster, "the cluster \"k\", which it does not have"),
        ("current-context: a\ncontexts: [{name: a}]", "names no cluster"),
        (no_user, "the user \"u\", which it does not have"),
        (&simple("{}", "{}"), "server of the cluster \"k\""),
        (&simple("{server: '10.0.0.1:6443'}", "{}"), "has no scheme"),
        (&simple("{server: 'https://u:geheim@s'}", "{}"), "a user name"),
        (
            &simple(
                "{server: 'https://s', certificate-authority-data: '!geheim'}",
                "{}",
            ),
            "no base64",
        ),
        ("kind: Pod\napiVersion: v1", "its kind is not Config"),
        ("kind: Config\napiVersion: v2", "its kind is not Config"),
        ("- geheim", "no kubeconfig"),
        ("users: [{name: me, user: {token: [geheim]}}]", "no kubeconfig"),
        ("users: {\n  geheim", "no kubeconfig"),
    ] {
        let failure = of(text).expect_err(text);
        assert_eq!(failure.kind, ErrorKind::Permanent, "{text}");
        assert_eq!(failure.reason, HealthReason::CredentialsUnavailable, "{text}");
        assert!(
            failure.text.contains(says),
            "{says:?} is not in {:?}",
            failure.text
        );
        assert!(!format!("{failure:?}").contains("geheim"), "{failure:?}");
    }
    let folder = Folder::new();
    let binary = folder.0.path().join("binary");
    fs::write(&binary, [0xff, 0xfe, 0x00]).expect("a file");
    let failure = choose(&[binary], None).expect_err("no text");
    assert!(failure.text.contains("UTF-8"), "{}", failure.text);
}

#[test]
fn a_context_without_a_user_is_anonymous() {
    let text = "current-context: a\ncontexts: [{name: a, context: {cluster: k, user: ''}}]\nclusters: [{name: k, cluster: {server: 'https://s'}}]";
    let chosen = chosen(text);
    assert!(chosen.token.is_none() && chosen.identity.is_none());
}

#[test]
fn paths_are_relative_to_their_file() {
    let folder = Folder::new();
    let path = folder.file(
        "config",
        &simple(
            "{server: 'https://s', certificate-authority: ca.pem}",
            "{tokenFile: sub/token, client-certificate: ./c.pem, client-key: /etc/key.pem}",
        ),
    );
    let chosen = choose(&[path], None).expect("a context");
    let path = |named: &Named| match &named.material {
        Material::File(path) => path.clone(),
        Material::Inline(_) => panic!("no path"),
    };
    let root = folder.0.path();
    assert_eq!(
        path(chosen.ca.as_ref().expect("a certificate")),
        root.join("ca.pem")
    );
    assert_eq!(
        path(chosen.token.as_ref().expect("a token")),
        root.join("sub/token")
    );
    let (certificate, key) = chosen.identity.expect("an identity");
    assert_eq!(path(&certificate), root.join("./c.pem"));
    assert_eq!(path(&key), PathBuf::from("/etc/key.pem"));

    let exec = |command: &str| {
        let folder = Folder::new();
        let text = format!("{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}}}}}");
        let file = folder.file("config", &simple("{server: 'https://s'}", &text));
        let chosen = choose(std::slice::from_ref(&file), None).expect("a context");
        let command = chosen.exec.expect("a plugin").command;
        (command, folder.0.path().to_owned())
    };
    let (command, folder) = exec("./bin/plugin");
    assert_eq!(command, folder.join("./bin/plugin"));
    assert_eq!(exec("aws").0, PathBuf::from("aws"));
}

#[test]
fn a_token_file_beats_a_token_which_is_there_for_when_it_cannot_be_read() {
    let chosen = user("{token: spare, tokenFile: token}").expect("a user");
    assert!(matches!(
        chosen.token.expect("a token").material,
        Material::File(_)
    ));
    let spare = chosen.spare_token.expect("a spare one").bearer();
    assert_eq!(spare.expect("a header"), "Bearer spare");
}

#[test]
fn data_beats_a_path() {
    let text =
        "{client-certificate-data: YQ==, client-certificate: a, client-key-data: 'Yg\n  ==', client-key: b}";
    let (certificate, key) = user(text).expect("a user").identity.expect("an identity");
    assert!(matches!(certificate.material, Material::Inline(secret) if secret.expose() == "a"));
    assert!(matches!(key.material, Material::Inline(secret) if secret.expose() == "b"));
}

#[test]
fn a_plugin_is_taken_as_it_is_written_unless_it_wants_a_terminal() {
    let exec = |text: &str| {
        user(&format!("{{exec: {{command: p, {text}}}}}")).map(|chosen| chosen.exec.expect("a plugin"))
    };
    let v1 = "apiVersion: client.authentication.k8s.io/v1";
    // Without interactiveMode, which kubectl demands of v1: it gets no terminal either way.
    let plain = exec(&format!(
        "{v1}, args: [a, b], env: [{{name: N, value: V}}, {{name: E}}], installHint: Hint, provideClusterInfo: true"
    ))
    .expect("a plugin");
    assert_eq!(plain.version, ExecVersion::V1);
    assert_eq!(plain.args, ["a", "b"]);
    let env: Vec<_> = plain
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(env, [("E", ""), ("N", "V")]);
    assert_eq!(plain.install_hint.as_deref(), Some("Hint"));
    assert!(plain.wants_cluster);
    for mode in ["Never", "IfAvailable"] {
        exec(&format!("{v1}, interactiveMode: {mode}")).expect("a plugin");
    }
    for (text, says) in [
        (format!("{v1}, interactiveMode: Always"), "no terminal"),
        (
            "apiVersion: client.authentication.k8s.io/v1alpha1".to_owned(),
            "v1alpha1",
        ),
        ("args: []".to_owned(), "apiVersion is missing"),
    ] {
        let failure = exec(&text).expect_err(&text);
        assert!(failure.text.contains(says), "{}", failure.text);
    }
}

#[test]
fn a_token_or_a_password_makes_a_plugin_needless() {
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: p}";
    for other in ["token: a", "tokenFile: a", "username: u, password: p"] {
        let chosen = user(&format!("{{{other}, {exec}}}")).expect("a user");
        assert!(chosen.exec.is_none(), "{other}");
    }
}

#[test]
fn auth_providers_are_those_that_kubectl_still_has() {
    let oidc = user("{auth-provider: {name: oidc, config: {id-token: abc, refresh-token: geheim}}}");
    assert_eq!(token(&oidc.expect("a user")), "Bearer abc");
    for (text, says) in [
        (
            "{auth-provider: {name: oidc, config: {refresh-token: geheim}}}",
            "no id-token",
        ),
        (
            "{auth-provider: {name: gcp, config: {access-token: geheim}}}",
            "gke-gcloud-auth-plugin",
        ),
        ("{auth-provider: {name: azure}}", "kubelogin"),
    ] {
        let failure = user(text).expect_err(text);
        assert!(
            failure.text.contains(says) && !failure.text.contains("geheim"),
            "{}",
            failure.text
        );
    }
}

#[test]
fn impersonation_needs_a_user() {
    let chosen = user("{as: a, as-uid: u, as-groups: [g], as-user-extra: {k: [v]}}").expect("a user");
    let impersonate = chosen.impersonate.expect("somebody");
    assert_eq!(impersonate.user.as_deref(), Some("a"));
    assert_eq!((impersonate.groups.len(), impersonate.extra.len()), (1, 1));
    assert!(
        user("{as-groups: [g]}")
            .expect_err("no user")
            .text
            .contains("need a user")
    );
}

#[test]
fn a_cluster_is_taken_whole() {
    let text = "{server: 'https://s:6443/path', insecure-skip-tls-verify: true, tls-server-name: n, proxy-url: 'socks5://p', extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: a}}]}";
    let chosen = chosen(&simple(text, "{}"));
    assert_eq!(chosen.server, "https://s:6443/path");
    assert!(chosen.insecure);
    assert_eq!(chosen.server_name.as_deref(), Some("n"));
    assert_eq!(chosen.proxy.expect("a proxy").1.expose(), "socks5://p");
    assert_eq!(chosen.exec_config, Some(serde_json::json!({ "audience": "a" })));
}

#[test]
fn a_byte_order_mark_is_no_content() {
    let text = format!("\u{feff}{}", simple("{server: 'https://s'}", "{}"));
    assert_eq!(chosen(&text).server, "https://s");
}
