//! Which of the addresses that a source tells is the proxy's.
//!
//! It must not ask a source. Invariant: an address is one of the domain's own interfaces, and one that
//! others in its network can reach.

use std::net::{IpAddr, Ipv4Addr};

use crate::transport::libvirt::types::{AddressSource, Interface};

/// The source in words.
pub(super) fn name(source: AddressSource) -> &'static str {
    match source {
        AddressSource::Lease => "DHCP leases of libvirt",
        AddressSource::Agent => "guest agent",
        AddressSource::Arp => "ARP table of the host",
    }
}

/// Interfaces that a guest has of its own making: bridges and pairs of containers and of guests in it.
const INNER: [&str; 8] = [
    "docker", "veth", "virbr", "cni", "podman", "lxc", "flannel", "cali",
];

/// The IPv4 address of the first of these hardware addresses that has one. Of the addresses of one
/// interface the first that is told counts.
pub(super) fn choose(interfaces: &[Interface], own: &[String]) -> Option<IpAddr> {
    own.iter().find_map(|mac| {
        interfaces
            .iter()
            .filter(|interface| is_outer(&interface.name))
            .filter(|interface| {
                let hardware = interface.hardware.as_deref().unwrap_or_default();
                hardware.eq_ignore_ascii_case(mac)
            })
            .flat_map(|interface| &interface.addresses)
            // 0 is IPv4; one whose kind and text disagree is none.
            .filter(|address| address.kind == 0)
            .filter_map(|address| address.address.parse::<Ipv4Addr>().ok())
            .find(|address| is_reachable(*address))
            .map(IpAddr::V4)
    })
}

fn is_outer(name: &str) -> bool {
    // Docker names the bridges of its networks by twelve hexadecimal digits.
    let of_docker = name
        .strip_prefix("br-")
        .is_some_and(|rest| rest.len() == 12 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    !of_docker && !INNER.iter().any(|inner| name.starts_with(inner))
}

fn is_reachable(address: Ipv4Addr) -> bool {
    !(address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_broadcast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::libvirt::types::Address;

    const MAC: &str = "52:54:00:aa:7b:80";

    fn interface(name: &str, hardware: Option<&str>, addresses: &[(i32, &str)]) -> Interface {
        Interface {
            name: name.to_owned(),
            hardware: hardware.map(str::to_owned),
            addresses: addresses
                .iter()
                .map(|(kind, address)| Address {
                    kind: *kind,
                    address: (*address).to_owned(),
                    prefix: 24,
                })
                .collect(),
        }
    }

    fn chosen(interfaces: &[Interface]) -> Option<String> {
        let own = [MAC.to_owned(), "52:54:00:aa:7b:81".to_owned()];
        choose(interfaces, &own).map(|ip| ip.to_string())
    }

    #[test]
    fn only_an_address_that_others_reach_counts() {
        let mac = Some(MAC);
        for (interfaces, expected) in [
            // What was seen with other tools: TPL#710, #1047, #1323, #891.
            (
                vec![interface("vnet0", mac, &[(0, "192.168.1.50")])],
                Some("192.168.1.50"),
            ),
            (vec![interface("eth0", mac, &[])], None),
            (
                vec![
                    interface("lo", Some("00:00:00:00:00:00"), &[(0, "127.0.0.1"), (1, "::1")]),
                    interface("eth0", mac, &[(1, "fe80::1")]),
                ],
                None,
            ),
            (
                vec![interface("eth0", mac, &[(0, "169.254.3.4"), (0, "10.0.0.2")])],
                Some("10.0.0.2"),
            ),
            (
                vec![interface("eth0", mac, &[(0, "0.0.0.0"), (0, "224.0.0.1")])],
                None,
            ),
            (
                vec![interface("eth0", mac, &[(1, "10.0.0.2"), (0, "fd00::2")])],
                None,
            ),
            (vec![interface("eth0", mac, &[(0, "no address")])], None),
            (vec![interface("eth0", None, &[(0, "10.0.0.2")])], None),
            (
                vec![interface("eth0", Some("52:54:00:00:00:01"), &[(0, "10.0.0.2")])],
                None,
            ),
            (
                vec![interface("eth0", Some("52:54:00:AA:7B:80"), &[(0, "10.0.0.2")])],
                Some("10.0.0.2"),
            ),
            (
                vec![
                    interface("docker0", Some("02:42:00:00:00:01"), &[(0, "172.17.0.1")]),
                    interface("docker0", mac, &[(0, "172.17.0.1")]),
                    interface("br-0123456789ab", mac, &[(0, "172.18.0.1")]),
                    interface("veth12", mac, &[(0, "172.19.0.1")]),
                ],
                None,
            ),
            // A bridge of the guest's own takes the address of its interface.
            (
                vec![
                    interface("eth0", mac, &[]),
                    interface("br0", mac, &[(0, "10.0.0.9")]),
                ],
                Some("10.0.0.9"),
            ),
        ] {
            assert_eq!(chosen(&interfaces).as_deref(), expected, "{interfaces:?}");
        }
    }

    #[test]
    fn the_first_interface_of_the_domain_comes_first() {
        let interfaces = [
            interface("eth1", Some("52:54:00:aa:7b:81"), &[(0, "10.0.1.1")]),
            interface("eth0", Some(MAC), &[(0, "10.0.0.1")]),
        ];
        assert_eq!(chosen(&interfaces).as_deref(), Some("10.0.0.1"));
        assert_eq!(chosen(&interfaces[..1]).as_deref(), Some("10.0.1.1"));
    }
}
