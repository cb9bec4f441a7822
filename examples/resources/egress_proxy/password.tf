variable "proxy_password" {
  type      = string
  sensitive = true
  ephemeral = true
}

resource "egress_proxy" "partners" {
  name = "partners"
  port = 3130

  access {
    username            = "partner"
    password_wo         = var.proxy_password
    password_wo_version = 1
  }
}
