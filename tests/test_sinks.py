"""Records in a file, a line each."""

import resource
import subprocess
import sys
from pathlib import Path

from turnout import JsonLines, Target, Turn
from turnout.engine.audit import AuditRecord, decode


def a_record(name: str) -> AuditRecord:
    turn = Turn([Target("a")], id=name)
    turn.probed(None)
    turn.act()
    return turn.record()


def test_each_record_is_a_line_that_reads_back_equal(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "records.jsonl")
    records = [a_record(name) for name in ("one", "two")]
    for record in records:
        sink(record)
    assert list(map(decode, sink.path.read_bytes().splitlines())) == records


def test_two_sinks_append_to_one_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        JsonLines(tmp_path / "records.jsonl")(a_record(name))
    assert len((tmp_path / "records.jsonl").read_bytes().splitlines()) == 2


FULL = """
import resource, signal, sys
from pathlib import Path
from turnout import JsonLines, Target, Turn

def record(name):
    turn = Turn([Target("a")], id=name)
    turn.probed(None)
    turn.act()
    return turn.record()

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sink = JsonLines(sys.argv[1])
sink(record("before"))
room = Path(sys.argv[1]).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (room + 100, resource.RLIM_INFINITY))
try:
    sink(record("torn"))
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sink(record("after"))
"""


def test_a_line_that_a_full_disk_has_torn_is_told_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    assert resource.RLIM_INFINITY  # POSIX
    path = tmp_path / "records.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout == "File too large\n"
    before, torn, after = path.read_bytes().splitlines()
    assert [decode(line).turn for line in (before, after)] == ["before", "after"]
    assert len(torn) == 100
