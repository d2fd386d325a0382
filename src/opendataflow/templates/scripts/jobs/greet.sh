#!/usr/bin/env bash
# An ordinary script: everything it needs is in its environment. Try: odf start greet --dry-run
set -euo pipefail
echo "greeting the names of $dataid (attempt $ODF_ATTEMPT)"
mkdir -p "$(dirname "$greetings_location")"
while IFS=, read -r name; do
    echo "$GREETING, $name!"
done <"$names_raw_location" >"$greetings_location"
