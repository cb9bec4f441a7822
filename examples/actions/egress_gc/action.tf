resource "egress_proxy" "pool" {
  for_each = toset(["a", "b"])
  name     = each.key
}

action "egress_gc" "orphans" {
  config {
    keep_ids = [for proxy in egress_proxy.pool : proxy.id]
    min_age  = "24h"
    delete   = true
  }
}
