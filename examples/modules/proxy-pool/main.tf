# A pool of proxies, and what its users need to know of it: their URLs, and a PAC file that spreads clients over them.

resource "egress_proxy" "this" {
  for_each = var.proxies

  name      = each.key
  namespace = each.value.namespace
  backend   = each.value.backend
  port      = coalesce(each.value.port, var.port)
  labels    = var.labels
  wait_for  = var.wait_for

  dynamic "placement" {
    # A block without content would say the same, but in every plan.
    for_each = anytrue([
      for value in [each.value.zone, each.value.region, each.value.machine_type, each.value.image, each.value.spot] : value != null
    ]) ? [each.value] : []

    content {
      zone         = placement.value.zone
      region       = placement.value.region
      machine_type = placement.value.machine_type
      image        = placement.value.image
      spot         = placement.value.spot
    }
  }

  dynamic "access" {
    for_each = var.access == null ? [] : [var.access]

    content {
      allowed_cidrs   = access.value.allowed_cidrs
      allowed_ports   = access.value.allowed_ports
      allowed_domains = access.value.allowed_domains
      username        = access.value.username
      password_hash   = var.password_hash
    }
  }
}

locals {
  # A proxy without an address yet, which wait_for = "none" allows, is in no list.
  urls = { for name, proxy in egress_proxy.this : name => proxy.proxy_url if proxy.proxy_url != null }
}
