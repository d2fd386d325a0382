#!/bin/sh
# Writes half of its output, takes its time, and writes the rest.
set -eu
exec >"$made_location"
echo "made of"
sleep 0.3
cat "$raw_location"
