//! A proxy's life on a host: it serves whom it should, drift shows and heals, it can be imported, and
//! nothing is left of it.

use super::rig::{ADDRESS, Rig};
use crate::libvirt_host::{GATEWAY, STRANGER};
use crate::release::Cli;

on_a_host!(terraform_1_15_5 "terraform" "1.15.5": a_proxy_of_kvm2_lives);
on_a_host!(tofu_1_12_6 "tofu" "1.12.6": a_proxy_of_kvm_lives);

const SERVED: &str = "200 hello from the host";
const DENIED: &str = "403 Forbidden";

fn a_proxy_of_kvm2_lives(cli: &Cli) {
    a_proxy_lives(&Rig::new(cli, "kvm2", r#"network = "proxies""#));
}

fn a_proxy_of_kvm_lives(cli: &Cli) {
    a_proxy_lives(&Rig::new(cli, "kvm", r#"bridge  = "virbr7""#));
}

fn a_proxy_lives(rig: &Rig) {
    let foreign = "<domain type='qemu'><name>foreign</name><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>";
    rig.host.define(foreign);
    rig.host.virsh(&["vol-create-as", "default", "foreign", "1M"]);
    rig.configure(
        r#"  wait_for = "ready"

  timeouts {
    create = "15m"
    update = "15m"
  }
"#,
    );
    rig.workspace.apply();
    assert_eq!(rig.web.requests(), 1, "the image was downloaded once");

    // `wait_for = "ready"` held until the port answered: the first request is served, without waiting.
    assert_eq!(rig.get_from(GATEWAY), SERVED);
    assert_eq!(rig.get_from(STRANGER), DENIED);
    let proxy = rig.workspace.state_of(ADDRESS).expect("in the state");
    assert_eq!(proxy["id"], "lab/hosts/h1/domains/a");
    assert_eq!(proxy["state"], "running");
    assert!(
        proxy["ip"]
            .as_str()
            .is_some_and(|ip| ip.starts_with("192.168.150."))
    );
    rig.workspace.plans_nothing();

    // Stopped behind everybody's back: one update in place starts the same domain again.
    let uuid = rig.host.virsh(&["domuuid", "a"]);
    rig.host.virsh(&["destroy", "a"]);
    let planned = rig.workspace.planned(&[]);
    assert_eq!(planned.actions(ADDRESS), ["update"]);
    rig.workspace.apply();
    assert_eq!(rig.host.virsh(&["domuuid", "a"]), uuid);
    assert_eq!(rig.get_from(GATEWAY), SERVED);
    rig.workspace.plans_nothing();

    // What exists is imported into a state that knows nothing, and nothing is planned.
    rig.configure("");
    rig.workspace.apply();
    rig.workspace.run(&["state", "rm", ADDRESS]).succeeds();
    rig.workspace
        .run(&["import", "-no-color", ADDRESS, "lab/hosts/h1/domains/a"])
        .succeeds();
    rig.workspace.plans_nothing();

    rig.workspace.destroy();
    assert_eq!(rig.host.domains(), ["foreign"]);
    assert_eq!(rig.volumes(), ["foreign"]);
}
