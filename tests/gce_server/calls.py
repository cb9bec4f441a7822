"""One call of a method: who calls, in which project, with what; and the resource that it is about."""

import time

# The parameter that names the resource of a method, by what the path calls it.
NAMES = (
    "instance",
    "disk",
    "firewall",
    "address",
    "operation",
    "image",
    "family",
    "machineType",
    "diskType",
    "network",
    "subnetwork",
    "resource",
)


class Call:
    def __init__(self, world, method, project, params, body, caller):
        self.world = world
        self.method = method
        self.project = project
        self.params = params
        self.body = body
        self.caller = caller

    @property
    def operation_type(self):
        return self.method.name.rpartition(".")[2]

    def name(self):
        """The resource's name; None for what concerns no single one."""
        for parameter in NAMES:
            if parameter in self.params:
                return self.params[parameter]
        if self.operation_type == "insert":
            return (self.body or {}).get("name")
        return None

    def target(self):
        """The path of the resource that the call is about, as Google's messages name it."""
        noun = self.method.name.partition(".")[0]
        path = [f"projects/{self.project.name}" if self.project else "projects"]
        for scope in ("zone", "region"):
            if scope in self.params:
                path += [f"{scope}s", self.params[scope]]
        if noun in ("projects", "zones", "regions") or "aggregated" in self.operation_type:
            return "/".join(path)
        if len(path) == 1:
            path.append("global")
        path.append("operations" if noun.endswith("Operations") else noun)
        if "family" in self.params:
            path.append("family")
        if self.name():
            path.append(self.name())
        return "/".join(path)

    def world_wait(self, done):
        """Waits, with the lock given up, until `done` or the longest that a request may wait."""
        clock, deadline = self.world.clock, time.monotonic() + self.world.settings["wait_limit"]
        while True:
            clock.run_due()
            left = deadline - time.monotonic()
            if done() or left <= 0:
                return
            due = clock.until_next()
            self.world.changed.wait(left if due is None else min(left, due))
