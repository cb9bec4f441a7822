data "egress_proxies" "all" {}

output "proxy_urls" {
  value = { for proxy in data.egress_proxies.all.proxies : proxy.name => proxy.proxy_url }
}
