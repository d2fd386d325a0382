#!/bin/sh
set -eu
mkdir -p "$(dirname "$report_location")"
awk -F, -v day="$dataid" '{ sum += $2 } END { print day ": " NR " orders, " sum }' "$cleaned_location" >"$report_location"
