import {
  to = egress_proxy.builds
  id = "local/default/builds"
}
