# Imports every proxy of the installation that has no resource block of its own.
# A proxy with labels or with blocks of its own is better imported with what `import-by-tag` prints: here it
# would lose its labels, and keep what its blocks said.

terraform {
  required_providers {
    egress = {
      source = "egress-proxies/egress"
    }
  }
}

provider "egress" {}

data "egress_proxies" "all" {}

locals {
  # The names of the proxies that have resource blocks of their own.
  declared = []

  orphans = {
    for proxy in data.egress_proxies.all.proxies : proxy.id => proxy
    if !contains(local.declared, proxy.name)
  }
}

import {
  for_each = local.orphans
  to       = egress_proxy.orphan[each.key]
  id       = each.key
}

resource "egress_proxy" "orphan" {
  for_each  = local.orphans
  name      = each.value.name
  namespace = each.value.namespace
  backend   = each.value.backend
  port      = each.value.port
}
