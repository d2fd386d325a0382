#!/bin/sh
set -eu
mkdir -p "$(dirname "$raw_location")"
cp "$(dirname "$0")/../vendor/$dataid.csv" "$raw_location"    # or curl, sftp, psql: the world outside
