//! A host with a server that images come from, and a workspace whose provider makes proxies there.
//!
//! Knows nothing of what is tested. Invariant: one guest runs at a time, whatever runs beside.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::libvirt_host::{GATEWAY, Host, ORIGIN_PORT, Web, guest_image};
use crate::release::Cli;
use crate::workspace::Workspace;

/// The address of the resource in every configuration here.
pub(super) const ADDRESS: &str = "egress_proxy.a";

/// How long a boot may take on an emulated CPU of a loaded machine. Not an assertion on speed.
const PATIENCE: Duration = Duration::from_secs(1000);

static ONE_GUEST: Mutex<()> = Mutex::new(());

pub(super) struct Rig {
    pub(super) workspace: Workspace,
    pub(super) host: Host,
    pub(super) web: Web,
    kind: &'static str,
    network: &'static str,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    /// With a backend `lab` of this kind; `network` is what its host attaches guests to.
    pub(super) fn new(cli: &Cli, kind: &'static str, network: &'static str) -> Self {
        let alone = ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner);
        let mut workspace = Workspace::new(cli);
        workspace.be_patient(PATIENCE);
        Self {
            workspace,
            host: Host::start(),
            web: Web::serve(&guest_image()),
            kind,
            network,
            _alone: alone,
        }
    }

    /// A configuration with one proxy, and these lines in its resource.
    pub(super) fn configure(&self, resource: &str) {
        let main = format!(
            r#"terraform {{
  required_providers {{
    egress = {{
      source = "egress-proxies/egress"
    }}
  }}
}}

provider "egress" {{
  installation = "tests"

  backend "lab" {{
    {kind} {{
      ssh {{
        key_file         = "{key}"
        known_hosts_file = "{known_hosts}"
      }}

      host "h1" {{
        address = "127.0.0.1"
        port    = {port}
        user    = "root"
        {network}
      }}

      image "debian" {{
        url      = "{image}"
        firmware = "bios"
      }}

      machine_type "small" {{
        vcpus      = 2
        memory_mib = 768
      }}
    }}
  }}
}}

resource "egress_proxy" "a" {{
  name = "a"
{resource}

  placement {{
    zone         = "h1"
    machine_type = "small"
    image        = "debian"
  }}

  access {{
    allowed_cidrs = ["{GATEWAY}/32"]
    allowed_ports = [{ORIGIN_PORT}]
  }}
}}
"#,
            kind = self.kind,
            network = self.network,
            key = self.host.key_file().display(),
            known_hosts = self.host.known_hosts().display(),
            port = self.host.port(),
            image = self.web.url(),
        );
        self.workspace.write("main.tf", &main);
    }

    /// What a request through the proxy of the state is answered, coming from an address of the host.
    pub(super) fn get_from(&self, source: &str) -> String {
        let state = self.workspace.state_of(ADDRESS).expect("in the state");
        let url = state["proxy_url"].as_str().expect("a URL");
        let proxy = url.strip_prefix("http://").expect("a URL of HTTP");
        self.host.get_through(proxy, source, None)
    }

    /// The volumes that are not an image's.
    pub(super) fn volumes(&self) -> Vec<String> {
        let mut volumes = self.host.volumes();
        volumes.retain(|name| !name.starts_with("egress-image-"));
        volumes
    }
}
