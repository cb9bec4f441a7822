# A proxy on a host of one's own, with an address of the LAN behind the host's bridge.
terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}

provider "egress" {
  installation = "lab"

  backend "lab" {
    kvm2 {
      ssh {
        user             = "proxies"
        key_file         = "~/.ssh/id_ed25519"
        known_hosts_file = "~/.ssh/known_hosts"
      }

      host "beelink" {
        address = "10.0.0.5"
        bridge  = "br0"
      }

      image "debian-12" {
        url = "https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-genericcloud-amd64.qcow2"
      }

      machine_type "small" {
        vcpus      = 1
        memory_mib = 1024
      }
    }
  }
}

resource "egress_proxy" "builds" {
  name     = "builds"
  wait_for = "ready"

  placement {
    zone         = "beelink"
    machine_type = "small"
    image        = "debian-12"
  }

  access {
    allowed_cidrs   = ["10.0.0.0/24"]
    allowed_domains = ["crates.io", ".debian.org"]
  }
}

output "https_proxy" {
  value = egress_proxy.builds.proxy_url
}
