//! Real requests through the real Squid: what it lets through, and what it does not.

#[path = "local/rig.rs"]
mod rig;

use std::net::UdpSocket;

use egress::contract::{Facts, Secret, Secrets};
use rig::{Client, Origin, Rig, basic, free_port, open_to, secrets, with_user};

const OK: u16 = 200;
const DENIED: u16 = 403;
const NEEDS_PASSWORD: u16 = 407;

#[tokio::test]
#[ignore = "needs squid"]
async fn what_is_allowed_gets_through_and_says_nothing_about_its_client() {
    let (rig, origin) = (Rig::new(), Origin::start().await);
    let proxy = rig.proxy("a", open_to("127.0.0.1/32", &[origin.port()])).await;
    let client = Client::of(&proxy);

    let answer = client.get(&origin.url(), "X-Forwarded-For: 10.9.8.7\r\n").await;
    assert_eq!(answer.status, OK, "{answer:?}");
    let lower = answer.text.to_lowercase();
    assert!(
        lower.contains("get /hello"),
        "the origin echoes what it was asked: {lower}"
    );
    for telling in ["x-forwarded-for", "\nvia:", "127.0.0.2", "10.9.8.7", "squid/"] {
        assert!(!lower.contains(telling), "{telling} is not in {lower}");
    }

    let answer = client.tunnel(&origin.address.to_string()).await;
    assert_eq!(answer.status, OK, "{answer:?}");
    assert!(answer.text.contains("GET /through"), "{answer:?}");

    rig.delete(&proxy).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn clients_outside_the_allowed_networks_are_denied() {
    let (rig, origin) = (Rig::new(), Origin::start().await);
    let proxy = rig.proxy("a", open_to("127.0.0.1/32", &[origin.port()])).await;
    let client = Client::of(&proxy);
    assert_eq!(client.get(&origin.url(), "").await.status, OK);
    for stranger in ["127.0.0.2", "127.255.255.254"] {
        let client = client.from(stranger);
        assert_eq!(client.get(&origin.url(), "").await.status, DENIED, "{stranger}");
        assert_eq!(
            client.tunnel(&origin.address.to_string()).await.status,
            DENIED,
            "{stranger}"
        );
    }
    rig.delete(&proxy).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn all_of_one_family_is_not_all_of_the_other() {
    let (rig, origin) = (Rig::listening(&["127.0.0.1", "::1"]), Origin::start().await);
    for (name, network, v4, v6) in [
        ("v4", "0.0.0.0/0", OK, DENIED),
        ("v6", "::/0", DENIED, OK),
        ("wide", "::/8", DENIED, OK),
        ("half", "::/1", DENIED, OK),
    ] {
        let proxy = rig.proxy(name, open_to(network, &[origin.port()])).await;
        let client = Client::of(&proxy);
        assert_eq!(
            client.get(&origin.url(), "").await.status,
            v4,
            "IPv4 under {network}"
        );
        let client = Client {
            proxy: format!("[::1]:{}", client.proxy.port())
                .parse()
                .expect("an address"),
            from: "::1".parse().expect("an address"),
        };
        assert_eq!(
            client.get(&origin.url(), "").await.status,
            v6,
            "IPv6 under {network}"
        );
        rig.delete(&proxy).await.expect("deleted");
    }
}

#[tokio::test]
#[ignore = "needs squid"]
async fn only_allowed_ports_and_plain_http_are_reached() {
    let (rig, origin, other) = (Rig::new(), Origin::start().await, Origin::start().await);
    let proxy = rig.proxy("a", open_to("127.0.0.0/8", &[origin.port()])).await;
    let client = Client::of(&proxy);
    assert_eq!(client.get(&origin.url(), "").await.status, OK);
    assert_eq!(client.get(&other.url(), "").await.status, DENIED);
    assert_eq!(client.tunnel(&other.address.to_string()).await.status, DENIED);
    // 80 is plain HTTP's, not a tunnel's: nobody listens there, so what is allowed fails otherwise.
    assert_ne!(client.get("http://127.0.0.1:80/", "").await.status, DENIED);
    assert_eq!(client.tunnel("127.0.0.1:80").await.status, DENIED);
    let port = origin.port();
    for scheme in ["ftp", "https", "gopher", "whois"] {
        let status = client
            .get(&format!("{scheme}://127.0.0.1:{port}/"), "")
            .await
            .status;
        assert!(status >= 400, "{scheme} is answered with {status}");
    }
    // Squid's own pages, asked for as if they were on the proxy itself.
    let own = proxy.mark.facts.port.expect("resolved");
    for page in ["squid-internal-mgr/info", "squid-internal-mgr/menu"] {
        let answer = client.get(&format!("http://127.0.0.1:{own}/{page}"), "").await;
        assert_eq!(answer.status, DENIED, "{page}");
    }
    rig.delete(&proxy).await.expect("deleted");

    let own = free_port();
    let manager = Facts {
        port: Some(own),
        ..open_to("127.0.0.0/8", &[own])
    };
    let proxy = rig.proxy("own-port", manager).await;
    for url in ["127.0.0.1", "localhost", "egress-proxy"]
        .map(|host| format!("http://{host}:{own}/squid-internal-mgr/info"))
    {
        assert_eq!(Client::of(&proxy).get(&url, "").await.status, DENIED, "{url}");
    }
    rig.delete(&proxy).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn only_listed_destinations_are_reached() {
    let (rig, v4, v6) = (Rig::new(), Origin::start().await, Origin::at("::1").await);
    let listing = |listed: &[&str]| Facts {
        allowed_domains: Some(listed.iter().map(|&domain| domain.to_owned()).collect()),
        ..open_to("127.0.0.0/8", &[v4.port(), v6.port()])
    };
    let (p4, p6) = (v4.port(), v6.port());
    let cases = [
        (
            "other",
            &[".example.com"][..],
            format!("http://127.0.0.1:{p4}/"),
            DENIED,
        ),
        ("address", &["127.0.0.1"], format!("http://127.0.0.1:{p4}/"), OK),
        ("address6", &["::1"], format!("http://[::1]:{p6}/"), OK),
        (
            "address6-long",
            &["::1"],
            format!("http://[0:0:0:0:0:0:0:1]:{p6}/"),
            OK,
        ),
        ("name", &["localhost"], format!("http://localhost:{p4}/"), OK),
        ("case", &["LocalHost."], format!("http://LOCALHOST:{p4}/"), OK),
        ("tree", &[".localhost"], format!("http://localhost:{p4}/"), OK),
        ("suffix", &["host"], format!("http://localhost:{p4}/"), DENIED),
        // An address is not the name that its reverse lookup claims: /etc/hosts says localhost.
        (
            "reverse",
            &["localhost"],
            format!("http://127.0.0.1:{p4}/"),
            DENIED,
        ),
        ("none", &[], format!("http://127.0.0.1:{p4}/"), DENIED),
    ];
    // Each proxy takes seconds to stop: they are asked, and stopped, together.
    let (rig, listing) = (&rig, &listing);
    let asked = cases.into_iter().map(|(name, listed, url, status)| async move {
        let proxy = rig.proxy(name, listing(listed)).await;
        let answer = Client::of(&proxy).get(&url, "").await;
        assert_eq!(answer.status, status, "{listed:?} {url}: {answer:?}");
        if status == DENIED {
            let host = url.trim_start_matches("http://").trim_end_matches('/');
            assert_eq!(
                Client::of(&proxy).tunnel(host).await.status,
                DENIED,
                "{listed:?} {host}"
            );
        }
        rig.delete(&proxy).await.expect("deleted");
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
#[ignore = "needs squid"]
async fn metadata_and_link_local_addresses_are_never_reached() {
    let rig = Rig::new();
    // The widest proxy there is.
    let proxy = rig.proxy("a", open_to("127.0.0.0/8", &[80, 443])).await;
    let client = Client::of(&proxy);
    for host in [
        "169.254.169.254",
        "169.254.0.1",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "[::ffff:169.254.169.254]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[fd00:ec2::23]",
        "[fd00:c1::a9fe:a9fe]",
        "[fd00:42::42]",
        "[2002:a9fe:a9fe::1]",
        "[fd20:ce::254]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[64:ff9b::a83f:8110]",
        "[::a9fe:a9fe]",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "metadata.google.internal",
        "Metadata.Google.Internal.",
        "x.metadata.goog",
    ] {
        let answer = client.get(&format!("http://{host}/latest/meta-data/"), "").await;
        // A spelling that Squid does not take for an address is a name that nobody has.
        assert!([DENIED, 503].contains(&answer.status), "{host}: {answer:?}");
        let is_plain = !host.starts_with(|c: char| c.is_ascii_digit()) || host.matches('.').count() == 3;
        if is_plain && !host.starts_with("0251") {
            assert_eq!(answer.status, DENIED, "{host}");
            assert_eq!(
                client.tunnel(&format!("{host}:443")).await.status,
                DENIED,
                "{host}"
            );
        }
    }
    rig.delete(&proxy).await.expect("deleted");
}

/// Loopback is open to clients on loopback alone: a proxy that listens on the network must not be
/// the way to what trusts this machine.
#[tokio::test]
#[ignore = "needs squid"]
async fn clients_from_the_network_do_not_reach_this_machines_loopback() {
    // No packet is sent: the kernel only chooses the address it would send from.
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect("203.0.113.1:9").expect("this machine has a route");
    let address = socket.local_addr().expect("bound").ip();
    assert!(
        !address.is_loopback(),
        "this machine has an address other than loopback"
    );
    let listen = [address.to_string(), "127.0.0.1".to_owned()];
    let rig = Rig::listening(&[&listen[0], &listen[1]]);
    let (loopback, network) = (Origin::start().await, Origin::at(&listen[0]).await);
    let facts = Facts {
        allowed_cidrs: Some(vec![address.into(), "127.0.0.1/32".parse().expect("a network")]),
        ..open_to("127.0.0.1/32", &[loopback.port(), network.port()])
    };
    let proxy = rig.proxy("a", facts).await;
    let from_network = Client {
        from: address,
        ..Client::of(&proxy)
    };
    assert_eq!(
        from_network.proxy.ip(),
        address,
        "the first address is the proxy's"
    );
    assert_eq!(from_network.get(&network.url(), "").await.status, OK);
    let port = loopback.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "localhost",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
    ] {
        let status = from_network
            .get(&format!("http://{host}:{port}/"), "")
            .await
            .status;
        assert_eq!(status, DENIED, "{host}");
    }
    let from_loopback = Client {
        proxy: (std::net::Ipv4Addr::LOCALHOST, from_network.proxy.port()).into(),
        from: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    assert_eq!(from_loopback.get(&loopback.url(), "").await.status, OK);
    rig.delete(&proxy).await.expect("deleted");
}

#[tokio::test]
#[ignore = "needs squid"]
async fn with_a_user_every_request_needs_the_password() {
    let (rig, origin) = (Rig::new(), Origin::start().await);
    let facts = with_user(open_to("127.0.0.1/32", &[origin.port()]), "team");
    let mut request = rig.request(
        "a",
        Facts {
            port: Some(free_port()),
            ..facts.clone()
        },
    );
    request.secrets = secrets("right: Ümlaut $1");
    let proxy = rig.create(request).await.expect("created").instance;
    let client = Client::of(&proxy);
    let right = basic("team", "right: Ümlaut $1");
    assert_eq!(client.get(&origin.url(), &right).await.status, OK);
    for (case, header) in [
        ("none", String::new()),
        ("wrong", basic("team", "wrong")),
        ("empty", basic("team", "")),
        ("another user", basic("Team", "right: Ümlaut $1")),
        ("not basic", "Proxy-Authorization: Bearer right\r\n".to_owned()),
        ("the wrong header", right.replacen("Proxy-", "", 1)),
    ] {
        let answer = client.get(&origin.url(), &header).await;
        assert_eq!(answer.status, NEEDS_PASSWORD, "{case}");
        assert!(
            answer.text.contains("Proxy-Authenticate: Basic"),
            "{case}: {answer:?}"
        );
    }
    assert_eq!(
        client.tunnel(&origin.address.to_string()).await.status,
        NEEDS_PASSWORD
    );
    // The password lets nobody in from elsewhere, and nobody learns it at the origin.
    assert_eq!(
        client.from("127.0.0.2").get(&origin.url(), &right).await.status,
        DENIED
    );
    let answer = client.get(&origin.url(), &right).await;
    assert!(!answer.text.contains("Authorization"), "{answer:?}");
    rig.delete(&proxy).await.expect("deleted");

    // A hash that the user made, with `openssl passwd -apr1`.
    let mut request = rig.request(
        "b",
        Facts {
            port: Some(free_port()),
            ..facts
        },
    );
    request.secrets = Secrets {
        password_hash: Some(Secret::new("$apr1$saltsalt$oZckmdOOl/ygP53fE4eC90")),
        cloud_init: None,
    };
    let proxy = rig.create(request).await.expect("created").instance;
    let client = Client::of(&proxy);
    assert_eq!(
        client
            .get(&origin.url(), &basic("team", "pw long enough"))
            .await
            .status,
        OK
    );
    assert_eq!(
        client.get(&origin.url(), &basic("team", "pw long")).await.status,
        NEEDS_PASSWORD
    );
    rig.delete(&proxy).await.expect("deleted");
}
