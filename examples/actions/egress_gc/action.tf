resource "egress_proxy" "pool" {
  for_each = { a = 3141, b = 3142 }
  name     = each.key
  port     = each.value

  access {
    allowed_cidrs = ["127.0.0.0/8"]
  }
}

action "egress_gc" "orphans" {
  config {
    keep_ids = [for proxy in egress_proxy.pool : proxy.id]
    min_age  = "24h"
    delete   = true
  }
}
