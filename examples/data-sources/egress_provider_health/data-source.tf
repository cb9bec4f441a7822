data "egress_provider_health" "all" {}

check "egress_backends" {
  assert {
    condition     = data.egress_provider_health.all.healthy
    error_message = join("\n", [for target in data.egress_provider_health.all.targets : "${target.backend}: ${target.message}" if !target.healthy])
  }
}
