//! The provider's configuration, as blocks and as a file.

use egress::config::{Config, Environment, Field, Scrutiny};
use egress::plugin::diagnostics::Diagnostics;
use egress::plugin::value::Value;
use egress::registry::kinds;

use crate::core::{Action, Core, filled};
use crate::world::{Place, provider, proxy};

fn environment(variables: &[(&str, &str)]) -> Environment {
    let home = [("HOME", "/home/u")];
    let variables = home.iter().chain(variables);
    Environment::Given(
        variables
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect(),
    )
}

fn read(block: Value, variables: &[(&str, &str)]) -> Result<Config, Diagnostics> {
    let block = filled(&egress::terraform::EgressProvider::provider_schema().block, block);
    Config::from_block(&block, kinds(), &environment(variables), Scrutiny::Whole)
}

fn memory() -> Value {
    Value::object([("memory", Value::object::<&str, Value>([]))])
}

fn names(config: &Config) -> Vec<String> {
    config
        .backends
        .iter()
        .flatten()
        .map(|(name, _)| name.to_string())
        .collect()
}

#[test]
fn without_a_backend_there_is_one_local() {
    let config = read(Value::Null, &[]).expect("valid");
    assert_eq!(names(&config), ["local"]);
    assert!(config.installation.is_null());
}

#[test]
fn an_argument_beats_its_variable_which_beats_the_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        "installation: of-file\nadopt: never\nbackends:\n  x:\n    memory:\n",
    )
    .expect("written");
    let path = file.path().to_string_lossy().into_owned();
    let installation = |config: &Config| match &config.installation {
        Field::Known(installation) => installation.to_string(),
        other => panic!("{other:?}"),
    };
    let variables = [("EGRESS_CONFIG", path.as_str())];
    let config = read(Value::Null, &variables).expect("valid");
    assert_eq!(
        (installation(&config), names(&config)),
        ("of-file".into(), vec!["x".into()])
    );
    let both = [
        ("EGRESS_CONFIG", path.as_str()),
        ("EGRESS_INSTALLATION", "of-variable"),
    ];
    assert_eq!(
        installation(&read(Value::Null, &both).expect("valid")),
        "of-variable"
    );
    let argument = Value::object([("installation", Value::from("of-argument"))]);
    assert_eq!(
        installation(&read(argument, &both).expect("valid")),
        "of-argument"
    );
    // Blocks make the variable's file unread.
    let blocks = Value::object([("backend", Value::object([("y", memory())]))]);
    assert_eq!(names(&read(blocks.clone(), &both).expect("valid")), ["y"]);
    let mut clash = blocks;
    clash.set("config_file", path);
    let problems = read(clash, &[]).expect_err("a clash");
    assert!(problems.0[0].to_string().contains("config_file"));
}

#[test]
fn every_mistake_comes_with_its_path() {
    let mut both = memory();
    both.set("local", Value::object::<&str, Value>([]));
    let listen = Value::object([(
        "local",
        Value::object([("listen", crate::world::texts(&["127.0.0.1", "localhost"]))]),
    )]);
    let block = Value::object([
        ("installation", Value::from("No Good")),
        ("adopt", Value::from("always")),
        (
            "backend",
            Value::object([
                ("Bad", memory()),
                ("none", Value::Null),
                ("both", both),
                ("at", listen),
            ]),
        ),
    ]);
    let problems = read(block, &[]).expect_err("mistakes");
    let mut found: Vec<_> = problems
        .iter()
        .map(|problem| problem.path.clone().unwrap_or_default().to_string())
        .collect();
    found.sort();
    let expected = [
        "adopt",
        "backend[\"Bad\"]",
        "backend[\"at\"].local.listen[1]",
        "backend[\"both\"]",
        "backend[\"none\"]",
        "installation",
    ];
    assert_eq!(found, expected, "{problems:#?}");
    let kinds = problems
        .iter()
        .find(|problem| problem.summary.contains("no kind"))
        .expect("one");
    assert!(
        kinds.detail.contains("local, memory") && kinds.summary.contains("\"none\""),
        "{kinds}"
    );
    for (word, backend) in [("several kinds", "\"both\""), ("cannot be called", "\"Bad\"")] {
        let problem = problems.iter().find(|problem| problem.summary.contains(word));
        let problem = problem.unwrap_or_else(|| panic!("no {word}: {problems:#?}"));
        assert!(problem.summary.contains(backend), "{problem}");
    }
}

/// A configuration with one backend `x` of the kind `local`.
fn local(arguments: &[(&'static str, Value)]) -> Value {
    let local = Value::object(arguments.iter().cloned());
    Value::object([(
        "backend",
        Value::object([("x", Value::object([("local", local)]))]),
    )])
}

#[track_caller]
fn refused(block: Value, variables: &[(&str, &str)], path: &str, words: &[&str]) {
    let problems = read(block, variables).expect_err("a mistake");
    let [problem] = problems.0.as_slice() else {
        panic!("{problems:#?}")
    };
    let at = problem.path.clone().unwrap_or_default();
    assert_eq!(at.to_string(), path, "{problem}");
    for word in words {
        assert!(problem.to_string().contains(word), "{word} is missing: {problem}");
    }
}

#[test]
fn what_is_empty_or_null_is_refused_where_it_stands() {
    let list = |items: Vec<Value>| [("listen", Value::List(items))];
    refused(
        local(&list(vec![Value::from("127.0.0.1"), Value::Null])),
        &[],
        "backend[\"x\"].local.listen[1]",
        &["listen holds null"],
    );
    refused(
        local(&list(vec![])),
        &[],
        "backend[\"x\"].local.listen",
        &["listen is empty", "127.0.0.1"],
    );
    refused(
        Value::object([("config_file", Value::from(""))]),
        &[],
        "config_file",
        &["config_file is empty"],
    );
    refused(
        local(&[("state_dir", Value::from(""))]),
        &[],
        "backend[\"x\"].local.state_dir",
        &["state_dir is empty"],
    );
}

#[test]
fn what_a_variable_says_is_blamed_on_the_variable() {
    for block in [Value::Null, local(&[])] {
        refused(
            block,
            &[("EGRESS_STATE_DIR", "relative")],
            "",
            &["EGRESS_STATE_DIR cannot be used", "\"relative\"", "state_dir"],
        );
    }
    // An argument beats the variable, which is not looked at then.
    refused(
        local(&[("state_dir", Value::from("also relative"))]),
        &[("EGRESS_STATE_DIR", "relative")],
        "backend[\"x\"].local.state_dir",
        &["state_dir cannot be used", "also relative"],
    );
}

#[test]
fn a_home_is_the_users_own() {
    let environment = environment(&[]);
    for (written, path) in [
        ("~", "/home/u"),
        ("~/", "/home/u/"),
        ("~/x", "/home/u/x"),
        ("~root/x", "~root/x"),
        ("/a/~", "/a/~"),
        ("", ""),
    ] {
        assert_eq!(
            environment.expand(written),
            std::path::Path::new(path),
            "{written}"
        );
    }
    assert!(read(local(&[("state_dir", Value::from("~"))]), &[]).is_ok());
    refused(
        local(&[("state_dir", Value::from("~root/x"))]),
        &[],
        "backend[\"x\"].local.state_dir",
        &["~root/x"],
    );
    let nobody = Environment::Given(std::collections::BTreeMap::new());
    assert_eq!(nobody.expand("~"), std::path::Path::new("~"));
}

#[test]
fn backends_in_one_place_are_told() {
    let backend = |state_dir: &str| {
        let local = Value::object([("state_dir", Value::from(state_dir))]);
        Value::object([("local", local)])
    };
    let two = |one: &str, other: &str| {
        let backends = Value::object([("a", backend(one)), ("b", backend(other)), ("m", memory())]);
        let block = Value::object([("installation", Value::from("prod")), ("backend", backends)]);
        read(block, &[]).expect("valid").warnings
    };
    assert!(two("/s", "/t").is_empty());
    for (one, other) in [("/s", "/s"), ("/s", "/s/"), ("~/s", "/home/u//s")] {
        let told = two(one, other);
        let text: String = told.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{one} {other}: {text}");
        assert!(
            !told.has_errors() && text.contains("\"a\", \"b\"") && text.contains("state_dir"),
            "{text}"
        );
    }
}

#[test]
fn a_file_is_one_that_can_be_read_to_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    // Were it opened, this would hang: nobody writes.
    for (path, word) in [
        (pipe.to_string_lossy().into_owned(), "not a regular file"),
        (dir.path().to_string_lossy().into_owned(), "not a regular file"),
        ("/dev/zero".to_owned(), "not a regular file"),
    ] {
        let block = Value::object([("config_file", Value::from(path.clone()))]);
        refused(block, &[], "", &[word, &path]);
    }
}

#[test]
fn a_tag_that_nothing_is_done_about_is_refused() {
    let secret = "sEnTiNeL";
    for tag in ["!vault", "!include", "!env", "!<tag:example.com,2026:x>"] {
        for text in [
            format!("backends:\n  a:\n    local:\n      state_dir: {tag} /{secret}\n"),
            format!("backends: {tag}\n  a:\n    local: {{squid: /{secret}}}\n"),
            format!("installation: {tag} \"{secret}\"\n"),
        ] {
            let problems = of_file(&text).expect_err(&text);
            let shown: String = problems.iter().map(ToString::to_string).collect();
            assert!(shown.contains("not YAML"), "{text}: {shown}");
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    // Tags that say what a value is anyway are none of this.
    assert!(of_file("installation: !!str prod\n").is_ok());
}

#[test]
fn no_line_of_a_file_is_quoted() {
    let secret = "sEnTiNeL";
    for text in [
        format!("password: {secret}\nbackends: [\n"),
        format!("a: {secret}\na: {secret}\n"),
        format!("backends: {{a: {{local: {{squid: [\"{secret}\"]}}}}}}\n"),
        format!("# {secret}\n\t- x\n"),
        format!("x: *{secret}\n"),
        format!("installation: {secret} oops: {secret}\n"),
    ] {
        let problems = of_file(&text).expect_err(&text);
        let shown = format!("{problems:?}");
        // The name of an anchor is all that an error may need to say.
        let quoted = shown.contains(secret) && !text.contains('*');
        assert!(!quoted, "{text}: {shown}");
    }
}

fn of_file(text: &str) -> Result<Config, Diagnostics> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    let path = file.path().to_string_lossy().into_owned();
    read(Value::object([("config_file", Value::from(path))]), &[])
}

#[test]
fn every_mistake_of_a_file_comes_at_once() {
    let cases = [
        ("backend: {}", "Did you mean \"backends\"?"),
        ("backends:\n  a:\n    locl: {}\n", "Did you mean \"local\"?"),
        ("backends:\n  a:\n    vmware: {}\n", "local, memory"),
        (
            "backends:\n  a:\n    local:\n      squid: [x]\n",
            "must be a text",
        ),
        ("backends: [a]", "must be a map"),
        ("config_file: x", "means nothing"),
        ("a: 1\na: 2", "not YAML"),
        ("installation: on: x", "not YAML"),
        ("backends:\n  a:\n    memory: {spot: maybe}\n", "true or false"),
    ];
    for (text, word) in cases {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        let path = file.path().to_string_lossy().into_owned();
        let problems =
            read(Value::object([("config_file", Value::from(path.clone()))]), &[]).expect_err(text);
        let shown: String = problems.iter().map(ToString::to_string).collect();
        assert!(shown.contains(word) && shown.contains(&path), "{text}: {shown}");
    }
    let two = "nonsense: 1\nbackends:\n  a:\n    local: {stat_dir: x}\n";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), two).expect("written");
    let block = Value::object([(
        "config_file",
        Value::from(file.path().to_string_lossy().into_owned()),
    )]);
    assert_eq!(read(block, &[]).expect_err("mistakes").len(), 2);
    let missing = Value::object([("config_file", Value::from("~/no-such.yaml"))]);
    assert!(
        read(missing, &[]).expect_err("missing").0[0]
            .detail
            .contains("/home/u/no-such.yaml")
    );
}

#[tokio::test]
async fn what_is_unknown_is_tolerated_until_it_is_used() {
    let place = Place::new();
    let unknown = Value::object([("memory", Value::object([("file", Value::unknown())]))]);
    let config = provider([("known", place.backend([])), ("later", unknown)], []);
    let mut core = Core::configured(config).await;
    let on = |backend: &str| proxy("a", [("backend", Value::from(backend))]);
    assert_eq!(core.up("a", on("known")).await.action, Action::Create);
    let plan = core.plan("b", on("later")).await.expect("a plan");
    assert!(plan.planned.get("id").is_unknown() && plan.planned.get("namespace").is_unknown());
    let problems = core.apply("b", plan).await;
    let text: String = problems.iter().map(ToString::to_string).collect();
    assert!(text.contains("backend[\"later\"].memory.file"), "{text}");
    assert!(!core.state.contains_key("b"));

    for block in [
        Value::object([("backend", Value::unknown())]),
        Value::object([("config_file", Value::unknown())]),
        Value::object([
            ("installation", Value::unknown()),
            ("backend", Value::object([("lab", place.backend([]))])),
        ]),
    ] {
        let mut core = Core::configured(block).await;
        let plan = core.plan("c", proxy("c", [])).await.expect("a plan");
        assert!(plan.planned.get("uid").is_unknown());
        assert!(core.apply("c", plan).await.has_errors());
    }
}

#[tokio::test]
async fn several_backends_need_a_name() {
    let (one, two) = (Place::new(), Place::new());
    let mut core = Core::configured(provider([("one", one.backend([])), ("two", two.backend([]))], [])).await;
    let problems = core.plan("a", proxy("a", [])).await.expect_err("an error");
    assert!(problems.0[0].to_string().contains("one, two"), "{problems:#?}");
    core.up("a", proxy("a", [("backend", Value::from("two"))])).await;
    assert_eq!((one.count(), two.count()), (0, 1));
    let plan = core.up("a", proxy("a", [("backend", Value::from("one"))])).await;
    assert_eq!(
        (plan.action, plan.replace),
        (Action::Replace, vec!["backend".to_owned()])
    );
    assert_eq!((one.count(), two.count()), (1, 0));
}
