import {
  to = egress_proxy.builds
  identity = {
    backend = "local"
    key     = "default/builds"
  }
}
