#!/bin/sh
set -eu
mkdir -p "$(dirname "$cleaned_location")"
grep -v ',$' "$raw_location" | sort >"$cleaned_location"
