terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}

provider "egress" {
  backend "local" {
    local {
      state_dir = "/var/lib/egress-proxy"
    }
  }
}
