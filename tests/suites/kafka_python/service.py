"""Stands in for a module that kafka-python's tests import and its package leaves out.

With KAFKA_URI set, a broker that runs already is all they need of it.
"""


class ExternalService:
    """A broker that somebody else starts and stops."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def start(self):
        pass

    def stop(self):
        pass

    def dump_logs(self):
        pass

    def wait_for(self, pattern, timeout=30):
        return True


class SpawnedService:
    """Never made: no test starts a broker of its own."""

    def __init__(self, *arguments):
        raise NotImplementedError("the broker is started outside: set KAFKA_URI")
