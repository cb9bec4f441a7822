terraform {
  required_version = ">= 1.8"

  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}
