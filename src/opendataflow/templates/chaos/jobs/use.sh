#!/bin/sh
# Writes a folder of two files.
set -eu
mkdir -p "$used_location"
tr a-z A-Z <"$made_location" >"$used_location/part"
sleep 0.1
echo "used $dataid" >"$used_location/who"
