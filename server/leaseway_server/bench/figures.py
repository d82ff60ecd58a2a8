"""A measurement and how it is written: a line for people, an object for programs. Nothing is measured here."""

import statistics
from dataclasses import asdict, dataclass
from typing import Final

NAME_WIDTH: Final = 36
HEAD: Final = f"{'':{NAME_WIDTH}}{'items/s':>10}{'server µs':>11}{'p50 ms':>9}{'p99 ms':>9}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement. `server_cpu_us` is the server's CPU in µs an item, user and system; latencies are in ms."""

    name: str
    items: int
    items_per_second: int
    server_cpu_us: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, name: str, items: int, latencies: list[float], seconds: float, cpu: float) -> "Figure":
        """From a run of so many seconds, of which the server computed `cpu`. Sorts `latencies`, seconds."""
        latencies.sort()
        return cls(
            name,
            items,
            round(items / seconds),
            round(cpu / items * 1e6, 1),
            round(statistics.median(latencies) * 1000, 3),
            round(latencies[min(len(latencies) - 1, int(len(latencies) * 0.99))] * 1000, 3),
        )

    def line(self) -> str:
        """It below `HEAD`."""
        figures = f"{self.items_per_second:>10,}{self.server_cpu_us:>11}{self.p50_ms:>9}{self.p99_ms:>9}"
        return f"{self.name:{NAME_WIDTH}}{figures}"

    def public(self) -> dict[str, object]:
        """It with the names that JSON has everywhere here."""
        names = {
            "items_per_second": "itemsPerSecond",
            "server_cpu_us": "serverCpuUs",
            "p50_ms": "p50Ms",
            "p99_ms": "p99Ms",
        }
        return {names.get(name, name): value for name, value in asdict(self).items()}
