# A proxy on each of several hosts behind a jump host, with the keys of the SSH agent.
terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}

# Labels must be known to `terraform validate`, as those of a local value are and those of a variable are not.
locals {
  hosts = {
    rack1 = "10.1.0.11"
    rack2 = "10.1.0.12"
  }
}

provider "egress" {
  installation = "prod"

  backend "racks" {
    kvm {
      disk_size_gb = 20

      ssh {
        user             = "proxies"
        agent            = true
        known_hosts_file = "${path.module}/known_hosts"
      }

      dynamic "host" {
        for_each = local.hosts
        labels   = [host.key]
        content {
          address = host.value
          pool    = "proxies"
          bridge  = "br0"

          jump {
            address = "gate.example.com"
            user    = "jump"
          }
        }
      }

      image "debian-12" {
        url      = "https://images.example.com/debian-12-generic-amd64.raw"
        sha256   = "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"
        format   = "raw"
        firmware = "bios"
      }

      machine_type "small" {
        vcpus      = 1
        memory_mib = 1024
      }
    }
  }
}

resource "egress_proxy" "racks" {
  for_each = local.hosts

  name = "rack-${each.key}"

  placement {
    zone = each.key
  }

  access {
    allowed_cidrs = ["10.0.0.0/8"]
  }
}

data "egress_provider_health" "racks" {
  backend = "racks"
}

output "unhealthy" {
  value = [for target in data.egress_provider_health.racks.targets : "${target.target}: ${target.message}" if !target.healthy]
}
