//! The quick pass, on every release: a proxy that serves, an empty second plan, nothing left.

use crate::proxying::{free_port, get_through, nobody_listens, origin_port};
use crate::release::Cli;
use crate::workspace::Workspace;

on!(every: quick_pass);

/// One real proxy on this machine.
pub(crate) fn one_proxy(port: u16) -> String {
    with_access(port, "")
}

/// The same with more in its `access` block.
pub(crate) fn with_access(port: u16, access: &str) -> String {
    let origin = origin_port();
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

resource "egress_proxy" "a" {{
  name     = "a"
  port     = {port}
  wait_for = "ready"

  access {{
    allowed_ports = [{origin}]
{access}
  }}
}}
"#
    )
}

fn quick_pass(cli: &Cli) {
    let port = free_port();
    let workspace = Workspace::with(cli, &one_proxy(port));
    workspace.run(&["validate", "-no-color"]).succeeds();
    workspace.apply();

    let proxy = workspace.state_of("egress_proxy.a").expect("in the state");
    assert_eq!(proxy["id"], "local/default/a");
    assert_eq!(proxy["backend"], "local");
    assert_eq!(proxy["namespace"], "default");
    assert_eq!(proxy["state"], "running");
    assert_eq!(proxy["ip"], "127.0.0.1");
    assert_eq!(proxy["proxy_url"], format!("http://127.0.0.1:{port}"));
    assert_eq!(get_through(port), "HTTP/1.1 200 OK");

    workspace.plans_nothing();
    workspace.destroy();
    assert_eq!(workspace.state_of("egress_proxy.a"), None);
    nobody_listens(port);
}
