terraform import egress_proxy.builds local/default/builds
