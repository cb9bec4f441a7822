terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}

provider "egress" {}

resource "egress_proxy" "demo" {
  name     = "demo"
  port     = 3128
  wait_for = "ready"

  access {
    allowed_ports = [443]
  }
}

output "proxy_url" {
  value = egress_proxy.demo.proxy_url
}
