"""The client's types are inferred as users expect: mypy agrees with every line of `typed_producer.py`.

In that file `assert_type` says what is inferred, and each `type: ignore` is an error that must come, since one that
is not needed is an error itself.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_mypy_infers_what_users_expect() -> None:
    file = Path(__file__).with_name("typed_producer.py")
    command = [sys.executable, "-m", "mypy", "--explicit-package-bases", "--follow-imports=silent", str(file)]
    checked = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "no issues found in 1 source file" in checked.stdout
