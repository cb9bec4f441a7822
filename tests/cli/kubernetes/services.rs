//! A stable address: Services as kube-proxy really serves them.

use super::rig::{ADDRESS, OK, Rig};
use crate::kube_node::wait;
use crate::release::Cli;

on_a_node!(one: a_cluster_ip_leads_to_the_proxy, a_node_port_leads_to_the_proxy);

/// What a client with an address of the Pod network does; others come by a cluster IP as the node itself.
const REQUEST: &str = "
import socket, sys
source, proxy, port, request = sys.argv[1:]
with socket.create_connection((proxy, int(port)), timeout=30, source_address=(source, 0)) as connection:
    connection.sendall(request.encode())
    print(connection.makefile().readline().strip())
";

fn a_cluster_ip_leads_to_the_proxy(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure("      service = \"ClusterIP\"", "");
    rig.workspace.apply();
    let proxy = rig.proxy();
    let pod_ip = rig.pod().and_then(|pod| pod.status?.pod_ip).expect("it runs");
    assert_ne!(proxy.ip().to_string(), pod_ip);
    wait::until("kube-proxy's rules", || {
        let mut command = rig.node.inside("python3");
        command.args(["-c", REQUEST, &rig.node.pods_gateway().to_string()]);
        command.args([
            &proxy.ip().to_string(),
            &proxy.port().to_string(),
            &rig.get_line(),
        ]);
        let output = command.output().expect("nsenter runs");
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        (said == OK).then_some(()).ok_or_else(|| format!("{said}\n{why}"))
    });
    rig.workspace.plans_nothing();

    // The address outlives the Pod's.
    let address = rig.workspace.state_of(ADDRESS).expect("in the state")["ip"].clone();
    assert_eq!(address, proxy.ip().to_string());
    rig.workspace.destroy();
    rig.is_empty();
}

fn a_node_port_leads_to_the_proxy(cli: &Cli) {
    let rig = Rig::new(cli);
    rig.configure("      service = \"NodePort\"", "  port     = 30128");
    rig.workspace.apply();
    assert_eq!(rig.proxy().ip(), rig.node.address());
    // The client's own address arrives, or `allowed_cidrs` would mean nothing.
    rig.serves();
    assert_eq!(rig.get_from(rig.node.stranger()), super::rig::FORBIDDEN);
    rig.workspace.plans_nothing();
    rig.workspace.destroy();
    rig.is_empty();
}
