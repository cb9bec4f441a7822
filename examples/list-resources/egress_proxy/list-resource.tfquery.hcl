list "egress_proxy" "all" {
  provider = egress
}
