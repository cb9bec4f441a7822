terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}

provider "egress" {
  backend "here" {
    local {
      state_dir = "/var/lib/egress-proxy"
    }
  }
}
