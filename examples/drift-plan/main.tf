# What the pipelines of this folder watch. The backends are in egress.yaml, so that the provider's own commands,
# which cannot see provider blocks, look at the same ones.

terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}

provider "egress" {}

resource "egress_proxy" "builds" {
  name = "builds"
  port = 3128
}
