//! What is refused before anything is planned, with its place and the way out.

use egress::plugin::provider::ClientCapabilities;
use egress::plugin::value::Value;

use crate::core::Core;
use crate::world::{block, proxy, texts};

fn access<const N: usize>(arguments: [(&str, Value); N]) -> Value {
    proxy("a", [("access", block(arguments))])
}

#[tokio::test]
async fn every_mistake_has_its_place_and_the_way_out() {
    let text = |value: &str| Value::from(value);
    let cases: Vec<(Value, &str, &str)> = vec![
        (proxy("Bad_Name", []), "name", "lower-case"),
        (
            proxy("a", [("namespace", text("-x"))]),
            "namespace",
            "start with a letter",
        ),
        (proxy("a", [("backend", text("x y"))]), "backend", "lower-case"),
        (proxy("a", [("port", Value::from(0))]), "port", "65535"),
        (proxy("a", [("port", Value::from(70000))]), "port", "70000"),
        (proxy("a", [("wait_for", text("ssh"))]), "wait_for", "\"ready\""),
        (
            proxy("a", [("timeouts", block([("create", text("soon"))]))]),
            "timeouts.create",
            "1h30m",
        ),
        (
            proxy(
                "a",
                [("labels", Value::object([("egress-proxy/uid", text("x"))]))],
            ),
            "labels[\"egress-proxy/uid\"]",
            "belong to the provider",
        ),
        (
            proxy("a", [("labels", Value::object([("x", Value::Null)]))]),
            "labels[\"x\"]",
            "null",
        ),
        (
            access([("allowed_cidrs", texts(&["10.0.0.0/8", "10.0.0.1"]))]),
            "access.allowed_cidrs[1]",
            "10.0.0.1/32",
        ),
        (
            access([("allowed_cidrs", texts(&["10.0.0.0/33"]))]),
            "access.allowed_cidrs[0]",
            "10.0.0.0/33",
        ),
        (
            access([("allowed_cidrs", Value::List(vec![Value::Null]))]),
            "access.allowed_cidrs[0]",
            "null",
        ),
        (
            access([("allowed_ports", Value::from(vec![443, 0]))]),
            "access.allowed_ports[1]",
            "65535",
        ),
        (
            access([("allowed_domains", texts(&["https://x.org"]))]),
            "access.allowed_domains[0]",
            "https://x.org",
        ),
        (
            access([("username", text("u"))]),
            "access.username",
            "password_wo",
        ),
        (
            access([("username", text("a:b")), ("password_hash", text("$6$a$b"))]),
            "access.username",
            "a:b",
        ),
        (
            access([("username", text("u")), ("password_wo", text("p"))]),
            "access.password_wo",
            "password_wo_version = 1",
        ),
        (
            access([("username", text("u")), ("password_wo_version", text("1"))]),
            "access.password_wo_version",
            "Set password_wo",
        ),
        (
            access([("password_wo", text("p")), ("password_wo_version", text("1"))]),
            "access.password_wo",
            "Set username",
        ),
        (
            access([
                ("username", text("u")),
                ("password_wo", text("p\n")),
                ("password_wo_version", text("1")),
            ]),
            "access.password_wo",
            "control character",
        ),
        (
            access([("username", text("u")), ("password_hash", text("clear"))]),
            "access.password_hash",
            "openssl passwd -6",
        ),
        (
            proxy("a", [("cloud_init_wo", text("#!"))]),
            "cloud_init_wo",
            "cloud_init_wo_version",
        ),
        (
            proxy("a", [("cloud_init_wo_version", text("1"))]),
            "cloud_init_wo_version",
            "cloud_init_wo",
        ),
        (proxy("a", [("cloud_init", text(" "))]), "cloud_init", "empty"),
    ];
    let core = Core::unconfigured();
    for (config, path, word) in cases {
        let problems = core.validate(&config).await;
        let found = problems
            .iter()
            .find(|problem| problem.path.as_ref().is_some_and(|at| at.to_string() == path));
        let found = found.unwrap_or_else(|| panic!("nothing at {path}: {problems:#?}"));
        assert!(
            found.is_error() && found.to_string().contains(word),
            "{word} is missing in: {found}"
        );
    }
}

#[tokio::test]
async fn all_mistakes_come_at_once_and_the_unknown_is_none() {
    let core = Core::unconfigured();
    let config = proxy(
        "B",
        [
            ("port", Value::from(0)),
            ("wait_for", Value::from("x")),
            ("access", block([("allowed_cidrs", texts(&["x", "y"]))])),
        ],
    );
    assert_eq!(core.validate(&config).await.len(), 5);
    let unknown = Value::unknown;
    let config = proxy(
        "a",
        [
            ("name", unknown()),
            ("port", unknown()),
            ("labels", unknown()),
            ("cloud_init", unknown()),
            ("placement", unknown()),
            (
                "access",
                block([
                    ("allowed_cidrs", unknown()),
                    ("username", unknown()),
                    ("password_wo", unknown()),
                    ("password_wo_version", unknown()),
                ]),
            ),
        ],
    );
    assert!(core.validate(&config).await.is_empty());
}

#[tokio::test]
async fn write_only_arguments_need_a_cli_that_has_them() {
    let mut core = Core::unconfigured();
    core.client = ClientCapabilities::default();
    let config = proxy(
        "a",
        [
            (
                "access",
                block([
                    ("username", Value::from("u")),
                    ("password_wo", Value::from("p")),
                    ("password_wo_version", Value::from("1")),
                ]),
            ),
            ("cloud_init_wo", Value::from("#!")),
            ("cloud_init_wo_version", Value::from("1")),
        ],
    );
    let problems = core.validate(&config).await;
    let text: String = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{text}");
    assert!(
        text.contains("password_hash") && text.contains("or cloud_init,") && text.contains("1.11"),
        "{text}"
    );
    assert!(core.validate(&proxy("a", [])).await.is_empty());
}
