resource "egress_proxy" "builds" {
  name     = "builds"
  port     = 3129
  wait_for = "ready"

  access {
    allowed_cidrs   = ["127.0.0.0/8", "::1/128"]
    allowed_ports   = [443, 8443]
    allowed_domains = ["crates.io", ".debian.org"]
  }

  labels = {
    team = "platform"
  }
}

output "https_proxy" {
  value = egress_proxy.builds.proxy_url
}
