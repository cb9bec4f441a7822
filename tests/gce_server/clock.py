"""The server's time, and what is to happen at a time: nothing here sleeps or runs by itself.

Time runs with the machine's, or stands still until it is advanced (`manual`). Whoever holds the server's lock calls
`run_due` before looking at anything, which is why no thread of its own is needed.
"""

import datetime
import heapq
import itertools
import time

# Compute Engine shows its times in the time of California, as an offset.
PACIFIC = datetime.timezone(datetime.timedelta(hours=-8))


class Clock:
    def __init__(self, manual=False):
        self._shift = 0.0
        self._stopped = time.time() if manual else None
        self._due = []
        self._order = itertools.count()

    @property
    def manual(self):
        return self._stopped is not None

    def set_manual(self, manual):
        if manual and not self.manual:
            self._stopped = time.time()
        elif not manual and self.manual:
            self._shift += self._stopped - time.time()
            self._stopped = None

    def now(self):
        return (time.time() if self._stopped is None else self._stopped) + self._shift

    def advance(self, seconds):
        self._shift += seconds

    def after(self, seconds, action):
        heapq.heappush(self._due, (self.now() + seconds, next(self._order), action))

    def run_due(self):
        """Runs what is due, in the order of time; returns whether anything was."""
        ran = False
        while self._due and self._due[0][0] <= self.now():
            heapq.heappop(self._due)[2]()
            ran = True
        return ran

    def until_next(self):
        """The seconds until something is due, None when nothing will be without an advance."""
        if not self._due or self.manual:
            return None
        return max(0.0, self._due[0][0] - self.now())

    def stamp(self, at=None):
        """RFC 3339, as Compute Engine writes it."""
        moment = datetime.datetime.fromtimestamp(self.now() if at is None else at, PACIFIC)
        return moment.isoformat(timespec="milliseconds")
