#!/usr/bin/env bash
# A worker in bash. It checks its item's sum:
#
#   leaseway work http://127.0.0.1:8787/demo --exec clients/examples/exec/checksum.sh
set -euo pipefail

item=$(cat) # The item, as JSON, on standard input.

echo "attempt $LEASEWAY_ATTEMPTS at $LEASEWAY_ITEM_ID" >&2 # Shown by the worker, with the item's id.
echo '{"percent": 50}' >&3                                 # A progress record: a line of JSON on descriptor 3.

read -r sum bytes < <(printf '%s' "$item" | cksum)
printf '{"sum": %d, "bytes": %d}\n' "$sum" "$bytes" # The result, as JSON, on standard output.

# Exit status 0 is a result, 65 "this item can never succeed", any other "try again".
