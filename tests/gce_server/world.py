"""Everything the server holds: time, projects, faults, settings; under one lock, which the dispatcher takes."""

import base64
import hashlib
import json
import re
import secrets
import threading
import uuid

from . import catalogue, errors, faults, identity
from .clock import Clock
from .projects import Project

# What links begin with until a setting says otherwise.
LINKS = "https://www.googleapis.com/compute/v1/"

SETTINGS = {
    # Seconds until an operation runs, and from there until it is done; by method where a method has its own.
    "timing": {"default": {"pending": 0.02, "running": 0.05}},
    # What links in answers begin with: www.googleapis.com or compute.googleapis.com, both are seen.
    "links": LINKS,
    # Whether a quota that an instance exceeds is an answer ("sync") or the end of its operation ("async").
    "quota_errors": "async",
    # What Google puts into the metadata of new instances by itself.
    "added_metadata": [],
    # The longest that operations.wait keeps a request, in real seconds.
    "wait_limit": 120,
    # What a guest writes to its first serial port when it starts.
    "boot_log": "Booting `Debian GNU/Linux'\nLinux version 6.1.0-cloud-amd64\n",
}


class World:
    def __init__(self, projects, manual=False):
        self.changed = threading.Condition(threading.RLock())
        self.clock = Clock(manual)
        self.zones = catalogue.ZONES
        self.faults = faults.Faults()
        self.identity = identity.Identity(self)
        self.settings = json.loads(json.dumps(SETTINGS))
        self.log = []
        self.violations = []
        self._troubles = {}
        self._serial = 0
        self._address = 0
        self._seed = secrets.randbits(32)
        self.projects = {}
        for name in [*catalogue.IMAGES, *projects]:
            self.add_project(name)

    def add_project(self, name):
        self.projects[name] = Project(self, name, catalogue.NUMBERS.get(name, 100000000000 + len(self.projects)))

    def project(self, name):
        """By name or by number; None when there is none."""
        for project in self.projects.values():
            if name in (project.name, str(project.number)):
                return project
        return None

    def link(self, path):
        return LINKS + path

    def path(self, link, field):
        """The path that a full or partial URL means, without what it begins with."""
        match = re.fullmatch(
            r"(?:https?://[^/]+)?/?(?:compute/(?:v1|beta|alpha)/)?((?:projects|zones|regions|global)/[-A-Za-z0-9/.:]+)",
            link,
        )
        if not match:
            raise errors.invalid(field, link, "The URL is malformed.")
        return match[1]

    def number(self):
        """A new id, as big as Google's."""
        self._serial += 1
        return str(((self._seed << 31) | self._serial) % 2**63)

    def fingerprint(self, value):
        digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
        return base64.urlsafe_b64encode(digest[:8]).decode()

    def operation_name(self):
        return f"operation-{int(self.clock.now() * 1000)}-{uuid.uuid4().hex[:13]}-{secrets.token_hex(4)}-{secrets.token_hex(4)}"

    def external_address(self):
        """From the network for benchmarks, RFC 2544: nobody's."""
        self._address += 1
        return f"198.{18 + self._address // 65536}.{self._address // 256 % 256}.{self._address % 256}"

    def set_scope_trouble(self, scope, listing, error=None):
        """`listing`: "fails" (whole listings fail too, unless partial success is asked for), "omitted", or None."""
        if listing is None:
            self._troubles.pop(scope, None)
        else:
            self._troubles[scope] = {"listing": listing, "error": error or errors.unavailable(scope)}

    def scope_trouble(self, scope):
        return self._troubles.get(scope)

    def check_zone(self, name):
        if name not in self.zones:
            raise errors.invalid("zone", name, "Unknown zone.")
        self._check_reachable(f"zones/{name}")

    def check_region(self, name):
        if name not in catalogue.REGIONS:
            raise errors.invalid("region", name, "Unknown region.")
        self._check_reachable(f"regions/{name}")

    def _check_reachable(self, scope):
        trouble = self.scope_trouble(scope)
        if trouble:
            raise trouble["error"]
