variable "proxies" {
  description = "The pool: one proxy for each key, which is its name. Whatever a proxy leaves out is left to its backend."
  type = map(object({
    backend      = optional(string)
    namespace    = optional(string)
    port         = optional(number)
    zone         = optional(string)
    region       = optional(string)
    machine_type = optional(string)
    image        = optional(string)
    spot         = optional(bool)
  }))

  validation {
    condition     = length(var.proxies) > 0
    error_message = "A pool has at least one proxy."
  }
}

variable "port" {
  description = "The port of the proxies that have none of their own."
  type        = number
  default     = 3128
}

variable "access" {
  description = "Who may use the proxies, and for what. Null: the provider's defaults, which no backend but local has."
  type = object({
    allowed_cidrs   = optional(list(string))
    allowed_ports   = optional(list(number))
    allowed_domains = optional(list(string))
    username        = optional(string)
  })
  default = null
}

variable "password_hash" {
  description = "The crypt(3) hash of the password of access.username."
  type        = string
  default     = null
  sensitive   = true
}

variable "labels" {
  description = "Labels of every proxy."
  type        = map(string)
  default     = {}
}

variable "wait_for" {
  description = "How far an apply follows a new proxy."
  type        = string
  default     = "ready"
}

variable "direct" {
  description = "Domains that clients with the PAC file reach without a proxy, their subdomains included."
  type        = list(string)
  default     = []
}

variable "fallback_direct" {
  description = "Whether clients with the PAC file go out without a proxy when none of the pool answers."
  type        = bool
  default     = false
}
