//! The module of `examples/modules/proxy-pool/`: a pool that serves, the URLs and the PAC file it hands out.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::proxying::{free_port, get_through, origin_port};
use crate::release::{Cli, cli};
use crate::workspace::Workspace;

on!(newest: a_pool_serves_and_says_where);

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).expect("a copy");
        }
    }
}

/// A configuration that uses the module.
fn user(proxies: &[(&str, u16)], more: &str) -> String {
    let origin = origin_port();
    let proxies: String = proxies
        .iter()
        .map(|(name, port)| format!("    {name} = {{ port = {port} }}\n"))
        .collect();
    format!(
        r#"
terraform {{
  required_providers {{
    egress = {{
      source = "egress-proxies/egress"
    }}
  }}
}}

provider "egress" {{}}

module "egress" {{
  source = "./modules/proxy-pool"

  proxies = {{
{proxies}  }}
  access = {{
    allowed_ports = [{origin}]
  }}
  labels = {{ team = "x" }}
{more}
}}

output "proxies" {{
  value = module.egress.proxy_urls
}}

output "ids" {{
  value = module.egress.ids
}}

output "egress_ips" {{
  value = module.egress.egress_ips
}}

output "pac" {{
  value = module.egress.pac_file
}}
"#
    )
}

fn pool(cli: &Cli, proxies: &[(&str, u16)], more: &str) -> Workspace {
    let workspace = Workspace::with(cli, &user(proxies, more));
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/modules");
    copy(&modules, &workspace.infra().join("modules"));
    workspace.run(&["get", "-no-color"]).succeeds();
    workspace
}

fn a_pool_serves_and_says_where(cli: &Cli) {
    let (first, second) = (free_port(), free_port());
    let workspace = pool(cli, &[("a", first), ("b", second)], "");
    workspace.apply();
    for port in [first, second] {
        assert_eq!(get_through(port), "HTTP/1.1 200 OK");
    }
    let outputs = workspace.run(&["output", "-json"]).succeeds().json();
    assert_eq!(
        outputs["proxies"]["value"],
        serde_json::json!({
            "a": format!("http://127.0.0.1:{first}"),
            "b": format!("http://127.0.0.1:{second}"),
        })
    );
    assert_eq!(outputs["ids"]["value"]["a"], "local/default/a");
    assert!(outputs["egress_ips"]["value"].is_array());
    let pac = outputs["pac"]["value"].as_str().expect("text");
    assert!(
        pac.contains(&format!(
            "[\"PROXY 127.0.0.1:{first}\",\"PROXY 127.0.0.1:{second}\"]"
        )),
        "{pac}"
    );
    workspace.plans_nothing();

    // The key is the name: what goes takes nobody along.
    workspace.write("main.tf", &user(&[("b", second)], ""));
    let planned = workspace.planned(&[]);
    assert_eq!(
        planned.actions("module.egress.egress_proxy.this[\"a\"]"),
        ["delete"]
    );
    assert_eq!(
        planned.actions("module.egress.egress_proxy.this[\"b\"]"),
        ["no-op"]
    );
    workspace.apply();
    assert_eq!(get_through(second), "HTTP/1.1 200 OK");

    workspace.write("main.tf", &user(&[], ""));
    workspace
        .run(&["plan", "-no-color"])
        .fails_saying(&["A pool has at least one proxy."]);
    workspace.write("main.tf", &user(&[("b", second)], ""));
    workspace.destroy();
}

/// Asks the library that browsers' PAC files are tested with.
const ASK: &str = r#"
import ctypes, sys
library = ctypes.CDLL("libpacparser.so.1")
library.pacparser_find_proxy.restype = ctypes.c_char_p
library.pacparser_find_proxy.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
assert library.pacparser_init() == 1
assert library.pacparser_parse_pac_file(sys.argv[1].encode()) == 1
for host in sys.argv[2:]:
    print(library.pacparser_find_proxy(f"http://{host}/".encode(), host.encode()).decode())
"#;

#[test]
#[ignore = "needs the CLIs, squid and libpacparser"]
fn a_browser_spreads_its_hosts_over_the_pool() {
    let (first, second) = (free_port(), free_port());
    let direct = "  direct = [\"Intranet.example.com\", \".lan\"]\n";
    let workspace = pool(
        &cli("terraform", "1.15.5"),
        &[("a", first), ("b", second)],
        direct,
    );
    workspace.apply();
    let pac = workspace.path("proxy.pac");
    let ask = |hosts: &[String]| -> Vec<String> {
        let outputs = workspace.run(&["output", "-json"]).succeeds().json();
        fs::write(&pac, outputs["pac"]["value"].as_str().expect("text")).expect("a file");
        let run = Command::new("python3")
            .args(["-c", ASK])
            .arg(&pac)
            .args(hosts)
            .output();
        let run = run.expect("python3 runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let text = String::from_utf8(run.stdout).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    };
    let names = [
        "intranet.example.com",
        "a.INTRANET.example.com",
        "x.lan",
        "printer",
        "127.0.0.1",
    ];
    let names: Vec<String> = names.map(str::to_owned).into();
    assert_eq!(ask(&names), ["DIRECT"; 5]);

    let hosts: Vec<String> = (0..20)
        .map(|number| format!("host{number}.example.org"))
        .collect();
    let answers = ask(&hosts);
    let (a, b) = (
        format!("PROXY 127.0.0.1:{first}"),
        format!("PROXY 127.0.0.1:{second}"),
    );
    let (ab, ba) = (format!("{a}; {b}"), format!("{b}; {a}"));
    assert!(
        answers.iter().all(|answer| *answer == ab || *answer == ba),
        "{answers:?}"
    );
    assert!(answers.contains(&ab) && answers.contains(&ba), "{answers:?}");
    assert_eq!(answers, ask(&hosts), "a host keeps its proxy");
    // A domain that merely ends alike is not meant.
    assert_ne!(ask(&["notintranet.example.com".to_owned()]), ["DIRECT"]);

    let fallback = format!("{direct}  fallback_direct = true\n");
    workspace.write("main.tf", &user(&[("a", first), ("b", second)], &fallback));
    workspace.apply();
    assert!(ask(&hosts).iter().all(|answer| answer.ends_with("; DIRECT")));
    workspace.destroy();
}
