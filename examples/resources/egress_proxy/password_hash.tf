# The output of `openssl passwd -6`.
variable "proxy_password_hash" {
  type      = string
  sensitive = true
}

resource "egress_proxy" "vendors" {
  name = "vendors"
  port = 3131

  access {
    username      = "vendor"
    password_hash = var.proxy_password_hash
  }
}
