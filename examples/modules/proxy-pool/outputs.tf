output "proxy_urls" {
  description = "The URL of each proxy, by name: what goes into HTTPS_PROXY. No credentials are in it."
  value       = local.urls
}

output "pac_file" {
  description = "A proxy auto-configuration file for browsers and operating systems."
  value = templatefile("${path.module}/proxy.pac.tftpl", {
    proxies  = [for name in sort(keys(local.urls)) : "PROXY ${trimprefix(local.urls[name], "http://")}"]
    direct   = [for domain in var.direct : lower(trimprefix(domain, "."))]
    fallback = var.fallback_direct
  })

  precondition {
    condition     = length(local.urls) > 0
    error_message = "No proxy of the pool has an address yet: apply with wait_for = \"address\" or \"ready\"."
  }
}

output "egress_ips" {
  description = "The addresses that destinations see, where the backends know them: for allow-lists elsewhere."
  value       = sort(distinct([for proxy in egress_proxy.this : proxy.egress_ip if proxy.egress_ip != null]))
}

output "ids" {
  description = "The id of each proxy, by name, as an import takes it."
  value       = { for name, proxy in egress_proxy.this : name => proxy.id }
}
